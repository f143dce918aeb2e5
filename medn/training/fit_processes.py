"""Fits in processes of their own: one that crashes, hangs or runs out of memory fails alone, and the others go on.

`python -m medn.training.fit_processes` is such a process. It keeps what it has imported for the fits that follow.
"""

from __future__ import annotations

import faulthandler
import importlib
import math
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from medn.core.child import Answer, ChildFailed, ChildProcess, serve, waited_for
from medn.core.errors import MednError, StoreError
from medn.core.units import format_duration, percent
from medn.deployed.candidate import Candidate
from medn.regressors.regressor import regressors
from medn.training.job import Job
from medn.training.train_regressor import fail_job, run_job
from medn.training.tuning import blame

LOAD_TIMEOUT_S = 180.0
"""Importing a library takes seconds on a slow disk; a minute more only delays the answer that it hangs."""

TIMES_GRANTED = 2.0
GRACE_S = 3.0
"""A fit is stopped when it has taken so many times its time and so much more."""

LATE_SHARE = 0.1
"""Of the whole time, how much later a training may end, beside the grace."""

LOOK_EVERY_S = 0.5

PROGRAM = "medn.training.fit_processes"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Load:
    """Import what a regressor needs, so that no fit's time goes into it."""

    regressor: str
    module: str


@dataclass(frozen=True)
class Loaded:
    problem: str = ""


@dataclass(frozen=True)
class UnderWay:
    """How far a fit is: the number of its trial, and the lowest validation error of that so far."""

    trial: int
    error: float


@dataclass(frozen=True, eq=False)
class Made:
    candidates: list[Candidate]
    problem: str = ""
    """Why they could not be saved: this ends the training."""


class Timetable:
    """Shares the time out: by the weights of the jobs, and what one leaves goes to those after it."""

    def __init__(
        self,
        jobs: Sequence[Job],
        processes: int,
        seconds: float,
        shortest_s: float,
        clock: Callable[[], float] = time.monotonic,
        latest: float = math.inf,
    ) -> None:
        """`latest` is when all should be done, by the clock, however long loading libraries takes."""
        self.waiting = list(jobs)
        self.postponed: list[Job] = []
        """Jobs that could wait when the time was over."""
        self.processes = processes
        self.shortest_s = shortest_s
        self.clock = clock
        self.latest = latest
        self.deadline = min(clock() + seconds, latest)
        asked_s = seconds if latest == math.inf else latest - clock()
        longest_s = max(asked_s, least_seconds(len(jobs), processes, shortest_s))
        self.end = clock() + longest_s * (1 + LATE_SHARE) + GRACE_S

    def next_job(self) -> Job | None:
        while self.waiting:
            job = self.waiting.pop(0)
            if not (job.can_wait and self.clock() >= self.deadline):
                return job
            self.postponed.append(job)
        return None

    def granted(self, job: Job) -> float:
        """Seconds for a job that starts now; none outlasts the deadline, however few share the time."""
        left = max(self.deadline - self.clock(), 0.0)
        share = job.share / max(job.share + sum(each.share for each in self.waiting), 1e-9)
        return max(min(share * left * min(self.processes, len(self.waiting) + 1), left), self.shortest_s)

    def stop_after(self, granted: float) -> float:
        """How many seconds from now a job that was granted so many is stopped; loading may have taken what was left."""
        return min(TIMES_GRANTED * granted + GRACE_S, max(self.seconds_to_end, self.shortest_s + GRACE_S))

    def prolong(self, seconds: float) -> None:
        """Loading libraries in one of the processes is not fitting."""
        self.deadline = max(self.deadline, min(self.deadline + seconds / self.processes, self.latest))
        self.end += seconds / self.processes

    @property
    def seconds_left(self) -> float:
        return max(self.deadline - self.clock(), 0.0)

    @property
    def seconds_to_end(self) -> float:
        """Until nothing may begin any longer."""
        return max(self.end - self.clock(), 0.0)


