"""Which devices of several runs are the same one, and what they are called where they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medn.core.environment import disagreements
from medn.core.errors import StoreError
from medn.merging.overlap import Overlap
from medn.merging.source_run import SourceRun

DeviceNames = dict[str, dict[str, str]]
"""By run the name that each of its devices gets."""


def check_one_environment(runs: Sequence[SourceRun]) -> None:
    """Refuse runs in which devices of one name were measured in environments that differ."""
    for place, second in enumerate(runs):
        for first in runs[:place]:
            for device in first.environments_of.keys() & second.environments_of.keys():
                if difference := environment_difference(first, second, device):
                    raise StoreError(
                        f"{device} is not the same device in {first.name} and {second.name} ({difference}). "
                        "Pass --keep-apart to give each a name of its own, or --mix-environments to keep both under "
                        "one name, each row marked with its own"
                    )


def names_kept_apart(runs: Sequence[SourceRun], found: Sequence[Overlap]) -> DeviceNames:
    """A device by its own name; where runs have different ones of that name, followed by the run it is from."""
    disagree = {(each.device, each.runs) for each in found if each.beyond_noise}
    names: DeviceNames = {run.name: {} for run in runs}
    for device in {device for run in runs for device in run.environments_of}:
        groups = _alike([run for run in runs if device in run.environments_of], device, disagree)
        for group in groups:
            for run in group:
                names[run.name][device] = device if len(groups) == 1 else f"{device}@{group[0].name}"
    return names


def own_names(runs: Sequence[SourceRun]) -> DeviceNames:
    return {run.name: {device: device for device in run.environments_of} for run in runs}


def _alike(runs: Sequence[SourceRun], device: str, disagree: set[tuple[str, tuple[str, str]]]) -> list[list[SourceRun]]:
    """The runs in groups, each alike every other of its group."""
    groups: list[list[SourceRun]] = []
    for run in runs:
        for group in groups:
            if not any(
                environment_difference(other, run, device) or (device, (other.name, run.name)) in disagree
                for other in group
            ):
                group.append(run)
                break
        else:
            groups.append([run])
    return groups


def environment_difference(first: SourceRun, second: SourceRun, device: str) -> str:
    """What tells the environments of a device in two runs apart; empty where each has its like in the other run."""
    for here, there in ((first, second), (second, first)):
        for key in sorted(here.environments_of[device]):
            others = {other: there.environments[other] for other in there.environments_of[device]}
            differences = [
                "" if other == key else _difference(here.environments[key], manifest, (here.name, there.name))
                for other, manifest in others.items()
            ]
            if all(differences):
                return differences[0]
    return ""


def _difference(first: Mapping[str, Any], second: Mapping[str, Any], names: tuple[str, str]) -> str:
    """Tables tell nothing of the machine, so only parts of the same table are known to be from the same one."""
    if "source" in first or "source" in second:
        if first.get("sha256", first.get("source")) == second.get("sha256", second.get("source")):
            return ""
        told = [
            f"imported from {each['source']} in {name}" if "source" in each else f"measured in {name}"
            for each, name in zip((first, second), names, strict=True)
        ]
        return ", ".join(told)
    return "; ".join(disagreements(dict(first), dict(second), (f"in {names[0]}", f"in {names[1]}")))
