"""`medn check`: layers are measured again, and it says whether the bundle still fits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from medn.cli.main import run


@pytest.mark.serial
@pytest.mark.usefixtures("law_backend")
def test_a_machine_that_did_not_change_fits(
    law_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page, kept = tmp_path / "check.html", tmp_path / "kept"
    assert run(["check", str(law_bundle), "--html", str(page), "--keep", str(kept)]) == 0
    out, err = capsys.readouterr()
    assert "linear" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "the bundle still fits this machine" in err
    assert page.read_text().count("<figure>") == 2
    assert run(["summary", str(kept)]) == 0
    assert run(["check", str(law_bundle), "--keep", str(kept)]) == 2
    assert "holds measurements already" in capsys.readouterr().err


@pytest.mark.serial
@pytest.mark.usefixtures("law_backend")
def test_a_machine_that_became_slower_does_not_fit(
    law_bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAW_FACTOR", "1.4")
    assert run(["check", str(law_bundle), "--json"]) == 1
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["verdict"], told["change"]) == ("changed", "slower")
    assert told["factor"] == pytest.approx(1.4, rel=0.1)
    assert "does not fit this machine: everything takes longer" in err


@pytest.mark.serial
@pytest.mark.usefixtures("law_backend")
def test_points_of_the_run_are_held_against_what_they_took(
    law_bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAW_FACTOR", "1.4")
    assert run(["check", str(law_bundle), "--run", str(law_bundle.parent)]) == 1
    assert "times what was measured before" in capsys.readouterr().err


@pytest.mark.serial
@pytest.mark.usefixtures("law_backend")
def test_too_few_points_leave_it_undecided(law_bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(law_bundle), "--points", "1"]) == 0
    assert "undecided after 1 points" in capsys.readouterr().err
    assert run(["check", str(law_bundle), "--points", "1", "--strict"]) == 4


def test_a_device_that_nothing_drives_here_is_one_sentence(
    bundle_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", str(bundle_path)]) in (2, 3)
    assert "made-up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--tolerance", "0"], "--tolerance: must be from 0.01 to 10"),
        (["--tolerance", "nan"], "--tolerance: must be from 0.01 to 10"),
        (["--time", "soon"], "--time"),
        (["--device", "phone"], "phone"),
    ],
)
def test_wrong_options_are_one_sentence(
    law_bundle: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", str(law_bundle), *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_run_that_is_none_is_one_sentence(
    law_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", str(law_bundle), "--run", str(tmp_path)]) == 1
    assert "holds no measurements yet" in capsys.readouterr().err
    shutil.rmtree(tmp_path)
