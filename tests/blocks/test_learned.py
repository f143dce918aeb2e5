"""What blocks that were timed say of how layers compose, and how that gets into a bundle."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import medn
from medn.blocks.learned import NOT_THE_MODEL, learn_compositions
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.store import BlockVisit, MeasuredBlock
from medn.core.values import Samples
from medn.model.usual_composition import composition_elsewhere
from medn.predictor.predictor import Predictor
from medn.runs.folder import RunFolder


def block(number: int) -> CapturedModel:
    return capture(torch.nn.Sequential(torch.nn.Linear(100, 80 + 40 * number), torch.nn.ReLU()), torch.zeros(1, 100))


def timed(predictor: Predictor, number: int, factor: float) -> tuple[MeasuredBlock, BlockVisit]:
    captured = block(number)
    content = {
        **{"source": "python:nets:make", "batch_size": None, "threads": 1, "name": str(number), "within": str(number)},
        **{"share": 0.2, "working_bytes": 1e6, "captured": captured.to_json().decode()},
    }
    seconds = factor * predictor.model(captured).latency_s * np.array([1.3, 1.0, 1.1])
    samples = Samples(seconds, seconds, np.zeros(3, dtype=np.bool_))
    return MeasuredBlock(predictor.device, content), BlockVisit(1e9 + number, samples)


@pytest.fixture
def run(bundle_path: Path, tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    shutil.copy(bundle_path, folder.path / "run.medn")
    return folder


def test_blocks_that_take_longer_than_their_layers_stretch_models(run: RunFolder) -> None:
    bundle = run.path / "run.medn"
    before = medn.load(bundle)
    with run.store() as store:
        store.record_blocks(timed(before, number, 1.4) for number in range(5))
    (composition,) = learn_compositions(run.path, bundle).values()
    assert composition.stretch == pytest.approx(1.4, abs=0.05)  # some of it is taken for what each layer has more
    assert not composition.elsewhere
    after, model = medn.load(bundle), block(7)
    assert after.model(model).composition == composition
    assert after.model(model).latency_s == pytest.approx(1.4 * before.model(model).latency_s, rel=0.03)
    assert after.layer("linear", in_features=100, out_features=100) == before.layer(
        "linear", in_features=100, out_features=100
    )


def test_a_run_without_blocks_leaves_its_bundle_as_it_is(run: RunFolder) -> None:
    bundle = run.path / "run.medn"
    content = bundle.read_bytes()
    assert learn_compositions(run.path, bundle) == {}
    with run.store():
        pass
    assert learn_compositions(run.path, bundle) == {}
    assert bundle.read_bytes() == content


def test_one_block_is_explained_by_all_numbers_together_none_of_which_moves_all_the_way(run: RunFolder) -> None:
    bundle = run.path / "run.medn"
    before = medn.load(bundle)
    with run.store() as store:
        store.record_blocks([timed(before, 0, 1.4)])
    (composition,) = learn_compositions(run.path, bundle).values()
    assert 1 < composition.stretch < 1.3
    assert composition.overhead_s > 0
    assert medn.load(bundle).model(block(0)).latency_s == pytest.approx(
        1.4 * before.model(block(0)).latency_s, rel=0.02
    )


def test_too_few_blocks_to_leave_one_out_err_as_is_usual(run: RunFolder) -> None:
    bundle = run.path / "run.medn"
    with run.store() as store:
        store.record_blocks([timed(medn.load(bundle), 0, 1.4)])
    (composition,) = learn_compositions(run.path, bundle).values()
    assert composition.error == composition_elsewhere(medn.load(bundle)).error


def test_a_small_block_that_is_far_off_widens_no_model_by_as_much(run: RunFolder) -> None:
    bundle = run.path / "run.medn"
    before = medn.load(bundle)
    with run.store() as store:
        store.record_blocks(timed(before, number, 3.0 if number == 0 else 1.1) for number in (0, 20, 25, 30, 35, 40))
    (composition,) = learn_compositions(run.path, bundle).values()
    assert NOT_THE_MODEL < composition.error < 0.3
