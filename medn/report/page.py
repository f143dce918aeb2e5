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
from medn.core.units import format_bytes, format_latency, percent, percent_between
from medn.report.content import Content, KindContent
from medn.report.kind_plots import few_rows_note, kind_plots
from medn.report.leaderboard_rows import Row
from medn.report.models import ModelPart, models_table
from medn.report.next_steps import next_steps
from medn.report.plots import Plot
from medn.report.run_plots import curve_plot, noise_plot
from medn.report.summary_text import name_of, summary
from medn.report.tables import Cell, Column, PageTable, TableRow, cell, leaderboard_table, number, schemes_table
from medn.report.tiles import tiles
from medn.report.training_cost import cost_table
from medn.report.verdicts import VERDICTS, verdict
from medn.report.worst_layers import MOST, worst_layers, worst_table

NEEDED = ("jinja2", "optuna")

LIBRARIES = ("d3.min.js", "plot.min.js")
"""In the order in which a page loads them; their licences lie beside them."""


@dataclass(frozen=True)
class KindSection:
    anchor: str
    title: str
    verdict: str
    error: str
    facts: Sequence[tuple[str, str]]
    note: str
    """What is not drawn for want of test points."""
    worst: PageTable
    plots: Sequence[Plot]


def report_page(content: Content, models: Sequence[ModelPart] = ()) -> str:
    """The whole report as HTML, with the whole models that were asked for."""
    anchors = {(kind.device, kind.kind): f"kind-{number}" for number, kind in enumerate(content.kinds)}
    links = {number: f"#{anchor}" for number, anchor in anchors.items()}
    worst_first = sorted(content.kinds, key=lambda kind: -kind.row["mape"])
    anchored = {f"model-{number}": part for number, part in enumerate(models)}
    return render(
        "report.html",
        {
            "title": f"medn report: {content.run}",
            "run": content.run,
            "tiles": tiles(content),
            "steps": next_steps(content),
            "overview": noise_plot(content),
            "summary": summary(content),
            "glance": _glance(content, links),
            "curve": curve_plot(content.curve) if content.curve else None,
            "worst": _worst(content, links),
            "schemes": schemes_table(content.board.schemes) if content.board.schemes else None,
            "leaderboard": leaderboard_table(content.board, links),
            "costs": cost_table(content),
            "sections": [_section(content, kind, anchors[kind.device, kind.kind]) for kind in worst_first],
            "models": anchored,
            "models_glance": models_table(anchored),
            "environment": _environment_tables(content),
            "provenance": _provenance(content),
        },
    )


def _section(content: Content, kind: KindContent, anchor: str) -> KindSection:
    return KindSection(
        anchor,
        name_of(content, kind),
        verdict(kind),
        percent(kind.row["mape"]) or "",
        _facts(kind),
        few_rows_note(kind),
        worst_table(worst_layers(kind), {}, "The test layers that are predicted worst"),
        list(kind_plots(kind)),
    )


def _worst(content: Content, links: Mapping[tuple[str, str], str]) -> PageTable:
    found = [each for kind in content.kinds for each in worst_layers(kind, MOST)]
    found.sort(key=lambda each: -each.factor)
    caption = f"The {min(MOST, len(found))} test layers of all kinds that are predicted worst"
    return worst_table(found[:MOST], links, caption)


def render(template: str, values: Mapping[str, Any]) -> str:
    """A template filled in; every text is escaped, and the libraries that draw are the only markup."""
    import jinja2
    from jinja2.utils import htmlsafe_json_dumps
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_unbroken,
    )
    environment.filters["spec"] = lambda plot: htmlsafe_json_dumps(plot.as_json(), separators=(",", ":"))
    folder = Path(__file__).parent / "libraries"
    # Not by `include`, which would take what stands in them for a template.
    libraries = [Markup((folder / name).read_text(encoding="utf-8")) for name in LIBRARIES]
    return environment.get_template(template).render(version=__version__, libraries=libraries, **values)


def _unbroken(value: Any) -> Any:
    """A number and its per cent sign stay on one line."""
    return value.replace(" %", "\u00a0%") if type(value) is str else value


def write_page(path: Path, page: str) -> Path:
    """Replaces the file at once, so that nobody reads half a page."""
    atomic_write(path, page.encode())
    return path


def need_libraries() -> None:
    need("a report", *NEEDED)


def _facts(kind: KindContent) -> list[tuple[str, str]]:
    row, latency_s, constants = kind.row, kind.source.table.target, kind.source.constants
    facts = [
        ("chosen", kind.candidate.regressor),
        ("measured", f"{kind.points:,} points of {kind.layers:,} layers"),
        ("latency", f"{format_latency(float(latency_s.min()))} to {format_latency(float(latency_s.max()))}"),
        ("mean error", percent_between(row["mape"], row.get("mape_low"), row.get("mape_high")) or ""),
        ("median error", percent(row["median"]) or ""),
        ("noise", percent(kind.noise) or "not known"),
        *_calm_facts(row),
        ("outputs differ from torch's by", percent(kind.source.output_error) or ""),
        ("one prediction", f"{row['us_1']:.3g} us"),
        ("size", format_bytes(row["bytes"])),
        ("only at", ", ".join(f"{name} {constants[name]}" for name in CONDITIONS if name in constants)),
    ]
    return [(name, value) for name, value in facts if value]


def _calm_facts(row: Row) -> list[tuple[str, str]]:
    """How the error differs where all visits to a test point were disturbed; nothing where none was."""
    if not row.get("never_calm"):
        return []
    told = [("mean error, never calm", row["never_calm_mape"]), ("mean error, the others", row["calm_mape"])]
    shares = [("test points that were never calm", row["never_calm"]), *told]
    return [(name, percent(value) or "-") for name, value in shares]


def _glance(content: Content, links: Mapping[tuple[str, str], str]) -> PageTable:
    columns = [
        Column("kind", is_number=False),
        Column("verdict", "good, fair or poor; unclear where few layers were tested", is_number=False),
        Column("MAPE", "mean relative error on test layers"),
        Column("noise", "how far two halves of the measurements disagree, on average"),
        Column("median", "median relative error"),
        Column("covered", "share of test points inside the interval"),
        Column("us", "microseconds for one prediction"),
        Column("size"),
        Column("points"),
        Column("tested", "test points"),
        Column("chosen", is_number=False),
    ]
    order = list(VERDICTS)
    lines = []
    for kind in sorted(content.kinds, key=lambda kind: -kind.row["mape"]):
        row, name, judged = kind.row, name_of(content, kind), verdict(kind)
        cells = [Cell(name, name, links[kind.device, kind.kind]), Cell(judged, order.index(judged), verdict=judged)]
        cells += [cell(share, percent) for share in (row["mape"], kind.noise, row["median"], row["coverage"])]
        cells += [cell(row["us_1"], number(3)), cell(row["bytes"], format_bytes)]
        cells += [cell(count, lambda count: f"{count:,}") for count in (kind.points, len(kind.test))]
        lines.append(TableRow([*cells, Cell(kind.candidate.regressor, kind.candidate.regressor)]))
    for device, kind_name in [*((each.device, each.kind) for each in content.lost), *content.untrained]:
        name = f"{kind_name} on {device}" if len(content.devices) > 1 else kind_name
        dashes = [Cell("-")] * (len(columns) - 2)
        lines.append(TableRow([Cell(name, name), Cell("none", len(order), verdict="poor"), *dashes]))
    return PageTable("The chosen predictors at a glance, the largest error first", columns, lines)


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
