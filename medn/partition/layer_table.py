"""The layers of a captured model as questions to a predictor: made once, asked for every new condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.capture.unknown import STAND_IN_DTYPE, stand_in
from medn.capture.values import CapturedLayer, CapturedModel
from medn.core.errors import UsageError
from medn.core.table import Array
from medn.core.values import ELEMENT_BYTES, Layer, Scalar
from medn.predictor.predictor import Predictor


@dataclass(frozen=True, eq=False)
class Group:
    """All layers of one kind."""

    places: NDArray[np.int_]
    columns: Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class LayerTable:
    """What to ask for, in the order of the layers."""

    groups: Mapping[str, Group]
    batch_size: int
    stood_in: tuple[int, ...]
    """Layers in whose place the time of moving as many bytes is asked for, because their kind is not predicted."""

    def predict_s(
        self, predictor: Predictor, batch_size: int | None = None, condition: Mapping[str, Scalar] | None = None
    ) -> Array:
        """Seconds of each layer at this batch size of the model, under conditions such as {"utilization": 0.5}."""
        seconds = np.empty(sum(len(group.places) for group in self.groups.values()))
        for kind, group in self.groups.items():
            columns = dict(group.columns)
            if batch_size is not None:
                columns["batch_size"] = np.maximum(1, columns["batch_size"] * batch_size // self.batch_size)
            seconds[group.places] = predictor.predict({**columns, **(condition or {})}, kind).latency_s
        return seconds


def layer_table(model: CapturedModel, kinds: Collection[str]) -> LayerTable:
    """The questions that a captured model asks a predictor of these kinds."""
    rows: dict[str, list[tuple[int, dict[str, Scalar]]]] = {}
    stood_in = []
    for place, captured in enumerate(model.layers):
        layer = _predicted(captured, kinds)
        dtype = captured.dtype
        if layer is None:
            layer, dtype = stand_in(captured), STAND_IN_DTYPE
            stood_in.append(place)
        if layer.kind not in kinds:
            raise UsageError(
                f"layer {captured.name!r} ({captured.operator}) is not predicted, nor is {layer.kind!r}, "
                f"which stands in for what only moves data. Predicted: {', '.join(sorted(kinds))}"
            )
        row = {**layer.values, "batch_size": captured.batch_size, "dtype": dtype}
        rows.setdefault(layer.kind, []).append((place, row))
    groups = {kind: _group(found) for kind, found in rows.items()}
    return LayerTable(groups, model.batch_size, tuple(stood_in))


def _predicted(captured: CapturedLayer, kinds: Collection[str]) -> Layer | None:
    layer = captured.layer
    return layer if layer is not None and layer.kind in kinds and captured.dtype in ELEMENT_BYTES else None


def _group(rows: list[tuple[int, dict[str, Scalar]]]) -> Group:
    places, values = zip(*rows, strict=True)
    return Group(np.array(places), {name: np.array([row[name] for row in values]) for name in values[0]})
