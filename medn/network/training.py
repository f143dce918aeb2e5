"""Training: a warm-up and a long cosine, an average of the weights beside them, and the best of both kept.

The plan follows the time there is: what a round costs is measured, and the learning rate comes down in time. Where the
time suffices for the whole plan, the same seed gives the same network. A round is some passes over all kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from medn.core.table import Array
from medn.network.design import Schedule
from medn.network.modules import LATENCY, Network
from medn.network.tasks import absolute, all_tasks, relative
from medn.network.vectors import vectors_of

Loss = Callable[[Tensor, Tensor], Tensor]

ROUND_STEPS = 50
"""A round has at least so many steps, so that small tables do not spend their time on validation."""
WARM_UP = 0.15
RESERVE = 0.05
"""Of the time, kept for what follows the training."""

WARM_STEPS = 5
TIMED_STEPS = 20
"""After the first few steps, so many tell how long one takes."""
LARGEST_GRADIENT = 1.0


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of one kind to learn from, and to check by."""

    encoded: Tensor
    targets: Mapping[str, Tensor]
    """Per task, one row per row; NaN where unknown."""
    checked: Tensor
    checked_logs: Tensor
    partly_known: frozenset[str] = frozenset()
    """Tasks that some rows have no target for."""

    @classmethod
    def of(cls, encoded: Array, targets: Mapping[str, Array], checked: Array, checked_logs: Array) -> Examples:
        def tensor(values: Array) -> Tensor:
            return torch.tensor(values, dtype=torch.float32)

        by_task = {task: tensor(values) for task, values in targets.items()}
        partly_known = frozenset(task for task, values in by_task.items() if values.isnan().any())
        return cls(tensor(encoded), by_task, tensor(checked), tensor(checked_logs), partly_known)


@dataclass
class Best:
    """The weights of a kind's path with the lowest validation error so far."""

    error: float = math.inf
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class TrainerState:
    """Where a training stands."""

    round: int = 0
    rounds: int = 0
    """Planned; only ever lowered, when the time will not suffice."""
    step: int = 0
    last_gain: int = 0
    """The round of the last better validation error."""


def train(
    network: Network,
    examples: Mapping[str, Examples],
    schedule: Schedule,
    *,
    seed: int,
    threads: int,
    seconds_left: Callable[[], float],
    report: Callable[[int, float], None],
) -> dict[str, Best]:
    """The best weights of each kind's path, as `Network.path` names them. The network itself is left as it ends up."""
    with torch_threads(threads):
        return _Training(network, examples, schedule, seed, seconds_left, report).run()


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def warm_up() -> None:
    """Do what torch does once: the first optimizer imports as much as torch itself."""
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)], fused=True)


