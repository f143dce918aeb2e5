"""How layers compose on a machine, learned from the blocks of models that a run has timed beside its layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from medn.bundle.bundle import Bundle, read_bundle, write_bundle
from medn.capture.captured_model import parse_captured
from medn.core.preempted import tells_wall_time
from medn.core.store import JOURNAL_NAME, BlockVisit, MeasuredBlock
from medn.estimator.layer_predictor import LayerPredictor
from medn.model.composition import Composition
from medn.model.fit_composition import Prior, fit_composition, whole_error
from medn.model.prepared_model import PreparedModel
from medn.model.usual_composition import composition_elsewhere
from medn.runs.folder import RunFolder

PRIOR_WEIGHT = 0.01

NOT_THE_MODEL = 0.05
"""How far off a model is whose blocks are predicted without an error: they run in turns, and not one after another."""

Timed = tuple[MeasuredBlock, tuple[BlockVisit, ...]]


def learn_compositions(run: Path, path: Path) -> dict[str, Composition]:
    """Add to a run's bundle how layers compose, for each device that has timed blocks; these compositions.

    A run without any leaves the bundle as it is.
    """
    if not (run / JOURNAL_NAME).is_file():
        return {}
    with RunFolder(run).store(must_exist=True) as store:
        blocks = list(store.blocks())
    if not blocks:
        return {}
    bundle = read_bundle(path)
    found = {device: composition_of(bundle, device, blocks) for device in bundle.devices}
    learned = {device: composition for device, composition in found.items() if composition is not None}
    write_bundle(path, replace(bundle, compositions={name: asdict(each) for name, each in learned.items()}))
    return learned


def composition_of(bundle: Bundle, device: str, blocks: Sequence[Timed]) -> Composition | None:
    """What the blocks on a device say; None where there are none."""
    own = [(block.content, visits) for block, visits in blocks if block.device == device]
    if not own:
        return None
    predictor = LayerPredictor(bundle, device)
    by_processor_time = tells_wall_time([[visit.samples for visit in visits] for _, visits in own])
    captured = [parse_captured(block["captured"].encode(), block["name"]) for block, _ in own]
    measured = [
        (PreparedModel(predictor, model), _seconds(visits, by_processor_time))
        for model, (_, visits) in zip(captured, own, strict=True)
    ]
    usual = composition_elsewhere(predictor)
    fitted = fit_composition(
        predictor,
        measured,
        networks=[(block["source"], block["within"]) for block, _ in own],
        prior=Prior(usual, PRIOR_WEIGHT),
        working_bytes=[block["working_bytes"] for block, _ in own],
        error_of=whole_error,
    )
    # Too few blocks cannot tell how far off they are.
    return replace(fitted, error=math.hypot(fitted.error, NOT_THE_MODEL) if fitted.error else usual.error)


def _seconds(visits: Sequence[BlockVisit], by_processor_time: bool) -> float:
    """The shortest run of all, as for whole models; by processor time where all of a visit's were pre-empted."""
    return min(visit.samples.shortest_s(by_processor_time) for visit in visits)
