"""Predictions: the same one by one and together, flagged outside, safe between threads, light to carry around."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import medn
from medn.bundle.bundle import read_bundle, write_bundle
from medn.core.errors import UsageError
from medn.core.table import as_inputs
from medn.estimator import layer_predictor as module
from medn.estimator.prediction import Prediction
from medn.layer_generators.features import analytic_columns
from medn.predictor.predictor import Predictor
from medn.program.engines import NUMPY, C, engine

LINEAR = {"in_features": 100, "out_features": 200, "batch_size": 8}


@pytest.fixture(scope="module")
def predictor(bundle_path: Path) -> Predictor:
    return medn.load(bundle_path)


def layers(count: int, seed: int = 0) -> dict[str, Any]:
    """Linear layers, most of them like those that were measured."""
    random = np.random.default_rng(seed)
    sizes = {name: np.exp(random.uniform(2.5, 7.5, count)).astype(int) for name in ("in_features", "out_features")}
    return {**sizes, "batch_size": random.choice([1, 8], count), "bias": random.random(count) < 0.5}


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    plain = {name: values.tolist() for name, values in columns.items()}
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]


def same(first: Prediction, second: Prediction, tolerance: float = 1e-9) -> bool:
    """The numbers nearly, everything else exactly."""
    return first[:3] == pytest.approx(second[:3], rel=tolerance) and first[3:] == second[3:]


def test_a_prediction_has_an_interval_around_it(predictor: Predictor) -> None:
    found = predictor.layer("linear", **LINEAR)
    assert 0 < found.low_s < found.latency_s < found.high_s
    assert found.in_range
    assert 0.8 <= found.level <= 0.9
    assert found.memory_bytes is None


@pytest.mark.parametrize("form", ["affine", "trees", "network", "both"])
def test_one_by_one_and_together_are_the_same(form: str, made_up_bundle: ModuleType, tmp_path: Path) -> None:
    predictor = medn.load(made_up_bundle.write_made_up_bundle(tmp_path / "run", form))
    columns = layers(60)
    together = predictor.predict(columns, "linear")
    assert 0 < together.in_range.sum() < 60
    tolerance = 1e-9 if form in ("affine", "trees") else 1e-6  # networks compute with 32 bits
    for row, found in zip(rows(columns), together, strict=True):
        for single in (predictor.layer("linear", **row), predictor.estimator("linear").layer(row)):
            assert same(single, found, tolerance)


@pytest.mark.skipif(engine() != C, reason="NumPy has one way for all")
def test_the_fast_way_is_taken(predictor: Predictor) -> None:
    estimator = predictor.estimator("linear")
    expected = estimator.layer(LINEAR)
    found = estimator.answering.one(LINEAR)
    assert found is not None
    assert same(found, expected, 1e-6)
    assert estimator.answering.one({**LINEAR, "in_features": "x"}) is None
    assert estimator.answering.one({**LINEAR, "in_features": 100.5}) is None
    assert estimator.answering.one({**LINEAR, "in_features": 0}) is None


def test_predictions_are_those_of_the_form_where_was_measured(predictor: Predictor) -> None:
    found, estimator = predictor.predict(layers(40), "linear"), predictor.estimator("linear")
    opened = estimator.query.open(layers(40), 40)
    inputs = as_inputs({**opened, **analytic_columns(estimator.kind, opened)}, estimator.range.schema)
    inside = found.in_range
    np.testing.assert_allclose(found.latency_s[inside], estimator.deployed.form.predict(inputs)[inside], rtol=1e-6)


def test_a_layer_far_beyond_is_flagged_and_goes_on_growing(predictor: Predictor) -> None:
    large = predictor.layer("linear", in_features=20_000, out_features=20_000)
    larger = predictor.layer("linear", in_features=40_000, out_features=20_000)
    assert not large.in_range
    assert not larger.in_range
    assert larger.latency_s == pytest.approx(2 * large.latency_s, rel=0.05)


@pytest.mark.parametrize("contradiction", [{"threads": 2}, {"utilization": 0.5}, {"dtype": "bf16"}, {"cache": "cold"}])
def test_a_condition_that_was_never_measured_is_flagged(predictor: Predictor, contradiction: dict[str, Any]) -> None:
    assert predictor.layer("linear", **LINEAR).in_range
    for _ in range(2):
        assert not predictor.estimator("linear").layer({**LINEAR, **contradiction}).in_range
    assert not predictor.predict({**LINEAR, **contradiction}, "linear").in_range.any()


def test_defaults_apply(predictor: Predictor) -> None:
    short = predictor.layer("linear", in_features=100, out_features=200)
    full = {"rows": 1, "bias": True, "batch_size": 1, "utilization": 0.0, "dtype": "fp32", "threads": 1, "cache": "hot"}
    assert same(predictor.layer("linear", in_features=100, out_features=200, **full), short)


def test_numbers_of_numpy_are_numbers(predictor: Predictor) -> None:
    expected = predictor.layer("linear", **LINEAR)
    assert predictor.layer("linear", **{name: np.int32(value) for name, value in LINEAR.items()}) == expected


def test_what_was_asked_before_is_remembered(predictor: Predictor) -> None:
    assert predictor.layer("linear", **LINEAR) is predictor.layer("linear", **LINEAR)


@pytest.mark.skipif(engine() != C, reason="NumPy remembers each order of names by itself")
def test_names_are_remembered_in_any_order(predictor: Predictor) -> None:
    backwards = {name: LINEAR[name] for name in reversed(LINEAR)}
    assert predictor.layer("linear", **backwards) is predictor.layer("linear", **LINEAR)


def test_what_is_remembered_is_not_mistaken_for_something_else(predictor: Predictor) -> None:
    known = predictor.layer("linear", **{**LINEAR, "batch_size": 1})
    assert predictor.layer("linear", **{**LINEAR, "out_features": 201, "batch_size": 1}) is not known
    with pytest.raises(UsageError, match="batch_size"):
        predictor.layer("linear", **{**LINEAR, "batch_size": True})
    with pytest.raises(UsageError, match="in_feature"):
        predictor.layer("linear", **LINEAR, in_feature=3)
    strange = [predictor.layer("linear", **LINEAR, cache=cache) for cache in ("hot", "cold")]
    assert [each.in_range for each in strange] == [True, False]
    assert "cold" in str(strange[1].outside)


def test_the_memory_for_layers_is_bounded(bundle_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 8)
    monkeypatch.setattr(module, "engine", lambda: NUMPY)  # the C engine has a table of fixed size
    predictor = medn.load(bundle_path)
    for size in range(100, 140):
        predictor.layer("linear", in_features=size, out_features=200)
    assert predictor._remembered.cache_info().currsize == 8
    last = {"in_features": 139, "out_features": 200}
    assert predictor.layer("linear", **last) is predictor.layer("linear", **last)


def test_eight_threads_get_the_same_as_one(bundle_path: Path) -> None:
    shared, columns = medn.load(bundle_path), layers(64, seed=3)
    asked = rows(columns)
    alone = medn.load(bundle_path)
    expected = [alone.layer("linear", **row) for row in asked]
    table = alone.predict(columns, "linear").latency_s

    def work(worker: int) -> bool:
        order = np.random.default_rng(worker).permutation(len(asked))
        for _ in range(4):
            if not np.array_equal(shared.predict(columns, "linear").latency_s, table):
                return False
            if not all(same(shared.layer("linear", **asked[place]), expected[place], 1e-6) for place in order):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_a_pickled_predictor_is_its_path_and_device(predictor: Predictor) -> None:
    pickled = pickle.dumps(predictor)
    assert len(pickled) < 500
    again = pickle.loads(pickled)
    assert again.layer("linear", **LINEAR) == predictor.layer("linear", **LINEAR)
    assert (again.device, again.path) == (predictor.device, predictor.path)


def test_a_bundle_of_several_devices_wants_to_know_which(made_up_bundle: ModuleType, tmp_path: Path) -> None:
    path = made_up_bundle.write_made_up_bundle(tmp_path / "run", "affine", devices=("laptop", "phone"))
    with pytest.raises(UsageError, match=r"run knows several devices: laptop, phone. Say device="):
        medn.load(path)
    with pytest.raises(UsageError, match=r"no device named 'fone'. Did you mean 'phone'\?"):
        medn.load(path, "fone")
    predictor = medn.load(path, "laptop")
    assert (predictor.device, predictor.devices) == ("laptop", ("laptop", "phone"))
    assert predictor.on("phone").device == "phone"
    assert pickle.loads(pickle.dumps(predictor.on("phone"))).device == "phone"


def test_further_quantities_are_predicted_where_they_were_learned(
    bundle_path: Path, made_up_bundle: ModuleType, tmp_path: Path
) -> None:
    bundle = made_up_bundle.with_further(read_bundle(bundle_path))
    only_linear = replace(bundle, entries=(replace(bundle.entries[0], further={}), bundle.entries[1]))
    write_bundle(tmp_path / "x.medn", only_linear)
    predictor = medn.load(tmp_path / "x.medn")
    for _ in range(2):
        found = predictor.estimator("linear").layer(LINEAR)
        assert found.memory_bytes == pytest.approx(found.latency_s, rel=1e-9)
        assert found.energy_j is None
    table = predictor.predict(
        [{"kind": "linear", **LINEAR}, {"kind": "activation", "function": "relu", "elements": 5000}]
    )
    assert table.energy_j is None
    assert table.memory_bytes is not None
    assert np.isnan(table.memory_bytes).tolist() == [False, True]


def test_an_unknown_kind_has_a_near_miss(predictor: Predictor) -> None:
    with pytest.raises(UsageError, match=r"no predicted layer kind named 'liner'. Did you mean 'linear'\?"):
        predictor.layer("liner", in_features=1)


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ImportError(f"{{name}} is blocked")
sys.meta_path.insert(0, Block())
import medn
predictor = medn.load({path!r})
found = predictor.layer("linear", in_features=100, out_features=200)
table = predictor.predict({{"kind": ["linear"] * 2, "in_features": [100, 200], "out_features": 200}})
assert abs(table.latency_s[0] / found.latency_s - 1) < 1e-6
print(found.latency_s)
"""
TRAINING = (
    *("torch", "sklearn", "lightgbm", "xgboost", "catboost", "optuna"),
    *("joblib", "scipy", "pandas", "pyarrow", "onnx"),
)


@pytest.mark.parametrize("more", [(), ("pydantic", "typer", "rich", "yaml", "psutil")])
def test_predicting_needs_nothing_of_the_training(
    predictor: Predictor, bundle_path: Path, more: tuple[str, ...]
) -> None:
    code = BLOCKED.format(blocked={*TRAINING, *more}, path=str(bundle_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = predictor.layer("linear", in_features=100, out_features=200).latency_s
    assert float(done.stdout) == pytest.approx(expected, rel=1e-5)
