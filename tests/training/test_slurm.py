"""Fits in jobs of a real Slurm, which is started here where it is installed."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.loopback_slurm import LoopbackSlurm, missing
from medn.core.errors import UsageError
from medn.training.train_run import TrainOutcome, train_run
from tests.conftest import load_plugins

SLOW = {name: {"slope": 0.8} for name in ("test-slow-one", "test-slow-two")}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackSlurm]:
    if reason := missing():
        pytest.skip(reason)
    pytest.importorskip("dask_jobqueue")
    with LoopbackSlurm(tmp_path_factory.mktemp("slurm") / "own") as found:
        yield found


@pytest.fixture
def run(write_run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    load_plugins(monkeypatch, "slow_regressors")
    return write_run(tmp_path / "run", activations=0, memory_bytes=None)


def trained(run: Path, **options: Any) -> TrainOutcome:
    return train_run(run, seconds=60, families=list(SLOW), settings=SLOW, jobs=2, on="slurm", on_options=options)


def test_jobs_of_slurm_fit_and_one_that_is_cancelled_costs_no_candidate(run: Path, slurm: LoopbackSlurm) -> None:
    cancelled: list[str] = []
    ended = threading.Event()

    def cancel() -> None:
        while not ended.wait(0.2) and not cancelled:
            for job in slurm.jobs()[:1]:
                slurm.asked("scancel", "--signal=KILL", job)
                cancelled.append(job)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    outcome = trained(run, queue="cpu", memory="1GB")
    ended.set()
    canceller.join()
    assert cancelled
    assert [each.reason for each in outcome.candidates] == ["", ""]
    assert list((run / "slurm").glob("medn-*.err"))  # what its jobs have printed


@pytest.mark.parametrize(
    ("option", "sentence"),
    [({"nonsense": 1}, "--on slurm: .*nonsense"), ({"queue": "nowhere"}, "--on slurm: sbatch refuses .* partition")],
)
def test_what_slurm_does_not_take_is_one_sentence(
    option: dict[str, Any], sentence: str, run: Path, slurm: LoopbackSlurm
) -> None:
    with pytest.raises(UsageError, match=sentence):
        trained(run, **option)
    assert slurm.jobs() == []


def test_slurm_that_is_not_here_is_one_sentence(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match="--on slurm: there is no sbatch here"):
        trained(run)
