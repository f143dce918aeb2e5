"""How far long work is, on stderr: a bar on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from medn.cli.output import say
from medn.core.units import duration_words

if TYPE_CHECKING:
    from rich.progress import Progress

    from medn.core.values import Point, Visit

BAR_EVERY_S = 0.5
LINE_EVERY_S = 10.0


class SweepProgress:
    """Shows the visits of a sweep. Nothing runs between calls, so showing them disturbs no measurement."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self.clock = clock
        self.visits = 0
        self._bar: Progress | None = None

    def __enter__(self) -> SweepProgress:
        self._began = self.clock()
        self._every_s = BAR_EVERY_S if sys.stderr.isatty() else LINE_EVERY_S
        self._next = self._began + self._every_s
        if sys.stderr.isatty():
            self._bar = progress_bar()
            self._task = self._bar.add_task("starting the device", total=None)
            self._bar.start()
            self._bar.refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def on_visit(self, pass_number: int, done: int, planned: int, point: Point, visit: Visit) -> None:
        self.visits = done
        now = self.clock()
        if now < self._next:
            return
        self._next = now + self._every_s
        spent = now - self._began
        rate = done / spent
        left = (planned - done) / rate
        if self.seconds is not None:
            left = min(left, max(0.0, self.seconds - spent))
        words = (
            f"pass {pass_number + 1}, {rate:.1f} visits a second, about {duration_words(left)} left, "
            f"{point.layer.kind} on {point.device}"
        )
        if self._bar:
            self._bar.update(self._task, description=words, completed=done, total=planned)
            self._bar.refresh()
        else:
            say(f"{done} of {planned} visits, {words}")


def progress_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    # Drawn only when asked: a thread that draws by itself would take time from the layer being measured.
    return Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)


class CostProgress:
    """Shows how far the timing of candidates is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._bar: Progress | None = None

    def __enter__(self) -> CostProgress:
        self._next = self.clock() + LINE_EVERY_S
        if sys.stderr.isatty():
            self._bar = progress_bar()
            self._task = self._bar.add_task("timing what the candidates take", total=None)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def on_progress(self, done: int, planned: int) -> None:
        if self._bar:
            self._bar.update(self._task, completed=done, total=planned)
            self._bar.refresh()
        elif self.clock() >= self._next:
            self._next = self.clock() + LINE_EVERY_S
            say(f"{done} of {planned} timings")


class RowProgress:
    """Counts rows and says so now and then."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.rows = 0
        self._next = clock() + LINE_EVERY_S

    def on_rows(self, count: int) -> None:
        self.rows += count
        if self.clock() >= self._next:
            self._next = self.clock() + LINE_EVERY_S
            say(f"{self.rows:,} rows")
