"""Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from medn.cli.output import say
from medn.cli.verbosity import LOGGER, is_quiet
from medn.core.units import format_duration

if TYPE_CHECKING:
    from rich.progress import Progress

    from medn.core.values import Point, Visit

BAR_EVERY_S = 0.5
LINE_EVERY_S = 10.0


class ProgressDisplay:
    """The progress of work of known length. Nothing runs between calls, so it disturbs no measurement."""

    def __init__(self, what: str, clock: Callable[[], float], starting: str) -> None:
        self.what = what
        self.clock = clock
        self.starting = starting
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        self._began = self.clock()
        with_bar = sys.stderr.isatty() and not is_quiet()
        self._every_s = BAR_EVERY_S if with_bar else LINE_EVERY_S
        self._next = self._began + self._every_s
        if with_bar:
            self._bar = progress_bar()
            self._task = self._bar.add_task(self.starting, total=None)
            self._bar.start()
            self._bar.refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, done: int, planned: int, describe: Callable[[float], str] | None = None) -> None:
        """Show it, unless that was done a moment ago; `describe` gives a string by the seconds so far."""
        now = self.clock()
        if now < self._next:
            return
        self._next = now + self._every_s
        more = describe(now - self._began) if describe else None
        if self._bar:
            self._bar.update(self._task, description=more, completed=done, total=planned)
            self._bar.refresh()
        else:
            say(f"{done} of {planned} {self.what}" + (f", {more}" if more else ""))


def progress_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    # Drawn only when asked: a thread that draws by itself would take time from the layer being measured.
    return Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)


class SweepProgress(ProgressDisplay):
    """Shows the visits of a sweep."""

    def __init__(
        self, seconds: float | None, clock: Callable[[], float] = time.monotonic, *, grows: bool = False
    ) -> None:
        super().__init__("visits", clock, "starting the device")
        self.seconds = seconds
        self.grows = grows
        """Whether more visits will be planned for as long as there is time."""
        self.visits = 0

    def on_visit(self, pass_number: int, done: int, planned: int, point: Point, visit: Visit) -> None:
        self.visits = done
        if visit.status != "ok":
            LOGGER.debug("not measured: %s on %s: %s", point.layer, point.device, visit.reason)

        def describe(spent_s: float) -> str:
            rate = done / spent_s
            left_s = (planned - done) / rate
            if self.seconds is not None:
                remaining_s = max(0.0, self.seconds - spent_s)
                left_s = remaining_s if self.grows else min(left_s, remaining_s)
            return (
                f"pass {pass_number + 1}, {rate:.1f} visits a second, about {format_duration(left_s)} left, "
                f"{point.layer.kind} on {point.device}"
            )

        self.show(done, planned, describe)


class CostProgress(ProgressDisplay):
    """Shows how far the timing of candidates is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("timings", clock, "timing what the candidates take")

    def on_progress(self, done: int, planned: int) -> None:
        self.show(done, planned)


class FileProgress(ProgressDisplay):
    """Shows how many files of a plan are written."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("files", clock, "exporting layers")

    def on_file(self, done: int, planned: int) -> None:
        self.show(done, planned, lambda spent_s: f"about {format_duration(spent_s / done * (planned - done))} left")


class RowProgress:
    """Counts rows, or what else there is many of, and says so now and then."""

    def __init__(self, what: str = "rows", clock: Callable[[], float] = time.monotonic) -> None:
        self.what = what
        self.clock = clock
        self.rows = 0
        self._next = clock() + LINE_EVERY_S

    def on_rows(self, count: int) -> None:
        self.rows += count
        if self.clock() >= self._next:
            self._next = self.clock() + LINE_EVERY_S
            say(f"{self.rows:,} {self.what}")
