"""Layers that are listed rather than captured, as a model that a predictor can be asked for."""

from __future__ import annotations

from collections.abc import Iterable

from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.dtypes import ELEMENT_BYTES
from medn.core.values import Layer
from medn.layer_generators.features import analytic_features
from medn.layer_generators.kind import layer_kinds


def listed_model(layers: Iterable[Layer], batch_size: int = 1, dtype: str = "fp32") -> CapturedModel:
    """The layers in their order; what flows between them is not known."""
    return CapturedModel(
        tuple(_listed(layer, batch_size, dtype) for layer in layers),
        inputs=(),
        outputs=(),
        parameter_bytes=0,
        batch_size=batch_size,
        how="listed",
    )


def _listed(layer: Layer, batch_size: int, dtype: str) -> CapturedLayer:
    kind = layer_kinds[layer.kind]
    found = analytic_features(kind, kind.values_of(layer), batch_size, ELEMENT_BYTES[dtype])
    return CapturedLayer(
        name=layer.kind,
        operator=layer.kind,
        layer=layer,
        batch_size=batch_size,
        dtype=dtype,
        flops=int(found["flops"]),
        moved_bytes=int(found["moved_bytes"]),
        parameter_bytes=int(found["parameter_bytes"]),
        output_bytes=int(found["bytes_written"]),
    )
