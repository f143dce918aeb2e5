"""A deployed network predicts what torch predicts, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from medn.core.table import Schema, Table
from medn.network.design import SCALED_ROWS
from medn.regressors.form import Parts
from medn.regressors.forms.network import CHUNK, NetworkForm
from medn.regressors.networks import FittedNetwork, fit_networks
from medn.regressors.regressor import Effort, regressors

torch = pytest.importorskip("torch")


def make_table(rows: int, seed: int) -> Table:
    random = np.random.default_rng(seed)
    inputs = np.column_stack(
        [random.uniform(1, 1e4, (rows, 3)), random.uniform(0, 1, rows), random.integers(0, 2, rows)]
    )
    inputs = inputs.astype(np.float32).astype(np.float64)
    schema = Schema(("a", "b", "c", "utilization", "cache"), {"cache": ("hot", "cold")})
    return Table(schema, inputs, 1e-6 * inputs[:, 0] ** 0.7 * (1 + inputs[:, 3]), np.arange(rows).astype(str))


@pytest.fixture(scope="module", params=[{"frequencies": 3}, {"frequencies": 0, "residual": False}], ids=["medn", "mlp"])
def fitted(request: pytest.FixtureRequest) -> FittedNetwork:
    tables = {"kind": (make_table(300, 0), make_table(80, 1))}
    return fit_networks(tables, {**request.param, "epochs": 2}, Effort(20.0))["kind"]


@pytest.mark.parametrize("rows", [1, CHUNK, 2 * CHUNK + 1])
def test_the_form_predicts_what_torch_predicts(fitted: FittedNetwork, rows: int) -> None:
    inputs = make_table(rows, 2).inputs
    assert fitted.export().predict(inputs) == pytest.approx(fitted.predict(inputs), rel=1e-5)


def test_factors_of_columns_are_part_of_the_deployed_weights() -> None:
    tables = {"kind": (make_table(SCALED_ROWS, 0), make_table(80, 1))}
    fitted = fit_networks(tables, {"epochs": 1, "width": 32, "hidden": 16}, Effort(20.0))["kind"]
    scale = next(values for name, values in fitted.path.state_dict().items() if name.endswith("scale"))
    assert (scale != 1).any()
    inputs = make_table(50, 2).inputs
    assert fitted.export().predict(inputs) == pytest.approx(fitted.predict(inputs), rel=1e-5)
    assert [name for name, _ in fitted.export().steps] == ["waves", "dense", "residual", "residual", "silu", "dense"]


def test_few_rows_learn_no_factors_of_columns(fitted: FittedNetwork) -> None:
    assert not any(name.endswith("scale") for name in fitted.path.state_dict())


def test_no_inputs_make_no_predictions(fitted: FittedNetwork) -> None:
    assert len(fitted.export().predict(np.empty((0, 5)))) == 0


def test_far_away_predictions_stay_within_bounds(fitted: FittedNetwork) -> None:
    seconds = fitted.export().predict(np.array([[1e30, 1e30, 1e30, 1e6, -1.0], [0.0, 0.0, 0.0, 0.0, 0.0]]))
    assert ((seconds > 1e-10) & (seconds < 1e3)).all()


WITHOUT_TORCH = """
import json, sys
import numpy as np
sys.modules["torch"] = None
from medn.regressors.form import Parts, restore
parts = Parts("network", json.load(open("facts.json")), dict(np.load("arrays.npz")))
inputs = np.load("inputs.npy")
np.save("predicted.npy", restore(parts, inputs.shape[1]).predict(inputs))
"""


def test_saved_parts_predict_without_torch(fitted: FittedNetwork, tmp_path: Path) -> None:
    form, inputs = fitted.export(), make_table(20, 3).inputs
    parts: Parts = form.parts()
    (tmp_path / "facts.json").write_text(json.dumps(dict(parts.facts)))
    np.savez(tmp_path / "arrays.npz", **parts.arrays)
    np.save(tmp_path / "inputs.npy", inputs)
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], cwd=tmp_path, check=True, timeout=120)
    assert np.array_equal(np.load(tmp_path / "predicted.npy"), form.predict(inputs))


@pytest.mark.parametrize("name", ["medn", "mlp"])
@pytest.mark.parametrize("columns", [5, 40, 120])
def test_a_network_has_at_most_a_hundred_thousand_parameters(name: str, columns: int) -> None:
    random = np.random.default_rng(0)
    inputs = random.uniform(1, 1e4, (40, columns)).astype(np.float32).astype(np.float64)
    schema = Schema(tuple(f"column_{place}" for place in range(columns)))
    table = Table(schema, inputs, inputs[:, 0] * 1e-6, np.arange(40).astype(str))
    form = regressors[name].fit(table, table, {"epochs": 1}, Effort(2.0)).export()
    assert isinstance(form, NetworkForm)
    count = sum(array.size for _, arrays in form.steps for array in arrays.values())
    assert 10_000 < count <= 100_000
