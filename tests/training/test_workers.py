"""Fits on other machines: the same candidates as here, whatever becomes of the workers."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from medn.cli.main import run as medn
from medn.core.errors import MednError, UsageError
from medn.deployed.candidate import Candidate, scores_of
from medn.training import fitters as fitting
from medn.training.candidate_store import load_candidate
from medn.training.fitters import Fitters, WorkersGone
from medn.training.job import Job
from medn.training.supervised_fit import FitResult, PackedFit, fit_supervised
from medn.training.timetable import Timetable
from medn.training.train_run import train_run
from medn.training.tuning import open_journal
from medn.training.workers import check_place
from tests.conftest import load_plugins

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals")

SLOW = {name: {"slope": 0.8} for name in ("test-slow-one", "test-slow-two", "test-slow-three")}
"""Fitted once, so that a training ends when each has been."""


@pytest.fixture(scope="module", autouse=True)
def plugins() -> Iterator[None]:
    """Regressors of tests, known to all processes that are started from here."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("slow_regressors", "hostile_regressors", "plain_regressors"):
            load_plugins(patch, name)
        patch.setenv("MEDN_PLUGINS", "plain_regressors,slow_regressors,hostile_regressors")
        yield


@pytest.fixture(scope="module")
def measured(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("workers") / "run", memory_bytes=None)


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return shutil.copytree(measured, tmp_path / "run")


