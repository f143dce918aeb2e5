"""What known devices say of the rows of a new one is what their bundles predict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from medn.bundle.bundle import Bundle, read_bundle
from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import select_run
from medn.core.splits import Split
from medn.estimator.layer_predictor import LayerPredictor
from medn.regressors.sources import Sources
from medn.runs.tables import KindTable, kind_table, read_source
from medn.selection.budget import Budget
from medn.sources.run_sources import FOLDER, KnownDevices, keep_sources
from medn.training.train_run import train_run

DEVICES = ("a", "b")


@pytest.fixture(scope="module", params=["random", "pooled"])
def bundle(
    request: pytest.FixtureRequest, write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Two devices, each learned by itself or both together."""
    split = Split(request.param)
    run = write_run(tmp_path_factory.mktemp(request.param) / "desk", devices=DEVICES)
    train_run(run, seconds=60.0, families=("roofline",), split=split)
    return bundle_run(run, select_run(run, Budget(), split=split).chosen)


@pytest.fixture(scope="module")
def new(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> KindTable:
    run = write_run(tmp_path_factory.mktemp("new") / "new", devices=("new",), seed=7)
    return kind_table(read_source(run), "linear", device="new")


def predicted(
    bundle: Bundle, device: str, table: KindTable
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    columns = {name: table.table.column(name) for name in ("in_features", "out_features", "batch_size")}
    found = LayerPredictor(bundle, device).predict(columns, "linear")
    return found.latency_s, found.in_range


def test_a_source_says_what_its_bundle_predicts(bundle: Path, new: KindTable) -> None:
    whole = read_bundle(bundle)
    sources = KnownDevices((whole,)).sources(new).sources
    assert isinstance(sources, Sources)
    assert sources.names == DEVICES
    for name, logs in zip(DEVICES, sources.logs(new.table.inputs).T, strict=True):
        expected, inside = predicted(whole, name, new)
        assert inside.mean() > 0.5
        assert np.exp(logs[inside]) == pytest.approx(
            expected[inside], rel=0.01
        )  # a little beyond its edges a bundle goes on


def test_devices_that_learned_together_share_a_form(bundle: Path, new: KindTable) -> None:
    whole = read_bundle(bundle)
    sources = KnownDevices((whole,)).sources(new).sources
    assert sources is not None
    assert len(sources.forms) == len([entry for entry in whole.entries if entry.kind == "linear"])


def test_a_run_keeps_the_sources_it_was_given_last(bundle: Path, tmp_path: Path) -> None:
    keep_sources(tmp_path, [bundle])
    keep_sources(tmp_path, [bundle, bundle])
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == ["desk.medn", "desk~2.medn"]
    assert len(KnownDevices.of_run(tmp_path).devices) == 4
    keep_sources(tmp_path, [bundle])
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["desk.medn"]
