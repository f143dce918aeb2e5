"""Fits that crash, hang and worse: each fails alone with its reason, and the rest go on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from medn.deployed.candidate import Candidate
from medn.training import supervised_fit, timetable
from medn.training.candidate_store import load_candidate
from medn.training.job import Job
from medn.training.timetable import GRACE_S, Timetable
from medn.training.train_run import Plan, TrainOutcome, train_run
from medn.training.tuning import open_journal
from tests.conftest import load_plugins

WriteRun = Callable[..., Path]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and process groups")


@pytest.fixture(scope="module")
def measured(write_run: WriteRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("hostile") / "run", activations=0, memory_bytes=None)


@pytest.fixture(scope="module")
def hostile(measured: Path) -> Iterator[dict[str, Candidate]]:
    """One training with everything that can go wrong."""
    with pytest.MonkeyPatch.context() as patch:
        load_plugins(patch, "hostile_regressors")
        names = ("segfault", "abort", "exit", "memory", "sleep", "print", "fork")
        yield by_family(trained(measured, "median", "nearest", *(f"hostile-{name}" for name in names)))


@pytest.fixture
def run(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    load_plugins(monkeypatch, "hostile_regressors")
    return write_fresh(measured, tmp_path / "run")


def write_fresh(measured: Path, path: Path) -> Path:
    """The same measurements without candidates."""
    path.mkdir()
    shutil.copy(measured / "measurements.sqlite", path)
    return path


def trained(run: Path, *families: str, **options: Any) -> TrainOutcome:
    return train_run(run, **{"seconds": 1.0, "families": families, **options})


def job_of(run: Path, family: str, can_wait: bool) -> Job:
    return Job(run / "candidates", "made-up", family, {}, "random", 0, 1.0, 0.0, can_wait=can_wait)


def by_family(outcome: TrainOutcome) -> dict[str, Candidate]:
    return {each.regressor: each for each in outcome.candidates}


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("hostile-segfault", "the process died (signal 11)"),
        ("hostile-abort", "the process died (signal 6): terminate called after a failed assertion"),
        ("hostile-exit", "the process died (exit code 3)"),
        ("hostile-memory", "MemoryError"),
        ("hostile-sleep", "stopped after"),
    ],
)
def test_a_fit_that_takes_its_process_along_is_a_failed_candidate(
    hostile: dict[str, Candidate], family: str, reason: str
) -> None:
    assert reason in hostile[family].reason


@pytest.mark.parametrize("family", ["median", "nearest", "hostile-print", "hostile-fork"])
def test_the_others_go_on_and_neither_streams_nor_copies_disturb_them(
    hostile: dict[str, Candidate], family: str
) -> None:
    assert hostile[family].reason == ""


def test_what_failed_is_tried_again_only_when_asked_or_with_more_time(run: Path) -> None:
    assert trained(run, "hostile-exit").trained == 1
    assert trained(run, "hostile-exit").trained == 0
    assert trained(run, "hostile-exit", retry_failed=True).trained == 1
    assert trained(run, "hostile-exit", seconds=2.0).trained == 1


def test_what_was_good_before_a_crash_stays_and_the_crash_is_told(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("MEDN_TEST_LOG", str(log))
    (candidate,) = trained(run, "hostile-second", seconds=20.0).candidates
    assert candidate.is_good
    assert candidate.facts.settings == {"place": 0.5}
    assert candidate.facts.trials.reasons == ("the process died (signal 11)",)
    assert load_candidate(run / "candidates" / "made-up" / "linear" / "hostile-second").deployed is not None
    assert trained(run, "hostile-second", seconds=20.0).trained == 0
    trained(run, "hostile-second", seconds=21.0)
    places = log.read_text().split()
    assert len(places) == len(set(places)) == 2


def test_the_trial_that_a_process_died_in_is_in_the_journal(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDN_TEST_LOG", str(tmp_path / "log"))
    trained(run, "hostile-second", seconds=20.0)
    (journal,) = (run / "candidates" / "made-up" / "linear" / "hostile-second").glob("*.journal")
    states = [(trial.state.name, trial.user_attrs.get("reason")) for trial in open_journal(journal).trials]
    assert states == [("COMPLETE", None), ("FAIL", "the process died (signal 11)")]


def test_the_time_of_a_fit_begins_when_its_libraries_are_loaded(run: Path) -> None:
    outcome = trained(run, "hostile-slow", seconds=1.0)
    assert by_family(outcome)["hostile-slow"].reason == ""
    assert outcome.loading_s >= 1.0


def test_a_missing_library_costs_nothing_and_is_looked_for_in_every_run(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medn.regressors.regressor import regressors

    family = regressors["median"]
    monkeypatch.setattr(type(family), "packages", ("no_such_library",))
    assert "needs no_such_library" in by_family(trained(run, "median"))["median"].reason
    monkeypatch.undo()
    assert by_family(trained(run, "median"))["median"].is_good


def test_a_part_of_a_missing_library_is_missing_too(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medn.regressors.regressor import regressors

    monkeypatch.setattr(type(regressors["median"]), "packages", ("no_such_library.part",))
    assert "needs no_such_library.part" in by_family(trained(run, "median"))["median"].reason


def test_the_least_time_is_known_before_anything_is_fitted(run: Path) -> None:
    plans: list[Plan] = []
    trained(run, "median", "nearest", "hostile-exit", seconds=0.5, on_plan=plans.append)
    (plan,) = plans
    assert (plan.families, plan.kinds, plan.asked_s) == (3, 1, 0.5)
    assert plan.least_s == 3.0


def test_a_fit_has_its_shortest_time_though_loading_took_all_that_was_left() -> None:
    now = [0.0]
    times = Timetable([], 2, seconds=4.0, shortest_s=1.0, clock=lambda: now[0])
    now[0] = 100.0
    assert times.seconds_to_end == 0
    assert times.stop_after(1.0) == 1.0 + GRACE_S


def test_what_can_wait_does_so_when_the_time_is_over(run: Path) -> None:
    now, (first, second) = [0.0], [job_of(run, "median", can_wait=can_wait) for can_wait in (True, False)]
    times = Timetable([first, second], 1, seconds=4.0, shortest_s=1.0, clock=lambda: now[0])
    now[0] = 4.0
    assert times.next_job() is second
    assert (times.next_job(), times.postponed) == (None, [first])


def test_loading_libraries_prolongs_a_round_but_not_the_training() -> None:
    times = Timetable([], 1, seconds=4.0, shortest_s=1.0, clock=lambda: 0.0, latest=6.0)
    times.prolong(1.0)
    assert times.deadline == 5.0
    times.prolong(3.0)
    assert times.deadline == 6.0


def test_a_round_that_takes_longer_than_its_share_fails_nobody() -> None:
    now = [0.0]
    times = Timetable([], 1, seconds=4.0, shortest_s=1.0, clock=lambda: now[0], latest=60.0)
    now[0] = 50.0
    assert times.seconds_to_end > 10.0


def test_what_is_fitted_is_told_while_it_goes_on(run: Path) -> None:
    told: list[str] = []
    trained(run, "hostile-slow", on_wait=lambda left, fitted: told.extend(fitted))
    assert "hostile-slow for linear" in told


@pytest.fixture
def busy_core() -> Iterator[None]:
    """This process and its children share one core with others that never rest."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    yield
    for other in others:
        other.kill()
        other.wait()
    os.sched_setaffinity(0, before)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not tell who waited")
