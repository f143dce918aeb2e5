"""Data-dependent values that a model's code reads while it runs on shapes alone: what was guessed, and where."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from medn.capture.captured_model import Guess

MAX_GUESSES_PER_LINE = 1000
"""A line that waits for a value to change would read it for ever."""
SKIPPED_CODE = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
"""Code that only passes such reads on."""


class EndlessRun(BaseException):
    """A call that does not seem to end. Not an `Exception`, which a model's own code might catch."""

    without_guesses = False
    """Whether nothing was guessed before, so that a real call would be as long."""


class CallLimitMode(TorchFunctionMode):
    """Ends a run that calls too many functions, where no recorder counts its operators."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._left -= 1
        if self._left < 0:
            raise EndlessRun("one call takes more than max_operators")
        return function(*args, **(kwargs or {}))


class Guesses:
    def __init__(self, current_module: Callable[[], str]) -> None:
        self._current_module = current_module
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def add(self, answer: str) -> None:
        guess = (self._current_module(), _current_line(), answer)
        self._counts[guess] += 1
        if self._counts[guess] > MAX_GUESSES_PER_LINE:
            raise EndlessRun(f"it reads a value again and again that only a real run has ({guess[1]})")

    def __len__(self) -> int:
        return self._counts.total()

    @property
    def all(self) -> tuple[Guess, ...]:
        return tuple(Guess(*guess, count) for guess, count in self._counts.items())


def _current_line() -> str:
    """The innermost line that is neither torch's nor ours, or else torch's."""
    frame = sys._getframe(1)
    inner = None
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(SKIPPED_CODE):
            return f"{Path(name).name}:{frame.f_lineno}"
        if inner is None and name.startswith(SKIPPED_CODE[0]) and "/nn/" in name:
            inner = f"{Path(name).name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return inner or "torch"
