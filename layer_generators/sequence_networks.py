"""The layers of well-known text, vision-transformer and audio networks, as (kind, parameters)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from medn.core.values import Scalar
from medn.layer_generators.blocks import Description, Recipe


def _linear(before: int, after: int, rows: int, bias: bool = True) -> Description:
    return "linear", {"in_features": before, "out_features": after, "rows": rows, "bias": bias}


def _heads(width: int, heads: int, queries: int, keys: int, causal: bool = False) -> Recipe:
    """Attention in one piece, and the same taken apart into products and softmax; then heads side by side again."""
    size = width // heads
    lengths: dict[str, Scalar] = {"query_length": queries, "key_length": keys}
    yield "attention", {"heads": heads, "head_size": size, **lengths, "causal": causal}
    yield "matmul", {"matrices": heads, "rows": queries, "inner": size, "columns": keys}
    scores: dict[str, Scalar] = {"rows": heads * queries, "columns": keys}
    yield "elementwise", {"operation": "div", "broadcast": "scalar", **scores}
    yield "softmax", {"rows": heads * queries, "features": keys}
    yield "matmul", {"matrices": heads, "rows": queries, "inner": keys, "columns": size}
    if queries > 1:
        yield "copy", {"rows": heads, "columns": queries, "inner": size}


def _feed_forward(width: int, inner: int, tokens: int, function: str) -> Recipe:
    yield _linear(width, inner, tokens)
    yield "activation", {"function": function, "elements": tokens * inner}
    yield _linear(inner, width, tokens)


def _residual(width: int, tokens: int) -> Recipe:
    yield "elementwise", {"operation": "add", "rows": tokens, "columns": width}
    yield "layer_norm", {"features": width, "rows": tokens}


def encoder(width: int, heads: int, tokens: int, vocabulary: int = 30_522) -> Recipe:
    """BERT and its smaller sisters."""
    yield "embedding", {"vocabulary": vocabulary, "features": width, "tokens": tokens}
    yield "embedding", {"vocabulary": 512, "features": width, "tokens": tokens}
    yield "elementwise", {"operation": "add", "broadcast": "batch", "rows": tokens, "columns": width}
    yield "multihead_attention", {"embed_size": width, "heads": heads, "sequence_length": tokens}
    yield _linear(width, width, tokens)
    yield from _heads(width, heads, tokens, tokens)
    yield from _residual(width, tokens)
    yield from _feed_forward(width, 4 * width, tokens, "gelu")
    yield "reduction", {"function": "mean", "reduced": tokens, "inner": width}  # the embedding of a sentence
    yield _linear(width, width, 1)
    yield "activation", {"function": "tanh", "elements": width}


def gpt2(width: int = 768, heads: int = 12, tokens: int = 256) -> Recipe:
    """Once over a prompt, once for a single new token that sees it."""
    yield "embedding", {"vocabulary": 50_257, "features": width, "tokens": tokens}
    # The prompt's keys and values go into an empty cache, head by head.
    yield "copy", {"rows": tokens, "columns": heads, "inner": width // heads}
    for queries, causal in ((tokens, True), (1, False)):
        yield from _residual(width, queries)
        yield _linear(width, 3 * width, queries)
        yield from _heads(width, heads, queries, tokens, causal)
        yield _linear(width, width, queries)
        yield from _feed_forward(width, 4 * width, queries, "gelu_tanh")
        # Keys of the past and the new one, joined along the tokens of each head.
        yield "concat", {"first_channels": tokens, "other_channels": 1, "in_h": width // heads, "in_w": 1}
    yield _linear(width, 50_257, 1, bias=False)


def llama(width: int, heads: int, inner: int, tokens: int = 128) -> Recipe:
    """Gated feed-forward layers and root-mean-square normalisation, over a prompt and for a single new token."""
    yield "embedding", {"vocabulary": 32_000, "features": width, "tokens": tokens}
    for queries, causal in ((tokens, True), (1, False)):
        yield "rms_norm", {"features": width, "rows": queries}
        yield "reduction", {"function": "mean", "outer": queries, "reduced": width}  # the same, written by hand
        yield _linear(width, width, queries, bias=False)
        # Rotated positions: each half of a head is multiplied by its cosine.
        yield "elementwise", {"operation": "mul", "broadcast": "batch", "rows": queries, "columns": width // heads}
        yield from _heads(width, heads, queries, tokens, causal)
        yield "elementwise", {"operation": "add", "rows": queries, "columns": width}
        yield _linear(width, inner, queries, bias=False)
        yield "activation", {"function": "silu", "elements": queries * inner}
        yield "elementwise", {"operation": "mul", "rows": queries, "columns": inner}
        yield _linear(inner, width, queries, bias=False)


def vision_transformer(width: int, heads: int, patch: int = 16) -> Recipe:
    grid = 224 // patch
    tokens = grid * grid + 1
    patches: dict[str, Scalar] = {"in_channels": 3, "out_channels": width, "in_size": 224}
    yield "conv2d", {**patches, "kernel_size": patch, "stride": patch}
    yield "concat", {"first_channels": 1, "other_channels": tokens - 1, "in_h": width, "in_w": 1}
    yield "elementwise", {"operation": "add", "broadcast": "batch", "rows": tokens, "columns": width}
    yield from _residual(width, tokens)
    yield "multihead_attention", {"embed_size": width, "heads": heads, "sequence_length": tokens}
    yield _linear(width, 3 * width, tokens)
    yield from _heads(width, heads, tokens, tokens)
    yield _linear(width, width, tokens)
    yield from _feed_forward(width, 4 * width, tokens, "gelu")
    yield "reduction", {"function": "mean", "reduced": tokens, "inner": width}
    yield _linear(width, 1000, 1)


def swin_tiny() -> Recipe:
    """Attention inside windows of 7 x 7, and patches merged between the stages."""
    yield "conv2d", {"in_channels": 3, "out_channels": 96, "in_size": 224, "kernel_size": 4, "stride": 4}
    for width, size in ((96, 56), (192, 28), (384, 14), (768, 7)):
        tokens, windows, heads = size * size, (size // 7) ** 2, width // 32
        yield from _residual(width, tokens)
        along = size // 7
        if along > 1:
            yield "copy", {"outer": along, "rows": 7, "columns": along, "inner": 7 * width}
            yield "copy", {"outer": along, "rows": along, "columns": 7, "inner": 7 * width}
        yield _linear(width, 3 * width, tokens)
        yield "copy", {"outer": windows, "rows": 49, "columns": heads, "inner": 32}
        yield "copy", {"outer": windows, "rows": 49, "columns": width}
        yield "copy", {"rows": 49 * 49, "columns": heads}
        yield "attention", {"heads": windows * heads, "head_size": 32, "query_length": 49, "key_length": 49}
        yield "matmul", {"matrices": windows * heads, "rows": 49, "inner": 32, "columns": 49}
        yield "softmax", {"rows": windows * heads * 49, "features": 49}
        yield "copy", {"outer": windows, "rows": heads, "columns": 49, "inner": 32}
        yield _linear(width, width, tokens)
        yield from _feed_forward(width, 4 * width, tokens, "gelu")
        if width < 768:
            yield "copy", {"outer": size // 2, "rows": 2, "columns": size, "inner": width}
            yield "layer_norm", {"features": 4 * width, "rows": tokens // 4}
            yield _linear(4 * width, 2 * width, tokens // 4, bias=False)


def whisper_base() -> Recipe:
    """Speech to text: two convolutions, an encoder over 1500 frames, a decoder that looks at them."""
    for channels, length, stride in ((80, 3000, 1), (512, 3000, 2)):
        sizes: dict[str, Scalar] = {"in_channels": channels, "out_channels": 512, "in_size": length}
        yield "conv1d", {**sizes, "kernel_size": 3, "stride": stride, "padding": 1}
    yield from _residual(512, 1500)
    yield "multihead_attention", {"embed_size": 512, "heads": 8, "sequence_length": 1500}
    yield from _heads(512, 8, 1500, 1500)
    yield from _heads(512, 8, 1, 1500)
    yield from _heads(512, 8, 64, 64, causal=True)
    yield from _feed_forward(512, 2048, 1500, "gelu")


def wave_encoder() -> Recipe:
    """The strided convolutions that turn one second of sound into features."""
    channels, length = 1, 16_000
    for kernel, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)):
        sizes: dict[str, Scalar] = {"in_channels": channels, "out_channels": 512, "in_size": length}
        yield "conv1d", {**sizes, "kernel_size": kernel, "stride": stride, "bias": False}
        channels, length = 512, (length - kernel) // stride + 1
        yield "group_norm", {"channels": 512, "groups": 512, "in_h": length, "in_w": 1}
        yield "activation", {"function": "gelu", "elements": 512 * length}
    position: dict[str, Scalar] = {"in_channels": 768, "out_channels": 768, "in_size": length, "groups": 16}
    yield "conv1d", {**position, "kernel_size": 128, "padding": 64}


def dilated_audio() -> Recipe:
    """Dilated convolutions over sound with gates, and depthwise ones as in speech recognisers."""
    for dilation in (1, 2, 4, 8, 16):
        sizes: dict[str, Scalar] = {"in_channels": 64, "out_channels": 128, "in_size": 4096}
        yield "conv1d", {**sizes, "kernel_size": 3, "dilation": dilation, "same_padding": True}
        yield "activation", {"function": "tanh", "elements": 64 * 4096}
        yield "activation", {"function": "sigmoid", "elements": 64 * 4096}
        yield "elementwise", {"operation": "mul", "rows": 64, "columns": 4096}
    for channels in (144, 256, 512):
        depthwise: dict[str, Scalar] = {"in_channels": channels, "in_size": 400, "kernel_size": 31}
        yield "conv1d", {**depthwise, "depthwise": True, "same_padding": True}
        yield "conv1d", {"in_channels": channels, "out_channels": 2 * channels, "in_size": 400, "kernel_size": 1}
        yield "activation", {"function": "leaky_relu", "elements": channels * 400}


def recurrent_language_model(kind: str) -> Recipe:
    """Next-word prediction of several sizes, and a bidirectional reader of whole sentences."""
    for width, steps in ((200, 20), (650, 35), (1150, 70)):
        yield "embedding", {"vocabulary": 10_000, "features": width, "tokens": steps}
        yield kind, {"input_size": width, "hidden_size": width, "num_layers": 2, "sequence_length": steps}
        yield kind, {"input_size": width, "hidden_size": width, "sequence_length": 1}
        yield _linear(width, 10_000, steps)
    for features, width, steps in ((300, 256, 40), (672, 800, 100), (80, 256, 200), (26, 128, 32)):
        sizes: dict[str, Scalar] = {"input_size": features, "hidden_size": width, "sequence_length": steps}
        yield kind, {**sizes, "bidirectional": True}


def attention_modules() -> Recipe:
    """Shapes in which published networks call self-attention with its projections."""
    for width, heads, tokens in ((256, 8, 100), (256, 8, 850), (512, 8, 77), (768, 12, 50), (512, 8, 64), (128, 4, 49)):
        yield "multihead_attention", {"embed_size": width, "heads": heads, "sequence_length": tokens}


def patch_copies() -> Recipe:
    """What MobileViT copies to attend over the pixels at one place of every 2 x 2 patch, and to get its image back."""
    heads = 4
    for width, size in ((144, 32), (192, 16), (240, 8)):
        across, tokens = size // 2, size * size // 4
        yield "copy", {"outer": width * across, "rows": 2, "columns": across, "inner": 2}
        yield "copy", {"outer": 4, "rows": heads, "columns": tokens, "inner": width // heads}
        yield "copy", {"rows": 4 * tokens, "columns": width}
        yield "copy", {"outer": width * across, "rows": across, "columns": 2, "inner": 2}


def small_language_models() -> Recipe:
    """Root-mean-square normalisation in the widths of language models that fit small devices."""
    for width in (576, 896, 1536, 2048, 3072):
        for tokens in (1, 64):
            yield "rms_norm", {"features": width, "rows": tokens}


def grouped_heads() -> Recipe:
    """Language models whose heads share keys and values, over a prompt and for a single new token; one has a window."""
    shapes = ((9, 3, 64, 0), (14, 2, 64, 0), (32, 8, 64, 0), (12, 2, 128, 0), (16, 8, 128, 0), (8, 4, 256, 512))
    for heads, kv_heads, size, window in shapes:
        for tokens in (128, 1024):
            grouped: dict[str, Scalar] = {"heads": heads, "kv_heads": kv_heads, "head_size": size, "key_length": tokens}
            yield "attention", {**grouped, "query_length": tokens, "causal": True, "window": window}
            yield "attention", {**grouped, "query_length": 1}


SEQUENCE_NETWORKS: Mapping[str, Callable[[], Recipe]] = {
    "bert_base": partial(encoder, 768, 12, 128),
    "bert_small": partial(encoder, 512, 8, 128),
    "bert_tiny": partial(encoder, 128, 2, 64),
    "gpt2": gpt2,
    "llama_7b": partial(llama, 4096, 32, 11_008),
    "llama_1b": partial(llama, 2048, 32, 5632),
    "vit_base_16": partial(vision_transformer, 768, 12),
    "vit_small_16": partial(vision_transformer, 384, 6),
    "vit_tiny_16": partial(vision_transformer, 192, 3),
    "swin_tiny": swin_tiny,
    "whisper_base": whisper_base,
    "wave_encoder": wave_encoder,
    "dilated_audio": dilated_audio,
    "lstm_language_model": partial(recurrent_language_model, "lstm"),
    "gru_language_model": partial(recurrent_language_model, "gru"),
    "attention_modules": attention_modules,
    "patch_copies": patch_copies,
    "small_language_models": small_language_models,
    "grouped_heads": grouped_heads,
}
