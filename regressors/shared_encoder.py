"""One network for all known devices: an encoder that they share and a decoder for each, for a new device to go on from.

What the encoder makes of a layer is what its latency depends on wherever it was measured. A decoder for the new device
is a linear law of it, which a few rows tell; the network itself can be trained further.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError
from medn.core.table import Array, Schema, Table
from medn.regressors.encoding import Encoding
from medn.regressors.form import Parts
from medn.regressors.forms.network import STEPS, NetworkForm, Step, bounds
from medn.regressors.forms.stack import Stack
from medn.regressors.sources import Sources, parts_key, sources_of
from medn.regressors.stacking import drawn_to, restrained
from medn.regressors.views import View

TOGETHER = "known devices together"
"""What the network is called among the devices that a stack leans on."""

NEEDED = (
    "it learns from what was measured on known devices, and only their bundles are there: "
    "medn adapt RUN... --run NEW with the runs that they were made in"
)

MOST_KEPT = 20_000
"""Rows that stay with the network, for those who train it further."""

ROWS_AT_ONCE = 2048


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """What was measured on several devices, all in the same columns; none of them follows from a data sheet."""

    schema: Schema
    inputs: NDArray[np.float32]
    logs: Array
    """Of the seconds."""
    device: NDArray[np.int16]
    """Of each row, its place among the names."""
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class SharedEncoder:
    """A network that has learned known devices together."""

    rows: DeviceRows
    """What it has learned from, or some of it."""
    encoding: Encoding
    steps: tuple[Step, ...]
    """From encoded inputs to what all decoders read."""
    weight: Array
    """A decoder in each column."""
    bias: Array
    view: View
    """How it sees the rows of a new device."""

    @classmethod
    def fit(cls, rows: DeviceRows, seconds: float, seed: int = 0) -> SharedEncoder:
        """Learn the rows of several devices in so many seconds; some of them are kept."""
        from medn.network.across_devices import learn_devices

        began = time.monotonic()
        inputs = rows.inputs.astype(np.float64)
        encoding = Encoding.fit(rows.schema, inputs)
        steps, weight, bias = learn_devices(
            encoding.transform(inputs),
            rows.logs,
            rows.device,
            len(encoding.numeric),
            seed=seed,
            seconds_left=lambda: seconds - (time.monotonic() - began),
        )
        some = np.sort(np.random.default_rng(seed).permutation(len(inputs))[:MOST_KEPT])
        kept = replace(rows, inputs=rows.inputs[some], logs=rows.logs[some], device=rows.device[some])
        return cls(kept, encoding, tuple(steps), weight, bias, View.same(len(rows.schema.names)))

    def seen_by(self, view: View) -> SharedEncoder:
        return replace(self, view=view)

    def represented(self, inputs: Array) -> Array:
        """What the encoder makes of rows in its own columns."""
        parts = [self._represented(inputs[start : start + ROWS_AT_ONCE]) for start in self._starts(inputs)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.weight)))

    def _starts(self, inputs: Array) -> range:
        return range(0, len(inputs), ROWS_AT_ONCE)

    def _represented(self, inputs: Array) -> Array:
        values = self.encoding.transform(inputs)
        with np.errstate(over="ignore"):
            for name, arrays in self.steps:
                values = STEPS[name](values if name == "waves" else values.astype(np.float32), *arrays.values())
        return np.asarray(values, dtype=np.float64)

    @cached_property
    def _usual(self) -> tuple[Array, Array]:
        """The mean of each number that the encoder makes of the rows it knows, and how far it varies."""
        found = self.represented(self.rows.inputs[:: max(len(self.rows.inputs) // 4000, 1)].astype(np.float64))
        return found.mean(axis=0), np.maximum(found.std(axis=0), 1e-6)

    def decoder(self, table: Table) -> tuple[Array, float]:
        """The weights and the constant of a decoder for a new device: the known decoders mixed as its rows ask, and
        what they leave over as a linear law that is held to nothing as strongly as predicts best what is left out."""
        inputs, growth = self.view.nearest(self.view.inputs(table.inputs))
        logs = np.log(table.target) - growth
        found = self.represented(inputs)
        said = found @ self.weight + self.bias
        count = said.shape[1]
        mix = drawn_to(said, logs, [np.full(count, 1.0 / count)], np.eye(count))
        weight, constant = self.weight @ mix.weights, float(self.bias @ mix.weights) + mix.constant
        middle, spread = self._usual
        scale = 1.0 / (spread * np.sqrt(found.shape[1]))
        more = restrained((found - middle) * scale, logs - found @ weight - constant)
        own = more.weights * scale
        return np.asarray(weight + own), constant + more.constant - float(middle @ own)

    def network(self, table: Table, weight: Array, constant: float) -> NetworkForm:
        """The encoder with one decoder, as what is deployed."""
        arrays = {"weight": np.asarray(weight[:, None], np.float32), "bias": np.array([constant], np.float32)}
        return NetworkForm(self.encoding, [*self.steps, ("dense", arrays)], bounds(table))

    @cached_property
    def key(self) -> str:
        """Changes with anything that it is made of."""
        steps = {f"{place}.{name}": array for place, (_, own) in enumerate(self.steps) for name, array in own.items()}
        learned = {**steps, "weight": self.weight, "bias": self.bias, **self.encoding.arrays, **self.view.arrays}
        return parts_key(Parts("shared", {"names": list(self.rows.names)}, learned))


def shared_of(table: Table) -> SharedEncoder:
    """The network that has learned what a table knows of other devices."""
    sources, _ = sources_of(table)
    if not isinstance(sources.shared, SharedEncoder):
        raise UsageError(NEEDED)
    return sources.shared


def alone(view: View, network: NetworkForm) -> Stack:
    """A network that sees rows of a new device as the encoder does."""
    return Stack(Sources((TOGETHER,), (network,), (view,), (0,)), [1.0], 0.0)


def beside(sources: Sources, view: View, network: NetworkForm) -> Stack:
    """The same prediction, with what all known devices take beside it, for a correction to see."""
    every = Sources(
        (*sources.names, TOGETHER),
        (*sources.forms, network),
        (*sources.views, view),
        (*sources.form_of, len(sources.forms)),
    )
    return Stack(every, [0.0] * len(sources.names) + [1.0], 0.0)
