"""Child processes: an answer or a reason, whatever they do, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from medn.core.child import ChildFailed, ChildProcess, waited_for

PLUGINS = Path(__file__).parents[1] / "plugins"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and process groups")


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChildProcess]:
    monkeypatch.syspath_prepend(str(PLUGINS))
    process = ChildProcess("answering")
    yield process
    process.stop()


def asked(child: ChildProcess, what: str, timeout_s: float = 60.0) -> str:
    child.send(what.encode())
    return child.receive(timeout_s).decode()


def test_what_is_importable_here_is_importable_there(child: ChildProcess) -> None:
    assert asked(child, "hello") == "hello"


def test_large_messages_arrive_whole(child: ChildProcess) -> None:
    assert asked(child, "x" * 3_000_000) == "x" * 3_000_000


@pytest.mark.parametrize("what", ["print", "read", "fork"])
def test_what_the_work_does_with_its_streams_disturbs_no_answer(child: ChildProcess, what: str) -> None:
    assert asked(child, what) == what
    assert asked(child, "next") == "next"


@pytest.mark.parametrize("what", ["crash", "leave a process and die"])
def test_a_crash_is_told_with_its_signal_and_the_child_starts_again(child: ChildProcess, what: str) -> None:
    with pytest.raises(ChildFailed, match=r"the process died \(signal 11\)"):
        asked(child, what)
    assert asked(child, "hello") == "hello"


def test_a_child_that_does_not_answer_is_stopped_though_it_ignores_to_be_terminated(child: ChildProcess) -> None:
    asked(child, "hello")
    process = psutil.Process(child.process_id)
    with pytest.raises(ChildFailed, match=r"no answer within 0.3 s"):
        asked(child, "hang", 0.3)
    assert not process.is_running()


def test_what_a_child_has_started_ends_with_it(child: ChildProcess) -> None:
    process = psutil.Process(int(asked(child, "start a process")))
    child.stop()
    psutil.wait_procs([process], timeout=10)
    assert not process.is_running()


def test_the_first_to_answer_is_found(child: ChildProcess) -> None:
    asked(child, "hello")
    assert waited_for([child], 0.0) == []
    child.send(b"hello")
    assert waited_for([child], 30.0) == [child]
    assert child.receive(30.0) == b"hello"


PARENT = """
import sys
from medn.core.child import ChildProcess
child = ChildProcess("answering")
child.send(b"start a process")
print(child.process_id, child.receive(60.0).decode(), flush=True)
child.send(b"hang")
sys.stdin.read()
"""


def test_children_and_what_they_started_end_when_their_parent_is_killed() -> None:
    environment = {**os.environ, "PYTHONPATH": str(PLUGINS)}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert parent.stdout is not None
    processes = [psutil.Process(int(number)) for number in parent.stdout.readline().split()]
    assert len(processes) == 2
    parent.kill()
    parent.communicate()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert alive == []
