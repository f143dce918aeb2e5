"""The layers of networks that give images back, find things in them, or watch videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

from medn.core.values import Scalar
from medn.layer_generators.blocks import SAME, Recipe, activation, convolution, normalised, reduced, residual


def u_net(size: int = 256) -> Recipe:
    """Once with transposed convolutions, once with bilinear upsampling on the way up."""
    widths, before = (64, 128, 256, 512, 1024), 3
    for width in widths:
        yield from normalised(before, width, size)
        yield from normalised(width, width, size)
        if width < widths[-1]:
            yield "max_pool2d", {"channels": width, "in_size": size, "kernel_size": 2, "stride": 2}
            size //= 2
        before = width
    for width in reversed(widths[:-1]):
        up: dict[str, Scalar] = {"in_channels": 2 * width, "out_channels": width, "in_size": size}
        yield "conv_transpose2d", {**up, "kernel_size": 2, "stride": 2}
        yield "upsample", {"mode": "bilinear", "channels": 2 * width, "in_size": size, "scale_factor": 2}
        size *= 2
        yield "concat", {"channels": width, "in_size": size}
        yield from normalised(2 * width, width, size)
    yield convolution(64, 2, size, kernel=1)


def generator() -> Recipe:
    """Images out of noise, by transposed convolutions alone."""
    widths = (100, 512, 256, 128, 64, 3)
    for index, (before, after) in enumerate(pairwise(widths)):
        size = 1 if index == 0 else 2 ** (index + 1)
        window: dict[str, Scalar] = {"kernel_size": 4, "stride": 2 if index else 1, "padding": 1 if index else 0}
        yield "conv_transpose2d", {"in_channels": before, "out_channels": after, "in_size": size, **window}
        wide = 2 ** (index + 2)
        yield "batch_norm2d", {"channels": after, "in_size": wide}
        yield activation("tanh" if after == 3 else "relu", after, wide)


def detector(size: int = 640) -> Recipe:
    """Backbone, spatial pyramid and top-down path of a one-stage detector."""
    before = 3
    for width in (32, 64, 128, 256, 512):
        yield from normalised(before, width, size, stride=2, function="silu")
        size //= 2
        yield from normalised(width, width // 2, size, kernel=1, function="silu")
        yield from normalised(width // 2, width // 2, size, function="silu")
        yield residual(width // 2, size)
        yield "concat", {"channels": width // 2, "in_size": size}
        before = width
    yield "max_pool2d", {"channels": 256, "in_size": size, "kernel_size": 5, "padding": 2}
    yield "concat", {"inputs": 4, "channels": 256, "in_size": size}
    for width in (256, 128):
        yield "upsample", {"channels": width, "in_size": size, "scale_factor": 2}
        size *= 2
        yield "concat", {"channels": width, "in_size": size}
        yield from normalised(2 * width, width, size, kernel=1, function="silu")
        yield activation("sigmoid", 85 * 3, size)


def segmenter() -> Recipe:
    """Dilated convolutions side by side on a ResNet's features, and the way back to full size."""
    for dilation in (6, 12, 18):
        yield convolution(2048, 256, 33, dilation=dilation, bias=False)
    yield "adaptive_avg_pool2d", {"channels": 2048, "in_size": 33}
    for out_size in (1, 2, 3, 6):
        yield "adaptive_avg_pool2d", {"channels": 2048, "in_size": 60, "out_size": out_size}
    yield "upsample", {"mode": "bilinear", "channels": 256, "in_size": 1, "out_size": 33}
    yield "concat", {"inputs": 5, "channels": 256, "in_size": 33}
    yield from normalised(1280, 256, 33, kernel=1)
    yield "upsample", {"mode": "bilinear", "channels": 21, "in_size": 33, "out_size": 513}


def diffusion_u_net() -> Recipe:
    """Levels of a latent diffusion network at 64 x 64: group normalisation, silu, attention over pixels."""
    for width, size, heads in ((320, 64, 8), (640, 32, 8), (1280, 16, 8), (1280, 8, 8)):
        pixels = size * size
        yield "group_norm", {"channels": width, "groups": 32, "in_size": size}
        yield activation("silu", width, size)
        yield convolution(width, width, size)
        yield "elementwise", {"operation": "add", "broadcast": "per_row", "rows": width, "columns": pixels}
        head: dict[str, Scalar] = {"heads": heads, "head_size": width // heads, "query_length": pixels}
        yield "attention", {**head, "key_length": pixels}
        yield "attention", {**head, "key_length": 77}
        yield "layer_norm", {"features": width, "rows": pixels}
        yield "linear", {"in_features": width, "out_features": 8 * width, "rows": pixels}
        yield convolution(width, width, size, stride=2)
        yield "concat", {"channels": width, "in_size": size}
        yield "group_norm", {"channels": 2 * width, "groups": 32, "in_size": size}
        if size < 64:
            yield "upsample", {"channels": width, "in_size": size, "scale_factor": 2}


def video_resnet18() -> Recipe:
    """Clips of 16 frames at 112 x 112, with cubes and with cubes split into plane and time."""
    stem: dict[str, Scalar] = {"in_channels": 3, "out_channels": 64, "in_d": 16, "in_size": 112, "bias": False}
    yield "conv3d", {**stem, "kernel_d": 3, "kernel_h": 7, "kernel_w": 7, "stride_h": 2, "stride_w": 2, **SAME}
    before, depth, size = 64, 16, 56
    for width in (64, 128, 256, 512):
        stride = 1 if width == 64 else 2
        sizes: dict[str, Scalar] = {"in_channels": before, "in_d": depth, "in_size": size, "bias": False}
        yield "conv3d", {**sizes, "out_channels": width, "kernel_size": 3, "stride": stride, **SAME}
        if stride == 2:
            yield "conv3d", {**sizes, "out_channels": width, "kernel_size": 1, "stride": 2}
        before, depth, size = width, reduced(depth, stride), reduced(size, stride)
        sizes = {"in_channels": width, "in_d": depth, "in_size": size, "bias": False}
        yield "conv3d", {**sizes, "out_channels": width, "kernel_size": 3, **SAME}
        middle = 9 * width // 4
        yield "conv3d", {**sizes, "out_channels": middle, "kernel_d": 1, "kernel_h": 3, "kernel_w": 3, **SAME}
        yield (
            "conv3d",
            {
                **sizes,
                "in_channels": middle,
                "out_channels": width,
                "kernel_d": 3,
                "kernel_h": 1,
                "kernel_w": 1,
                **SAME,
            },
        )
        yield "activation", {"function": "relu", "elements": width * depth * size * size}
    yield "linear", {"in_features": 512, "out_features": 400}


DENSE_NETWORKS: Mapping[str, Callable[[], Recipe]] = {
    "u_net": u_net,
    "generator": generator,
    "detector": detector,
    "segmenter": segmenter,
    "diffusion_u_net": diffusion_u_net,
    "video_resnet18": video_resnet18,
}
