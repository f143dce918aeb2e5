"""What the tab key completes beside verbs and options: names of layer kinds, parameters, devices and shipped files."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer

Complete = Callable[[str], list[str]]


def complete_shipped(*packages: str) -> Complete:
    """Names of files that come with medn; where none begins so, the shell completes files."""

    def complete(incomplete: str) -> list[str]:
        from medn.core.shipped import shipped

        return _beginning(incomplete, (name for package in packages for name in shipped(package)))

    return complete


def complete_kinds(incomplete: str) -> list[str]:
    from medn.layer_generators.kind import layer_kinds

    return _beginning(incomplete, layer_kinds)


def complete_several_kinds(incomplete: str) -> list[str]:
    return _several(incomplete, complete_kinds)


def complete_several_devices(incomplete: str) -> list[str]:
    from medn.devices.backend import backends

    return _several(incomplete, lambda text: _beginning(text, backends))


def complete_several_regressors(incomplete: str) -> list[str]:
    from medn.regressors.regressor import regressors

    return _several(incomplete, lambda text: _beginning(text, regressors))


def complete_formats(incomplete: str) -> list[str]:
    from medn.exporting.exporter import exporters

    return _beginning(incomplete, exporters)


def complete_values(context: typer.Context, incomplete: str) -> list[str]:
    """`NAME=` of the parameters of the kind that was typed before, and of the conditions."""
    from medn.core.conditions import CONDITIONS
    from medn.layer_generators.kind import layer_kinds

    kind = context.params.get("kind") or ""
    given = {text.partition("=")[0] for text in context.params.get("values") or ()}
    names = [*(layer_kinds[kind].names if kind in layer_kinds else ()), *CONDITIONS]
    return _beginning(incomplete, (f"{name}=" for name in names if name not in given))


def _several(incomplete: str, complete: Complete) -> list[str]:
    """The last of several names with commas between them."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in complete(last)]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
