"""`-q` and `-v` before and after any verb, and what the tab key completes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from medn.cli import main
from medn.cli.main import app, run

Capture = pytest.CaptureFixture[str]
DRY = ["sweep", "edge", "--dry-run", "--points", "3"]


@pytest.mark.parametrize("arguments", [[*DRY, "-q"], ["-q", *DRY], ["--quiet", *DRY], [*DRY, "--quiet"]], ids=" ".join)
def test_quiet_leaves_the_data_and_says_nothing(arguments: list[str], capsys: Capture) -> None:
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    assert "conv2d" in out
    assert err == ""


def test_quiet_does_not_hide_errors(capsys: Capture) -> None:
    assert run(["list", "kinds", "conv2", "-q"]) == 2
    assert "no layer kind named 'conv2'" in capsys.readouterr().err


def test_a_quiet_command_leaves_the_next_one_as_talkative_as_ever(capsys: Capture) -> None:
    run([*DRY, "-q"])
    run(DRY)
    assert "nothing was measured" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [command.name for command in app.registered_commands])
def test_every_verb_takes_both(verb: str, capsys: Capture) -> None:
    assert run([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "-v, --verbose" in shown
    assert "-q, --quiet" in shown


@pytest.mark.parametrize("part", ["measure", "predict"])
def test_every_part_of_bench_takes_both(part: str, capsys: Capture) -> None:
    assert run(["bench", part, "--help"]) == 0
    assert "-q, --quiet" in capsys.readouterr().out


def test_verbose_shows_where_an_unexpected_error_came_from(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def fail() -> None:
        raise ZeroDivisionError("of a bug")

    monkeypatch.setattr("medn.layer_generators.kind.layer_kinds.values", fail, raising=False)
    assert run(["list", "kinds", "-v"]) == 1
    said = capsys.readouterr().err
    assert "in fail" in said
    assert said.endswith("medn: unexpected ZeroDivisionError: of a bug (-v shows where it came from)\n")


def test_verbose_says_what_is_read(bundle_path: Path, capsys: Capture) -> None:
    assert run(["predict", str(bundle_path), "linear", "in_features=64", "out_features=64", "-v"]) == 0
    assert f"{bundle_path}: 2 predictors, made by medn" in capsys.readouterr().err


def test_messages_are_records_of_the_logger_medn(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "medn"):
        run(DRY)
    assert any("nothing was measured" in record.message and record.levelno == logging.INFO for record in caplog.records)


def completed(words: str) -> list[str]:
    """What bash is told for a line that ends where the cursor is."""
    parts = words.split(" ")
    environment = {"_MEDN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(parts) - 1)}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'medn'; from medn.cli.main import main; main()"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "one"),
    [
        ("medn pre", "predict"),
        ("medn select --m", "--max-us"),
        ("medn list conf", "configs"),
        ("medn list kinds conv2", "conv2d"),
        ("medn predict b.medn max_", "max_pool2d"),
        ("medn predict b.medn linear in_", "in_features="),
        ("medn predict b.medn linear in_features=8 batch", "batch_size="),
        ("medn sweep whole", "whole-models"),
        ("medn init neusight_b", "neusight_bmm"),
        ("medn train runs/x --regressors ridge,roof", "ridge,roofline"),
        ("medn tables b.medn --format once", "once-for-all"),
    ],
)
def test_the_tab_key_completes(words: str, one: str) -> None:
    assert one in completed(words)


def test_what_was_given_is_not_offered_again() -> None:
    assert "in_features=" not in completed("medn predict b.medn linear in_features=8 in_")


def test_a_path_is_left_to_the_shell() -> None:
    assert completed("medn inspect runs/") == []


def test_the_script_for_a_shell_is_shown(tmp_path: Path) -> None:
    environment = {**os.environ, "_MEDN_COMPLETE": "source_bash"}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'medn'; from medn.cli.main import main; main()"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert "complete -o default -F _medn_completion medn" in done.stdout


def test_completion_is_an_option_of_the_command(capsys: Capture) -> None:
    assert run(["--help"]) == 0
    assert "--install-completion" in capsys.readouterr().out
    assert main.app is app