@pytest.fixture(scope="module")
def cluster(plugins: None) -> Iterator[Any]:
    """Two workers, each with a nanny that starts it anew."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as found:
        yield found


@pytest.fixture
def dask(cluster: Any) -> str:
    return str(cluster.scheduler_address.replace("tcp://", "dask://"))


def errors(candidates: tuple[Candidate, ...]) -> dict[str, float]:
    return {
        f"{each.kind} {each.regressor}": scores_of(each).validation.mape if each.is_good else -1.0
        for each in candidates
    }


def test_candidates_of_a_cluster_are_those_of_this_machine(run: Path, dask: str, tmp_path: Path) -> None:
    here = shutil.copytree(run, tmp_path / "here")
    families = ["test-law", "test-shared", "test-broken"]
    fixed = {"test-law": {"slope": 0.8}, "test-shared": {"slope": 0.7}}  # how far a search comes is a matter of time
    there = train_run(run, seconds=3, families=families, settings=fixed, on=dask)
    assert errors(there.candidates) == errors(train_run(here, seconds=3, families=families, settings=fixed).candidates)
    assert (there.trained, there.retries) == (6, 0)
    saved = load_candidate(run / "candidates" / "made-up" / "linear" / "test-law")
    assert saved.deployed is not None


def test_what_is_finished_is_not_trained_again(run: Path, dask: str) -> None:
    train_run(run, seconds=2, families=["test-law"], on=dask)
    assert train_run(run, seconds=2, families=["test-law"], on=dask).trained == 0


def test_a_fit_that_crashes_fails_alone_and_the_worker_lives(run: Path, dask: str, cluster: Any) -> None:
    before = workers(cluster)
    outcome = train_run(run, seconds=3, families=["hostile-segfault", "test-law"], kinds=["linear"], on=dask)
    crashed, law = sorted(outcome.candidates, key=lambda each: each.regressor)
    assert (law.is_good, crashed.is_good) == (True, False)
    assert "the process died (signal 11)" in crashed.reason
    assert workers(cluster) == before


def workers(cluster: Any, busy: bool = False) -> set[int]:
    """The processes that fit, without the nannies that watch them; a nanny whose worker dies at its start gives up."""
    up = {address for address, worker in dict(cluster.scheduler.workers).items() if worker.processing or not busy}
    watched = [nanny for nanny in cluster.workers.values() if nanny.process and nanny.process.status.name == "running"]
    return {nanny.process.pid for nanny in watched if nanny.worker_address in up}


def test_workers_killed_in_the_middle_cost_no_candidate(run: Path, dask: str, cluster: Any) -> None:
    killed: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        while not ended.wait(1.2) and len(killed) < 4:
            for process in sorted(workers(cluster, busy=True))[:1]:
                children = psutil.Process(process).children(recursive=True)
                os.kill(process, signal.SIGKILL)
                killed.append(process)
                # What a dead worker was fitting ends by itself.
                assert psutil.wait_procs(children, timeout=30)[1] == []

    killer = threading.Thread(target=kill)
    killer.start()
    outcome = train_run(run, seconds=60, families=list(SLOW), settings=SLOW, on=dask)
    ended.set()
    killer.join()
    assert killed
    assert len(outcome.candidates) == 6
    assert [each.reason for each in outcome.candidates if not each.is_good] == []


def test_the_command_line_trains_on_a_cluster(run: Path, dask: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["train", str(run), "--time", "2", "--regressors", "test-law", "--on", dask]) == 0
    assert "2 candidates, 2 of them trained now" in capsys.readouterr().err


@pytest.mark.parametrize("on", ["ray", "dask://", "dask://head", "dask://head:none", "http://head:1", ""])
def test_what_names_no_place_is_refused(on: str) -> None:
    with pytest.raises(UsageError, match=r"--on: must be local, slurm or dask://HOST:PORT"):
        check_place(on)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--on", "slrum"], "Did you mean 'slurm'?"),
        (["--on", "slurm", "--on-option", "partition"], "must be written as NAME=VALUE"),
        (["--on-option", "mem_gb=4"], "--on-option: goes with --on slurm"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str], sentence: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert medn(["train", str(run), *arguments]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


def test_a_scheduler_that_does_not_answer_is_one_sentence(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("medn.training.workers.CONNECT_S", 1.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(MednError, match="no Dask scheduler answers at 127"):
            train_run(run, seconds=1, on=f"dask://127.0.0.1:{free.getsockname()[1]}")


# What an engine may do that a real one seldom does.


class Threads:
    """Workers in threads of this process."""

    name = "threads"
    are_here = False
    expected = 1

    def __init__(self, executor: Executor | None = None, slots: int = 1) -> None:
        self.executor = executor or ThreadPoolExecutor(max(slots, 1))
        self._slots = slots

    def slots(self) -> dict[str, int]:
        return {"thread": self._slots} if self._slots else {}

    def close(self) -> None:
        self.executor.shutdown()


class Losing(Executor):
    """Loses the first so many of what it is given."""

    def __init__(self, lost: int, error: Exception) -> None:
        self.lost = lost
        self.error = error

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.lost -= 1
        if self.lost >= 0:
            future.set_exception(self.error)
        else:
            future.set_result(fn(*args, **kwargs))
        return future


@pytest.fixture
def job(run: Path) -> Job:
    """One that nothing is known of yet."""
    found: list[Job] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "medn.training.train_run.Fitters.run", lambda self, times: iter(found.extend(times.waiting) or ())
        )
        train_run(run, seconds=1, families=["test-law"], kinds=["linear"])
    return replace(found[0], seconds=1.0)


def fitted(job: Job, executor: Executor) -> tuple[Candidate, int]:
    with Fitters(Threads(executor)) as fitters:
        ((candidate,),) = fitters.run(Timetable([job], 1, 1.0, 1.0))
    return candidate, fitters.retries


def test_what_an_engine_loses_is_handed_out_again(job: Job) -> None:
    candidate, retries = fitted(job, Losing(3, OSError("the link is down")))
    assert candidate.is_good
    assert retries == 3


def test_what_is_lost_again_and_again_is_a_failed_candidate(job: Job) -> None:
    candidate, _ = fitted(job, Losing(100, OSError("the link is down")))
    assert candidate.reason == "its worker was lost 6 times, the last time: OSError: the link is down"
    assert candidate.facts.budget_s == 0  # so that the next training tries it again


class LosingAfter(Executor):
    """Loses all but the first so many of what it is given."""

    def __init__(self, kept: int) -> None:
        self.kept = kept

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.kept -= 1
        if self.kept >= 0 or not args[0].request.attempt:  # the candidates of what was found can be made
            future.set_result(fn(*args, **kwargs))
        else:
            future.set_exception(OSError("the link is down"))
        return future


def test_a_search_whose_fits_are_lost_ends_with_what_it_has(job: Job) -> None:
    candidate, retries = fitted(replace(job, seconds=30.0), LosingAfter(1))
    assert candidate.is_good
    assert (candidate.facts.settings, retries) == ({"slope": 0.5}, 5)


def test_workers_without_medn_are_one_sentence(job: Job) -> None:
    with pytest.raises(MednError, match="the workers of threads cannot import medn"):
        fitted(job, Losing(1, ModuleNotFoundError("No module named 'medn'", name="medn")))


def test_nobody_there_ends_the_training_in_the_end(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "NO_WORKERS_S", 0.1)
    nobody = Threads(slots=0)
    nobody.executor.submit(time.sleep, 3)
    with Fitters(nobody) as fitters, pytest.raises(WorkersGone, match="threads has had no worker"):
        list(fitters.run(Timetable([job], 1, 1.0, 1.0)))


class Coming(Threads):
    """Another worker every time somebody looks: the one before is gone."""

    def __init__(self, executor: Executor) -> None:
        super().__init__(executor)
        self.looks = 0

    def slots(self) -> dict[str, int]:
        self.looks += 1
        return {f"worker {self.looks}": 1}


class Silent(Executor):
    """Takes everything and never answers."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return Future()


