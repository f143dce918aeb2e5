"""A run folder has one writer at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from medn.core.errors import StoreError
from medn.runs.folder import RunFolder

HOLDER = """
import sys
from pathlib import Path
from medn.runs.folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process


def lock(path: Path) -> None:
    with RunFolder(path).locked():
        pass


def test_who_holds_the_lock_is_named(tmp_path: Path) -> None:
    with another_holder(tmp_path) as holder, pytest.raises(StoreError, match=rf"in use by process {holder.pid}\."):
        lock(tmp_path)


def test_a_holder_that_is_killed_leaves_no_lock(tmp_path: Path) -> None:
    with another_holder(tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        lock(tmp_path)


def test_one_process_does_not_hold_a_folder_twice(tmp_path: Path) -> None:
    with RunFolder(tmp_path).locked(), pytest.raises(StoreError, match=f"in use by process {os.getpid()}"):
        lock(tmp_path)


def test_a_lock_ends_with_what_was_done_under_it(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="of its own"), RunFolder(tmp_path).locked():
        raise TimeoutError("of its own")
    lock(tmp_path)


def test_a_lock_of_an_earlier_version_does_not_stand_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("12345")
    lock(tmp_path)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot write to the run folder .*file/run: "):
        lock(tmp_path / "file" / "run")
