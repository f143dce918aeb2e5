"""Training one network for several devices: an encoder that all share, and a decoder of its own for each.

The targets of a row are masked but for the device that it was measured on. A new device gets a decoder more, and the
training goes on: with its rows alone, with those of known devices between them, or with a term that keeps what the
encoder makes of the new device's layers alike in its moments to what it makes of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from medn.core.table import Array
from medn.network.design import Design, Schedule
from medn.network.modules import EntryLayer, Residual, Step, Waves, as_array, steps_of
from medn.network.moments import moment_discrepancy
from medn.network.training import LARGEST_GRADIENT, RESERVE, TIMED_STEPS, WARM_STEPS, one_cycle, torch_threads

PASSES = 12
"""Over many rows; more of them tell a new device no more."""
LEAST_STEPS = 1_500


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of one sort to learn from: encoded inputs, logarithms, and whose decoder is meant."""

    encoded: Tensor
    logs: Tensor
    device: Tensor

    @classmethod
    def of(cls, encoded: NDArray[np.floating], logs: Array, device: NDArray[np.integer]) -> Batch:
        return cls(
            torch.tensor(encoded, dtype=torch.float32),
            torch.tensor(logs, dtype=torch.float32),
            torch.tensor(device, dtype=torch.int64),
        )

    def some(self, count: int, random: torch.Generator) -> Batch:
        rows = torch.randint(len(self.encoded), (min(count, len(self.encoded)),), generator=random)
        return Batch(self.encoded[rows], self.logs[rows], self.device[rows])


class AcrossDevices(nn.Module):
    """One encoder, and a column of the last matrix for each device."""

    def __init__(self, design: Design, encoded_width: int, numeric: int, devices: int) -> None:
        super().__init__()
        width = encoded_width + 2 * design.frequencies * numeric
        self.waves = Waves(numeric, design.frequencies, design.frequency_spread)
        self.entry = EntryLayer(nn.Linear(width, design.width), has_scale=False, common=None, shared=None)
        self.blocks = [Residual(design.width, design.hidden) for _ in range(design.blocks)]
        self.encoder = nn.Sequential(self.waves, self.entry, *self.blocks, nn.SiLU())
        self.decoders = nn.Linear(design.width, devices)

    def forward(self, batch: Batch, represented: Tensor) -> Tensor:
        """What the decoder of each row's own device says; those of others are masked."""
        said: Tensor = self.decoders(represented).gather(1, batch.device[:, None])[:, 0]
        return said

    def steps(self) -> list[Step]:
        return steps_of(self.encoder)


def restored(steps: Sequence[tuple[str, Mapping[str, NDArray[Any]]]], weight: Array, bias: Array) -> AcrossDevices:
    """A network as its steps and decoders tell it, ready to be trained further."""
    (_, waves), (_, entry), *blocks, _ = steps
    frequencies = waves["frequencies"]
    design = Design(
        width=weight.shape[0],
        blocks=len(blocks),
        hidden=blocks[0][1]["up_bias"].size if blocks else 1,
        frequencies=frequencies.shape[1],
    )
    columns = entry["weight"].shape[0] - 2 * frequencies.size
    network = AcrossDevices(design, columns, frequencies.shape[0], weight.shape[1])
    dense = [(network.entry.own, entry, "")]
    for module, (_, arrays) in zip(network.blocks, blocks, strict=True):
        dense += [(module.up, arrays, "up_"), (module.down, arrays, "down_")]
    with torch.no_grad():
        network.waves.frequencies.copy_(torch.tensor(frequencies))
        for layer, arrays, prefix in dense:
            layer.weight.copy_(torch.tensor(arrays[f"{prefix}weight"].T))
            layer.bias.copy_(torch.tensor(arrays[f"{prefix}bias"]))
        network.decoders.weight.copy_(torch.tensor(weight.T))
        network.decoders.bias.copy_(torch.tensor(bias))
    return network


