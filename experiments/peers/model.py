"""What a peer gets and hands back. A peer's environment holds none of medn's libraries, so this needs only NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that everybody gets to learn from, and the inputs of those to test."""

    names: list[str]
    categories: Mapping[str, NDArray[np.str_]]
    """The names behind the codes of the inputs that are no numbers."""
    inputs: Array
    log_latency: Array
    groups: NDArray[np.str_]
    """The layer of each row."""
    test: Array

    @classmethod
    def read(cls, path: Path) -> Rows:
        with np.load(path) as arrays:
            names = arrays["names"].tolist()
            categories = {name: arrays[f"categories/{name}"] for name in names if f"categories/{name}" in arrays}
            plain = (arrays[name] for name in ("inputs", "log_latency", "groups", "test"))
            return cls(names, categories, *plain)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(
            path,
            names=np.array(self.names),
            inputs=self.inputs,
            log_latency=self.log_latency,
            groups=self.groups,
            test=self.test,
            **{f"categories/{name}": values for name, values in self.categories.items()},  # type: ignore[arg-type]
        )
        return path

    def columns(self, inputs: Array) -> dict[str, NDArray[Any]]:
        """Inputs by name, the categories among them as names."""
        return {
            name: self.categories[name][column.astype(int)] if name in self.categories else column
            for name, column in zip(self.names, inputs.T, strict=True)
        }

    def held_out(self, share: float, seed: int) -> NDArray[np.bool_]:
        """Which rows to choose by: whole layers, drawn by the seed."""
        layers = np.unique(self.groups)
        drawn = np.random.default_rng(seed).permutation(layers)[: round(share * len(layers))]
        return np.isin(self.groups, drawn)


def frame(rows: Rows, inputs: Array) -> Any:
    """Inputs as a pandas table that knows which of them are categories."""
    import pandas

    made = pandas.DataFrame(rows.columns(inputs))
    return made.assign(**{name: pandas.Categorical(made[name], values) for name, values in rows.categories.items()})


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model as its user has it."""

    prepare: Callable[[Array], Any]
    """Turns rows into what `predict` takes fastest; its time does not count."""
    predict: Callable[[Any], Any]
    """The logarithm of the latency of prepared rows, by the public interface."""
    saved: tuple[Path, ...]
    """What must be kept on disk to predict again: files, and folders with all that is in them."""
    note: str = ""
    prepare_one: Callable[[Array], Any] | None = None
    predict_one: Callable[[Any], Any] | None = None
    """Where the public interface has a way of its own for a single row."""
    prepare_bare: Callable[[Array], Any] | None = None
    predict_bare: Callable[[Any], Any] | None = None
    """The estimator inside, with rows as it takes them itself, where one model is all there is."""
