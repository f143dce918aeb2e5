"""A captured model as a predictor's backend runs it: layers that the backend fuses are one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from medn.capture.values import CapturedLayer, CapturedModel
from medn.fusion.applying import fuse
from medn.fusion.rulebook import rules_for
from medn.layer_generators.fused import ENDINGS, FUSED_KINDS
from medn.layer_generators.kind import layer_kinds

if TYPE_CHECKING:
    from medn.predictor.predictor import Predictor

HEAD_KINDS = {fused: head for head, fused in FUSED_KINDS.items()}


def as_run(predictor: Predictor, model: CapturedModel, fused: bool = True) -> CapturedModel:
    """With `fused` false as if the backend fused nothing; its bundle may know products by their fused kinds alone."""
    rules = rules_for(predictor.bundle.backend(predictor.device))
    if rules is None:
        return model
    running = fuse(model, rules if fused else replace(rules, folded=(), counts=()))
    return replace(running, layers=tuple(_as_known(layer, predictor.kinds) for layer in running.layers))


def _as_known(captured: CapturedLayer, kinds: Collection[str]) -> CapturedLayer:
    """A group of a kind that was not measured is taken for its head alone: what the head absorbs costs little."""
    layer = captured.layer
    if layer is None or layer.kind in kinds or layer.kind not in HEAD_KINDS:
        return captured
    endings = [ending.name for ending in ENDINGS]
    own = {name: value for name, value in layer.values.items() if name not in endings}
    return replace(captured, layer=layer_kinds[HEAD_KINDS[layer.kind]].layer(**own))
