"""`medn select` and `medn leaderboard` as a person meets them."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from medn.choosing.leaderboard import COLUMNS
from medn.cli.main import run as medn


@pytest.fixture(scope="module")
def run(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run with a leaderboard."""
    folder = shutil.copytree(trained_run, tmp_path_factory.mktemp("select") / "desk")
    assert medn(["select", str(folder)]) == 0
    return str(folder)


def test_what_was_chosen_is_shown_with_its_gain_and_the_bundle(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["select", run, "--mode", "fast", "--weights", "linear=10,activation=1"]) == 0
    out, err = capsys.readouterr()
    (line,) = (line for line in out.splitlines() if line.strip().startswith("linear"))
    assert "%" in line
    assert "noise" in out
    assert "overall accuracy on test layers" in err
    assert "points over only " in err
    assert "(95 % interval" in err
    assert "desk.medn" in err
    assert (Path(run) / "desk.medn").is_file()


def test_json_of_a_choice_is_all_of_stdout(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["select", run, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in found["chosen"]] == ["activation", "linear"]
    assert found["schemes"][-1]["name"] == "chosen"
    assert found["bundle"].endswith("desk.medn")
    assert found["budget"]["mode"] == "accuracy"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--mode", "fats"], 2, "no mode named 'fats'. Did you mean 'fast'?"),
        (["--max-us", "0.0001"], 2, "no selection keeps within 0.0001 us a row. The nearest possible: "),
        (["--max-kb", "-1"], 2, "max_kb must be above 0 (got -1)"),
        (["--rows", "5"], 2, "times are measured for 1, 100, 10000 rows (got 5)"),
        (["--weights", "linear"], 2, "--weights: must look like conv2d=10,linear=3 (got 'linear')"),
        (["--weights", "linea=2"], 2, "no trained layer kind named 'linea'. Did you mean 'linear'?"),
        (["--kinds", "linea"], 2, "no trained layer kind named 'linea'. Did you mean 'linear'?"),
    ],
)
def test_what_cannot_be_chosen_is_one_sentence(
    run: str, options: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert medn(["select", run, *options]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1


def test_a_kind_that_nothing_can_be_chosen_for_ends_with_one_unless_it_is_left_out_on_purpose(
    trained_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(trained_run, tmp_path / "desk")
    for path in (folder / "candidates" / "made-up" / "activation").glob("*/candidate.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "reason": "it crashed"}))
    assert medn(["select", str(folder), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["lost"][0]["kind"] == "activation"
    assert "nothing could be chosen for activation on made-up: it crashed" in err
    assert medn(["select", str(folder), "--kinds", "linear"]) == 0


def test_a_run_that_is_not_there_cannot_be_chosen_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["select", str(tmp_path / "nothing")]) == 1
    assert "no run named 'nothing'" in capsys.readouterr().err


def test_the_leaderboard_shows_every_candidate_and_why_one_failed(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["leaderboard", run]) == 0
    out, err = capsys.readouterr()
    assert out.count("roofline") >= 2
    assert "RuntimeError: this family always fails" in out
    assert "--schemes" in err


def test_the_leaderboard_can_be_filtered_and_sorted(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--kinds", "linear", "--candidates", "median,test-law,roofline", "--sort", "bytes", "--json"]
    assert medn(["leaderboard", run, *options]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    sizes = [row["bytes"] for row in rows]
    assert sizes == sorted(sizes)
    assert {row["candidate"] for row in rows} == {"median", "test-law", "roofline"}


def test_csv_has_every_column(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["leaderboard", run, "--csv", "--chosen"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["kind"] for row in rows] == ["activation", "linear"]
    assert tuple(rows[0]) == COLUMNS


def test_markdown_is_a_table(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["leaderboard", run, "--markdown", "--pareto"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[1].replace("|", "").replace("-", "").strip() == ""
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize("form", [[], ["--csv"], ["--markdown"]])
def test_schemes_are_compared_side_by_side(run: str, form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert medn(["leaderboard", run, "--schemes", *form]) == 0
    out = capsys.readouterr().out
    for name in ("only median", "best per kind", "efficient per kind", "ensemble per kind", "chosen"):
        assert name in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sort", "mpae"], "no column named 'mpae'. Did you mean 'mape'?"),
        (["--kinds", "linea"], "no layer kind on this leaderboard named 'linea'. Did you mean 'linear'?"),
        (["--candidates", "medan"], "Did you mean 'median'?"),
        (["--json", "--csv"], "choose one of --json, --csv and --markdown"),
    ],
)
def test_a_wrong_view_is_one_sentence(
    run: str, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert medn(["leaderboard", run, *options]) == 2
    assert words in capsys.readouterr().err


def test_a_run_without_a_leaderboard_names_the_verb_that_makes_it(
    trained_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert medn(["leaderboard", str(trained_run)]) == 1
    assert f"medn select {trained_run}" in capsys.readouterr().err
