"""Random layers of a kind, drawn from its own default sweep, and as columns."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from medn.core.values import Layer
from medn.layer_generators.kind import LayerKind, Values
from medn.layer_generators.kind_conformance import draw, small_layers

__all__ = ["draw", "small_layers"]


@pytest.fixture(scope="session")
def as_columns() -> Callable[[LayerKind, list[Layer]], Values]:
    """Layers of one kind as the columns that its formulas take."""

    def columns(kind: LayerKind, layers: list[Layer]) -> Values:
        told = [vars(kind.values_of(layer)) for layer in layers]
        return SimpleNamespace(**{each.name: np.array([own[each.name] for own in told]) for each in kind.parameters})

    return columns
