"""A run that may be read and not written, such as somebody else's: told of, reported and predicted from."""

from __future__ import annotations

import ctypes
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

Medn = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def folder(selected_run: Path, tmp_path: Path) -> Iterator[Path]:
    """A run that may not be written to."""
    folder = shutil.copytree(selected_run, tmp_path / "desk")
    seal(folder)
    yield folder
    for path in tmp_path.rglob("*"):
        path.chmod(0o755)


def seal(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


@pytest.fixture
def medn(tmp_path: Path) -> Medn:
    """The command as somebody who is held to the permissions of files, which root is not."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = f"import sys; from medn.cli.main import run; sys.exit(run({list(arguments)!r}))"
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'plugins'}"}
        return subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env={**environment, "MEDN_PLUGINS": "plain_regressors"},
            check=False,
            preexec_fn=held_to_permissions if os.geteuid() == 0 else None,
        )

    return call


def held_to_permissions() -> None:
    """Drop the right of root to write where nobody may, for what is run next."""
    drop_capability, override_permissions = 24, 1
    ctypes.CDLL(None).prctl(drop_capability, override_permissions, 0, 0, 0)


def test_a_read_only_run_is_summed_up(folder: Path, medn: Medn) -> None:
    told = medn("summary", str(folder))
    assert told.returncode == 0, told.stderr
    assert "linear" in told.stdout


def test_a_read_only_run_is_reported(folder: Path, medn: Medn, tmp_path: Path) -> None:
    told = medn("report", str(folder), "--out", str(tmp_path / "report.html"))
    assert told.returncode == 0, told.stderr


def test_where_a_report_cannot_go_another_place_is_offered(folder: Path, medn: Medn) -> None:
    told = medn("report", str(folder))
    assert told.returncode == 1
    assert "choose another place with --out" in told.stderr


@pytest.mark.parametrize("verb", [["leaderboard"], ["inspect"], ["predict"]], ids=lambda verb: verb[0])
def test_a_read_only_run_answers(verb: list[str], folder: Path, medn: Medn) -> None:
    bundle, asked = str(folder / "desk.medn"), ["linear", "in_features=64", "out_features=64"]
    told = medn(*verb, *{"leaderboard": [str(folder)], "inspect": [bundle], "predict": [bundle, *asked]}[verb[0]])
    assert told.returncode == 0, told.stderr


def test_what_a_killed_writer_left_beside_the_journal_is_read_too(folder: Path, medn: Medn, tmp_path: Path) -> None:
    """Rows that are committed may still stand in the write-ahead log alone."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    journal = folder / "measurements.sqlite"
    connection = sqlite3.connect(journal, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("UPDATE points SET device = 'moved'")
    kept = shutil.copytree(folder, tmp_path / "killed")
    connection.close()
    (kept / "measurements.sqlite-shm").unlink()
    seal(kept)
    told = medn("summary", str(kept))
    assert told.returncode == 0, told.stderr
    assert "moved" in told.stdout


def test_writing_to_a_read_only_run_is_one_sentence(folder: Path, medn: Medn) -> None:
    told = medn("train", str(folder), "--time", "1", "--regressors", "median")
    assert told.returncode == 1
    assert "cannot write to the run folder" in told.stderr
