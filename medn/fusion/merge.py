"""Several layers of a captured model become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.values import Layer
from medn.fusion.chains import outside_sources


@dataclass(frozen=True)
class Group:
    """Layers that run as one. Only the last of them is read by others."""

    members: tuple[int, ...]
    """Indices in the order in which the layers run."""
    name: str
    operator: str
    layer: Layer | None
    batch_size: int
    """That of `layer`."""


def merge(model: CapturedModel, groups: Iterable[Group]) -> CapturedModel:
    """The model with one layer per group, in the place of its last member. Every layer is in one group."""
    ordered = sorted(groups, key=lambda group: group.members[-1])
    place = {member: index for index, group in enumerate(ordered) for member in group.members}
    return replace(
        model,
        layers=tuple(_merged(model, group, place) for group in ordered),
        outputs=tuple(
            replace(port, producers=tuple(dict.fromkeys(place[producer] for producer in port.producers)))
            for port in model.outputs
        ),
    )


def _merged(model: CapturedModel, group: Group, place: Mapping[int, int]) -> CapturedLayer:
    members = [model.layers[member] for member in group.members]
    sources: dict[int, int] = {}
    for source, size_bytes in outside_sources(model, group.members).items():
        target = place.get(source, source)  # model inputs keep their places
        made = model.inputs[-1 - source].size_bytes if source < 0 else model.layers[source].output_bytes
        sources[target] = min(made, sources.get(target, 0) + size_bytes)
    output_bytes = members[-1].output_bytes
    return CapturedLayer(
        name=group.name,
        operator=group.operator,
        layer=group.layer,
        batch_size=group.batch_size,
        dtype=members[-1].dtype,
        flops=sum(member.flops for member in members),
        moved_bytes=max(sum(member.moved_bytes for member in members) - _kept_bytes(group, members), output_bytes),
        parameter_bytes=sum(member.parameter_bytes for member in members),
        output_bytes=output_bytes,
        inputs=tuple(sources),
        input_bytes=tuple(sources.values()),
        repeats=members[-1].repeats,
    )


def _kept_bytes(group: Group, members: list[CapturedLayer]) -> int:
    """What members hand to one another does not leave the group: it is neither written nor read."""
    return 2 * sum(
        size_bytes
        for member in members
        for source, size_bytes in zip(member.inputs, member.input_bytes, strict=True)
        if source in group.members
    )
