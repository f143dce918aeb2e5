"""How the time of a training is shared out among its jobs, and when it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from medn.training.job import Job

TIMES_GRANTED = 2.0
GRACE_S = 3.0
"""A fit is stopped when it has taken so many times its time and so much more."""

LATE_SHARE = 0.1
"""Of the whole time, how much later a training may end, beside the grace."""


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
        self._longest_s = max(asked_s, least_seconds(len(jobs), processes, shortest_s))
        self.end = clock() + self._longest_s * (1 + LATE_SHARE) + GRACE_S
        self._waited_s = 0.0

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

    def prolong(self, loading_s: float, waited_s: float = 0.0) -> None:
        """Loading libraries in one of the processes is not fitting, and waiting for a processor is neither.

        What other programs take makes nothing end later but the time until which what has no fit yet may have one, by
        no more than the time that was asked for.
        """
        self.deadline = max(self.deadline, min(self.deadline + loading_s / self.processes, self.latest))
        counted = min(waited_s / self.processes, self._longest_s - self._waited_s)
        self._waited_s += counted
        self.end += loading_s / self.processes + counted

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
