"""A new device that leans on known ones: trained, chosen and shipped as any other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import medn
from medn.bundle.bundle import read_bundle
from medn.choosing.bundling import bundle_run
from medn.choosing.leaderboard import load_leaderboard
from medn.choosing.select_run import select_run
from medn.core.errors import UsageError
from medn.deployed.candidate import deployed_of, scores_of
from medn.deployed.facts import ALL
from medn.exporting.onnx_models import onnx_model
from medn.regressors.forms.stack import Stack
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.runs.tables import read_source
from medn.selection.budget import Budget
from medn.sources.run_sources import FOLDER, KnownDevices, keep_sources
from medn.training.train_run import train_run
from medn.transfer.adapt_run import AdaptOutcome, adapt_run, check_sources

FAMILIES = ("roofline", "median", "best_source", "source_stack", "gaussian_process_on_stack")
"""Those of the fixture."""


def test_what_learns_alone_is_always_among_the_candidates(adapted: AdaptOutcome, new_run: Path) -> None:
    rows = load_leaderboard(new_run).rows
    for kind in ("linear", "activation"):
        names = {row["candidate"] for row in rows if row["kind"] == kind}
        assert {"roofline", "source_stack", "best_source", "gaussian_process_on_stack"} <= names


def test_leaning_on_known_devices_errs_less_than_learning_alone(adapted: AdaptOutcome) -> None:
    for chosen in adapted.selected.chosen:
        alone = adapted.alone(chosen)
        assert alone is not None
        assert scores_of(chosen).validation.mape < alone


def test_it_says_what_it_leans_on(adapted: AdaptOutcome) -> None:
    for shares in adapted.leaned_on.values():
        assert set(shares) <= {"slow", "slower", "slowest"}
    assert any(adapted.leaned_on.values())


def test_the_bundle_answers_for_the_new_device_alone(adapted: AdaptOutcome) -> None:
    predictor = medn.load(adapted.bundle)
    assert predictor.devices == ("new",)
    one = predictor.layer("linear", in_features=300, out_features=200, batch_size=8)
    table = {"in_features": [300, 300], "out_features": [200, 210], "batch_size": 8}
    assert one.in_range
    assert one.low_s < one.latency_s < one.high_s
    assert predictor.predict(table, "linear").latency_s[0] == pytest.approx(one.latency_s, rel=1e-5)
    again = predictor.layer("linear", in_features=301, out_features=200, batch_size=8)
    assert again.latency_s == pytest.approx(one.latency_s, rel=0.2)


def test_no_source_is_shipped_twice(adapted: AdaptOutcome) -> None:
    for entry in read_bundle(adapted.bundle).entries:
        form = deployed_of(entry.latency).form
        inner = form.forms if isinstance(form, WeightedSum) else (form,)
        assert sum(isinstance(each, Stack) for each in inner) <= 1


def test_the_same_again_fits_nothing(adapted: AdaptOutcome, known: Path, new_run: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(new_run, tmp_path / "phone")
    again = adapt_run(copied, [known], seconds=60.0, families=FAMILIES)
    assert again.trained.trained == 0
    assert [each.regressor for each in again.selected.chosen] == [each.regressor for each in adapted.selected.chosen]


def test_other_sources_are_learned_anew(adapted: AdaptOutcome, known: Path, new_run: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(new_run, tmp_path / "phone")
    other = shutil.copytree(known, tmp_path / "other")
    train_run(other, seconds=60.0, families=("ridge",))
    bundle = bundle_run(other, select_run(other, Budget(max_kb=100)).chosen)
    keep_sources(copied, [bundle])
    trained = train_run(copied, seconds=60.0, families=("roofline", "source_stack"))
    assert trained.trained == 2  # of two kinds, and no roofline
    assert [path.name for path in (copied / FOLDER).iterdir()] == ["other.medn"]


def test_what_was_chosen_can_be_fitted_on_every_row(adapted: AdaptOutcome, new_run: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(new_run, tmp_path / "phone")
    outcome = select_run(copied, Budget(), refit_all=True)
    for each in outcome.chosen:
        assert each.facts.learned_from == ALL
        assert np.isfinite(deployed_of(each).form.log_value(deployed_of(each).range.low[None])).all()


def test_a_budget_holds(adapted: AdaptOutcome, new_run: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(new_run, tmp_path / "phone")
    outcome = select_run(copied, Budget(max_kb=22))
    assert bundle_run(copied, outcome.chosen).stat().st_size <= 22_000


def test_sources_of_other_kinds_are_refused(known: Path, write_run: Callable[..., Path], tmp_path: Path) -> None:
    bundle = read_bundle(known / "desk.medn")
    others = replace(bundle, entries=tuple(entry for entry in bundle.entries if entry.kind == "activation"))
    run = write_run(tmp_path / "run", activations=0)
    with pytest.raises(UsageError, match="the sources know activation, and the run has measured linear"):
        check_sources(KnownDevices((others,)), read_source(run))


def test_a_source_that_is_none_is_refused(new_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        adapt_run(new_run, [tmp_path / "none.medn"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="a run without a bundle"):
        adapt_run(new_run, [tmp_path / "empty"])


def test_the_c_engine_and_onnx_run_what_leans_on_others(adapted: AdaptOutcome) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    predictor = medn.load(adapted.bundle)
    for kind in predictor.kinds:
        estimator = predictor.estimator(kind)
        assert estimator.answering.answers(tuple(estimator.further)) is not None
        assert onnxruntime.InferenceSession(onnx_model(estimator), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def with_network(known: Path, new_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, AdaptOutcome]:
    """The same few layers, where what known devices have measured is learned from too."""
    run = tmp_path_factory.mktemp("network") / "tablet"
    shutil.copytree(new_run, run, ignore=shutil.ignore_patterns("candidates", "chosen", "*.medn", FOLDER))
    families = ("roofline", "source_stack", "medn_across_devices")
    return run, adapt_run(run, [known], seconds=40.0, families=families)


def test_a_decoder_on_what_known_devices_share_is_a_candidate(with_network: tuple[Path, AdaptOutcome]) -> None:
    run, _ = with_network
    rows = {(row["kind"], row["candidate"]): row for row in load_leaderboard(run).rows}
    for kind in ("linear", "activation"):
        assert (kind, "medn_across_devices") in rows
        assert (run / FOLDER / "together" / f"{kind}.safetensors").is_file()


def test_what_leans_on_the_network_ships_as_any_other(with_network: tuple[Path, AdaptOutcome], tmp_path: Path) -> None:
    run, _ = with_network
    copied = tmp_path / run.name
    shutil.copytree(run, copied)
    for name in ("roofline", "source_stack"):
        for folder in (copied / "candidates").glob(f"*/*/{name}"):
            shutil.rmtree(folder)
    bundle = bundle_run(copied, select_run(copied, Budget()).chosen)
    predictor = medn.load(bundle)
    one = predictor.layer("linear", in_features=300, out_features=200, batch_size=8)
    assert one.low_s < one.latency_s < one.high_s


def test_bundles_alone_leave_the_network_out(known: Path, new_run: Path, tmp_path: Path) -> None:
    (file,) = known.glob("*.medn")
    shutil.copyfile(file, tmp_path / file.name)
    run = tmp_path / "watch"
    shutil.copytree(new_run, run, ignore=shutil.ignore_patterns("candidates", "chosen", "*.medn", FOLDER))
    outcome = adapt_run(run, [tmp_path / file.name], seconds=40.0, families=("source_stack", "medn_across_devices"))
    failed = [each for each in outcome.trained.candidates if not each.is_good]
    assert {each.regressor for each in failed} == {"medn_across_devices"}
    assert all("only their bundles are there" in each.reason for each in failed)
