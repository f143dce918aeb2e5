"""How the time of the quickstart is shared out."""

from __future__ import annotations

SHORTEST_S = 40.0
SWEEP_SHARE = 0.48
TRAIN_SHARE = 0.14
"""Of the time; the rest is for choosing, the fresh measurements and the report."""

FAMILIES = ("gaussian_process", "roofline", "lasso")
"""What learns most from some dozens of layers in a few seconds."""
FURTHER_FAMILIES = ("lightgbm_on_roofline", "xgboost_on_roofline", "medn_on_roofline")
ENOUGH_TRAINING_S = 60.0
"""With less time than this they would learn little, and leave the others less."""


def families(training_s: float) -> tuple[str, ...]:
    return (*FAMILIES, *FURTHER_FAMILIES) if training_s >= ENOUGH_TRAINING_S else FAMILIES
