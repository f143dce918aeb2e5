"""The encoder of programs in torch, to be trained; `medn.programs.forms.sequence_encoder` is what it becomes.

Encoder and device branch are shared. Decoders tell the latency, with a head for each device whose targets are masked
where a row is of another; the efficiency; and which of two programs of a task is faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from medn.core.table import Array
from medn.programs.encodings import DEVICE, HEAD, WORK, as_tokens
from medn.programs.forms.sequence_encoder import LARGEST_INPUT, RATES, SequenceEncoder, token_times, waves


@dataclass(frozen=True)
class EncoderDesign:
    """What an encoder is like."""

    width: int = 64
    blocks: int = 2
    heads: int = 4
    use_positions: bool = True
    use_device: bool = True
    """Without it one head answers for all devices."""


@dataclass(frozen=True, eq=False)
class ProgramBatch:
    """Rows as the network takes them."""

    sizes: Tensor
    work: Tensor
    device: Tensor
    mask: Tensor
    waves: Tensor
    tokens: Tensor
    times: Tensor
    """What each token takes by the rates of its device, and by those of any device, over the work; 0 without rates."""

    def take(self, rows: Tensor) -> ProgramBatch:
        mask = self.mask[rows]
        used = max(1, int(mask.sum(dim=1).max()))
        return ProgramBatch(
            self.sizes[rows],
            self.work[rows],
            self.device[rows],
            mask[:, :used],
            self.waves[rows, :used],
            self.tokens[rows, :used],
            self.times[rows, :used],
        )

    def hiding(self, rows: Tensor, unknown: int) -> ProgramBatch:
        """The same with some rows of a device that is not known."""
        times = torch.where(rows[:, None, None], self.times[..., 1:].expand_as(self.times), self.times)
        return replace(self, device=torch.where(rows, unknown, self.device), times=times)


class EncoderBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.gather = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        rows, length, width = x.shape
        mixed = self.mix(self.first_norm(x)).reshape(rows, length, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        kept = (mask > 0)[:, None, None]
        found = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=kept)
        x = x + self.gather(found.transpose(1, 2).reshape(rows, length, width))
        narrowed: Tensor = self.narrow(torch.relu(self.widen(self.second_norm(x))))
        return x + narrowed


@dataclass(frozen=True, eq=False)
class Decoded:
    log_latency: Tensor
    log_efficiency: Tensor
    score: Tensor
    encoded: Tensor
    """What the encoder made of the program."""


class ProgramNetwork(nn.Module):
    def __init__(
        self,
        rows: Array,
        token_size: int,
        devices: int,
        adds_up: bool,
        design: EncoderDesign,
        rates: Array | None = None,
    ) -> None:
        """`rows` are those to learn from, which tell how numbers are spread. `rates` has a row for each device and one
        for any other: what is learned is then a multiple of the time that follows from them."""
        super().__init__()
        self.rates = None if rates is None else rates.astype(np.float32)
        self.token_size, self.adds_up, self.design = token_size, adds_up, design
        head, mask, _, vectors = as_tokens(rows, token_size)
        seen, sizes = vectors[mask > 0], head[:, WORK:]
        self.mean, self.scale = seen.mean(axis=0), _spread(seen)
        self.head_mean, self.head_scale = sizes.mean(axis=0), _spread(sizes)
        width = design.width
        self.token, self.sizes = nn.Linear(token_size, width), nn.Linear(HEAD - 1, width)
        self.device = nn.Embedding(devices + 1, width)
        nn.init.normal_(self.device.weight, std=0.02)
        self.blocks = nn.ModuleList(EncoderBlock(width, design.heads) for _ in range(design.blocks))
        self.last_norm = nn.LayerNorm(width)
        self.latency, self.efficiency = nn.Linear(width, devices + 1), nn.Linear(width, 1)
        self.rank = nn.Linear(width, 1)

    def batch(self, rows: Array) -> ProgramBatch:
        head, mask, positions, vectors = as_tokens(np.asarray(rows, dtype=np.float32), self.token_size)
        tokens = np.clip((vectors - self.mean) / self.scale, -LARGEST_INPUT, LARGEST_INPUT)
        sizes = np.clip((head[:, WORK:] - self.head_mean) / self.head_scale, -LARGEST_INPUT, LARGEST_INPUT)
        last = self.latency.out_features - 1
        device = head[:, DEVICE].astype(np.int64)
        device = np.where((device >= 0) & self.design.use_device, device, last)
        placed = waves(positions, self.design.width) * np.float32(self.design.use_positions)
        times = np.zeros((*mask.shape, 2), dtype=np.float32)
        if self.rates is not None:
            of_rows = self.rates[device][:, None], self.rates[-1]
            times += np.stack([token_times(vectors, each) for each in of_rows], axis=-1) - head[:, WORK, None, None]
        arrays = (sizes, head[:, WORK], device, mask, placed, tokens, times)
        return ProgramBatch(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))

    def forward(self, batch: ProgramBatch) -> Decoded:
        x = self.token(batch.tokens) + batch.waves
        x = x + (self.sizes(batch.sizes) + self.device(batch.device))[:, None]
        for block in self.blocks:
            x = block(x, batch.mask)
        x = self.last_norm(x)
        pooled = (x * batch.mask[..., None]).sum(dim=1) / batch.mask.sum(dim=1, keepdim=True)
        rows = torch.arange(len(x))
        if self.adds_up:
            times = self.latency(x)[rows, :, batch.device] + batch.times[..., 0]
            multiple = torch.logsumexp(times.masked_fill(batch.mask == 0, -torch.inf), dim=1)
        else:
            multiple = self.latency(pooled)[rows, batch.device]
        return Decoded(multiple + batch.work, self.efficiency(pooled)[:, 0], self.rank(pooled)[:, 0], pooled)

    def export(self) -> SequenceEncoder:
        """The form that ships: without the decoder that only taught the encoder."""
        kept = {
            name: value.detach().numpy().astype(np.float32)
            for name, value in self.state_dict().items()
            if not name.startswith("efficiency.")
        }
        if not self.design.use_device:  # one head for all of them, whichever is asked for
            for name in ("latency.weight", "latency.bias", "device.weight"):
                kept[name] = kept[name][-1:]
        known = {"mean": self.mean, "scale": self.scale, "head_mean": self.head_mean, "head_scale": self.head_scale}
        flag = np.array([float(self.design.use_positions)], dtype=np.float32)
        arrays = {**kept, **known, "use_positions": flag}
        if self.rates is not None:
            arrays[RATES] = self.rates if self.design.use_device else self.rates[-1:]
        return SequenceEncoder(arrays, self.token_size, self.design.heads, self.adds_up)


def _spread(seen: Array) -> Array:
    """Standard deviations, with 1 for what never changes."""
    spread = seen.std(axis=0)
    return np.where(spread > 1e-6, spread, 1.0).astype(np.float32)