def test_the_time_holds_when_workers_die(job: Job) -> None:
    began = time.monotonic()
    with Fitters(Coming(Silent())) as fitters:
        ((candidate,),) = fitters.run(Timetable([job], 1, 0.1, 0.1))
    assert candidate.reason == "no time was left for it: its worker was lost"
    assert candidate.facts.budget_s == 0
    assert time.monotonic() - began < 30


def packed(job: Job) -> PackedFit:
    found: list[PackedFit] = []

    class Keeping(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            found.extend(args)
            raise RuntimeError("enough")

    with pytest.raises(WorkersGone, match="threads takes no more work"):
        fitted(job, Keeping())
    return found[0]


def test_another_version_fits_nothing(job: Job) -> None:
    class Old(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[FitResult] = Future()
            future.set_result(fit_supervised(replace(args[0], version="medn 9.9 on Python 3.99")))
            return future

    with pytest.raises(MednError, match=r"a worker has medn .*, here is medn 9.9 on Python 3.99"):
        fitted(job, Old())


def test_nothing_of_the_run_folder_travels(job: Job, run: Path) -> None:
    assert str(run).encode() not in pickle.dumps(packed(job))


def test_the_study_stays_here_and_its_trials_are_handed_out(job: Job) -> None:
    places: list[int] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            if attempt := args[0].request.attempt:
                places.append(attempt.number)
            return super().submit(fn, *args, **kwargs)

    with Fitters(Threads(Counting(2), slots=2)) as fitters:
        ((candidate,),) = fitters.run(Timetable([job], 2, 20.0, 1.0))
    trials = open_journal(job.journal).trials
    assert [trial.number for trial in trials] == sorted(places) == list(range(len(places)))
    assert candidate.facts.trials.made == len(places) > 2


def test_a_search_goes_on_where_it_was_on_whatever_worker(job: Job) -> None:
    fitted(job, Losing(0, OSError()))
    first = job.journal.read_bytes()
    fitted(replace(job, budget_s=job.budget_s + 1), Losing(0, OSError()))
    assert first
    assert job.journal.read_bytes().startswith(first)


def test_what_a_prediction_takes_is_timed_where_it_is_asked_for(job: Job) -> None:
    class Slow(Executor):
        """A worker on which every prediction takes minutes."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[FitResult] = Future()
            result = fn(*args, **kwargs)
            slow = tuple(replace(each, row_us=1e9) for each in result.outcome.candidates)
            future.set_result(replace(result, outcome=replace(result.outcome, candidates=slow)))
            return future

    candidate, _ = fitted(job, Slow())
    assert 0 < candidate.row_us < 1e9
    assert load_candidate(job.journal.parent).row_us == candidate.row_us
