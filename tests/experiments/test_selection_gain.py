"""The table of gains, from a leaderboard and from the fits of public tasks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from experiments import selection_gain
from experiments.public.task import Task, build_table, joined, three_parts
from experiments.public_layers import fits_of
from medn.pipeline.selecting import select_run
from medn.regressors.forms.constant import Constant
from medn.selection.budget import Budget


def made_up_tasks(data: Path, seed: int) -> list[Task]:
    random = np.random.default_rng(0)
    tasks = []
    for name in ("first", "second"):
        size = random.integers(1, 1000, 300).astype(np.float64)
        table = build_table({"size": size}, {}, size * random.lognormal(0, 0.01, 300), joined(np.arange(300)))
        tasks.append(Task(name, "made up", table, three_parts(table.groups, seed, (0.6, 0.2, 0.2)), aim=0.1))
    return tasks


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tasks, on each of which another regressor is the good one."""
    monkeypatch.setattr(selection_gain, "LOADERS", {"made-up": made_up_tasks})
    random = np.random.default_rng(1)
    for task, good in zip(made_up_tasks(tmp_path, 0), ("medn", "ridge"), strict=True):
        for name in ("medn", "ridge"):
            logs = {
                part: np.log(task.table.latency_s[rows]) + random.normal(0, 0.02 if name == good else 0.2, len(rows))
                for part, rows in (("validation", task.parts.validation), ("test", task.parts.test))
            }
            fits_of(task, tmp_path).keep(name, {}, {}, logs, Constant(0.0))
    return tmp_path


def table(out: Path, *arguments: str) -> dict[str, dict[str, object]]:
    assert selection_gain.main(["--out", str(out), *arguments]) == 0
    rows = json.loads((out / "selection_gain.json").read_text())["rows"]
    return {row["selection"]: row for row in rows}


def test_choosing_per_task_beats_every_regressor_alone(out: Path) -> None:
    rows = table(out, "--data", str(out), "--sets", "made-up")
    for name in ("only medn", "only ridge"):
        gain = str(rows[name]["accuracy gain"])
        assert gain.startswith("+")
        assert "(+" in gain
    assert rows["chosen"]["accuracy gain"] == "+0.00 (+0.00 to +0.00)"
    assert (out / "selection_gain.md").is_file()


def test_fits_of_other_rows_are_left_out(out: Path) -> None:
    task = made_up_tasks(out, 0)[0]
    fits_of(task, out).keep("medn", {}, {}, {"validation": np.zeros(3), "test": np.zeros(3)}, Constant(0.0))
    assert "only medn" not in table(out, "--data", str(out), "--sets", "made-up")


def test_a_run_is_read_from_its_leaderboard(trained_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained_run, tmp_path / "desk")
    board = select_run(run, Budget()).leaderboard
    rows = table(tmp_path, "--run", str(run))
    assert list(rows) == [scheme["name"] for scheme in board.schemes]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to compare: give --run RUN"),
        (["--data", ".", "--sets", "mad-up"], "Did you mean 'made-up'?"),
        (["--run", "nowhere"], "no run folder nowhere"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    out: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert selection_gain.main(["--out", str(out), *arguments]) == 2
    assert words in capsys.readouterr().err
