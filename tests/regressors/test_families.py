"""What is true of every regressor in the registry; a new family is tested by being there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medn.core.errors import UsageError
from medn.core.metrics import score
from medn.core.table import Array, Schema, Table
from medn.regressors.form import Form, Parts, restore
from medn.regressors.regressor import Effort, Fitted, Regressor, regressors

FAMILIES = [name for name in regressors if regressors[name].missing() is None]
SECONDS = 3.0
"""Enough for a few hundred rows, and little enough for every family to be fitted several times."""

BY_STEPS = [name for name in ("lightgbm", "xgboost", "hist_boosting", "random_forest") if name in FAMILIES]

Fit = Callable[[str], Fitted]


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Regressor:
    return regressors[request.param]


@pytest.fixture(scope="module")
def fitted(train: Table, validation: Table) -> Fit:
    """Each family fitted once for all tests that only look."""
    known: dict[str, Fitted] = {}

    def fit(name: str) -> Fitted:
        if name not in known:
            load_libraries(regressors[name], train)
            known[name] = quick_fit(regressors[name], train, validation)
        return known[name]

    return fit


def quick_fit(family: Regressor, train: Table, validation: Table, seconds: float = SECONDS) -> Fitted:
    return family.fit(train, validation, family.defaults, Effort(seconds=seconds, seed=1))


def load_libraries(family: Regressor, train: Table) -> None:
    """Importing a library takes seconds that a short fit does not have."""
    quick_fit(family, train.take(np.arange(20)), train.take(np.arange(20, 30)), seconds=0.1)


def far_away(table: Table) -> Array:
    """Inputs that no measurement was near: everything tiny, huge, or of an unknown category."""
    rows = table.inputs[:20]
    inputs = np.vstack([rows * 1e-3, rows * 1e3, np.zeros_like(rows), rows * 1e6])
    inputs[:, table.schema.index("function")] = -1
    return inputs.astype(np.float32).astype(np.float64)


def test_it_beats_the_median(family: Regressor, fitted: Fit, held_out: Table) -> None:
    error = score(fitted(family.name).predict(held_out.inputs), held_out.target).mape
    baseline = score(fitted("median").predict(held_out.inputs), held_out.target).mape
    assert family.name == "median" or error < min(0.5, baseline / 4)


def test_the_deployed_form_predicts_what_was_fitted(family: Regressor, fitted: Fit, held_out: Table) -> None:
    inputs = np.vstack([held_out.inputs, far_away(held_out)])
    own = fitted(family.name)
    assert own.export().predict(inputs) == pytest.approx(own.predict(inputs), rel=1e-4)


def test_saved_parts_predict_the_same(family: Regressor, fitted: Fit, held_out: Table) -> None:
    form = fitted(family.name).export()
    restored = restore(through_json(form.parts()), held_out.inputs.shape[1])
    assert np.array_equal(restored.predict(held_out.inputs), form.predict(held_out.inputs))


def through_json(parts: Parts) -> Parts:
    """Parts as they come back from a file; fails on anything but numbers in arrays and JSON in facts."""
    assert all(array.dtype.kind in "fiub" for array in parts.arrays.values())
    inner = tuple(through_json(part) for part in parts.inner)
    return Parts(parts.form, json.loads(json.dumps(dict(parts.facts))), dict(parts.arrays), inner)


def test_one_row_predicts_what_it_does_among_others(family: Regressor, fitted: Fit, held_out: Table) -> None:
    form = fitted(family.name).export()
    alone = np.concatenate([form.predict(held_out.inputs[row : row + 1]) for row in range(5)])
    assert alone == pytest.approx(form.predict(held_out.inputs)[:5], rel=1e-5)


def test_far_outside_predictions_are_finite_and_positive(family: Regressor, fitted: Fit, held_out: Table) -> None:
    predicted = fitted(family.name).export().predict(far_away(held_out))
    assert np.isfinite(predicted).all()
    assert (predicted > 0).all()


def test_inputs_are_left_as_they_are(family: Regressor, fitted: Fit, held_out: Table) -> None:
    inputs = held_out.inputs.copy()
    fitted(family.name).export().predict(inputs)
    assert np.array_equal(inputs, held_out.inputs)


def test_the_same_seed_gives_the_same_regressor(family: Regressor, train: Table, validation: Table) -> None:
    few, checked = train.take(np.arange(40)), validation.take(np.arange(20))
    first, second = (quick_fit(family, few, checked, seconds=30.0) for _ in range(2))
    assert np.array_equal(first.predict(validation.inputs), second.predict(validation.inputs))


def test_a_fit_keeps_to_its_time(family: Regressor, latency_table: Callable[..., Table]) -> None:
    train, validation = latency_table(4000), latency_table(500, seed=1)
    load_libraries(family, train)
    began, granted_s = time.process_time(), 1.0
    quick_fit(family, train, validation, seconds=granted_s)
    assert time.process_time() - began < 5 * granted_s


def test_it_learns_from_twelve_rows(family: Regressor, train: Table, held_out: Table) -> None:
    form = quick_fit(family, train.take(np.arange(12)), train.take(np.arange(12, 16)), seconds=1.0).export()
    assert np.isfinite(form.log_value(held_out.inputs)).all()


def test_a_fit_without_time_still_gives_a_regressor(family: Regressor, train: Table, held_out: Table) -> None:
    form = quick_fit(family, train.take(np.arange(30)), train.take(np.arange(30, 40)), seconds=0.0).export()
    assert np.isfinite(form.log_value(held_out.inputs)).all()


def test_no_rows_predict_nothing(family: Regressor, fitted: Fit, held_out: Table) -> None:
    assert fitted(family.name).export().predict(held_out.inputs[:0]).shape == (0,)


def test_constant_columns_do_no_harm(family: Regressor, train: Table, validation: Table) -> None:
    def frozen(table: Table) -> Table:
        inputs = table.inputs.copy()
        inputs[:, [train.schema.index(name) for name in ("kernel_size", "function", "utilization")]] = 1.0
        return replace(table, inputs=inputs)

    form = quick_fit(family, frozen(train), frozen(validation), seconds=1.0).export()
    assert np.isfinite(form.log_value(validation.inputs)).all()


def test_the_defaults_are_a_point_of_the_search(family: Regressor) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study()
    study.enqueue_trial(dict(family.defaults))
    assert dict(family.suggest(study.ask())) == dict(family.defaults)


@pytest.mark.parametrize("name", ["linear", "roofline", "lightgbm_on_roofline", "xgboost_on_roofline"])
def test_a_table_without_work_is_refused_in_one_sentence(name: str, train: Table) -> None:
    bare = Table(Schema(("in_channels",)), train.inputs[:, :1], train.target, train.groups)
    with pytest.raises(UsageError, match="a roofline needs the inputs 'flops' and 'memory_bytes'"):
        quick_fit(regressors[name], bare, bare)


@pytest.mark.parametrize("name", BY_STEPS)
def test_without_validation_rows_the_latest_step_counts(name: str, train: Table) -> None:
    def report(step: int, error: float) -> None:
        raise AssertionError("there is no error to report")

    family = regressors[name]
    fitted = family.fit(train, train.take(np.arange(0)), family.defaults, Effort(seconds=0.5, report=report))
    assert score(fitted.predict(train.inputs), train.target).mape < 1.0


@pytest.mark.parametrize("name", BY_STEPS)
def test_steps_report_the_validation_error_and_a_report_can_end_the_fit(
    name: str, train: Table, validation: Table
) -> None:
    class Hopeless(Exception):
        pass

    errors = []

    def report(step: int, error: float) -> None:
        errors.append(error)
        if len(errors) == 2:
            raise Hopeless

    family = regressors[name]
    with pytest.raises(Hopeless):
        family.fit(train, validation, family.defaults, Effort(seconds=SECONDS, report=report))
    assert 0 < errors[1] <= errors[0]


TRAINING_LIBRARIES = ("torch", "sklearn", "lightgbm", "xgboost", "scipy", "optuna", "pandas", "joblib")

DEPLOYED = """
import json, sys
from pathlib import Path
import numpy as np
for name in {blocked}:
    sys.modules[name] = None
