"""Which sub-modules of a model are its blocks: as large as they may be, then some of what these consist of."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.model.unknown_operators import ASSUMED

LARGEST = 0.35
"""The share of a model's time that a block may have: what predicts the model must not have seen it."""
SMALLEST = 0.02
FEWEST_LAYERS = 2
"""One layer alone is measured as a layer."""
MOST_BLOCKS = 10


@dataclass(frozen=True)
class ModelBlock:
    """A sub-module by its path, and what it is a part of."""

    name: str
    within: str
    """The block that it lies in; its own name where it lies in none."""
    share: float
    """Of the model's time, roughly estimated before anything was measured."""


@dataclass(frozen=True)
class _Part:
    """A sub-module as the names of captured layers show it."""

    name: str
    layers: tuple[CapturedLayer, ...]
    share: float

    @property
    def is_block(self) -> bool:
        return SMALLEST <= self.share <= LARGEST and len(self.layers) >= FEWEST_LAYERS

    @property
    def work(self) -> tuple[object, ...]:
        """Equal for sub-modules that do the same."""
        return tuple((each.operator, each.layer, each.batch_size, each.repeats, each.dtype) for each in self.layers)


def chosen_blocks(model: CapturedModel, callable_names: Collection[str]) -> list[ModelBlock]:
    """The blocks of a model among the sub-modules that can be called by themselves, in the order in which they run.

    Of sub-modules that do the same the first is taken.
    """
    parts = _parts(model)
    outer = _distinct(_outermost("", parts, callable_names))
    outer = sorted(outer, key=lambda part: -part.share)[:MOST_BLOCKS]
    chosen = {part.work: ModelBlock(part.name, part.name, part.share) for part in outer}
    for part in outer:
        for inner in _within(part.name, parts, callable_names):
            if len(chosen) < MOST_BLOCKS:
                chosen.setdefault(inner.work, ModelBlock(inner.name, part.name, inner.share))
    order = list(parts)
    return sorted(chosen.values(), key=lambda block: order.index(block.name))


def _parts(model: CapturedModel) -> dict[str, _Part]:
    """Every sub-module by its path, in the order in which they are first called."""
    layers: dict[str, list[CapturedLayer]] = {}
    for layer in model.layers:
        words = layer.name.split(".") if layer.name else []
        for depth in range(len(words) + 1):
            layers.setdefault(".".join(words[:depth]), []).append(layer)
    total_s = sum(map(_seconds, model.layers))
    return {name: _Part(name, tuple(own), sum(map(_seconds, own)) / total_s) for name, own in layers.items()}


def _seconds(layer: CapturedLayer) -> float:
    return float(ASSUMED.seconds(layer.moved_bytes, layer.flops)) * layer.repeats  # type: ignore[arg-type]


def _outermost(name: str, parts: dict[str, _Part], callable_names: Collection[str]) -> Iterator[_Part]:
    """The largest blocks that a sub-module consists of: itself, if it is one."""
    if name in callable_names and parts[name].is_block:
        yield parts[name]
    else:
        yield from _within(name, parts, callable_names)


def _within(name: str, parts: dict[str, _Part], callable_names: Collection[str]) -> Iterator[_Part]:
    """The largest blocks among what a sub-module consists of."""
    for child in _children(name, parts):
        yield from _outermost(child, parts, callable_names)


def _children(name: str, parts: dict[str, _Part]) -> list[str]:
    return [each for each in parts if each and each.rpartition(".")[0] == name]


def _distinct(parts: Iterator[_Part]) -> list[_Part]:
    found: dict[tuple[object, ...], _Part] = {}
    for part in parts:
        found.setdefault(part.work, part)
    return list(found.values())