class _Training:
    """One training under way."""

    def __init__(
        self,
        network: Network,
        examples: Mapping[str, Examples],
        schedule: Schedule,
        seed: int,
        seconds_left: Callable[[], float],
        report: Callable[[int, float], None],
    ) -> None:
        self.network, self.examples, self.schedule, self.seed = network, examples, schedule, seed
        self.seconds_left, self.report = seconds_left, report
        self.losses = {name: task.loss for name, task in all_tasks().items()}
        rows = sum(len(one.encoded) for one in examples.values())
        self.batch_rows = schedule.batch_rows(rows)
        steps = sum(math.ceil(len(one.encoded) / self.batch_rows) for one in examples.values())
        self.passes = math.ceil(ROUND_STEPS / steps)
        self.round_steps = steps * self.passes
        self.progress = TrainerState(rounds=max(math.ceil(schedule.passes(rows) / self.passes), 1))
        self.vectors = vectors_of(network)
        self.best = {kind: Best() for kind in examples}
        decay = schedule.decay(rows)
        self.optimizer = torch.optim.AdamW(
            [{"params": [vector.values], "weight_decay": decay if vector.decays else 0.0} for vector in self.vectors],
            lr=schedule.learning_rate,
            fused=True,
        )

    def run(self) -> dict[str, Best]:
        while not self._is_over():
            before = self.seconds_left()
            self._round()
            self._validate()
            self._plan(before - self.seconds_left())
            self.report(self.progress.round, float(np.mean([best.error for best in self.best.values()])))
        return self.best

    def _is_over(self) -> bool:
        progress = self.progress
        waited = progress.round - progress.last_gain
        return progress.round > 0 and (
            progress.round >= progress.rounds
            or waited > max(self.schedule.patience * progress.rounds, 2)
            or self.seconds_left() <= 0
        )

    def _plan(self, round_seconds: float) -> None:
        progress = self.progress
        progress.round += 1
        affordable = int(self.seconds_left() * (1 - RESERVE) / max(round_seconds, 1e-9))
        progress.rounds = min(progress.rounds, max(progress.round + affordable, 1))

    def _round(self) -> None:
        random = np.random.default_rng((self.seed, self.progress.round))
        steps = self.progress.rounds * self.round_steps
        before = self.seconds_left()
        for place, (kind, rows) in enumerate(self._batches(random)):
            self._step(kind, rows, self.progress.step / steps, steps)
            # The first step is always taken, so that there is something to keep.
            left = self.seconds_left()
            if left <= 0:
                return
            if self.progress.round == 0 and place == WARM_STEPS:
                before = left
            elif self.progress.round == 0 and place == WARM_STEPS + TIMED_STEPS:
                # On a large table the time may end within the first round: the learning rate must come down by then.
                affordable = int(left * (1 - RESERVE) / max((before - left) / TIMED_STEPS, 1e-9))
                steps = min(steps, self.progress.step + affordable + 1)

    def _batches(self, random: np.random.Generator) -> Iterator[tuple[str, Tensor]]:
        for _ in range(self.passes):
            batches = []
            for kind, one in self.examples.items():
                order = torch.from_numpy(random.permutation(len(one.encoded)))
                batches += [(kind, rows) for rows in torch.split(order, self.batch_rows)]
            yield from (batches[place] for place in random.permutation(len(batches)))

    def _step(self, kind: str, rows: Tensor, done: float, steps: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.learning_rate * one_cycle(done)
        gradients = self._fresh_gradients(kind)
        one = self.examples[kind]
        targets = {task: values[rows] for task, values in one.targets.items()}
        predicted = self.network(kind, one.encoded[rows])
        is_late = done >= 1 - self.schedule.relative_share
        losses = {
            task: _mean_loss(
                (relative if is_late else absolute) if task == LATENCY else self.losses[task],
                predicted[task],
                target,
                task in one.partly_known,
            )
            for task, target in targets.items()
        }
        loss = self._weighted(losses)
        torch.autograd.backward(loss)
        length = torch.stack([gradient.norm() for gradient in gradients]).norm()
        for gradient in gradients:
            gradient.mul_((LARGEST_GRADIENT / (length + 1e-6)).clamp(max=1.0))
        self.optimizer.step()
        self.progress.step += 1
        # A plain mean at first, then one over about the last fiftieth of the training.
        share = max(1 / self.progress.step, 50 / steps)
        for vector in self.vectors:
            vector.average.lerp_(vector.values, min(share, 1.0))

    def _fresh_gradients(self, kind: str) -> list[Tensor]:
        """Zeros, where a kind's gradients are summed up; the optimizer leaves alone what has none."""
        for vector in self.vectors:
            vector.values.grad = vector.gradient.zero_() if kind in vector.kinds else None
        return [vector.gradient for vector in self.vectors if kind in vector.kinds]

    def _weighted(self, losses: Mapping[str, Tensor]) -> Tensor:
        log_variances = self.network.log_variances
        if len(log_variances):
            weighted = [loss * (-log_variances[task]).exp() + log_variances[task] for task, loss in losses.items()]
            return torch.stack(weighted).sum()
        weight = self.network.task_weight or 0.0
        return losses[LATENCY] + weight * sum(
            (loss for task, loss in losses.items() if task != LATENCY), torch.zeros(())
        )

    def _validate(self) -> None:
        self._keep_if_better()
        current = [vector.values.clone() for vector in self.vectors]
        self._set_values([vector.average for vector in self.vectors])
        self._keep_if_better()
        self._set_values(current)

    def _error(self, path: nn.Module, one: Examples) -> float:
        if not len(one.checked):
            return 0.0
        with torch.no_grad():
            return float(relative(path(one.checked)[:, 0], one.checked_logs).mean())

    def _set_values(self, values: list[Tensor]) -> None:
        for vector, own in zip(self.vectors, values, strict=True):
            vector.values.copy_(own)

    def _keep_if_better(self) -> None:
        for kind, one in self.examples.items():
            path = self.network.path(kind)
            error = self._error(path, one)
            best = self.best[kind]
            # With nothing to choose by, the latest is the best.
            if error < best.error or not best.weights or not len(one.checked):
                self.progress.last_gain = self.progress.round
                best.error = error
                best.weights = {name: values.detach().clone() for name, values in path.state_dict().items()}


def _mean_loss(loss: Loss, predicted: Tensor, target: Tensor, is_partly_known: bool) -> Tensor:
    if not is_partly_known:
        return loss(predicted, target).mean()
    known = ~target.isnan()
    entries = loss(predicted, torch.where(known, target, predicted.detach()))
    return (entries * known).sum() / known.sum().clamp(min=1)


def one_cycle(done: float) -> float:
    """The learning rate's share of its highest value: up in a line, down in a cosine.

    >>> [round(one_cycle(done), 2) for done in (0, 0.15, 0.575, 1)]
    [0.04, 1.0, 0.5, 0.0]
    """
    if done < WARM_UP:
        return 0.04 + 0.96 * done / WARM_UP
    return 0.5 + 0.5 * math.cos(math.pi * min((done - WARM_UP) / (1 - WARM_UP), 1.0))
