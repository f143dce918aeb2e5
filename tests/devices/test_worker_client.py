"""Worker processes: whatever a layer does to its process, the parent gets a status and a reason."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medn.core.child import ChildFailed
from medn.core.values import Condition
from medn.devices.backend import backends
from medn.devices.transport import Device
from medn.devices.worker_client import WorkerClient
from tests.conftest import load_plugins


@pytest.fixture(scope="module")
def child() -> Iterator[WorkerClient]:
    """Shared, as every start imports torch; whatever was done to it before, it starts again when it is asked."""
    with pytest.MonkeyPatch.context() as patch:
        load_plugins(patch, "faulty_layers")
        with WorkerClient(Device(backends["torch"]), threads=1) as child:
            yield child


def prepare(how: str = "nothing", **condition: Any) -> dict[str, Any]:
    return {
        "do": "prepare",
        "kind": "faulty",
        "layer": {"how": how, "size": 64},
        "condition": Condition(**condition).values,
        "first": True,
    }


MEASURE = {"do": "measure", "seconds": 0.02, "precision": 0.02, "quantile": 0.1, "reference": True}


def failure(child: WorkerClient, how: str, timeout_s: float = 60.0) -> ChildFailed:
    child.start()
    with pytest.raises(ChildFailed) as caught:
        child.ask(prepare(how), timeout_s)
    return caught.value


def test_a_good_layer_is_timed(child: WorkerClient) -> None:
    child.ask(prepare(), 60)
    answer = child.ask(MEASURE, 60)
    assert min(answer["wall_s"]) > 0
    assert min(answer["reference_runs"]["compute"]) == answer["reference_s"] > 0
    assert answer["quantities"]["energy_j"]


def test_every_way_to_fail_has_its_status_and_the_child_works_again_afterwards(child: WorkerClient) -> None:
    assert failure(child, "fail").status == "failed"
    assert failure(child, "memory").status == "out_of_memory"
    assert failure(child, "crash").status == "crashed"
    assert failure(child, "killed").status == "out_of_memory"
    hanging = failure(child, "hang", timeout_s=0.5)
    assert (hanging.status, hanging.reason) == ("timeout", "no answer within 0.5 s")
    child.ask(prepare(), 60)
    assert child.ask(MEASURE, 60)["wall_s"]


def test_the_reason_of_a_failure_is_one_line(child: WorkerClient) -> None:
    assert failure(child, "fail").reason == "this layer always fails"


def test_what_a_library_prints_does_not_pass_for_an_answer(child: WorkerClient) -> None:
    child.ask(prepare("chatter"), 60)
    assert child.ask(MEASURE, 60)["wall_s"]


def test_a_child_killed_between_requests_is_started_again(child: WorkerClient) -> None:
    child.start()
    first = child.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    time.sleep(0.2)
    with pytest.raises(ChildFailed):
        child.ask(prepare(), 60)
    child.ask(prepare(), 60)
    assert child.process_id != first


def test_a_child_killed_in_the_middle_of_a_request_is_noticed_at_once(child: WorkerClient) -> None:
    child.start()
    process_id = child.process_id
    assert process_id is not None
    threading.Timer(0.5, os.kill, (process_id, signal.SIGKILL)).start()
    began, granted_s = time.monotonic(), 60.0
    with pytest.raises(ChildFailed):
        child.ask(prepare("hang"), granted_s)
    assert time.monotonic() - began < granted_s / 2


def test_the_thread_setting_reaches_the_child() -> None:
    with WorkerClient(Device(backends["torch"]), threads=2) as child:
        child.start()
        environment = Path(f"/proc/{child.process_id}/environ").read_bytes().split(b"\0")
    assert b"OMP_NUM_THREADS=2" in environment


def test_the_first_visit_is_weighed(child: WorkerClient) -> None:
    child.stop()
    request = prepare()
    request["layer"]["size"] = 1_000_000
    answer = child.ask(request, 60)
    weighed = answer["quantities"]["memory_bytes"]
    assert isinstance(weighed, str) or weighed >= 4_000_000
