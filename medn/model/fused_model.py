"""A captured model as a predictor's backend runs it: layers that the backend fuses are one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.fusion.fuse import fuse
from medn.fusion.rules import rules_for
from medn.layer_generators.fused import ENDINGS, FUSED_KINDS
from medn.layer_generators.kind import layer_kinds

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor

HEAD_KINDS = {fused: head for head, fused in FUSED_KINDS.items()}


def executed_model(predictor: LayerPredictor, model: CapturedModel, fused: bool = True) -> CapturedModel:
    """With `fused` false every layer stays by itself, as if the backend fused nothing."""
    executed = fused_by(predictor.bundle.backend(predictor.device), model) if fused else model
    layers = tuple(_as_measured(layer, predictor.kinds) for layer in executed.layers)
    return executed if layers == executed.layers else replace(executed, layers=layers)


def fused_by(backend: str, model: CapturedModel) -> CapturedModel:
    """As a backend runs it, whatever was measured; the same model where the backend fuses nothing."""
    rules = rules_for(backend)
    return model if rules is None else fuse(model, rules)


def _as_measured(captured: CapturedLayer, kinds: Collection[str]) -> CapturedLayer:
    """A group of a kind that was not measured is taken for its head alone: what the head absorbs costs little. A layer
    that was measured only as the head of groups is one without anything behind it."""
    layer = captured.layer
    if layer is None or layer.kind in kinds:
        return captured
    other = HEAD_KINDS.get(layer.kind) or FUSED_KINDS.get(layer.kind)
    if other is None or other not in kinds:
        return captured
    endings = [ending.name for ending in ENDINGS]
    own = {name: value for name, value in layer.values.items() if name not in endings}
    return replace(captured, layer=layer_kinds[other].layer(**own))
