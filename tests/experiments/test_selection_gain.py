"""The table of gains, from the leaderboards of runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from experiments import selection_gain
from medn.choosing.select_run import select_run
from medn.selection.budget import Budget


@pytest.fixture(scope="module")
def run(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied = Path(shutil.copytree(trained_run, tmp_path_factory.mktemp("runs") / "desk"))
    select_run(copied, Budget())
    return copied


def table(out: Path, *arguments: str) -> dict[str, dict[str, object]]:
    assert selection_gain.main(["--out", str(out), *arguments]) == 0
    rows = json.loads((out / "selection_gain.json").read_text())["rows"]
    return {row["selection"]: row for row in rows}


def test_a_run_is_read_from_its_leaderboard(run: Path, tmp_path: Path) -> None:
    schemes = json.loads((run / "leaderboard.json").read_text())["schemes"]
    rows = table(tmp_path, "--run", str(run))
    assert list(rows) == [scheme["name"] for scheme in schemes]
    assert rows["chosen"]["accuracy gain"] == "+0.00 (+0.00 to +0.00)"


def test_tables_together_are_their_mean_and_tell_it_more_surely(run: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        shutil.copy(run / "leaderboard.json", tmp_path / name)
    alone, both = table(tmp_path, "--run", str(run)), table(tmp_path, "--public", str(tmp_path))
    for name, row in both.items():
        assert row["accuracy %"] == pytest.approx(alone[name]["accuracy %"])
    name = next(name for name in both if name != "chosen")
    widths = [
        float(high) - float(low.strip("("))
        for _, low, _, high in (str(rows[name]["accuracy gain"]).strip(")").split() for rows in (both, alone))
    ]
    assert widths[0] <= widths[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to compare: give --run RUN"),
        (["--public", "nowhere"], "no leaderboards in nowhere"),
        (["--run", "nowhere"], "no run folder nowhere"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(
    tmp_path: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert selection_gain.main(["--out", str(tmp_path), *arguments]) == 2
    assert words in capsys.readouterr().err
