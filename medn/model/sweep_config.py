"""The sweep config for given models: their very layers first, neighbours after, most of them where the time goes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.dtypes import ELEMENT_BYTES
from medn.core.errors import UsageError
from medn.core.values import Layer
from medn.devices.backend import backends
from medn.layer_generators.kind import layer_kinds
from medn.model.fused_model import fused_by
from medn.model.model_sources import MAKERS
from medn.model.schedule import batch_factors
from medn.model.sweep_domains import domains_around
from medn.model.unknown_operators import ASSUMED

Written = dict[str, Any]
"""A part of a config, ready to become YAML."""

MEASURE = {"visits": 3, "visit_time": 0.03, "max_visits": 4}
PER_LAYER = 2
"""Conditions of a neighbour; a model's own layers are measured under all of theirs."""
USUAL_FACTOR = 3
USUAL_POINTS = 60
"""Where nothing says how many points: so many for each point of the models' own layers, and no fewer for each kind."""
LEAST_SHARE = 0.05
"""The share of the neighbours that a kind gets which takes hardly any time: it too has to be learned."""
LEAST_LAYERS = 12
"""Layers of every kind, as far as there are points: fewer than eight cannot be learned from, and some are for test."""
LIMIT_FACTOR = 2.0
LEAST_LIMITS = {"flops": 1e8, "memory_bytes": 1e8}
"""How much larger than the largest of the models' own layers a neighbour may be; and what is never too large."""
LONGEST_NAME = 60


class Use(NamedTuple):
    """The conditions that a layer has in the models."""

    batch_size: int
    dtype: str


@dataclass
class WantedLayer:
    """A layer that occurs in the models."""

    layer: Layer
    uses: set[Use]
    seconds: float
    """A rough estimate of what all its runs take, before anything is measured."""

    def values_of(self, condition: str) -> list[Any]:
        return sorted({getattr(use, condition) for use in self.uses})