def least_seconds(jobs: int, processes: int, shortest_s: float) -> float:
    """What so many jobs take if each has only the shortest time."""
    return shortest_s * math.ceil(jobs / processes)


@dataclass
class Fitter:
    """One process and what it is busy with."""

    process: ChildProcess
    loaded: set[str] = field(default_factory=set)
    job: Job | None = None
    began: float = 0.0
    stop_at: float = 0.0
    granted: float | None = None
    """None while libraries are loaded."""
    under_way: UnderWay | None = None

    def progress(self) -> str:
        assert self.job is not None, "only asked while it is busy"
        about = f"{self.job.regressor} for {' and '.join(self.job.tables)}"
        if self.granted is None:
            return f"{about}: loading libraries"
        found = self.under_way
        return f"{about}: trial {found.trial}, {percent(found.error)}" if found else about


NO_TIME = "no time was left for it"


def no_time_left(job: Job) -> list[Candidate]:
    """The failed candidates of a job that could not begin; the next run begins it."""
    asked = format_duration(job.budget_s)
    return fail_job(replace(job, budget_s=0.0), f"{NO_TIME} (asked for {asked}): medn train RUN again")


OnWait = Callable[[float, Sequence[str]], None]
"""Called now and then with the seconds left, and with what is being fitted."""


class Fitters:
    """As many processes as asked for, started when needed, replaced after a crash, ended with the block."""

    retries = 0
    """A fit that takes its process with it has failed: nobody but the fit may end one here."""

    def __init__(
        self, processes: int, on_wait: OnWait | None = None, environment: Mapping[str, str] = ONE_THREAD
    ) -> None:
        self.fitters = [Fitter(ChildProcess(PROGRAM, environment=environment)) for _ in range(processes)]
        self.on_wait = on_wait
        self.loading_s = 0.0
        """What loading libraries took, of the time of all processes together."""

    @property
    def processes(self) -> int:
        return len(self.fitters)

    def __enter__(self) -> Fitters:
        return self

    def __exit__(self, *_: object) -> None:
        for fitter in self.fitters:
            fitter.process.stop()

    def run(self, times: Timetable) -> Iterator[list[Candidate]]:
        """The candidates of each job, as soon as it has ended in whatever way."""
        while True:
            for fitter in self.fitters:
                while fitter.job is None and (job := times.next_job()):
                    if made := self._begin(fitter, job, times):
                        yield made
            busy = [fitter for fitter in self.fitters if fitter.job]
            if not busy:
                return
            now = time.monotonic()
            wait_s = min(LOOK_EVERY_S, *(fitter.stop_at - now for fitter in busy))
            waited_for([fitter.process for fitter in busy], wait_s)
            for fitter in busy:
                if made := self._look(fitter, times):
                    yield made
            if self.on_wait:
                self.on_wait(times.seconds_left, [fitter.progress() for fitter in busy if fitter.job])

    def _begin(self, fitter: Fitter, job: Job, times: Timetable) -> list[Candidate] | None:
        """Start a job, or say at once why it cannot be; that costs nothing, so every run tries it again."""
        if missing := regressors[job.regressor].missing():
            return fail_job(replace(job, budget_s=0.0), missing)
        if times.seconds_to_end <= 0:
            return no_time_left(job)
        fitter.job, fitter.granted, fitter.under_way, fitter.began = job, None, None, time.monotonic()
        try:
            if job.regressor in fitter.loaded:
                self._fit(fitter, job, times)
            else:
                fitter.stop_at = fitter.began + LOAD_TIMEOUT_S
                module = type(regressors[job.regressor]).__module__
                fitter.process.send(pickle.dumps(Load(job.regressor, module)))
        except ChildFailed as failure:
            return self._failed(fitter, failure, times)
        return None

    def _fit(self, fitter: Fitter, job: Job, times: Timetable) -> None:
        fitter.granted = times.granted(job)
        fitter.began = time.monotonic()
        fitter.stop_at = fitter.began + times.stop_after(fitter.granted)
        fitter.process.send(pickle.dumps(replace(job, seconds=fitter.granted)))

    def _look(self, fitter: Fitter, times: Timetable) -> list[Candidate] | None:
        """What a busy process says; None while it is still at it."""
        try:
            while fitter.job and (message := fitter.process.poll()) is not None:
                if made := self._heard(fitter, fitter.job, pickle.loads(message), times):
                    return made
            if time.monotonic() >= fitter.stop_at:
                taken = format_duration(time.monotonic() - fitter.began)
                fitter.process.stop()
                if fitter.granted is None:
                    raise ChildFailed("timeout", f"its libraries were not loaded within {taken}")
                raise ChildFailed("timeout", f"stopped after {taken}: it had {format_duration(fitter.granted)}")
        except ChildFailed as failure:
            return self._failed(fitter, failure, times)
        return None

    def _heard(self, fitter: Fitter, job: Job, message: object, times: Timetable) -> list[Candidate] | None:
        if isinstance(message, UnderWay):
            fitter.under_way = message
        elif isinstance(message, Loaded):
            self._count_loading(fitter, times)
            if message.problem:
                fitter.job = None
                return fail_job(replace(job, budget_s=0.0), message.problem)
            fitter.loaded.add(job.regressor)
            self._fit(fitter, job, times)
        elif isinstance(message, Made):
            fitter.job = None
            if message.problem:
                raise StoreError(message.problem)
            return message.candidates
        return None

    def _count_loading(self, fitter: Fitter, times: Timetable) -> None:
        loading_s = time.monotonic() - fitter.began
        self.loading_s += loading_s
        times.prolong(loading_s)

    def _failed(self, fitter: Fitter, failure: ChildFailed, times: Timetable) -> list[Candidate]:
        job, fitter.job = fitter.job, None
        assert job is not None, "only asked while it is busy"
        fitter.loaded.clear()  # its process is gone, and the next one begins anew
        if fitter.granted is None:
            self._count_loading(fitter, times)
        else:
            blame(job.journal, failure.reason)
        return fail_job(job, failure.reason)


