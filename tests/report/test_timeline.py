"""Several runs in the order of their time."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from medn.cli.main import run as command
from medn.core.store import Store
from medn.report.timeline import Timeline, over_time, timeline_page, timeline_sentences

Capture = pytest.CaptureFixture[str]


def write_board(folder: Path, errors: dict[str, float | None], at: float) -> Path:
    """A run that something was chosen in at a time; no error where it was only kept."""
    folder.mkdir()
    rows: list[dict[str, Any]] = [
        {
            **{"device": "cpu", "kind": kind, "candidate": "ridge", "mape": error, "us_1": 10.0, "bytes": 1000},
            **{"noise_mean": 0.02, "pareto": True, "chosen": True, "note": ""},
        }
        for kind, error in errors.items()
    ]
    board = {"version": 1, "run": folder.name, "split": "random", "seed": 0, "budget": {}, "rows": rows}
    path = folder / "leaderboard.json"
    path.write_text(json.dumps({**board, "schemes": [], "front": [], "gain": {}}))
    os.utime(path, (at, at))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Named so that neither their names nor the order in which they are given is that of their time."""
    return [
        write_board(tmp_path / "third", {"conv2d": 0.05, "linear": 0.03, "softmax": 0.02}, at=3e8),
        write_board(tmp_path / "first", {"conv2d": 0.20, "linear": 0.06}, at=1e8),
        write_board(tmp_path / "second", {"conv2d": 0.10, "linear": 0.06}, at=2e8),
    ]


@pytest.fixture
def timeline(runs: list[Path]) -> Timeline:
    return over_time(runs)


def test_runs_stand_in_the_order_of_their_time(timeline: Timeline) -> None:
    assert [run.name for run in timeline.runs] == ["first", "second", "third"]
    assert timeline.values("conv2d", "mape") == [0.20, 0.10, 0.05]


def test_the_time_of_a_run_is_that_of_its_last_visit(chosen_run: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(chosen_run, tmp_path / "copied"))
    with Store(copied / "measurements.sqlite", must_exist=True) as store:
        assert store.last_visit_at() == 0.0  # as a made-up run has it, which says nothing
    assert over_time([copied, copied]).runs[0].at == (copied / "leaderboard.json").stat().st_mtime


def test_kinds_that_not_all_runs_have_are_kept_but_not_in_the_means(timeline: Timeline) -> None:
    assert timeline.common == ["conv2d", "linear"]
    assert timeline.values("softmax", "mape") == [None, None, 0.02]
    assert timeline.means("mape") == pytest.approx([0.13, 0.08, 0.04])
    assert timeline.change("conv2d", "mape") == pytest.approx(-0.15)
    assert timeline.change("softmax", "mape") is None


def test_what_was_kept_without_being_judged_is_a_gap(tmp_path: Path) -> None:
    folders = [write_board(tmp_path / f"{n}", {"conv2d": None if n == 1 else 0.1}, at=1e8 + n) for n in range(3)]
    assert over_time(folders).values("conv2d", "mape") == [0.1, None, 0.1]


def test_words_say_how_it_went(timeline: Timeline) -> None:
    means, noise, partly = timeline_sentences(timeline)
    assert "(first, second and third): error 13.0 % -> 8.0 % -> 4.0 %; one prediction 10 us -> 10 us" in means
    assert noise == "Noise of the measurements: 2.0 % -> 2.0 % -> 2.0 %."
    assert partly == "Not in all runs: softmax."


def test_runs_without_a_common_kind_say_so(tmp_path: Path) -> None:
    folders = [write_board(tmp_path / kind, {kind: 0.1}, at=1e8) for kind in ("conv2d", "linear", "softmax")]
    found = over_time(folders)
    assert timeline_sentences(found) == ["conv2d, linear and softmax have no layer kind in common."]
    assert timeline_page(found).count("<figure>") == 3


def test_the_page_has_a_table_and_a_plot_of_each_quantity(timeline: Timeline) -> None:
    page = timeline_page(timeline)
    assert page.count("<figure>") == 3
    assert page.count("<table") == 4
    assert "-15.0 points" in page


def test_the_command_compares_several(runs: list[Path], capsys: Capture) -> None:
    assert command(["compare", *map(str, runs)]) == 0
    out, err = capsys.readouterr()
    heading = next(line for line in out.splitlines() if "kind" in line)
    assert heading.index("first") < heading.index("second") < heading.index("third")
    assert "Not in all runs: softmax." in err
    assert (runs[-1] / "compare.html").is_file()


def test_the_command_tells_several_as_json(runs: list[Path], capsys: Capture) -> None:
    assert command(["compare", *map(str, runs), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["at"] for run in told["runs"]] == [1e8, 2e8, 3e8]
    assert [kind["kind"] for kind in told["kinds"]] == ["conv2d", "linear", "softmax"]
    assert told["kinds"][2]["runs"][:2] == [None, None]


def test_one_run_is_nothing_to_compare(runs: list[Path], capsys: Capture) -> None:
    assert command(["compare", str(runs[0])]) == 2
    assert "is one run: name another to compare it with" in capsys.readouterr().err