@dataclass(frozen=True)
class ModelSweep:
    """What is to be measured for given models."""

    name: str
    devices: tuple[str, ...]
    threads: int
    kinds: Mapping[str, Sequence[WantedLayer]]
    """By kind: the layers as the devices run them, those that take longest first."""

    @cached_property
    def cache_states(self) -> list[str]:
        """Hot and cold, and as between the layers of a model where a device can tell it."""
        inside = any(backends[device].tells_conversions for device in self.devices)
        return ["hot", "cold", *(["inside"] if inside else [])]

    @property
    def own_points(self) -> int:
        """The points of the models' own layers, over all devices."""
        return len(self.devices) * sum(self._own(wanted) for wanted in self.kinds.values())

    @property
    def usual_points(self) -> int:
        """So many where nothing says how many."""
        return max(USUAL_FACTOR * self.own_points, USUAL_POINTS * len(self.kinds) * len(self.devices))

    def config(self, points: int, seconds: float | None = None) -> Written:
        """The sweep config with these budgets. One with more points keeps those of one with fewer."""
        batch_sizes, dtypes = self._occurring("batch_size"), self._occurring("dtype")
        shares = self._shares(points // len(self.devices))
        return {
            "name": self.name,
            "devices": list(self.devices),
            "sampler": "listed",
            "budget": {"points": points, **({} if seconds is None else {"time": seconds})},
            "conditions": {
                "batch_size": _one_or({"choices": batch_sizes}, batch_sizes),
                "utilization": 0.0,
                "cache": self.cache_states,
                "dtype": _one_or({"choices": dtypes}, dtypes),
                "threads": self.threads,
                "per_layer": PER_LAYER,
            },
            "limits": self._limits(),
            "measure": dict(MEASURE),
            "layers": {
                kind: {
                    "share": shares[kind],
                    **domains_around(layer_kinds[kind], [each.layer for each in wanted]),
                    "listed": [_entry(each, {"batch_size": batch_sizes, "dtype": dtypes}) for each in wanted],
                }
                for kind, wanted in self.kinds.items()
            },
        }

    def _own(self, wanted: Iterable[WantedLayer]) -> int:
        """The points of a kind's own layers on one device."""
        conditions = (len(each.values_of("batch_size")) * len(each.values_of("dtype")) for each in wanted)
        return sum(conditions) * len(self.cache_states)

    def _occurring(self, condition: str) -> dict[Any, int]:
        """The values of a condition, and how many layers have them."""
        found = [value for wanted in self.kinds.values() for each in wanted for value in each.values_of(condition)]
        return {value: found.count(value) for value in sorted(set(found))}

    def _shares(self, points: int) -> dict[str, float]:
        """The points of each kind on one device: its own layers, and of the neighbours a share by its time, but as far
        as they suffice so many that it can be learned."""
        seconds = {kind: sum(each.seconds for each in wanted) for kind, wanted in self.kinds.items()}
        weights = {kind: max(spent / sum(seconds.values()), LEAST_SHARE) for kind, spent in seconds.items()}
        own = {kind: self._own(wanted) for kind, wanted in self.kinds.items()}
        missing = {kind: max(LEAST_LAYERS * PER_LAYER - count, 0) for kind, count in own.items()}
        filled = min(max(points - sum(own.values()), 0) / max(sum(missing.values()), 1), 1.0)
        least = {kind: own[kind] + filled * missing[kind] for kind in self.kinds}
        return {kind: round(share, 1) for kind, share in _by_weight(points, own, least, weights).items()}

    def _limits(self) -> Written:
        flops, memory_bytes = 0.0, 0.0
        for wanted in (each for kind in self.kinds.values() for each in kind):
            kind = layer_kinds[wanted.layer.kind]
            for use in wanted.uses:
                costs = kind.costs(kind.values_of(wanted.layer), use.batch_size, ELEMENT_BYTES[use.dtype])
                flops = max(flops, costs.flops)
                memory_bytes = max(memory_bytes, costs.input_bytes + costs.output_bytes + costs.parameter_bytes)
        largest = {"flops": flops, "memory_bytes": memory_bytes}
        return {name: max(LIMIT_FACTOR * float(value), LEAST_LIMITS[name]) for name, value in largest.items()}


def _by_weight(
    points: int, own: Mapping[str, int], least: Mapping[str, float], weights: Mapping[str, float]
) -> Mapping[str, float]:
    """The points of each kind: its own and by its weight of the others, but no fewer than its least."""
    shares, free = dict(least), set(own)
    while free:
        left = points - sum(own[kind] if kind in free else shares[kind] for kind in own)
        factor = max(left, 0) / sum(weights[kind] for kind in free)
        weighed = {kind: own[kind] + factor * weights[kind] for kind in free}
        short = {kind for kind in free if weighed[kind] < least[kind]}
        if not short:
            return {**shares, **weighed}
        free -= short
    return shares


def model_sweep(
    models: Mapping[str, CapturedModel], devices: Sequence[str], batch_sizes: Sequence[int] = (), threads: int = 1
) -> ModelSweep:
    """What is to be measured for models, by their sources, at batch sizes, or at that of each capture.

    A device whose backend fuses measures what it runs as one.
    """
    found: dict[Layer, WantedLayer] = {}
    for source, model in models.items():
        known = False
        for executed in _executed(model, devices):
            for batch_size in batch_sizes or (model.batch_size,):
                factors = batch_factors(executed, batch_size).tolist()
                for captured, factor in zip(executed.layers, factors, strict=True):
                    known |= _add(found, captured, factor)
        if not known:
            raise UsageError(f"{source}: none of its layers is of a kind that medn knows; there is nothing to measure")
    kinds: dict[str, list[WantedLayer]] = {}
    for wanted in sorted(found.values(), key=lambda each: (-each.seconds, each.layer.key)):
        kinds.setdefault(wanted.layer.kind, []).append(wanted)
    return ModelSweep(sweep_name(models), tuple(devices), threads, kinds)


def _executed(model: CapturedModel, devices: Sequence[str]) -> list[CapturedModel]:
    """The model as the devices run it, each way once."""
    ways = [fused_by(device, model) for device in devices]
    return [way for index, way in enumerate(ways) if way not in ways[:index]]


def _add(found: dict[Layer, WantedLayer], captured: CapturedLayer, factor: float) -> bool:
    """Take up a layer of a model, if it can be measured."""
    layer = captured.layer
    if layer is None or captured.dtype not in ELEMENT_BYTES:
        return False
    work = np.array([captured.moved_bytes, captured.flops]) * factor
    seconds = float(ASSUMED.seconds(work[0], work[1])) * captured.repeats
    wanted = found.setdefault(layer, WantedLayer(layer, set(), 0.0))
    wanted.uses.add(Use(max(1, round(captured.batch_size * factor)), captured.dtype))
    wanted.seconds += seconds
    return True


def _entry(wanted: WantedLayer, usual: Mapping[str, Mapping[Any, int]]) -> Written:
    """A layer as the list has it, with those of its conditions that are not all that there are."""
    own = {name: wanted.values_of(name) for name, all_values in usual.items()}
    said = {name: _one_or(values, values) for name, values in own.items() if values != list(usual[name])}
    return {**wanted.layer.values, **said}


def _one_or(several: Any, values: Iterable[Any]) -> Any:
    """A value that is always the same is written as it is."""
    first, *others = values
    return several if others else first


def sweep_name(sources: Iterable[str]) -> str:
    """The name of a sweep for models, which names its run.

    >>> sweep_name(["timm:resnet50", "nets/small.onnx", "python:nets:make"])
    'for-resnet50-small-nets-make'
    """
    names = ["for", *map(_short_name, sources)]
    return re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(names))[:LONGEST_NAME].rstrip("-.")


def _short_name(source: str) -> str:
    maker, _, name = source.partition(":")
    return name if maker in MAKERS else Path(source).stem


def as_yaml(config: Written, command: str) -> str:
    """The config as a file that a person can read, edit and use again."""
    content = yaml.safe_dump(config, sort_keys=False, default_flow_style=None, width=140, allow_unicode=True)
    return (
        f"# Made by: {command}\n"
        "# The layers under `listed` are those of the models, those that take longest first. The sampler draws them\n"
        "# before all others, then layers like them with other sizes, within the domains.\n" + content
    )
