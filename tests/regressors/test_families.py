"""Every family keeps what all families must, and what some of them must beside."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medn.core.errors import UsageError
from medn.core.metrics import score
from medn.core.table import Schema, Table
from medn.regressors.conformance import *  # noqa: F403
from medn.regressors.conformance import FAMILIES, SECONDS, Fit, load_libraries, quick_fit
from medn.regressors.form import Form, Parts
from medn.regressors.forms.roofline import WORK
from medn.regressors.regressor import Effort, regressors

STEPWISE = ("lightgbm", "xgboost", "catboost", "hist_boosting", "random_forest")
BY_STEPS = [name for name in STEPWISE if name in FAMILIES]

ON_ROOFLINE = ["linear", *(name for name in FAMILIES if name.endswith("roofline"))]


@pytest.mark.parametrize("name", ON_ROOFLINE)
def test_a_table_without_work_is_refused_in_one_sentence(name: str, train: Table) -> None:
    bare = Table(Schema(("in_channels",)), train.inputs[:, :1], train.target, train.groups)
    with pytest.raises(UsageError, match="a roofline needs the inputs 'flops' or 'moved_bytes'"):
        quick_fit(regressors[name], bare, bare)


@pytest.mark.parametrize(("name", "stated"), [("linear", "flops"), ("roofline", "flops"), ("roofline", "moved_bytes")])
def test_arithmetic_or_traffic_alone_is_work_enough(name: str, stated: str, train: Table, held_out: Table) -> None:
    def seen(table: Table) -> Table:
        names = tuple(name for name in table.schema.names if name not in WORK or name == stated)
        columns = [table.schema.index(name) for name in names]
        return replace(table, schema=Schema(names), inputs=table.inputs[:, columns])

    fitted = quick_fit(regressors[name], seen(train), seen(train))
    assert score(fitted.predict(seen(held_out).inputs), held_out.target).mape < 0.5


@pytest.mark.parametrize("name", BY_STEPS)
def test_without_validation_rows_the_latest_step_counts(name: str, train: Table) -> None:
    def report(step: int, error: float) -> None:
        raise AssertionError("there is no error to report")

    family, nothing = regressors[name], train.take(np.arange(0))
    load_libraries(family, train)
    fitted = family.fit(train, nothing, family.defaults, Effort(0.5, report=report, clock=time.process_time))
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


TRAINING_LIBRARIES = ("torch", "sklearn", "lightgbm", "xgboost", "catboost", "scipy", "optuna", "pandas", "joblib")

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


@pytest.mark.parametrize("name", [name for name in FAMILIES if "patience" in regressors[name].defaults])
def test_who_stops_early_tells_its_errors_and_stops_where_it_is_told_to(
    name: str, train: Table, validation: Table
) -> None:
    family, nothing = regressors[name], train.take(np.arange(0))
    stopped = family.fit(train, validation, family.defaults, Effort(seconds=SECONDS, seed=1))
    assert len(stopped.step_errors) > 2
    sizes = [
        family.fit(train, nothing, family.defaults, Effort(seconds=60.0, seed=1, steps=steps))
        .export()
        .parts()
        .size_bytes
        for steps in (1, 2)
    ]
    assert sizes[0] < sizes[1]