def learn_devices(
    encoded: NDArray[np.floating],
    logs: Array,
    device: NDArray[np.integer],
    numeric: int,
    *,
    seed: int,
    seconds_left: Callable[[], float],
    threads: int = 1,
) -> tuple[list[Step], Array, Array]:
    """A network for rows of several devices: the steps of its encoder, weights and constants of its decoders."""
    design, schedule = Design(), Schedule()
    count = int(device.max()) + 1
    middle = np.array([logs[device == place].mean() for place in range(count)])
    spread = np.array([logs[device == place].std() + 1e-6 for place in range(count)])
    rows = Batch.of(encoded, (logs - middle[device]) / spread[device], device)
    with torch.random.fork_rng(devices=[]), torch_threads(threads):
        torch.manual_seed(seed)
        network = AcrossDevices(design, encoded.shape[1], numeric, count)
        size = schedule.batch_rows(len(encoded))
        planned = max(math.ceil(PASSES * len(encoded) / size), LEAST_STEPS)
        optimizer = _optimizer(network, schedule.learning_rate, schedule.decay(len(encoded)))
        random = torch.Generator().manual_seed(seed)
        done, before = 0, seconds_left()
        while done < planned:
            for group in optimizer.param_groups:
                group["lr"] = schedule.learning_rate * one_cycle(done / planned)
            batch = rows.some(size, random)
            said = network(batch, network.encoder(batch.encoded))
            _descend(network, optimizer, (said - batch.logs).abs().mean())
            done += 1
            if done == WARM_STEPS:
                before = seconds_left()
            elif done == WARM_STEPS + TIMED_STEPS:  # the learning rate must come down in the time there is
                step_s = max((before - seconds_left()) / TIMED_STEPS, 1e-9)
                planned = min(planned, done + max(int(seconds_left() * (1 - RESERVE) / step_s), 0))
    weight, bias = (as_array(each).astype(np.float64) for each in (network.decoders.weight, network.decoders.bias))
    return network.steps(), np.asarray(weight.T * spread), np.asarray(bias * spread + middle)


class GoingOn:
    """A network of known devices trained further with the rows of a new one, whose decoder is the last."""

    def __init__(
        self,
        network: AcrossDevices,
        target: Batch,
        known: Batch | None,
        *,
        learning_rate: float,
        moment_weight: float,
        batch_rows: int,
        planned: int,
        seed: int,
    ) -> None:
        self.network, self.target, self.known = network, target, known
        self.moment_weight, self.batch_rows, self.planned = moment_weight, batch_rows, planned
        self.learning_rate = learning_rate
        self.random = torch.Generator().manual_seed(seed)
        self.optimizer = _optimizer(network, learning_rate, decay=0.0)
        self.done = 0

    def steps(self, count: int) -> None:
        for _ in range(count):
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate * one_cycle(self.done / self.planned)
            own = self.target.some(self.batch_rows, self.random)
            represented = self.network.encoder(own.encoded)
            loss = (self.network(own, represented) - own.logs).abs().mean()
            if self.known is not None:
                others = self.known.some(self.batch_rows, self.random)
                theirs = self.network.encoder(others.encoded)
                loss = loss + (self.network(others, theirs) - others.logs).abs().mean()
                if self.moment_weight:
                    loss = loss + self.moment_weight * moment_discrepancy(represented, theirs)
            _descend(self.network, self.optimizer, loss)
            self.done += 1

    def decoder(self) -> tuple[Array, float]:
        """That of the new device."""
        weight = as_array(self.network.decoders.weight[-1]).astype(np.float64)
        return weight, float(self.network.decoders.bias[-1].detach())

    def predict(self, encoded: NDArray[np.floating]) -> Array:
        with torch.no_grad():
            represented = self.network.encoder(torch.tensor(encoded, dtype=torch.float32))
            said: Array = self.network.decoders(represented)[:, -1].numpy().astype(np.float64)
        return said


def _optimizer(network: nn.Module, learning_rate: float, decay: float) -> torch.optim.Optimizer:
    named = list(network.named_parameters())
    decays = [own for name, own in named if name.endswith("weight")]
    others = [own for name, own in named if not name.endswith("weight")]
    groups = [{"params": decays, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, fused=True)


def _descend(network: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    nn.utils.clip_grad_norm_(network.parameters(), LARGEST_GRADIENT)
    optimizer.step()
