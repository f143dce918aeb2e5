"""How layers compose into models on a backend, where no models were measured beside the bundle.

Fitted by `python -m experiments.whole_models` to nine networks at batch sizes 1, 4 and 16, with one thread on a server
processor (docs/results.md). They are shares and factors, which move less between machines than times do; a fit to
blocks or models on one's own machine (`medn sweep --for`, `medn compose`) is better still.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from medn.model.composition import HOT, Composition, composition_from

if TYPE_CHECKING:
    from medn.estimator.layer_predictor import LayerPredictor

USUAL: Mapping[str, Composition] = {
    "torch": Composition(
        stretch=1.1, small_share=0.23, large_share=1.0, error=0.16, largest_batch=16, batch_error=0.07, elsewhere=True
    ),
    "onnxruntime": Composition(
        stretch=1.06, small_share=0.0, large_share=0.57, error=0.41, largest_batch=16, batch_error=0.17, elsewhere=True
    ),
}
"""By backend; on others every layer is taken to run as it does alone."""


def usual_composition(predictor: LayerPredictor) -> Composition:
    """As blocks of models showed it that were timed beside the layers; else as on another machine.

    Without layers that were measured both hot and cold nothing is known of what a model adds to them.
    """
    if learned := predictor.bundle.compositions.get(predictor.device):
        return composition_from(learned, "the composition in the bundle")
    return composition_elsewhere(predictor)


def composition_elsewhere(predictor: LayerPredictor) -> Composition:
    """As layers compose on the backend on another machine."""
    measured = (predictor.estimator(kind).range.schema.categories.get("cache", ()) for kind in predictor.kinds)
    if not any({"hot", "cold"} <= set(states) for states in measured):
        return HOT
    return USUAL.get(predictor.bundle.backend(predictor.device), HOT)
