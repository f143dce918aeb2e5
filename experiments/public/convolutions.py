"""Inputs of a table of convolutions: the layer kind's own features, and how the algorithms of GPU libraries fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from experiments.public.hardware import Numbers, product_features
from medn.layer_generators.features import analytic_features
from medn.layer_generators.kind import layer_kinds


def convolution_inputs(values: SimpleNamespace, batch_size: Numbers, multiprocessors: Any) -> dict[str, Any]:
    features = analytic_features(layer_kinds["conv2d"], values, batch_size, 4.0)
    numbers = {**vars(values), "batch_size": batch_size, **features}
    pixels, kernel = features["out_h"] * features["out_w"], values.kernel_h * values.kernel_w
    numbers |= {
        "out_pixels": pixels,
        "in_pixels": values.in_h * values.in_w,
        "kernel_pixels": kernel,
        "channels_per_group": values.in_channels / values.groups,
        "out_bytes_per_image": features["bytes_written"] / batch_size,
        "flops_per_image": features["flops"] / batch_size,
        "in_to_out_channels": values.in_channels / values.out_channels,
    }
    matrix = (features["matrix_columns"], features["matrix_inner"], features["matrix_rows"])
    return numbers | product_features(values.groups, *matrix, multiprocessors)
