"""How an encoder of programs learns: whole tasks at a time, so that their programs can be ranked."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from medn.core.table import Array
from medn.network.moments import moment_discrepancy
from medn.programs.encodings import ENCODINGS
from medn.programs.forms.sequence_encoder import SequenceEncoder
from medn.programs.losses import efficiency_loss, latency_loss, ranking_loss
from medn.programs.network import Decoded, EncoderDesign, ProgramBatch, ProgramNetwork
from medn.programs.pooled_nests import program_rates
from medn.programs.programs import MeasuredPrograms

WARM_UP, FIRST_RATE = 0.3, 0.04
"""The part of a fit in which the learning rate grows, and the share of the largest that it begins with."""


@dataclass(frozen=True)
class Teaching:
    """How long an encoder learns, and how much each loss counts."""

    design: EncoderDesign = field(default_factory=EncoderDesign)
    epochs: int = 60
    seconds: float = math.inf
    learning_rate: float = 2e-3
    weight_decay: float = 0.02
    rank_weight: float = 0.3
    efficiency_weight: float = 0.1
    moment_weight: float = 0.0
    """Of the discrepancy to rows without targets, where some are given."""
    unseen_share: float = 0.1
    """Of the rows, those whose device is hidden, so that there is an answer for devices that nobody has seen."""
    batch_rows: int = 192
    seed: int = 0
    clock: Callable[[], float] = time.process_time


@dataclass(frozen=True, eq=False)
class Targets:
    log_latency: Tensor
    log_efficiency: Tensor
    groups: Tensor


def fit_encoder(
    encoding: str,
    train: MeasuredPrograms,
    validation: MeasuredPrograms,
    devices: tuple[str, ...],
    teaching: Teaching,
    unlabelled: MeasuredPrograms | None = None,
) -> SequenceEncoder:
    """The encoder as it was when it erred least on the validation programs; as it is in the end without any.

    Where the seconds suffice for fewer epochs, the learning rate falls to nothing by the last of them.
    """
    chosen = ENCODINGS[encoding]
    torch.manual_seed(teaching.seed)
    rows = chosen.rows(train.programs, devices)
    rates = program_rates(rows, train.latency_s, len(devices)) if encoding == "nests" else None
    network = ProgramNetwork(rows, chosen.token_size, len(devices), chosen.adds_up, teaching.design, rates)
    batch, targets = network.batch(rows), _targets(train)
    other = None if unlabelled is None else network.batch(chosen.rows(unlabelled.programs, devices))
    random = np.random.default_rng(teaching.seed)
    with torch.no_grad():  # begin at the usual multiple, as far as a loss that is bent need not walk
        shift = (targets.log_latency - network(batch.take(_first(batch))).log_latency.mean()).mean()
        network.latency.bias.add_(shift)
    optimizer = torch.optim.AdamW(network.parameters(), teaching.learning_rate, weight_decay=teaching.weight_decay)
    judge = _judge(network, chosen.rows(validation.programs, devices), validation) if len(validation) else None
    least, best = math.inf, copy.deepcopy(network.state_dict())
    began, epoch, epochs = teaching.clock(), 0, teaching.epochs
    batches = math.ceil(len(train) / teaching.batch_rows)
    while epoch < epochs:
        network.train()
        for number, places in enumerate(_batches(targets.groups.numpy(), teaching.batch_rows, random)):
            optimizer.param_groups[0]["lr"] = teaching.learning_rate * one_cycle((epoch + number / batches) / epochs)
            loss = _loss(network, batch, targets, places, teaching, other, random)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        epoch += 1
        network.eval()
        error = judge() if judge else -math.inf
        if error <= least:
            least, best = error, copy.deepcopy(network.state_dict())
        spent = max(teaching.clock() - began, 1e-9)
        epochs = math.floor(min(epochs, max(epoch, teaching.seconds * epoch / spent)))
    network.load_state_dict(best)
    return network.export()


def one_cycle(progress: float) -> float:
    """The learning rate over its largest: up for the first part of a fit, then down to nothing at its end.

    >>> [round(one_cycle(at), 2) for at in (0.0, 0.3, 0.65, 1.0)]
    [0.04, 1.0, 0.5, 0.0]
    """
    if progress < WARM_UP:
        return FIRST_RATE + (1 - FIRST_RATE) * (1 - math.cos(math.pi * progress / WARM_UP)) / 2
    return (1 + math.cos(math.pi * min(1.0, (progress - WARM_UP) / (1 - WARM_UP)))) / 2


def _first(batch: ProgramBatch) -> Tensor:
    return torch.arange(min(len(batch.work), 2000))


def _targets(programs: MeasuredPrograms) -> Targets:
    log_latency = np.log(programs.latency_s)
    work = np.log([program.work_s for program in programs.programs])
    return Targets(
        torch.from_numpy(log_latency.astype(np.float32)),
        torch.from_numpy((work - log_latency).astype(np.float32)),
        torch.from_numpy(programs.groups),
    )


def _batches(groups: Array, rows: int, random: np.random.Generator) -> Iterator[Tensor]:
    """Whole tasks on a device, in a new order, as many as make up a batch."""
    order = np.argsort(random.permutation(int(groups.max()) + 1)[groups], kind="stable")
    for at in range(0, len(order), rows):
        yield torch.from_numpy(order[at : at + rows])


def _loss(
    network: ProgramNetwork,
    batch: ProgramBatch,
    targets: Targets,
    places: Tensor,
    teaching: Teaching,
    other: ProgramBatch | None,
    random: np.random.Generator,
) -> Tensor:
    hidden = torch.from_numpy(random.random(len(places)) < teaching.unseen_share)
    decoded: Decoded = network(batch.take(places).hiding(hidden, network.latency.out_features - 1))
    log_latency = targets.log_latency[places]
    loss = latency_loss(decoded, log_latency)
    if teaching.rank_weight:
        groups = torch.unique(targets.groups[places], return_inverse=True)[1]
        loss = loss + teaching.rank_weight * ranking_loss(decoded.score, log_latency, groups)
    if teaching.efficiency_weight:
        loss = loss + teaching.efficiency_weight * efficiency_loss(decoded, targets.log_efficiency[places])
    if teaching.moment_weight and other is not None:
        drawn = torch.from_numpy(random.integers(0, len(other.work), len(places)))
        loss = loss + teaching.moment_weight * moment_discrepancy(decoded.encoded, network(other.take(drawn)).encoded)
    return loss


def _judge(network: ProgramNetwork, rows: Array, validation: MeasuredPrograms) -> Callable[[], float]:
    batch = network.batch(rows)
    latency = torch.from_numpy(validation.latency_s)

    def error() -> float:
        with torch.no_grad():
            parts = torch.split(torch.arange(len(latency)), 2000)
            found = torch.cat([network(batch.take(part)).log_latency for part in parts])
        return float((torch.exp(found) / latency - 1).abs().mean())

    return error
