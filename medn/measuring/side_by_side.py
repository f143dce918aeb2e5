"""Visits on several machines at once: each is given its next ones as it makes the last, and a lost one is tried again.

Everything here happens in one thread, which alone reads and writes the journal; lanes tell what they did by events.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from medn.core.environment import Manifest
from medn.core.errors import DeviceUnavailable, MednError
from medn.core.values import Point, Visit
from medn.measuring.lane import (
    Connected,
    DueVisit,
    Event,
    Events,
    Lane,
    LaneLost,
    SheetTold,
    Unavailable,
    VisitDropped,
    VisitMade,
)
from medn.remote.frames import SILENCE_S

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0
"""Before a lost machine is tried again; each pause is twice the last."""
MOST_LOST = 3
"""A visit during which the link was lost so often is left for another call: perhaps its layer ends the machine."""
LOOK_S = 0.5
"""How often the time is looked at while nothing happens."""

Pass = tuple[int, Sequence[Point]]
"""The number of a pass and the points that it visits."""


@dataclass
class Group:
    """Devices with the machines that serve them, and the visits that are due there."""

    lanes: Sequence[Lane]
    devices: frozenset[str]
    passes: Iterator[Pass] = field(default_factory=lambda: iter(()))
    pass_number: int = 0
    waiting: deque[Point] = field(default_factory=deque)
    is_done: bool = False
    compared: frozenset[str] = frozenset()
    """Keys of points that the machines visit in turn, pass after pass, so that what they say can be compared."""

    def visitor_of(self, point: Point, left: Sequence[Lane]) -> Lane | None:
        """The machine of those left that a compared point is to be visited on in this pass; None if any may."""
        return left[self.pass_number % len(left)] if left and point.key in self.compared else None


@dataclass
class Absence:
    """Since when a machine cannot be reached, why, and when it is tried again."""

    since: float
    reason: str
    try_at: float
    is_trying: bool = False


Enter = Callable[[Lane, Mapping[str, Manifest]], None]
"""Called with the environments of a machine that was reached, before anything is measured on it; may refuse."""
OnSheet = Callable[[Lane, Mapping[str, float]], None]
OnLink = Callable[[Lane, str], None]
"""Called with a sentence when a machine was lost or reached again."""


class SideBySide:
    """The machines of a sweep. `visits` may be called again and again, with other passes for each group."""

    def __init__(
        self,
        groups: Sequence[Group],
        events: Events,
        *,
        patience_s: float,
        on_link: OnLink,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.groups = groups
        self.events = events
        self.patience_s = patience_s
        self.given_up: dict[str, str] = {}
        """Why machines were left out, by their name."""
        self.left_out = 0
        """Visits that were lost so often that they are left for another call."""
        self.on_pass: Callable[[Group], None] = lambda group: None
        """Called when a pass of a group is over."""
        self.apart: dict[str, str] = {}
        """Machines that are not equal to others that serve the same device, and what they differ by."""
        self.enter: Enter = lambda lane, manifests: None
        self.on_sheet: OnSheet = lambda lane, sheet: None
        self._on_link = on_link
        self._clock = clock
        self._group_of = {lane: group for group in groups for lane in group.lanes}
        self._absent: dict[Lane, Absence] = {}
        self._pauses: dict[Lane, float] = {}
        self._losses: Counter[str] = Counter()
        self._numbers = itertools.count(1)

    @property
    def lanes(self) -> list[Lane]:
        return list(self._group_of)

    def connect(self) -> dict[Lane, Mapping[str, Manifest]]:
        """Reach all machines; those that answer. One error tells all that is missing, or that none can be reached."""
        reached: dict[Lane, Mapping[str, Manifest]] = {}
        missing: list[str] = []
        waiting = set(self.lanes)
        for lane in reversed(self.lanes):  # this machine, if it is among them, is asked last: it answers at once
            lane.connect()
        while waiting:
            event = self.events.get()
            waiting.discard(event.lane)
            if isinstance(event, Connected):
                reached[event.lane] = event.manifests
            elif isinstance(event, LaneLost):
                reached.pop(event.lane, None)
                self._set_absent(event.lane, event.reason, event.was_silent)
            elif isinstance(event, Unavailable):
                missing.append(event.reason)
        if missing or not reached:
            raise DeviceUnavailable("; ".join(missing or [each.reason for each in self._absent.values()]))
        for lane, absence in self._absent.items():
            self._on_link(lane, f"{absence.reason}; it is tried again while the others are measured")
        return reached

    def close(self) -> None:
        for lane in self.lanes:
            lane.close()

    def visits(self, worth: Callable[[Point], bool], is_over: Callable[[], bool]) -> Iterator[tuple[int, Point, Visit]]:
        """Make the visits of all groups; each is given as soon as it is made. Ends early when the time is over."""
        stopping = False
        for group in self.groups:
            group.is_done = False
        hungry: Sequence[Group] = self.groups
        while True:
            if not stopping and is_over():
                stopping = True
                for lane in self.lanes:
                    lane.drop()
            if not stopping:
                for group in hungry:
                    for lane in group.lanes:
                        self._feed(lane, group, worth)
                self._try_again()
            ended = stopping or all(map(self._is_ended, self.groups))
            if ended and not any(lane.under_way for lane in self.lanes):
                return
            event = self._next_event()
            hungry = () if event is None else (self._group_of[event.lane],)
            if event is not None:
                yield from self._handled(event)

    def is_finished(self) -> bool:
        """Whether every visit that was due was made."""
        return all(group.is_done for group in self.groups) and not self.left_out

    def _feed(self, lane: Lane, group: Group, worth: Callable[[Point], bool]) -> None:
        """Give a machine its next visits, once half of the last are made. A pass begins when the one before is over."""
        if not self._is_up(lane) or len(lane.under_way) > lane.window // 2:
            return
        while not group.is_done:
            points = self._taken(lane, group, worth)
            if points:
                lane.submit([DueVisit(next(self._numbers), group.pass_number, point) for point in points])
                return
            if group.waiting or any(each.under_way for each in group.lanes):
                return
            self.on_pass(group)
            following = next(group.passes, None)
            if following is None:
                group.is_done = True
            else:
                group.pass_number, group.waiting = following[0], deque(following[1])

    def _taken(self, lane: Lane, group: Group, worth: Callable[[Point], bool]) -> list[Point]:
        """The next points of a group that are for this machine, as many as it may be given."""
        taken: list[Point] = []
        for_others: list[Point] = []
        up = [each for each in group.lanes if self._is_up(each)]
        while group.waiting and len(taken) + len(lane.under_way) < lane.window:
            point = group.waiting.popleft()
            if group.visitor_of(point, up) not in (None, lane):
                for_others.append(point)
            elif self._losses[point.key] < MOST_LOST and worth(point):
                taken.append(point)
        group.waiting.extendleft(reversed(for_others))
        return taken

    def _is_up(self, lane: Lane) -> bool:
        return lane not in self._absent and not self._is_out(lane)

    def _is_out(self, lane: Lane) -> bool:
        return lane.name in self.given_up or lane.name in self.apart

    def set_apart(self, lane: Lane, sentence: str) -> None:
        """Give a machine no further visits, as it is not equal to the others of its group."""
        self.apart[lane.name] = sentence
        self._absent.pop(lane, None)
        lane.close()

    def _is_ended(self, group: Group) -> bool:
        return group.is_done or all(map(self._is_out, group.lanes))

    def _next_event(self) -> Event | None:
        try:
            return self.events.get(timeout=LOOK_S)
        except queue.Empty:
            return None

    def _handled(self, event: Event) -> Iterator[tuple[int, Point, Visit]]:
        lane = event.lane
        if isinstance(event, VisitMade | VisitDropped):
            lane.under_way.pop(event.job.number, None)
        if isinstance(event, VisitMade):
            self._pauses.pop(lane, None)
            self._losses.pop(event.job.point.key, None)
            yield event.job.pass_number, event.job.point, event.visit
        elif isinstance(event, VisitDropped):
            self._group_of[lane].waiting.append(event.job.point)
        elif isinstance(event, LaneLost):
            yield from self._lost(event)
        elif isinstance(event, SheetTold):
            self.on_sheet(lane, event.sheet)
        elif isinstance(event, Unavailable):
            if len(self.lanes) == 1:
                raise DeviceUnavailable(event.reason)
            self._give_up(lane, event.reason)
        elif isinstance(event, Connected):
            self._absent.pop(lane, None)
            try:
                self.enter(lane, event.manifests)
                self._on_link(lane, "it answers again")
            except MednError as error:
                self._give_up(lane, str(error))

    def _lost(self, event: LaneLost) -> Iterator[tuple[int, Point, Visit]]:
        lane, group = event.lane, self._group_of[event.lane]
        jobs = list(lane.under_way.values())
        lane.under_way.clear()
        group.waiting.extendleft(job.point for job in reversed(jobs[1:]))
        for job in jobs[:1]:  # visits are made in order, so this one was being made
            environment = lane.environments[job.point.device]
            yield (
                job.pass_number,
                job.point,
                Visit(job.point.key, job.pass_number, environment, time.time(), "lost", event.reason),
            )
            self._losses[job.point.key] += 1
            if self._losses[job.point.key] < MOST_LOST:
                group.waiting.append(job.point)
            else:
                self.left_out += 1
        self._set_absent(lane, event.reason, event.was_silent)
        self._on_link(lane, f"{event.reason}; trying again")

    def _set_absent(self, lane: Lane, reason: str, was_silent: bool) -> None:
        now = self._clock()
        pause = self._pauses.get(lane, FIRST_PAUSE_S)
        self._pauses[lane] = min(2 * pause, LONGEST_PAUSE_S)
        since = self._absent[lane].since if lane in self._absent else now
        # An agent that hears nothing ends itself a while later: a second one beside it would disturb its last visit.
        self._absent[lane] = Absence(since, reason, now + max(pause, SILENCE_S if was_silent else 0.0))

    def _try_again(self) -> None:
        now = self._clock()
        for lane, absence in list(self._absent.items()):
            if self._is_out(lane) or absence.is_trying:
                continue
            if now - absence.since > self.patience_s:
                self._give_up(lane, absence.reason)
            elif now >= absence.try_at:
                absence.is_trying = True
                lane.connect()

    def _give_up(self, lane: Lane, reason: str) -> None:
        self.given_up[lane.name] = reason
        group = self._group_of[lane]
        group.waiting.extend(job.point for job in lane.under_way.values())
        lane.under_way.clear()
        lane.close()
        self._on_link(lane, f"{reason}; it is left out from here on")
