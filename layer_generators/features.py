"""Analytic features of a layer, the same for every kind: work, traffic, intensity, and how sizes fit tiles."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np

from medn.core.data_sheet import NO_SHEET, Sheet
from medn.core.dtypes import ELEMENT_BYTES
from medn.layer_generators.hardware import hardware_features
from medn.layer_generators.kind import Column, LayerKind, Values, look_up

TILES = (8, 16, 32, 64)
"""Vector widths and block sizes that kernels work in; a size just above a multiple pays for a whole further tile."""


def analytic_features(
    kind: LayerKind, values: Values, batch_size: Column, element_bytes: Column, sheet: Sheet = NO_SHEET
) -> dict[str, Column]:
    """Everything that can be said of a layer without running it; numbers for one layer, columns for many.

    With the data sheet of a device, also how the layer fits that device.

    >>> from types import SimpleNamespace
    >>> from medn.layer_generators.kind import layer_kinds
    >>> linear = SimpleNamespace(in_features=8, out_features=20, rows=1, bias=False)
    >>> features = analytic_features(layer_kinds["linear"], linear, batch_size=2, element_bytes=4)
    >>> features["flops"], features["out_features_mod_16"]
    (640, 4)
    """
    stated = kind.stated_work(values, batch_size)
    if stated is not None:
        return stated | hardware_features(stated, None, sheet)
    costs = kind.costs(values, batch_size, element_bytes)
    parameters_read = costs.parameter_bytes if costs.parameter_bytes_read is None else costs.parameter_bytes_read
    bytes_read = costs.input_bytes + parameters_read
    moved = bytes_read + costs.output_bytes
    features: dict[str, Column] = {
        "flops": costs.flops,
        "bytes_read": bytes_read,
        "bytes_written": costs.output_bytes,
        "parameter_bytes": costs.parameter_bytes,
        "moved_bytes": moved,
        "intensity": costs.flops / moved,
        **costs.more,
    }
    for name in kind.tiled:
        size = getattr(values, name)
        if isinstance(size, np.ndarray):
            size = size.astype(np.int64)  # much quicker to divide than the floating-point numbers of a table
        for tile in TILES:
            features[f"{name}_mod_{tile}"] = size % tile
        padded = -(-size // TILES[1]) * TILES[1]
        features[f"{name}_waste"] = (padded - size) / padded
    features |= hardware_features(features, costs.product, sheet)
    if np.ndim(costs.flops) == 0:
        return features
    # What does not depend on every column, such as the bytes of no parameters, is a column too.
    return {name: np.broadcast_to(feature, np.shape(costs.flops)) for name, feature in features.items()}


def analytic_columns(
    kind: LayerKind,
    columns: Mapping[str, Column],
    sheet: Sheet = NO_SHEET,
    element_bytes: Mapping[str, float] = ELEMENT_BYTES,
) -> dict[str, Column]:
    """The analytic features of many layers, from columns (or single values) of their parameters and conditions.

    Numbers are counted in 64-bit floating point: exact for every layer there is, and never overflowing like integers.
    """
    needed = [*(parameter.name for parameter in kind.parameters), "batch_size"]
    values = {name: _numbers(columns[name]) for name in needed}
    sizes = look_up(element_bytes, columns["dtype"])
    return analytic_features(kind, SimpleNamespace(**values), values["batch_size"], sizes, sheet)


def _numbers(column: Column) -> Column:
    """Text stays text."""
    if isinstance(column, (str, int, float)):
        return column
    return column if column.dtype.kind in "USO" else column.astype(np.float64)
