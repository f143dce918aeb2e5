"""The report as one self-contained HTML file: text, tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medn import __version__
from medn.core.atomic import atomic_write
from medn.core.conditions import CONDITIONS
from medn.core.packages import need
from medn.core.units import format_bytes, format_latency, percent
from medn.report.content import Content, KindContent
from medn.report.drawing import Picture, dumbbells
from medn.report.models import ModelPart, models_table
from medn.report.pictures import kind_pictures
from medn.report.summary_text import advice, summary, verdict
from medn.report.tables import Cell, Column, PageTable, TableRow, cell, leaderboard_table, number, schemes_table

NEEDED = ("jinja2", "matplotlib", "optuna")


@dataclass(frozen=True)
class KindSection:
    anchor: str
    title: str
    facts: Sequence[tuple[str, str]]
    pictures: Sequence[Picture]


def report_page(content: Content, models: Sequence[ModelPart] = ()) -> str:
    """The whole report as HTML, with the whole models that were asked for."""
    anchors = {(kind.device, kind.kind): f"kind-{number}" for number, kind in enumerate(content.kinds)}
    links = {number: f"#{anchor}" for number, anchor in anchors.items()}
    sections = [
        KindSection(anchors[kind.device, kind.kind], kind_name(content, kind), _facts(kind), list(kind_pictures(kind)))
        for kind in content.kinds
    ]
    anchored = {f"model-{number}": part for number, part in enumerate(models)}
    return render(
        "report.html",
        {
            "title": f"medn report: {content.run}",
            "run": content.run,
            "summary": summary(content),
            "advice": advice(content),
            "glance": _glance(content, links),
            "overview": _noise_picture(content),
            "schemes": schemes_table(content.board.schemes) if content.board.schemes else None,
            "leaderboard": leaderboard_table(content.board.rows, links),
            "sections": sections,
            "models": anchored,
            "models_glance": models_table(anchored),
            "environment": _environment_tables(content),
            "provenance": _provenance(content),
        },
    )


def render(template: str, values: Mapping[str, Any]) -> str:
    """A template filled in; every text is escaped, drawings are the only markup."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_unbroken,
    )
    return environment.get_template(template).render(version=__version__, **values)


def _unbroken(value: Any) -> Any:
    """A number and its per cent sign stay on one line."""
    return value.replace(" %", "\u00a0%") if type(value) is str else value


def write_page(path: Path, page: str) -> Path:
    """Replaces the file at once, so that nobody reads half a page."""
    atomic_write(path, page.encode())
    return path


def need_libraries() -> None:
    need("a report", *NEEDED)


def kind_name(content: Content, kind: KindContent) -> str:
    return f"{kind.kind} on {kind.device}" if len(content.devices) > 1 else kind.kind


def _facts(kind: KindContent) -> list[tuple[str, str]]:
    row, latency_s = kind.row, kind.source.table.target
    return [
        ("chosen", kind.candidate.regressor),
        ("measured", f"{kind.points:,} points of {kind.layers:,} layers"),
        ("latency", f"{format_latency(float(latency_s.min()))} to {format_latency(float(latency_s.max()))}"),
        ("mean error", percent(row["mape"]) or ""),
        ("median error", percent(row["median"]) or ""),
        ("noise floor", percent(row["noise_median"]) or "not known"),
        ("outputs differ from torch's by", percent(kind.source.output_error) or ""),
        ("one prediction", f"{row['us_1']:.3g} us"),
        ("size", format_bytes(row["bytes"])),
        (
            "only at",
            ", ".join(f"{name} {kind.source.constants[name]}" for name in CONDITIONS if name in kind.source.constants),
        ),
    ]


def _glance(content: Content, links: Mapping[tuple[str, str], str]) -> PageTable:
    columns = [
        Column("kind", is_number=False),
        Column("verdict", "good, fair or poor", is_number=False),
        Column("chosen", is_number=False),
        Column("MAPE", "mean relative error on test layers"),
        Column("median", "median relative error"),
        Column("noise", "how well the measurements repeat: median"),
        Column("covered", "share of test points inside the interval"),
        Column("us", "microseconds for one prediction"),
        Column("size"),
        Column("points"),
    ]
    order = {"good": 0, "fair": 1, "poor": 2}
    lines = []
    for kind in content.kinds:
        row, name, judged = kind.row, kind_name(content, kind), verdict(kind)
        cells = [Cell(name, name, links[kind.device, kind.kind]), Cell(judged, order[judged])]
        cells += [Cell(kind.candidate.regressor, kind.candidate.regressor)]
        cells += [cell(row[key], percent) for key in ("mape", "median", "noise_median", "coverage")]
        cells += [cell(row["us_1"], number(3)), cell(row["bytes"], format_bytes), cell(kind.points, lambda n: f"{n:,}")]
        lines.append(TableRow(cells))
    return PageTable("The chosen predictors at a glance", columns, lines)


def _noise_picture(content: Content) -> Picture:
    kinds = sorted(content.kinds, key=lambda kind: kind.row["median"])
    return dumbbells(
        "Error against the noise floor",
        "Median error of predictions for layers not seen, and how far two halves of the measurements of one point "
        "differ. An error near the noise cannot be told from none.",
        [kind_name(content, kind) for kind in kinds],
        ([kind.row["noise_median"] for kind in kinds], [kind.row["median"] for kind in kinds]),
        ("noise floor", "error"),
        lambda share: f"{share * 100:.3g} %",
    )


def _environment_tables(content: Content) -> list[PageTable]:
    """One table for each machine that was measured on."""
    columns = [Column("property", is_number=False), Column("value", is_number=False)]
    return [
        PageTable(
            f"Machine {name}",
            columns,
            [TableRow([Cell(key, key), Cell(value, value)]) for key, value in _flat(manifest)],
        )
        for name, manifest in content.environments.items()
    ]


def _flat(manifest: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in manifest.items():
        path = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            rows += _flat(value, f"{path}, ")
        elif value is not None:
            is_size = name.endswith("bytes") or "bytes" in prefix
            rows.append((path, format_bytes(value) if is_size and isinstance(value, int) else str(value)))
    return rows


def _provenance(content: Content) -> list[tuple[str, str]]:
    board = content.board
    budget = ", ".join(f"{name} {value}" for name, value in board.budget.items() if value not in (None, {}, ""))
    return [
        ("medn", __version__),
        ("run", content.run),
        ("split", f"{board.split}, seed {board.seed}"),
        ("chosen by", budget or "the defaults"),
    ]