def work(message: bytes, answer: Answer) -> None:
    """What the child does with a request."""
    request = pickle.loads(message)
    if isinstance(request, Load):
        answer(pickle.dumps(Loaded(_load(request))))
        return
    # Whoever holds the interpreter does not notice that the parent is gone: this ends the process all the same.
    faulthandler.dump_traceback_later(TIMES_GRANTED * request.seconds + 2 * GRACE_S, exit=True)
    try:
        made = Made(run_job(request, _reporting(answer)))
    except MednError as error:
        made = Made([], str(error))
    finally:
        faulthandler.cancel_dump_traceback_later()
    answer(pickle.dumps(made))


def _load(request: Load) -> str:
    """Why the regressor cannot be fitted here; nothing if it can."""
    if request.module != "__main__":
        with suppress(Exception):  # then the registry does not know it, which is said below
            importlib.import_module(request.module)
    if request.regressor not in regressors:
        where = f"{request.regressor} is registered in {request.module}, which the processes that fit cannot import"
        return f"{where}: put it into a module that MEDN_PLUGINS names"
    with suppress(Exception):  # the fit says what is wrong with its libraries, as the reason of its candidate
        regressors[request.regressor].prepare()
    return ""


def _reporting(answer: Answer) -> Callable[[int, float], None]:
    last = -LOOK_EVERY_S

    def report(trial: int, error: float) -> None:
        nonlocal last
        if time.monotonic() - last >= LOOK_EVERY_S:
            last = time.monotonic()
            answer(pickle.dumps(UnderWay(trial, error)))

    return report


if __name__ == "__main__":
    # Run as a script this module has another name than the one that its messages are known by.
    from medn.training import fit_processes as fitting

    serve(fitting.work)
