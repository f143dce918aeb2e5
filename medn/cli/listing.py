"""`medn list`: the entries of all registries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, Row, say, write_record, write_rows
from medn.core.errors import UsageError, unknown
from medn.core.registry import known_name
from medn.core.shipped import CONFIGS, MAPPINGS, first_comment, shipped

if TYPE_CHECKING:
    from medn.core.domains import Domain
    from medn.core.parameters import Parameter

TYPE_NAMES = {int: "integer", float: "number", bool: "boolean", str: "string"}


def complete_entries(context: typer.Context, incomplete: str) -> list[str]:
    rows = LISTINGS.get(context.params.get("what") or "", list)()
    return [row["name"] for row in rows if row["name"].startswith(incomplete)]


def list_entries(
    what: Annotated[
        str,
        typer.Argument(help="One of the listings, as `medn list` names them.", autocompletion=lambda: list(LISTINGS)),
    ] = "",
    name: Annotated[str, typer.Argument(help="One entry, to see it in full.", autocompletion=complete_entries)] = "",
    as_json: AsJson = False,
) -> None:
    """List everything that has a name: layer kinds, devices, regressors, table formats, plug-ins and more.

    Name an entry to see it in full: all parameters of a layer kind, their limits, and what a sweep draws.

    \b
    Examples:
      medn list kinds
      medn list kinds conv2d
      medn list devices --json
    """
    if not what:
        write_rows([{"name": listing, "entries": len(rows())} for listing, rows in LISTINGS.items()], as_json)
    elif what not in LISTINGS:
        raise UsageError(unknown("listing", what, LISTINGS))
    elif not name:
        rows = LISTINGS[what]()
        write_rows(rows, as_json)
        if not rows:
            say(f"no {what} here")
    elif what == "kinds":
        write_rows(_parameters_of(name), as_json)
    else:
        found = {row["name"]: row for row in LISTINGS[what]()}
        entry = known_name(what.removesuffix("s"), name, found)
        write_record({**found[entry], **(_settings_of(entry) if what == "regressors" else {})}, as_json)


def _settings_of(regressor_name: str) -> Row:
    """What `medn train --set` can fix, with the defaults."""
    from medn.regressors.regressor import regressors

    regressor = regressors[regressor_name]
    return {"settings": [f"{name}={value}" for name, value in {**regressor.fixable, **regressor.defaults}.items()]}


def _kinds() -> list[Row]:
    from medn.layer_generators.kind import layer_kinds

    return [
        {"name": kind.name, "description": kind.description, "parameters": list(kind.names)}
        for kind in layer_kinds.values()
    ]


def _parameters_of(kind_name: str) -> list[Row]:
    """Every name a layer of the kind is described with."""
    from medn.layer_generators.kind import layer_kinds

    kind = layer_kinds[kind_name]
    rows: list[Row] = []
    for name in kind.names:
        targets = kind.meaning(name)
        about = targets[0].about if len(targets) == 1 else f"sets {' and '.join(each.name for each in targets)}"
        sweep = _as_written(kind.sweep[name]) if name in kind.sweep else None
        rows.append({"name": name, **_declared(targets[0]), "sweep": sweep, "about": about})
    return rows


def _conditions() -> list[Row]:
    from medn.core.conditions import CONDITIONS

    return [
        {"name": each.name, **_declared(each), "unit": each.unit, "about": each.about} for each in CONDITIONS.values()
    ]


def _quantities() -> list[Row]:
    from medn.core.quantities import LATENCY, all_quantities

    return [
        {
            "name": each.name,
            "unit": each.unit,
            "told": "from all samples" if each.derive else "of each visit",
            "learned": "as a multiple of the latency" if each.over_latency else "by itself",
            "about": each.about,
        }
        for each in (LATENCY, *all_quantities().values())
    ]


def _declared(parameter: Parameter) -> Row:
    """What a value may be, and is where nothing is said."""
    return {
        "type": TYPE_NAMES[parameter.type],
        "allowed": list(parameter.choices) or _limits(parameter.low, parameter.high),
        "default": parameter.default,
    }


def _limits(low: float | None, high: float | None) -> str | None:
    return None if low is None or high is None else f"{low} to {high}"


def _as_written(domain: Domain) -> Any:
    """A domain as a config writes it."""
    from medn.core.domains import Fixed, OneOf

    if isinstance(domain, Fixed):
        return domain.value
    if isinstance(domain, OneOf):
        return list(domain.values)
    said = {part.name: getattr(domain, part.name) for part in fields(domain)}
    return {part.name: said[part.name] for part in fields(domain) if said[part.name] != part.default}


def _devices() -> list[Row]:
    from medn.devices.backend import backends

    return [
        {
            "name": backend.name,
            "available": (reason := backend.missing()) is None,
            "description": backend.description,
            "dtypes": list(backend.dtypes),
            "versions": {} if reason else backend.versions(),
            "missing": reason,
            "extra": backend.extra,
        }
        for backend in backends.values()
    ]


def _samplers() -> list[Row]:
    from medn.layer_generators.sampler import samplers

    return [{"name": sampler.name, "description": sampler.description} for sampler in samplers.values()]


def _probes() -> list[Row]:
    from medn.devices.machine_client import MachineClient
    from medn.devices.probe import probes
    from medn.devices.transport import THIS_MACHINE
    from medn.layer_generators.sweep import ProbeChoice

    with MachineClient(THIS_MACHINE) as machine:
        readings = [(probe, *machine.read(ProbeChoice(name=probe.name))) for probe in probes.values()]
    return [
        {"name": probe.name, "description": probe.description, "now": number, "missing": reason or None}
        for probe, number, reason in readings
    ]


def _regressors() -> list[Row]:
    from medn.regressors.regressor import regressors

    return [
        {
            "name": regressor.name,
            "available": (reason := regressor.missing()) is None,
            "description": regressor.description,
            "missing": reason,
        }
        for regressor in regressors.values()
    ]


def _formats() -> list[Row]:
    from medn.exporting.exporter import exporters

    return [
        {
            "name": each.name,
            "description": each.description,
            "options": {option.name: option.default for option in each.options},
            "model": "needed" if each.needs_model else "",
        }
        for each in exporters.values()
    ]


def _tools() -> list[Row]:
    from medn.benchmark_tools.tool import benchmark_tools

    return [
        {"name": each.name, "description": each.description, "script": each.script_name}
        for each in benchmark_tools.values()
    ]


def _forms() -> list[Row]:
    from medn.regressors.form import forms

    return [{"name": form.name, "description": form.description} for form in forms.values()]


def _plugins() -> list[Row]:
    from medn.core.plugins import installed

    return [
        {"name": each.name, "package": each.distribution, "module": each.module, "missing": each.failure}
        for each in installed()
    ]


def _shipped(package: str) -> list[Row]:
    return [
        {"name": name, "description": first_comment(path), "path": str(path)} for name, path in shipped(package).items()
    ]


LISTINGS: dict[str, Callable[[], list[Row]]] = {
    "kinds": _kinds,
    "conditions": _conditions,
    "quantities": _quantities,
    "devices": _devices,
    "samplers": _samplers,
    "probes": _probes,
    "regressors": _regressors,
    "forms": _forms,
    "formats": _formats,
    "tools": _tools,
    "plugins": _plugins,
    "configs": partial(_shipped, CONFIGS),
    "mappings": partial(_shipped, MAPPINGS),
}
