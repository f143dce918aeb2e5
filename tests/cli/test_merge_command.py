"""`medn merge` as a person meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from medn.cli.main import run


@pytest.fixture
def runs(tmp_path: Path, write_run: Callable[..., Path]) -> list[str]:
    """Two runs of the same layers, and one on which everything takes a third longer."""
    from medn.core.store import JOURNAL_NAME, Store
    from medn.core.values import Samples
    from medn.runs.folder import RunFolder

    first = write_run(tmp_path / "monday", layers=8, activations=4)
    for name, slower in (("tuesday", 1.0), ("other", 1.33)):
        with Store(first / JOURNAL_NAME, must_exist=True) as store:
            measured = list(store.measurements())
        with RunFolder(tmp_path / name).store() as store:
            store.add_environment("here", {"source": "a law"})
            for measurement in measured:
                for visit in measurement.visits:
                    object.__setattr__(visit, "started_at", slower)
                    times = visit.samples.wall_s * slower * 1.001
                    object.__setattr__(visit, "samples", Samples(times, times, times < 0))
                    store.record([(measurement.point, visit)])
    return [str(tmp_path / name) for name in ("monday", "tuesday", "other")]


def test_equal_points_are_told_as_a_table_that_fits(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["merge", *runs, "--out", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    assert max(map(len, out.splitlines())) <= 80
    assert "tuesday" in out
    assert "activation on made-up differs by" in err
    assert "between monday and other" in err
    assert f"24 points, 272 visits, 272 of them new, in {tmp_path / 'out'}" in err


def test_json_has_all_of_it(runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["merge", *runs[:2], "--out", str(tmp_path / "out"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["points"], told["added"], told["shared"]) == (24, 184, 8)  # failures are the same in both
    assert {each["kind"]: each["beyond_noise"] for each in told["overlaps"]} == {"activation": False, "linear": False}


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [(["--strict"], 4, "nothing was merged"), (["--keep-apart"], 0, "made-up of other is called made-up@other")],
)
def test_runs_that_disagree(
    options: list[str], code: int, sentence: str, runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["merge", runs[0], runs[2], "--out", str(tmp_path / "out"), *options]) == code
    assert sentence in capsys.readouterr().err


def test_what_is_no_run_is_one_sentence(runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["merge", runs[0], str(tmp_path / "nowhere"), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
