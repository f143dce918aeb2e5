"""All engines say the same of random rows, in and out of range, for every form."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import medn
from experiments.engines.bundles import write_bundles
from experiments.engines.equality import compared
from medn.program import c_engine, engines
from medn.program.c_engine import is_built

FAMILIES = ("median", "linear", "ridge", "nearest", "svr", "roofline", "decision_tree", "lightgbm", "catboost", "mlp")
KINDS = ("conv2d", "activation", "upsample")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    for package in ("sklearn", "lightgbm", "catboost", "torch"):
        pytest.importorskip(package)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.engines.bundles.SECONDS", 2.0)
        names = [*FAMILIES, "mean"]
        return write_bundles(names, tmp_path_factory.mktemp("engines"), KINDS, layers=24)


def test_engines_agree_on_every_form(bundles: list[Path]) -> None:
    pytest.importorskip("onnxruntime")
    for path in bundles:
        for row in compared(path, rows=1_000, seed=1):
            assert row["agree"], row


@pytest.mark.skipif(not is_built(), reason="no C engine")
def test_threads_share_an_engine(bundles: list[Path]) -> None:
    predictor = medn.load(bundles[-1])
    columns = {"function": "relu", "elements": np.arange(100, 3100)}
    expected = predictor.predict(columns, "activation").latency_s
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: predictor.predict(columns, "activation").latency_s, range(16)):
            np.testing.assert_array_equal(found, expected)


def test_numpy_answers_where_the_c_engine_is_switched_off(bundles: list[Path]) -> None:
    program = (
        "import sys, medn; from medn.program.engines import described; predictor = medn.load(sys.argv[1]);"
        "asked = dict(in_channels=32, out_channels=64, in_size=28, kernel_size=3, same_padding=True);"
        "print(described(), repr(predictor.layer('conv2d', **asked).latency_s), sep='|')"
    )
    found = {}
    for wanted in ("numpy", ""):
        done = subprocess.run(
            [sys.executable, "-c", program, str(bundles[-1])],
            env={**os.environ, engines.VARIABLE: wanted},
            capture_output=True,
            text=True,
            check=True,
        )
        name, number = done.stdout.strip().split("|")
        found[wanted] = float(number)
        assert name.startswith("NumPy") or not wanted
    assert found["numpy"] == pytest.approx(found[""], rel=1e-6)


@pytest.mark.skipif(not is_built(), reason="no C engine")
def test_an_engine_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_engine, "VERSION", c_engine.VERSION + 1)
    engines.engine.cache_clear()
    try:
        assert engines.described().startswith("NumPy: the C engine was built for another version of medn")
    finally:
        engines.engine.cache_clear()
