"""What a model's code asked that only a real run would know, where it asked, and when to stop listening."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from medn.capture.captured_model import Guess

MOST_ASKED = 1000
"""How often one line of one module may ask; one that waits for a value to change would ask for ever."""
NOT_ASKING = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
"""Where the code lies that hands questions on."""


class Endless(BaseException):
    """A call that does not seem to end. It is no `Exception`: a model's code would take it for one of its own."""

    true_to_life = False
    """Whether nothing was guessed before, so that a real call would be as long."""


class CountingMode(TorchFunctionMode):
    """Ends a run that calls too many functions, where nobody listens to its operators."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Endless("one call takes more than max_operators")
        return function(*args, **(kwargs or {}))


class Guesses:
    def __init__(self, at_work: Callable[[], str]) -> None:
        self._at_work = at_work
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def add(self, answer: str) -> None:
        asked = (self._at_work(), _asking_line(), answer)
        self._counts[asked] += 1
        if self._counts[asked] > MOST_ASKED:
            raise Endless(f"it goes on asking for a value that only a real run would know ({asked[1]})")

    def __len__(self) -> int:
        return self._counts.total()

    @property
    def all(self) -> tuple[Guess, ...]:
        return tuple(Guess(*asked, count) for asked, count in self._counts.items())


def _asking_line() -> str:
    """The innermost line that is neither torch's nor ours, or else torch's."""
    frame = sys._getframe(1)
    inner = None
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(NOT_ASKING):
            return f"{Path(name).name}:{frame.f_lineno}"
        if inner is None and name.startswith(NOT_ASKING[0]) and "/nn/" in name:
            inner = f"{Path(name).name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return inner or "torch"
