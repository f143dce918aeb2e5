"""The rules of a layer kind as a flag: whether a layer breaks none of them, whichever way its rules go to tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from medn.layer_generators.kind import LayerKind
from medn.program.symbols import Tape


def keeps_rules(tape: Tape, kind: LayerKind, layer: SimpleNamespace) -> Any:
    """For a layer of symbols. Raises `Untraceable` where rules need more than arithmetic."""
    kept: Any = tape.constant(1.0)
    for flag, mistake in tape.every_way(lambda: next(iter(kind.rules(layer)), None)):
        kept = kept if mistake is None else kept & ~flag
    return kept