from medn.regressors.form import Parts, restore

def load(folder):
    facts = json.loads((folder / "facts.json").read_text())
    inner = tuple(load(child) for child in sorted(path for path in folder.iterdir() if path.is_dir()))
    return Parts(facts["form"], facts["facts"], dict(np.load(folder / "arrays.npz", allow_pickle=False)), inner)

for folder in sorted(Path(sys.argv[1]).iterdir()):
    inputs = np.load(folder / "inputs.npy")
    predicted = restore(load(folder / "form"), inputs.shape[1]).predict(inputs)
    assert np.allclose(predicted, np.load(folder / "expected.npy"), rtol=1e-4), folder
"""


@pytest.mark.parametrize("without_onnxruntime", [False, True])
def test_a_deployed_form_needs_no_training_library(
    without_onnxruntime: bool, fitted: Fit, held_out: Table, tmp_path: Path
) -> None:
    for name in FAMILIES:
        folder = tmp_path / name
        form = fitted(name).export()
        save(form, folder / "form")
        np.save(folder / "inputs.npy", held_out.inputs)
        np.save(folder / "expected.npy", form.predict(held_out.inputs))
    blocked = TRAINING_LIBRARIES + ("onnx", "onnxruntime") * without_onnxruntime
    command = [sys.executable, "-c", DEPLOYED.format(blocked=blocked), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def save(form: Form | Parts, folder: Path) -> None:
    parts = form.parts() if isinstance(form, Form) else form
    folder.mkdir(parents=True)
    (folder / "facts.json").write_text(json.dumps({"form": parts.form, "facts": dict(parts.facts)}))
    np.savez(folder / "arrays.npz", **parts.arrays)
    for place, inner in enumerate(parts.inner):
        save(inner, folder / str(place))