def test_a_fit_is_not_stopped_for_what_others_take_of_the_processor(
    run: Path, busy_core: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timetable, "GRACE_S", 0.5)
    monkeypatch.setattr(supervised_fit, "LATEST", 100.0)
    (candidate,) = trained(run, "hostile-busy", seconds=0.3).candidates
    assert candidate.reason == ""


def test_waiting_for_a_processor_moves_the_end_by_no_more_than_the_time_asked_for() -> None:
    times = Timetable([], 2, seconds=4.0, shortest_s=1.0, clock=lambda: 0.0)
    before = times.end
    times.prolong(0.0, waited_s=2.0)
    assert (times.deadline, times.end) == (4.0, before + 1.0)
    times.prolong(0.0, waited_s=100.0)
    assert (times.deadline, times.end) == (4.0, before + 4.0)


SCRIPT = """
from pathlib import Path
from medn.training.train_run import train_run
train_run(Path({run!r}), seconds=60.0, families=("hostile-sleep",), jobs=2)
"""


def test_the_processes_of_a_killed_training_end_with_it(run: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(run=str(run))])
    deadline = time.monotonic() + 60
    children: list[psutil.Process] = []
    while not children and time.monotonic() < deadline:
        time.sleep(0.2)
        children = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    assert children
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []


def test_a_regressor_that_only_the_calling_program_knows_says_so(run: Path) -> None:
    script = SCRIPT.format(run=str(run)).replace("hostile-sleep", "mine") + "assert False"
    own = """
from medn.regressors.regressor import regressors
from medn.regressors.families.median import Median
@regressors.register
class Mine(Median):
    name = "mine"
"""
    subprocess.run([sys.executable, "-c", own + script], capture_output=True, timeout=100)
    reason = load_candidate(run / "candidates" / "made-up" / "linear" / "mine").reason
    assert reason.startswith("mine is registered in __main__, which the processes that fit cannot import")
