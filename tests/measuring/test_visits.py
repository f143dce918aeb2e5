"""Visits under load, on the host and on a device with a load of its own."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence

import psutil
import pytest

from medn.core.environment import allowed_cores
from medn.core.errors import DeviceUnavailable
from medn.core.values import Condition, Point
from medn.devices.backend import backends
from medn.devices.held_utilization import UTILIZATION_EVERY_S
from medn.devices.transport import THIS_MACHINE, Device, Process, ThisMachine
from medn.devices.visits import Visitor
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import Measure, ProbeChoice
from tests.conftest import load_plugins

LAYER = layer_kinds["linear"].layer(in_features=512, out_features=512, rows=64)
"""A call of about a millisecond."""


@pytest.fixture
def visitor(own_load_backend: None) -> Iterator[Visitor]:
    devices = {"host": Device(backends["torch"]), "own": Device(backends["own-load"])}
    # Visits that never end early: a few quick samples can slip through between two turns of a load.
    with Visitor(devices, Measure(visit_time=0.2, precision=1e-9)) as visitor:
        yield visitor


def load_processes(visitor: Visitor) -> int:
    """How many processes hold a load on this machine for these visits."""
    return len(psutil.Process(visitor.machines[THIS_MACHINE].process_id).children())


def point(device: str, utilization: float) -> Point:
    return Point(LAYER, Condition(utilization=utilization), device)


@pytest.mark.serial
def test_a_device_with_its_own_load_is_held_at_the_asked_utilization(visitor: Visitor) -> None:
    visitor.visit(point("own", 0.5), 0)
    time.sleep(UTILIZATION_EVERY_S)  # it is read again then, now that the load has settled
    visit = visitor.visit(point("own", 0.5), 1)
    assert visit.utilization_measured == pytest.approx(0.5, abs=0.15)
    assert visit.utilization_during is None


def test_only_the_load_of_the_device_in_use_runs(visitor: Visitor) -> None:
    visitor.visit(point("own", 0.5), 0)
    assert load_processes(visitor) == 0
    visitor.visit(point("host", 0.5), 0)
    assert load_processes(visitor) == allowed_cores()
    assert visitor._workers["own", 1].held == 0.0
    visitor.visit(point("own", 0.0), 0)
    assert load_processes(visitor) == 0


@pytest.mark.serial
def test_a_loaded_device_is_slower_and_its_samples_are_all_kept(visitor: Visitor) -> None:
    idle = visitor.visit(point("host", 0.0), 0)
    loaded = visitor.visit(point("host", 0.9), 0)
    assert loaded.status == idle.status == "ok"
    assert statistics.mean(loaded.samples.wall_s) > statistics.median(idle.samples.wall_s)


def test_a_load_whose_program_was_killed_is_held_again(visitor: Visitor) -> None:
    visitor.visit(point("host", 0.5), 0)
    program = visitor.machines[THIS_MACHINE].process_id
    assert program is not None
    os.kill(program, signal.SIGKILL)
    visit = visitor.visit(point("host", 0.5), 1)
    assert (visit.status, load_processes(visitor)) == ("ok", allowed_cores())


def test_a_worker_that_died_under_its_own_load_is_not_started_again_to_end_it(visitor: Visitor) -> None:
    visitor.visit(point("own", 0.5), 0)
    visitor._workers["own", 1].stop()
    assert visitor.visit(point("host", 0.0), 0).status == "ok"
    assert visitor._workers["own", 1].process_id is None


def test_a_device_whose_worker_does_not_start_is_one_sentence_with_exit_code_3() -> None:
    class Refusing(ThisMachine):
        def process(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
            return super().process("no_such_module", arguments, environment)

    with (
        Visitor({"host": Device(backends["torch"], Refusing())}, Measure()) as visitor,
        pytest.raises(DeviceUnavailable, match=r"device host does not start: .*No module named no_such_module") as told,
    ):
        visitor.visit(point("host", 0.0), 0)
    assert told.value.exit_code == 3


@pytest.fixture
def shaky_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    load_plugins(monkeypatch, "shaky_probes")


@pytest.mark.usefixtures("shaky_probes")
def test_probes_without_a_number_leave_gaps_and_reasons_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("medn.devices.machine_client.PROBE_S", 0.5)
    names = ("test_raising", "test_hanging", "test_crashing", "load_average")
    probes = [ProbeChoice(name=name) for name in names]
    with Visitor({"host": Device(backends["torch"])}, Measure(visit_time=0.01), probes=probes) as visitor:
        visits = [visitor.visit(point("host", 0.0), 0)]
        program = visitor.machines[THIS_MACHINE].process_id
        assert program is not None
        os.kill(program, signal.SIGKILL)  # which no probe has done
        visits.append(visitor.visit(point("host", 0.0), 1))
        reasons = visitor.probe_reasons
    assert [visit.status for visit in visits] == ["ok", "ok"]
    for visit in visits:
        assert {name for name, number in visit.probes.items() if number is not None} == {"load_average"}
    assert reasons == {
        "test_raising": "OSError: no such sensor",
        "test_hanging": "no answer within 0.5 s; it is not read again",
        "test_crashing": "the process died (exit code 7); it is not read again",
    }


def test_the_reference_is_timed_beside_idle_layers_of_the_host_alone(visitor: Visitor) -> None:
    runs = {
        (device, utilization): visitor.visit(point(device, utilization), 0).reference_runs
        for device, utilization in (("host", 0.0), ("host", 0.5), ("own", 0.0))
    }
    assert runs["host", 0.0].keys() == {"compute", "memory"}
    assert all(len(seconds) >= 2 and min(seconds) > 0 for seconds in runs["host", 0.0].values())
    assert runs["host", 0.5] == runs["own", 0.0] == {}
