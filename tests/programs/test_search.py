"""With TVM: a predictor ranks the candidates of a search, and finds schedules for the layers of a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from medn.capture.capture import capture
from medn.core.errors import UsageError
from medn.devices.backend import backends
from medn.devices.program_loops import stored_nests
from medn.devices.tensor_programs import task_of
from medn.layer_generators.kind import layer_kinds
from medn.programs import ProgramPredictor, TensorProgram, cost_model, search_model, train_programs, tuned
from medn.programs.programs import MeasuredPrograms
from medn.programs.search_model import device_of, programs_of, work_of

DEVICE = "tvm-x86-64"
pytestmark = pytest.mark.skipif(backends[DEVICE].missing() is not None, reason=backends[DEVICE].missing() or "")

SETTINGS = {
    **{key: {"epochs": 2} for key in ("ast_encoder", "primitive_attention", "nest_encoder")},
    **{key: {"most_trees": 20} for key in ("xgboost_pooled", "xgboost_nests")},
}
FAMILIES = tuple(SETTINGS)


@pytest.fixture(scope="module")
def predictors(programs: MeasuredPrograms) -> dict[str, ProgramPredictor]:
    found = train_programs(programs, families=FAMILIES, settings=SETTINGS)
    return {each.predictor.family: each.predictor for each in found}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_cost_model_scores_candidates_as_the_predictor_does(
    family: str, predictors: dict[str, ProgramPredictor]
) -> None:
    from tvm.s_tir.meta_schedule import MeasureCandidate

    layer = layer_kinds["matmul"].layer(rows=24, inner=16, columns=32)
    task = task_of(layer, 1, "x86-64", 1)
    drawn = [task.program(number) for number in (1, 2, 3)]
    model = cost_model(predictors[family])
    scores = model.predict(task.context, [MeasureCandidate(each.schedule, []) for each in drawn])
    kept = [TensorProgram.of_layer(layer, 1, DEVICE, each.record()) for each in drawn]
    np.testing.assert_allclose(scores, predictors[family].rank_score(kept), rtol=1e-3, atol=1e-4)


def test_the_cost_model_learns_from_the_trials_of_a_task(predictors: dict[str, ProgramPredictor]) -> None:
    from tvm.s_tir.meta_schedule import MeasureCandidate
    from tvm.s_tir.meta_schedule.runner import RunnerResult

    tasks = [task_of(layer_kinds["matmul"].layer(rows=24, inner=16, columns=each), 1, "x86-64", 1) for each in (32, 40)]
    drawn = [[MeasureCandidate(task.program(n).schedule, []) for n in range(1, 9)] for task in tasks]
    model = cost_model(predictors["xgboost_nests"])
    before = [model.predict(task.context, own) for task, own in zip(tasks, drawn, strict=True)]
    seconds = 1e-3 * np.exp(before[0] - before[0].mean())  # the fastest as predicted turn out to be the slowest
    results = [RunnerResult([each], None) for each in seconds[:-1]] + [RunnerResult(None, "crashed")]
    model.update(tasks[0].context, drawn[0], results)
    after = [model.predict(task.context, own) for task, own in zip(tasks, drawn, strict=True)]
    right = np.corrcoef(after[0][:-1], -np.log(seconds[:-1]))[0, 1]
    assert right > np.corrcoef(before[0][:-1], -np.log(seconds[:-1]))[0, 1] + 0.5
    np.testing.assert_array_equal(after[1], before[1])


def test_a_candidate_that_cannot_be_lowered_comes_last(
    predictors: dict[str, ProgramPredictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvm.s_tir.meta_schedule import MeasureCandidate
    from tvm.s_tir.meta_schedule.runner import RunnerResult

    task = task_of(layer_kinds["matmul"].layer(rows=24, inner=16, columns=32), 1, "x86-64", 1)
    drawn = [MeasureCandidate(task.program(number).schedule, []) for number in range(1, 7)]
    broken = drawn[2].sch.mod

    def lowered(module: object) -> list[dict[str, object]]:
        if module.same_as(broken):  # type: ignore[attr-defined]
            raise RuntimeError("Divide by zero")
        return stored_nests(module)

    monkeypatch.setattr(search_model, "stored_nests", lowered)
    model = cost_model(predictors["xgboost_nests"])
    for _ in range(2):
        assert int(model.predict(task.context, drawn).argmin()) == 2
        model.update(task.context, drawn, [RunnerResult([1e-3 * at], None) for at in range(1, 7)])


def test_the_work_of_a_module_is_that_of_its_layer() -> None:
    layer = layer_kinds["matmul"].layer(rows=24, inner=16, columns=32)
    assert work_of(task_of(layer, 1, "x86-64", 1).module) == (2 * 24 * 16 * 32, 4 * (24 * 16 + 16 * 32 + 24 * 32))


def test_the_device_follows_from_the_processor_of_the_target() -> None:
    layer = layer_kinds["softmax"].layer(features=8)
    task = task_of(layer, 1, "haswell", 1)
    assert device_of(task.target, ("tvm-avx", "tvm-avx2")) == "tvm-avx2"
    assert device_of(task.target, ("tvm-avx", "torch", "none such")) == ""
    assert programs_of(task.context, [], "tvm-avx2", "leaves") == []


def test_a_device_that_the_bundle_does_not_know_is_refused(predictors: dict[str, ProgramPredictor]) -> None:
    with pytest.raises(UsageError, match="no device named 'tvm-avx3'"):
        cost_model(predictors["ast_encoder"], device="tvm-avx3")


def test_every_layer_of_a_model_gets_the_schedule_predicted_fastest(
    predictors: dict[str, ProgramPredictor], tmp_path: Path
) -> None:
    predictors["ast_encoder"].save(tmp_path / "programs.medn")
    linear = torch.nn.Linear(16, 16)
    model = capture(torch.nn.Sequential(linear, torch.nn.ReLU(), linear), torch.zeros(4, 16))
    found = tuned(model, tmp_path / "programs.medn", device=DEVICE, schedules=3)
    assert {each.layer.kind: each.repeats for each in found.layers} == {"linear": 2, "activation": 1}
    assert all(each.schedule in (1, 2, 3) for each in found.layers)
    assert found.predicted_s == pytest.approx(sum(each.repeats * each.predicted_s for each in found.layers))
    assert found.measured_s(DEVICE) is None


def test_what_cannot_be_scheduled_is_counted_with_its_reason(predictors: dict[str, ProgramPredictor]) -> None:
    model = capture(torch.nn.Embedding(10, 4), torch.zeros(1, 3, dtype=torch.int64))
    found = tuned(model, predictors["ast_encoder"], device=DEVICE, schedules=1)
    assert found.layers == ()
    assert found.left_out == {"embedding has no schedules": 1}
