"""The command as a person meets it: streams, exit codes, sentences."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from medn import __version__
from medn.cli.main import app, run
from medn.core.errors import TooNoisy


def medn(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "medn", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)


def test_version_is_data() -> None:
    done = medn("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"medn {__version__}\n", "")


def test_help_shows_examples() -> None:
    done = medn("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "medn doctor" in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["bench", "--help"]])
def test_the_list_of_verbs_cuts_no_sentence_off(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "..." not in shown.partition("Commands:")[2]
    assert max(len(line) for line in shown.partition("Commands:")[2].partition("Examples:")[0].splitlines()) <= 80
    assert "Examples:" in shown


def test_no_verb_is_wrong_usage_and_shows_the_help() -> None:
    done = medn()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage:" in done.stderr


@pytest.mark.parametrize("verb", [command.name for command in app.registered_commands])
def test_the_help_of_every_verb_has_an_example_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example" in shown
    assert f"medn {verb}" in shown
    assert "--json" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["docter"], "medn: No such command 'docter'. Did you mean 'doctor'?\n"),
        (["list", "kind"], "no listing named 'kind'. Did you mean 'kinds'?"),
        (["list", "kinds", "conv2"], "no layer kind named 'conv2'. Did you mean 'conv2d'?"),
        (["list", "probes", "load_averag"], "no probe named 'load_averag'. Did you mean 'load_average'?"),
        (["doctor", "--jsn"], "--json"),
        (["doctor", "surplus"], "surplus"),
    ],
)
def test_wrong_usage_is_one_sentence_with_the_near_miss(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.startswith("medn: ")
    assert err.count("\n") == 1


def raising(error: BaseException) -> None:
    raise error


@pytest.fixture
def failing_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb that ends with the error its argument names."""
    errors = {
        "noisy": TooNoisy("12 % where 5 % was allowed"),
        "bug": KeyError("lost"),
        "interrupt": KeyboardInterrupt(),
    }
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))
    app.command(name="fail")(lambda how: raising(errors[how]))


@pytest.mark.usefixtures("failing_verb")
@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("noisy", 4, "medn: 12 % where 5 % was allowed\n"),
        ("bug", 1, "medn: unexpected KeyError: 'lost' (-v shows where it came from)\n"),
        ("interrupt", 130, "medn: interrupted\n"),
    ],
)
def test_an_error_becomes_a_sentence_and_an_exit_code(
    how: str, code: int, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MEDN_DEBUG", raising=False)
    assert run(["fail", how]) == code
    assert capsys.readouterr().err == words


@pytest.mark.usefixtures("failing_verb")
def test_debugging_shows_where_an_unexpected_error_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDN_DEBUG", "1")
    with pytest.raises(KeyError, match="lost"):
        run(["fail", "bug"])


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX pipe")
@pytest.mark.parametrize("arguments", [["list", "kinds"], ["list", "kinds", "--json"], ["schema"], ["--version"]])
def test_a_reader_that_stops_reading_gets_no_traceback(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "medn", *arguments]
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60)
    finally:
        os.close(writing)
    assert done.stderr == ""


def test_output_to_a_pipe_has_no_colours() -> None:
    assert "\x1b" not in medn("list", "devices").stdout


def test_no_color_is_respected_even_where_colours_are_forced() -> None:
    forced = medn("doctor", FORCE_COLOR="1", NO_COLOR="").stdout
    plain = medn("doctor", FORCE_COLOR="1", NO_COLOR="1").stdout
    assert "\x1b[32m" in forced
    assert "\x1b[32m" not in plain


def test_json_of_a_command_is_all_of_its_stdout() -> None:
    assert isinstance(json.loads(medn("doctor", "--json").stdout), list)
