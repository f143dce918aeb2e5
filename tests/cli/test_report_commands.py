"""`medn report` and `medn compare` as a person meets them."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest

from medn.choosing.select_run import select_run
from medn.cli.main import run as medn
from medn.selection.budget import Budget
from medn.training.train_run import train_run

WriteRun = Callable[..., Path]


@pytest.fixture
def run(write_run: WriteRun, tmp_path: Path) -> Path:
    """Small, as drawing takes the time: one kind, chosen from two regressors."""
    path = write_run(tmp_path / "desk", layers=20, activations=0)
    train_run(path, seconds=2.0, families=("median", "roofline"))
    select_run(path, Budget())
    return path


def test_the_report_is_written_and_its_path_is_the_output(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["report", str(run)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{run / 'report.html'}\n"
    assert "This run holds 38 measured points of 1 layer kind on made-up" in err
    assert (run / "report.html").read_text().startswith("<!doctype html>")


def test_json_names_the_file_and_says_the_words(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(opened.append(address)))
    out = tmp_path / "elsewhere.html"
    assert medn(["report", str(run), "--json", "--open", "--out", str(out), "--by", "in_features,batch_size"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["report"] == str(out)
    assert found["bytes"] == out.stat().st_size
    assert len(found["summary"]) >= 4
    assert opened == [out.as_uri()]
    assert "no browser could be opened; the page is" in printed.err


def test_two_runs_are_compared(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["compare", str(run), str(run)]) == 0
    out, err = capsys.readouterr()
    (line,) = (line for line in out.splitlines() if "linear" in line)
    assert "+0.0 points" in line
    assert "about the same" in err
    assert (run / "compare.html").is_file()


def test_a_comparison_as_json_is_all_of_stdout(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["compare", str(run), str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["page"] == str(run / "compare.html")
    assert [each["kind"] for each in found["kinds"]] == ["linear"]
    assert found["kinds"][0]["difference"]["mape"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["report", "nothing"], 1, "no run folder nothing"),
        (["report", "."], 1, "has no leaderboard yet. Make it with: medn select"),
        (["report", ".", "--by", "a"], 2, "--by: must be two different names with a comma between them"),
        (["report", ".", "--by", "a,a"], 2, "--by: must be two different names"),
        (["compare", ".", "nothing"], 1, "has no leaderboard yet"),
        (["report"], 2, "RUN"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    arguments: list[str],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert medn(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_a_page_that_cannot_be_written_is_one_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["compare", str(run), str(run), "--out", str(run / "no" / "such" / "place.html")]) == 1
    assert "cannot write" in capsys.readouterr().err
