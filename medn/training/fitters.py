"""Fits handed out through a `concurrent.futures.Executor`: a worker that dies costs a retry, never a result.

Whoever asks keeps the studies, takes what comes back as it comes, and saves it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from medn.core.errors import MednError, reason_of
from medn.core.text import first_line
from medn.core.units import format_duration
from medn.deployed.candidate import Candidate
from medn.regressors.regressor import regressors
from medn.training.job import Job
from medn.training.job_under_way import JobUnderWay, fail_job
from medn.training.supervised_fit import (
    LATEST,
    LOAD_TIMEOUT_S,
    LOOK_EVERY_S,
    FitResult,
    fit_supervised,
    pack_job,
    packed_fit,
)
from medn.training.timetable import GRACE_S, Timetable
from medn.training.train_regressor import Request

MOST_RETRIES = 5
"""How often a fit is handed out again whose worker is gone; an engine may have done so by itself before."""

NO_WORKERS_S = 120.0
"""How long nobody may be there to fit: a scheduler starts workers anew."""

SILENCE_S = 300.0
"""How much longer than it could take a fit may be silent: an engine hands it out again by itself, which is not seen."""

GO_ON = "What is finished is kept; start workers, and the same command goes on from there"
NO_TIME = "no time was left for it"


class WorkersGone(MednError):
    """Nobody is left to fit; what was finished is in the run."""


class Workers(Protocol):
    """Where fits are made: an executor, and who is there."""

    name: str
    expected: int
    """How many fits there are at once when all workers are there."""
    are_here: bool
    """Whether they are this machine: then a search tries one setting after the other, so that the same seed learns
    alike however many processes there are."""

    @property
    def executor(self) -> Executor: ...

    def slots(self) -> Mapping[str, int]:
        """How many fits can be under way now, by the name of each worker; nothing where none is there."""

    def close(self) -> None: ...


OnWait = Callable[[float, Sequence[str]], None]
"""Called now and then with the seconds left, and with what is being fitted."""


def no_time_left(job: Job) -> list[Candidate]:
    """The failed candidates of a job that could not begin; the next run begins it."""
    asked = format_duration(job.budget_s)
    return fail_job(replace(job, budget_s=0.0), f"{NO_TIME} (asked for {asked}): medn train RUN again")


@dataclass(eq=False)
class _Begun:
    """A job, and when it is stopped."""

    progress: JobUnderWay
    stop_at: float
    is_told: bool = False

    @cached_property
    def packed(self) -> bytes:
        return pack_job(self.progress.job)


@dataclass(eq=False)
class _HandedOut:
    begun: _Begun
    request: Request
    future: Future[FitResult]
    limit_s: float
    began: float
    retries: int = 0

    @property
    def silent_after(self) -> float:
        return self.began + 2 * (LATEST * self.limit_s + LOAD_TIMEOUT_S) + SILENCE_S


class Fitters:
    """Jobs in the order of a timetable, as many fits at once as the workers make, in a `with` block."""

    def __init__(self, workers: Workers, on_wait: OnWait | None = None) -> None:
        self.workers = workers
        self.on_wait = on_wait
        self.loading_s = 0.0
        """What loading libraries took, of the time of all processes together."""
        self.retries = 0
        """How many fits were handed out again."""
        self._under_way: list[_HandedOut] = []
        self._known: set[str] = set()
        self._has_lost = False
        """Whether a worker is gone: then nobody is waited for when the time is over."""
        self._seen = time.monotonic()

    @property
    def processes(self) -> int:
        return max(sum(self.workers.slots().values()), self.workers.expected)

    def __enter__(self) -> Fitters:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._under_way:
            each.future.cancel()
        self.workers.close()

    def run(self, times: Timetable) -> Iterator[list[Candidate]]:
        """The candidates of each job, written into the run as soon as it has ended in whatever way."""
        while True:
            yield from self._fill(times)
            if not self._under_way:
                return
            done, _ = wait([each.future for each in self._under_way], LOOK_EVERY_S, FIRST_COMPLETED)
            is_late = self._has_lost and time.monotonic() >= times.end + GRACE_S
            for each in list(self._under_way):
                if each.future in done:
                    self._heard(each, times)
                elif is_late or time.monotonic() >= each.silent_after:
                    self._not_heard(each, is_late)
                if (made := self._go_on(each.begun, times)) is not None:
                    yield made
            if self.on_wait:
                busy = dict.fromkeys(each.begun.progress for each in self._under_way)
                self.on_wait(times.seconds_left, [each.progress() for each in busy])

    def _fill(self, times: Timetable) -> Iterator[list[Candidate]]:
        """Give whoever has nothing to do a job, or else another trial of a search."""
        slots = self._slots()
        while len(self._under_way) < slots and (job := times.next_job()):
            if missing := regressors[job.regressor].missing() if self.workers.are_here else None:
                yield fail_job(replace(job, budget_s=0.0), missing)  # which costs nothing, so every run tries it again
            elif times.seconds_to_end <= 0:
                yield no_time_left(job)
            elif made := self._begin(job, times):
                yield made
        while len(self._under_way) < slots and not self.workers.are_here and self._hand_out_trial(times):
            pass

    def _begin(self, job: Job, times: Timetable) -> list[Candidate] | None:
        granted = times.granted(job)
        progress = JobUnderWay(replace(job, seconds=granted))
        return self._go_on(_Begun(progress, time.monotonic() + times.stop_after(granted)), times)

    def _go_on(self, begun: _Begun, times: Timetable) -> list[Candidate] | None:
        """Hand out what a job wants next; its candidates, once, when it has ended."""
        if not begun.progress.under_way and (request := begun.progress.next_request()):
            self._hand_out(begun, request, times)
        made = begun.progress.candidates
        if made is None or begun.is_told:
            return None
        begun.is_told = True
        return made

    def _hand_out_trial(self, times: Timetable) -> bool:
        """One more of the search that has the fewest under way."""
        for begun in sorted({each.begun for each in self._under_way}, key=lambda each: each.progress.under_way):
            if request := begun.progress.spare_request():
                self._hand_out(begun, request, times)
                return True
        return False

    def _hand_out(self, begun: _Begun, request: Request, times: Timetable, retries: int = 0) -> None:
        now = time.monotonic()
        limit_s = max(begun.stop_at - now, times.shortest_s + GRACE_S)
        packed = packed_fit(begun.progress.job, begun.packed, request, limit_s)
        try:
            future = self.workers.executor.submit(fit_supervised, packed)
        except (RuntimeError, OSError) as error:
            raise WorkersGone(f"{self.workers.name} takes no more work ({first_line(error)}). {GO_ON}") from None
        self._under_way.append(_HandedOut(begun, request, future, limit_s, now, retries))

    def _slots(self) -> int:
        """At least one, so that what is to be done is handed out and waits for who comes; not for ever."""
        found = self.workers.slots()
        self._has_lost |= not self._known <= found.keys()
        self._known |= found.keys()
        if found:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > NO_WORKERS_S:
            raise WorkersGone(f"{self.workers.name} has had no worker for {format_duration(NO_WORKERS_S)}. {GO_ON}")
        return max(sum(found.values()), 1)

    def _heard(self, each: _HandedOut, times: Timetable) -> None:
        self._under_way.remove(each)
        progress = each.begun.progress
        try:
            result = each.future.result()
        except (Exception, CancelledError) as error:  # of the engine: what a fit raises is the reason of its candidate
            self._lost(each, error, times)
            return
        if result.problem:
            raise MednError(result.problem)
        self.loading_s += result.loading_s
        times.prolong(result.loading_s, result.waited_s)
        progress.prolong(result.loading_s)
        each.begun.stop_at += result.loading_s
        if result.unavailable:
            progress.give_up(result.unavailable, budget_s=0.0)
        elif result.outcome is None:
            progress.failed(each.request, result.failure, result.worked_s)
        else:
            progress.heard(each.request, result.outcome)

    def _lost(self, each: _HandedOut, error: BaseException, times: Timetable) -> None:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "medn":
            raise MednError(f"the workers of {self.workers.name} cannot import medn: install it there") from None
        self._has_lost = True
        progress = each.begun.progress
        if each.retries >= MOST_RETRIES or progress.candidates is not None:
            times_lost = each.retries + 1
            progress.lost(each.request, f"its worker was lost {times_lost} times, the last time: {reason_of(error)}")
        else:
            self.retries += 1
            again = each.request.within(max(progress.seconds_left, times.shortest_s))
            self._hand_out(each.begun, again, times, each.retries + 1)

    def _not_heard(self, each: _HandedOut, is_late: bool) -> None:
        self._under_way.remove(each)
        each.future.cancel()
        each.begun.progress.under_way -= 1
        waited = format_duration(time.monotonic() - each.began)
        told = f"{NO_TIME}: its worker was lost" if is_late else f"its worker gave no answer within {waited}"
        each.begun.progress.give_up(told, budget_s=0.0)
