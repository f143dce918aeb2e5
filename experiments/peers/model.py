"""What a peer hands back. A peer's environment holds none of medn's libraries, so this needs nothing but NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that everybody gets: to learn from, of which the last `held_out` are those medn chooses by; to test."""

    names: list[str]
    inputs: Array
    log_latency: Array
    held_out: int
    test: Array

    @classmethod
    def read(cls, path: Path) -> Rows:
        with np.load(path) as arrays:
            held_out = int(arrays["held_out"])
            return cls(
                arrays["names"].tolist(), arrays["inputs"], arrays["log_latency"], held_out, arrays["test_inputs"]
            )


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model as its user has it."""

    name: str
    prepare: Callable[[Array], Any]
    """Turns rows into what `predict` takes fastest; its time does not count."""
    predict: Callable[[Any], Any]
    """The logarithm of the latency of prepared rows, by the public interface."""
    saved: tuple[Path, ...]
    """What must be kept on disk to predict again: files, and folders with all that is in them."""
    note: str = ""
    validation_error: float | None = None
    """The mean relative error on the rows held out, where a peer hands back several models to choose from."""
    prepare_one: Callable[[Array], Any] | None = None
    predict_one: Callable[[Any], Any] | None = None
    """Where the public interface has a way of its own for a single row."""
