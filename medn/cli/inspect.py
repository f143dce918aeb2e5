"""`medn inspect`: what a bundle holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, Row, say, write_json, write_rows
from medn.cli.predict import BundleArgument
from medn.cli.train import say_warnings
from medn.core.registry import known_name
from medn.core.text import shortened
from medn.core.units import percent, percent_between

if TYPE_CHECKING:
    from medn.bundle.bundle import Bundle, Entry

MOST_SHOWN = 20


def inspect(
    bundle: BundleArgument,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="One layer kind, to see its inputs.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show what a bundle predicts, how well, and from which inputs.

    Everything in the file is checked while it is read; nothing in it is run.

    \b
    Examples:
      medn inspect runs/laptop/laptop.medn
      medn inspect runs/laptop/laptop.medn conv2d
      medn inspect runs/laptop/laptop.medn --json
    """
    from medn.bundle.bundle import read_bundle

    content = read_bundle(bundle)
    kinds = sorted({entry.kind for entry in content.entries})
    kind = kind and known_name("predicted layer kind", kind, kinds)
    chosen = [entry for entry in content.entries if kind in ("", entry.kind)]
    if as_json:
        write_json(_described(content, chosen))
        return
    write_rows([_summary(entry) for entry in chosen], as_json=False)
    if kind:
        for entry in chosen:
            write_rows([{**row, "one of": _few(row["one of"])} for row in _inputs(entry)], as_json=False)
    say_warnings([entry.latency for entry in chosen])
    for latency in (entry.latency for entry in chosen if entry.latency.facts.learned_note):
        say(f"{latency.regressor} for {latency.kind} on {latency.device} {latency.facts.learned_note}")
    size = bundle.stat().st_size
    say(f"{content.name}: {size:,} bytes, made by medn {content.made_by}, devices: {', '.join(content.devices)}")


def _described(bundle: Bundle, chosen: list[Entry]) -> dict[str, Any]:
    from medn.deployed.candidate import deployed_of

    return {
        "name": bundle.name,
        "medn": bundle.made_by,
        "devices": list(bundle.devices),
        "environments": dict(bundle.environments),
        "entries": [
            {
                **entry.latency.summary(),
                "level": deployed_of(entry.latency).interval.guaranteed_level,
                "beyond": deployed_of(entry.latency).way,
                "warning": entry.latency.warning,
                "constants": dict(entry.latency.facts.constants),
                "usual": dict(entry.usual),
                "further": {name: candidate.summary() for name, candidate in entry.further.items()},
                "inputs": _inputs(entry),
            }
            for entry in chosen
        ],
    }


def _summary(entry: Entry) -> Row:
    from medn.deployed.candidate import deployed_of

    latency = entry.latency
    scores = latency.scores
    return {
        "device": ", ".join(entry.devices),
        "kind": entry.kind,
        "regressor": latency.regressor,
        "MAPE": percent_between(scores.test.mape, scores.test.mape_low, scores.test.mape_high) if scores else None,
        "median": percent(scores.test.median) if scores else None,
        "within 10 %": percent(scores.test.within_10) if scores else None,
        "interval covers": percent(scores.coverage.covered) if scores else None,
        "width": percent(scores.coverage.inside_width) if scores else None,
        "beyond": deployed_of(latency).way,
        "bytes": f"{latency.size_bytes:,}",
        "also predicts": ", ".join(entry.further) or None,
    }


def _inputs(entry: Entry) -> list[dict[str, Any]]:
    """Every input with what was measured of it; constants have one value."""
    from medn.deployed.candidate import deployed_of

    measured = deployed_of(entry.latency).range
    rows: list[dict[str, Any]] = []
    for name, low, high in zip(measured.schema.names, measured.low.tolist(), measured.high.tolist(), strict=True):
        categories = measured.schema.categories.get(name)
        seen = [categories[code] for code in measured.seen.get(name, ()) if categories]
        rows.append(
            {"input": name, "from": None if categories else low, "to": None if categories else high, "one of": seen}
        )
    return rows + [{"input": name, "from": None, "to": None, "one of": [value]} for name, value in _constants(entry)]


def _few(strings: list[Any]) -> list[str]:
    """A few, each shortened: an untrusted bundle may hold anything."""
    more = [f"and {len(strings) - MOST_SHOWN} more"] if len(strings) > MOST_SHOWN else []
    return [shortened(str(text)) for text in strings[:MOST_SHOWN]] + more


def _constants(entry: Entry) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in entry.latency.facts.constants.items() if name != "device"]
