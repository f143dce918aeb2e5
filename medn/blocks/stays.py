"""Stays at the blocks of models while their layers are swept, spread over the sweep, each committed when it is made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from medn.core.child import ChildFailed
from medn.core.store import BlockVisit, MeasuredBlock, Store
from medn.core.values import Samples
from medn.devices.backend import backends
from medn.devices.requests import Client, Json
from medn.devices.transport import THIS_MACHINE
from medn.runs.folder import RunFolder

STAYS = 4
"""To every model, spread over a sweep: one alone may meet a bad moment of the machine."""
STAY_S = 2.5
SHARE = 0.15
"""Of a sweep's time, for all stays at blocks together; preparing them comes on top."""
SHORTEST_SWEEP_S = 45.0
"""A sweep that is shorter, for each model on each device, has no time to prepare blocks."""
PREPARE_S = 600.0
MEASURE_S = 120.0
"""When a program is taken to hang."""


@dataclass(frozen=True)
class Case:
    """A model whose blocks are timed: by its source, on a device, at a batch size."""

    source: str
    device: str
    batch_size: int | None
    threads: int

    def __str__(self) -> str:
        size = "" if self.batch_size is None else f" at batch size {self.batch_size}"
        return f"{self.source}{size} on {self.device}"


def cases_of(
    sources: Iterable[str], devices: Iterable[str], batch_sizes: Sequence[int], threads: int
) -> tuple[Case, ...]:
    """In the order in which time is given to them. `devices` are backends of this machine."""
    return tuple(
        Case(source, device, size, threads)
        for size in (batch_sizes or (None,))
        for source in sources
        for device in devices
    )


class BlockClient(Client):
    """The program that times the blocks of one model."""

    def __init__(self, case: Case, onnx_cache: Path) -> None:
        backend = backends[case.device]
        arguments = (backend.name, str(case.threads), str(onnx_cache.absolute()))
        environment = backend.environment(case.threads)
        super().__init__(THIS_MACHINE.process("medn.blocks.worker", arguments, environment))
        self.case = case
        self.blocks: list[MeasuredBlock] = []

    def prepare(self) -> Json:
        """Make the blocks, if that is not done; what is to be told of them."""
        if self.blocks:
            return {}
        request = {"do": "prepare", "source": self.case.source, "batch_size": self.case.batch_size}
        answer = self.ask(request, PREPARE_S)
        said = {name: getattr(self.case, name) for name in ("source", "batch_size", "threads")}
        self.blocks = [MeasuredBlock(self.case.device, {**said, **block}) for block in answer["blocks"]]
        return answer

    def stay(self, seconds: float) -> list[tuple[MeasuredBlock, BlockVisit]]:
        began = time.time()
        answer = self.ask({"do": "measure", "seconds": seconds}, MEASURE_S + seconds)
        return [
            (block, BlockVisit(began, _samples(*taken)))
            for block, taken in zip(self.blocks, answer["samples"], strict=True)
        ]


def _samples(wall_s: Sequence[float], cpu_s: Sequence[float], preempted: Sequence[bool]) -> Samples:
    return Samples(np.array(wall_s), np.array(cpu_s), np.array(preempted, dtype=np.bool_))


class BlockStays:
    """All stays at the blocks of some models in a run; those that it holds already are not made again."""

    def __init__(
        self,
        folder: RunFolder,
        cases: Sequence[Case],
        seconds: float | None,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.cases = affordable(cases, seconds)
        self.seconds = seconds
        self.tell = tell
        self.clock = clock
        self.began = clock()
        self._clients: dict[Case, BlockClient] = {}
        self._given_up: set[Case] = set()
        self._made = dict.fromkeys(self.cases, 0)

    def __enter__(self) -> BlockStays:
        if self.cases:
            with self.folder.store() as store:
                made = stays_made(store)
            self._made = {case: made.get(case, (0, 0))[1] for case in self.cases}
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.stop()

    def after_visit(self, done: int, planned: int) -> None:
        """Make the stays that are due when so many of the planned visits to layers are made."""
        elapsed = 0.0 if self.seconds is None else (self.clock() - self.began) / self.seconds
        for case in self._due(max(done / max(planned, 1), elapsed)):
            self._stay(case)

    def finish(self) -> None:
        """Make those that are left, as far as time allows."""
        with self.folder.locked():
            while (due := self._due(1.0)) and not self._time_is_up():
                self._stay(due[0])

    def _due(self, progress: float) -> list[Case]:
        """The models that had fewer stays by now than they ought to have, those with fewest first."""
        wanted = min(1 + int(progress * STAYS), STAYS)
        due = [case for case in self.cases if case not in self._given_up and self._made[case] < wanted]
        return sorted(due, key=lambda case: self._made[case])

    def _time_is_up(self) -> bool:
        return self.seconds is not None and self.clock() - self.began >= self.seconds

    def _stay(self, case: Case) -> None:
        client = self._clients.setdefault(case, BlockClient(case, self.folder.onnx_cache))
        try:
            prepared = client.prepare()
            for name, reason in prepared.get("reasons", {}).items():
                self.tell(f"{case}: the block {name} is left out: {reason}")
            if client.blocks:
                taken = client.stay(stay_s(len(self.cases), self.seconds))
                with self.folder.store() as store:
                    store.record_blocks(taken)
            else:
                self._give_up(case, "it has no sub-modules of several layers that can be called by themselves")
        except ChildFailed as failure:
            self._give_up(case, failure.reason)
        self._made[case] += 1

    def _give_up(self, case: Case, reason: str) -> None:
        self._given_up.add(case)
        with suppress(KeyError):
            self._clients.pop(case).stop()
        self.tell(f"{case}: no blocks are timed, and its layers compose as they usually do: {reason}")


def affordable(cases: Sequence[Case], seconds: float | None) -> Sequence[Case]:
    """Those that a sweep of so many seconds has time for."""
    return cases if seconds is None else cases[: int(seconds // SHORTEST_SWEEP_S)]


def stay_s(cases: int, seconds: float | None) -> float:
    """How long each stay is, where so many models share a sweep of so many seconds."""
    return STAY_S if seconds is None else min(STAY_S, SHARE * seconds / (STAYS * max(cases, 1)))


def stays_made(store: Store) -> dict[Case, tuple[int, int]]:
    """How many blocks of each model a run has timed, and how often."""
    made: dict[Case, tuple[int, int]] = {}
    for block, visits in store.blocks():
        content: Any = block.content
        case = Case(content["source"], block.device, content["batch_size"], content["threads"])
        blocks, stays = made.get(case, (0, 0))
        made[case] = blocks + 1, max(stays, len(visits))
    return made
