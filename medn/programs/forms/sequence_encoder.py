"""A transformer encoder over the tokens of a program, with one head for each device, in NumPy.

Where tokens are stores, each gets a time of its own and the program takes their sum; where they are steps, their mean
tells. A second output ranks programs of a task. What is learned is a multiple of the layer's time at a fixed speed; or,
with rates, of the time that the components of each store take at the rates of the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import check_array, check_whole
from medn.core.table import Array
from medn.programs.encodings import DEVICE, HEAD, WORK, as_tokens
from medn.regressors.form import Form, Parts, forms

Floats = NDArray[Any]
"""In single precision."""

LARGEST_INPUT = 6.0
"""Standardised numbers are cut here: what was never seen must not lead far away."""
ROWS_AT_ONCE = 512
SHORTEST_S = np.float32(1e-12)
RATES = "rates"
LONGEST_WAVE = 1000.0
MOST_WIDTH, MOST_BLOCKS = 1024, 16


def token_times(vectors: Floats, rates: Floats) -> Floats:
    """The logarithms of what tokens take whose first numbers are the logarithms of components with a rate each."""
    count = rates.shape[-1]
    seconds = ((np.exp2(vectors[..., :count]) - 1) * rates).sum(axis=-1)
    times: Floats = np.log(np.maximum(seconds, SHORTEST_S))
    return times


def waves(positions: Floats, width: int) -> Floats:
    """Positions as sines and cosines of different wave lengths."""
    rates = np.exp(-np.log(LONGEST_WAVE) * np.arange(width // 2, dtype=np.float32) / (width // 2))
    angles = positions[..., None] * rates.astype(np.float32)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


@forms.register
class SequenceEncoder(Form):
    name = "sequence_encoder"
    description = "a transformer encoder over the parts of a tensor program"

    def __init__(self, arrays: dict[str, NDArray[Any]], token_size: int, heads: int, adds_up: bool) -> None:
        self.arrays = {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()}
        self.token_size = token_size
        self.heads = heads
        self.adds_up = adds_up
        """Whether the outputs of tokens are times that add up."""

    def log_value(self, inputs: Array) -> Array:
        return self.outputs(inputs)[0]

    def run(self, inputs: Array) -> Array:
        """There is no flat program of it: the arrays of a sequence are not columns."""
        return self.log_value(inputs)

    def rank_score(self, inputs: Array) -> Array:
        """Higher for programs that are faster than others of their task."""
        return self.outputs(inputs)[1]

    def outputs(self, inputs: Array) -> tuple[Array, Array]:
        blocks = [self._block(inputs[at : at + ROWS_AT_ONCE]) for at in range(0, len(inputs), ROWS_AT_ONCE)]
        values, scores = zip(*blocks, strict=True) if blocks else ((np.empty(0),), (np.empty(0),))
        return np.concatenate(values), np.concatenate(scores)

    def _block(self, inputs: Array) -> tuple[Array, Array]:
        given = self.arrays
        head, mask, positions, vectors = as_tokens(np.asarray(inputs, dtype=np.float32), self.token_size)
        used = max(1, int(mask.sum(axis=1).max(initial=1)))
        mask, positions, vectors = mask[:, :used], positions[:, :used], vectors[:, :used]
        device = self._device(head)
        x = np.clip((vectors - given["mean"]) / given["scale"], -LARGEST_INPUT, LARGEST_INPUT)
        x = self._linear("token", x)
        if self.arrays["use_positions"][0]:
            x = x + waves(positions, x.shape[-1])
        sizes = np.clip((head[:, WORK:] - given["head_mean"]) / given["head_scale"], -LARGEST_INPUT, LARGEST_INPUT)
        x = x + (self._linear("sizes", sizes) + given["device.weight"][device])[:, None]
        for block in range(self._blocks):
            x = x + self._attention(f"blocks.{block}.", self._norm(f"blocks.{block}.first_norm", x), mask)
            wide = self._linear(f"blocks.{block}.widen", self._norm(f"blocks.{block}.second_norm", x))
            x = x + self._linear(f"blocks.{block}.narrow", np.maximum(wide, 0))
        x = self._norm("last_norm", x)
        pooled = (x * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True).clip(min=1)
        score = self._linear("rank", pooled)[:, 0]
        rows = np.arange(len(x))
        if self.adds_up:
            times = self._linear("latency", x)[rows, :, device]
            if RATES in given:
                times = times + token_times(vectors, given[RATES][device][:, None]) - head[:, [WORK]]
            times = np.where(mask > 0, times, -np.inf)
            most = times.max(axis=1, keepdims=True)
            multiple = most[:, 0] + np.log(np.exp(times - most).sum(axis=1))
        else:
            multiple = self._linear("latency", pooled)[rows, device]
        return (multiple + head[:, WORK]).astype(np.float64), score.astype(np.float64)

    @property
    def _blocks(self) -> int:
        return sum(name.endswith("widen.weight") for name in self.arrays)

    def _device(self, head: Floats) -> NDArray[np.int64]:
        """The head of each row's device; the last one is of devices that nobody has seen."""
        last = len(self.arrays["latency.bias"]) - 1
        device = head[:, DEVICE].astype(np.int64)
        return np.where((device >= 0) & (device < last), device, last)

    def _linear(self, name: str, x: Floats) -> Floats:
        flat: Floats = x.reshape(-1, x.shape[-1]) @ self.arrays[f"{name}.weight"].T + self.arrays[f"{name}.bias"]
        return flat.reshape(*x.shape[:-1], -1)

    def _norm(self, name: str, x: Floats) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-5))
        scaled: Floats = centred / spread * self.arrays[f"{name}.weight"]
        return scaled + self.arrays[f"{name}.bias"]

    def _attention(self, name: str, x: Floats, mask: Floats) -> Floats:
        rows, length, width = x.shape
        mixed = self._linear(f"{name}mix", x).reshape(rows, length, 3, self.heads, width // self.heads)
        query, key, value = mixed.transpose(2, 0, 3, 1, 4)
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // self.heads))
        scores = np.where(mask[:, None, None] > 0, scores, np.float32(-1e9))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return self._linear(f"{name}gather", (weights @ value).transpose(0, 2, 1, 3).reshape(rows, length, width))

    def check(self, width: int) -> None:
        """Every array fits the others, so that any row of sequences can be evaluated."""
        check_whole("the size of a token", self.token_size, 1, 4096)
        if (width - HEAD) % (2 + self.token_size):
            raise ValueError(f"rows of {width} numbers are no sequences of tokens of {self.token_size}")
        size = len(self.arrays.get("token.bias", ()))
        check_whole("the width of an encoder", size, 2, MOST_WIDTH)
        check_whole("the blocks of an encoder", self._blocks, 0, MOST_BLOCKS)
        check_whole("the heads of an encoder", self.heads, 1, size)
        if size % self.heads or size % 2:
            raise ValueError(f"the width of an encoder must be even and a multiple of its heads (got {size})")
        for name, shape in self._shapes(size, len(self.arrays["latency.bias"])).items():
            if name not in self.arrays:
                raise ValueError(f"an encoder without {name}")
            check_array(f"{name} of an encoder", self.arrays[name], shape)
        if RATES in self.arrays:
            rates = self.arrays[RATES]
            count = min(rates.shape[-1], self.token_size)
            check_array("the rates of an encoder", rates, (len(self.arrays["latency.bias"]), count), low=0.0)

    def _shapes(self, size: int, devices: int) -> dict[str, tuple[int, ...]]:
        wide = [len(self.arrays.get(f"blocks.{block}.widen.bias", ())) for block in range(self._blocks)]
        linear = {
            "token": (size, self.token_size),
            "sizes": (size, HEAD - 1),
            "latency": (devices, size),
            "rank": (1, size),
        }
        norms = ["last_norm"]
        for block, own in enumerate(wide):
            linear |= {f"blocks.{block}.mix": (3 * size, size), f"blocks.{block}.gather": (size, size)}
            linear |= {f"blocks.{block}.widen": (own, size), f"blocks.{block}.narrow": (size, own)}
            norms += [f"blocks.{block}.first_norm", f"blocks.{block}.second_norm"]
        shapes: dict[str, tuple[int, ...]] = {f"{name}.weight": shape for name, shape in linear.items()}
        shapes |= {f"{name}.bias": shape[:1] for name, shape in linear.items()}
        shapes |= {f"{name}.{part}": (size,) for name in norms for part in ("weight", "bias")}
        shapes |= {"mean": (self.token_size,), "scale": (self.token_size,), "use_positions": (1,)}
        return shapes | {"head_mean": (HEAD - 1,), "head_scale": (HEAD - 1,), "device.weight": (devices, size)}

    def parts(self) -> Parts:
        facts = {"token_size": self.token_size, "heads": self.heads, "adds_up": self.adds_up}
        return Parts(self.name, facts, self.arrays)

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> SequenceEncoder:
        facts = parts.facts
        return cls(dict(parts.arrays), int(facts["token_size"]), int(facts["heads"]), bool(facts["adds_up"]))
