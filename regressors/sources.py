"""Predictors for other devices, as what a regressor for a new one can lean on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from medn.core.errors import UsageError
from medn.core.table import Array, Schema, Table
from medn.program.formulas import rounded
from medn.regressors.form import Form, Parts, restore
from medn.regressors.views import View

NEEDED = "it leans on what is known of other devices, and there is nothing: medn adapt SOURCE.medn --run RUN"


@dataclass(frozen=True, eq=False)
class Sources:
    """What several devices would take for the same layers: a form each, or one that several devices share."""

    names: tuple[str, ...]
    """A device each."""
    forms: tuple[Form, ...]
    views: tuple[View, ...]
    """How each device's form sees a row."""
    form_of: tuple[int, ...]
    """The form of each device."""
    shared: Any = None
    """What has learned them together, where their rows are known: `medn.regressors.shared_encoder.SharedEncoder`."""
    laws: tuple[tuple[float, ...], ...] = ()
    """Weights that speak for themselves before anything is measured on a new device: those of the plain mean, where
    not every source is a device, and those that follow from a data sheet."""

    @property
    def known_laws(self) -> tuple[tuple[float, ...], ...]:
        """The same, with the plain mean where nothing else is known."""
        count = len(self.names)
        return self.laws or ((1.0 / count,) * count,)

    @property
    def single_laws(self) -> tuple[tuple[float, ...], ...]:
        """Each device by itself, and what follows from a data sheet."""
        mean, *from_sheets = self.known_laws
        places = range(len(self.names))
        devices = (tuple(float(place == own) for place in places) for own in places if mean[own])
        return *devices, *from_sheets

    def logs(self, rows: Array) -> Array:
        """Logarithms of the seconds that each device would take, a column for each."""
        found = []
        for view, form in zip(self.views, self.form_of, strict=True):
            nearest, growth = view.nearest(view.inputs(rows))
            found.append((self.forms[form].log_value(nearest) + growth)[:, None])
        return np.concatenate(found, axis=1)

    def only(self, places: Sequence[int]) -> Sources:
        """Some of the devices, with the forms that they need."""
        needed = sorted({self.form_of[place] for place in places})
        return Sources(
            tuple(self.names[place] for place in places),
            tuple(self.forms[form] for form in needed),
            tuple(self.views[place] for place in places),
            tuple(needed.index(self.form_of[place]) for place in places),
        )

    @cached_property
    def key(self) -> str:
        """Changes with anything that they are made of."""
        own = [*self.keys, *(map(str, self.laws)), *([self.shared.key] if self.shared else [])]
        hashed = hashlib.sha256("\n".join(own).encode())
        return hashed.hexdigest()[:20]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The same of each device."""
        forms = [parts_key(form.parts()) for form in self.forms]
        views = [parts_key(Parts("view", {}, view.arrays)) for view in self.views]
        return tuple(f"{view} {forms[form]}" for view, form in zip(views, self.form_of, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        """Without what forms have made to be fast, which no other process can use."""
        parts = [(form.parts(), self.views[self.form_of.index(place)].width) for place, form in enumerate(self.forms)]
        kept = {"names": self.names, "views": self.views, "form_of": self.form_of, "shared": self.shared}
        return {**kept, "laws": self.laws, "parts": parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parts = state.pop("parts")
        forms = tuple(restore(own, width) for own, width in parts)
        self.__dict__.update(state, forms=forms)


def parts_key(parts: Parts) -> str:
    """Changes with anything that a form is made of."""
    hashed = hashlib.sha256(f"{parts.form} {sorted(parts.facts.items())}".encode())
    for name in sorted(parts.arrays):
        array = np.ascontiguousarray(parts.arrays[name])
        hashed.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    for inner in parts.inner:
        hashed.update(parts_key(inner).encode())
    return hashed.hexdigest()[:20]


def with_sources(table: Table, sources: Sources) -> Table:
    """The same table with what is known of its rows on other devices."""
    return replace(table, sources=sources, source_logs=sources.logs(table.inputs))


def sources_of(table: Table) -> tuple[Sources, Array]:
    """What a table knows of other devices, and what they say of its rows."""
    if not isinstance(table.sources, Sources) or table.source_logs is None:
        raise UsageError(NEEDED)
    return table.sources, table.source_logs


def beside(inputs: Array, logs: Array) -> Array:
    """Inputs, and behind them what other devices take, in numbers that fit float32 as all inputs are."""
    return np.concatenate([inputs, rounded(logs)], axis=1)


def beside_inputs(table: Table) -> Table:
    """The same rows with what other devices take among their inputs."""
    sources, logs = sources_of(table)
    names = (*table.schema.names, *(f"seconds on {name}" for name in sources.names))
    inputs = beside(table.inputs, logs)
    return Table(Schema(names, table.schema.categories), inputs, table.target, table.groups)
