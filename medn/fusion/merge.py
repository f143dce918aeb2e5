"""Merges several layers of a captured model into one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.values import Layer
from medn.fusion.chains import outside_sources


@dataclass(frozen=True)
class FusedGroup:
    """Layers that run as one. Only the last of them is read by others."""

    members: tuple[int, ...]
    """Indices in the order in which the layers run."""
    name: str
    operator: str
    layer: Layer | None
    batch_size: int
    """That of `layer`."""


def merge(model: CapturedModel, groups: Iterable[FusedGroup]) -> CapturedModel:
    """The model with one layer per group, at the position of its last member. Every layer is in one group."""
    ordered = sorted(groups, key=lambda group: group.members[-1])
    index_of = {member: index for index, group in enumerate(ordered) for member in group.members}
    return replace(
        model,
        layers=tuple(_merged(model, group, index_of) for group in ordered),
        outputs=tuple(
            replace(port, producers=tuple(dict.fromkeys(index_of[producer] for producer in port.producers)))
            for port in model.outputs
        ),
    )


def _merged(model: CapturedModel, group: FusedGroup, index_of: Mapping[int, int]) -> CapturedLayer:
    members = [model.layers[member] for member in group.members]
    sources: dict[int, int] = {}
    for source, size_bytes in outside_sources(model, group.members).items():
        target = index_of.get(source, source)  # model inputs keep their places
        produced_bytes = model.inputs[-1 - source].size_bytes if source < 0 else model.layers[source].output_bytes
        sources[target] = min(produced_bytes, sources.get(target, 0) + size_bytes)
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


def _kept_bytes(group: FusedGroup, members: list[CapturedLayer]) -> int:
    """Tensors between members stay in the group: they are neither written nor read."""
    return 2 * sum(
        size_bytes
        for member in members
        for source, size_bytes in zip(member.inputs, member.input_bytes, strict=True)
        if source in group.members
    )
