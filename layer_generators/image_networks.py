"""The layers of well-known image classifiers, from their published structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from medn.core.values import Scalar
from medn.layer_generators.blocks import (
    Recipe,
    activation,
    classifier,
    convolution,
    normalised,
    reduced,
    residual,
    squeeze_excite,
)


def vgg16(size: int = 224) -> Recipe:
    before = 3
    for channels, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convolutions):
            yield convolution(before, channels, size)
            yield activation("relu", channels, size)
            before = channels
        yield "max_pool2d", {"channels": channels, "in_size": size, "kernel_size": 2, "stride": 2}
        size //= 2
    yield "adaptive_avg_pool2d", {"channels": 512, "in_size": size, "out_size": 7}
    for before, after in ((25_088, 4096), (4096, 4096), (4096, 1000)):
        yield "linear", {"in_features": before, "out_features": after}


def vgg_head() -> Recipe:
    """The linear layers of a VGG as others write them: convolutions that see all of their input at once."""
    for before, after, size in ((512, 4096, 7), (512, 1024, 7), (256, 4096, 7), (4096, 4096, 1), (1024, 4096, 1)):
        yield "conv2d", {"in_channels": before, "out_channels": after, "in_size": size, "kernel_size": size}
        yield activation("relu", after, 1)


def resnet(blocks: tuple[int, ...], bottleneck: bool, groups: int = 1, group_width: int = 64) -> Recipe:
    yield from normalised(3, 64, 224, kernel=7, stride=2)
    yield "max_pool2d", {"channels": 64, "in_size": 112, "kernel_size": 3, "stride": 2, "padding": 1}
    before, size = 64, 56
    for stage, repeats in enumerate(blocks):
        width = 64 * 2**stage
        after = 4 * width if bottleneck else width
        for block in range(repeats):
            stride = 2 if stage and not block else 1
            if bottleneck:
                inner = width * groups * group_width // 64
                yield from normalised(before, inner, size, kernel=1)
                yield from normalised(inner, inner, size, stride=stride, groups=groups)
                yield from normalised(inner, after, reduced(size, stride), kernel=1, function=None)
            else:
                yield from normalised(before, width, size, stride=stride)
                yield from normalised(width, width, reduced(size, stride), function=None)
            if before != after:
                yield from normalised(before, after, size, kernel=1, stride=stride, function=None)
            before, size = after, reduced(size, stride)
            yield residual(after, size)
            yield activation("relu", after, size)
    yield from classifier(before, size)


def mobilenet_v2() -> Recipe:
    yield from normalised(3, 32, 224, stride=2, function="relu6")
    before, size = 32, 112
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, channels, repeats, first_stride in stages:
        for block in range(repeats):
            stride, wide = (1 if block else first_stride), before * expansion
            if expansion > 1:
                yield from normalised(before, wide, size, kernel=1, function="relu6")
            yield from normalised(wide, wide, size, stride=stride, groups=wide, function="relu6")
            size = reduced(size, stride)
            yield from normalised(wide, channels, size, kernel=1, function=None)
            if stride == 1 and before == channels:
                yield residual(channels, size)
            before = channels
    yield from normalised(before, 1280, size, kernel=1, function="relu6")
    yield from classifier(1280, size)


def mobilenet_v3() -> Recipe:
    """The large one: hardswish, and squeeze-excite with a hard sigmoid."""
    yield from normalised(3, 16, 224, stride=2, function="hardswish")
    before, size = 16, 112
    rows = (
        *((3, 16, 16, 0, "relu", 1), (3, 64, 24, 0, "relu", 2), (3, 72, 24, 0, "relu", 1)),
        *((5, 72, 40, 24, "relu", 2), *[(5, 120, 40, 32, "relu", 1)] * 2),
        *((3, 240, 80, 0, "hardswish", 2), (3, 200, 80, 0, "hardswish", 1), *[(3, 184, 80, 0, "hardswish", 1)] * 2),
        *((3, 480, 112, 120, "hardswish", 1), (3, 672, 112, 168, "hardswish", 1)),
        *((5, 672, 160, 168, "hardswish", 2), *[(5, 960, 160, 240, "hardswish", 1)] * 2),
    )
    for kernel, wide, channels, squeezed, function, stride in rows:
        if wide != before:
            yield from normalised(before, wide, size, kernel=1, function=function)
        yield from normalised(wide, wide, size, kernel, stride, groups=wide, function=function)
        size = reduced(size, stride)
        if squeezed:
            yield from squeeze_excite(wide, squeezed, size, "relu", "hardsigmoid")
        yield from normalised(wide, channels, size, kernel=1, function=None)
        if stride == 1 and before == channels:
            yield residual(channels, size)
        before = channels
    yield from normalised(before, 960, size, kernel=1, function="hardswish")
    yield from classifier(960, size, 1280)


def efficientnet_b0() -> Recipe:
    yield from normalised(3, 32, 224, stride=2, function="silu")
    before, size = 32, 112
    stages = (
        *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
        *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
    )
    for expansion, channels, repeats, first_stride, kernel in stages:
        for block in range(repeats):
            stride, wide = (1 if block else first_stride), before * expansion
            if expansion > 1:
                yield from normalised(before, wide, size, kernel=1, function="silu")
            yield from normalised(wide, wide, size, kernel, stride, groups=wide, function="silu")
            size = reduced(size, stride)
            yield from squeeze_excite(wide, max(1, before // 4), size, "silu", "sigmoid")
            yield from normalised(wide, channels, size, kernel=1, function=None)
            if stride == 1 and before == channels:
                yield residual(channels, size)
            before = channels
    yield from normalised(before, 1280, size, kernel=1, function="silu")
    yield from classifier(1280, size)


def densenet121() -> Recipe:
    growth, before, size = 32, 64, 56
    yield from normalised(3, 64, 224, kernel=7, stride=2)
    yield "max_pool2d", {"channels": 64, "in_size": 112, "kernel_size": 3, "stride": 2, "padding": 1}
    for stage, repeats in enumerate((6, 12, 24, 16)):
        first = before
        for block in range(repeats):
            yield "batch_norm2d", {"channels": before, "in_size": size}
            yield activation("relu", before, size)
            yield from normalised(before, 4 * growth, size, kernel=1)
            yield convolution(4 * growth, growth, size, bias=False)
            joined: dict[str, Scalar] = {"inputs": block + 2, "first_channels": first, "other_channels": growth}
            yield "concat", {**joined, "in_size": size}
            before += growth
        if stage < 3:
            yield convolution(before, before // 2, size, kernel=1, bias=False)
            before //= 2
            yield "avg_pool2d", {"channels": before, "in_size": size, "kernel_size": 2, "stride": 2}
            size //= 2
    yield from classifier(before, size)


def inception() -> Recipe:
    """Blocks of Inception v3 with filters of 1 x 7 and 7 x 1, pools of stride 1, and branches that are joined."""
    for channels, size in ((192, 35), (256, 35), (288, 35)):
        yield from normalised(channels, 64, size, kernel=1)
        yield from normalised(48, 64, size, kernel=5)
        yield from normalised(64, 96, size)
        yield "avg_pool2d", {"channels": channels, "in_size": size, "kernel_size": 3, "padding": 1}
        yield "concat", {"inputs": 4, "first_channels": 64, "other_channels": 64, "in_size": size}
    yield "max_pool2d", {"channels": 288, "in_size": 35, "kernel_size": 3, "stride": 2}
    for inner in (128, 160, 192):
        yield from normalised(768, inner, 17, kernel=1)
        for height, width, after in ((1, 7, inner), (7, 1, inner), (1, 7, 192), (7, 1, 192)):
            sizes: dict[str, Scalar] = {"in_channels": inner, "out_channels": after, "in_size": 17}
            window: dict[str, Scalar] = {"kernel_h": height, "kernel_w": width, "same_padding": True, "bias": False}
            yield "conv2d", {**sizes, **window}
        yield "avg_pool2d", {"channels": 768, "in_size": 17, "kernel_size": 3, "padding": 1}
        yield "concat", {"inputs": 4, "channels": 192, "in_size": 17}
    yield from classifier(2048, 8)


def convnext_tiny() -> Recipe:
    yield "conv2d", {"in_channels": 3, "out_channels": 96, "in_size": 224, "kernel_size": 4, "stride": 4}
    for width, size in ((96, 56), (192, 28), (384, 14), (768, 7)):
        pixels = size * size
        yield convolution(width, width, size, kernel=7, groups=width)
        yield "layer_norm", {"features": width, "rows": pixels}
        yield "linear", {"in_features": width, "out_features": 4 * width, "rows": pixels}
        yield activation("gelu", 4 * width, size)
        yield "linear", {"in_features": 4 * width, "out_features": width, "rows": pixels}
        yield "elementwise", {"operation": "mul", "broadcast": "per_column", "rows": pixels, "columns": width}
        yield residual(width, size)
        if width < 768:
            down: dict[str, Scalar] = {"in_channels": width, "out_channels": 2 * width, "in_size": size}
            yield "conv2d", {**down, "kernel_size": 2, "stride": 2}
    yield from classifier(768, 7)


def poolformer_s12() -> Recipe:
    """Blocks of pixels that are averaged with their neighbours, then of products made as convolutions."""
    channels, before = 3, 224
    for width, size in ((64, 56), (128, 28), (320, 14), (512, 7)):
        window: dict[str, Scalar] = (
            {"kernel_size": 7, "stride": 4, "padding": 2}
            if channels == 3
            else {"kernel_size": 3, "stride": 2, "padding": 1}
        )
        yield "conv2d", {"in_channels": channels, "out_channels": width, "in_size": before, **window}
        yield "group_norm", {"channels": width, "groups": 1, "in_size": size}
        yield "avg_pool2d", {"channels": width, "in_size": size, "kernel_size": 3, "stride": 1, "padding": 1}
        yield residual(width, size, "sub")
        yield residual(width, size, "mul", "per_row")
        yield residual(width, size)
        yield convolution(width, 4 * width, size, kernel=1)
        yield activation("gelu", 4 * width, size)
        yield convolution(4 * width, width, size, kernel=1)
        yield residual(width, size, "mul", "per_row")
        yield residual(width, size)
        channels, before = width, size
    yield from classifier(512, 7)


IMAGE_NETWORKS: Mapping[str, Callable[[], Recipe]] = {
    "vgg16": vgg16,
    "vgg_head": vgg_head,
    "resnet18": partial(resnet, (2, 2, 2, 2), bottleneck=False),
    "resnet50": partial(resnet, (3, 4, 6, 3), bottleneck=True),
    "resnext50": partial(resnet, (3, 4, 6, 3), bottleneck=True, groups=32, group_width=4),
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3,
    "efficientnet_b0": efficientnet_b0,
    "densenet121": densenet121,
    "inception": inception,
    "convnext_tiny": convnext_tiny,
    "poolformer_s12": poolformer_s12,
}
