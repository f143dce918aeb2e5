"""A second transport: what is measured and read comes from the side where it starts its programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from medn.core.child import ChildProcess
from medn.core.errors import DeviceUnavailable
from medn.core.values import Condition, Point
from medn.devices.backend import backends
from medn.devices.transport import THIS_MACHINE, Device, Process, Transport
from medn.devices.visits import Visitor
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import Measure, SweepConfig, parse_sweep
from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder
from medn.runs.tables import SHEETS_NOTE
from tests.conftest import load_plugins

ENTER = """
import os, sys
os.chdir(sys.argv[1])
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.execv(sys.argv[2], sys.argv[2:])
"""

OTHER_MACHINE = """
import platform
platform.machine = lambda: "pdp11"
"""
"""Imported by every Python on the other side before anything else."""


class Elsewhere(Transport):
    """Programs in another folder, on one core of a machine of another make, with a variable of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sitecustomize.py").write_text(OTHER_MACHINE)
        (folder / "sensor").write_text("42")

    def process(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
        path = os.pathsep.join([str(self.folder), *map(os.path.abspath, sys.path)])
        own = {**environment, "PYTHONPATH": path, "MEDN_TEST_SIDE_BYTES": "12345"}
        process = ChildProcess(module, arguments, own)
        process.command = [sys.executable, "-S", "-c", ENTER, str(self.folder), *process.command]
        return process


pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="binds processes to cores")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    load_plugins(monkeypatch, "side_backend")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return Elsewhere(folder)


def config() -> SweepConfig:
    written: dict[str, Any] = {
        "name": "sides",
        "devices": [{"name": name, "backend": "test-side"} for name in ("here", "there")],
        "budget": {"points": 2},
        "layers": {"linear": {"in_features": 16, "out_features": 16, "rows": 1}},
        "measure": {"visits": 1, "max_visits": 1, "visit_time": 0.01},
        "probes": [{"name": "warmth", "file": "sensor"}],
    }
    return parse_sweep(json.dumps(written))


def test_environment_sheet_probes_memory_and_energy_are_those_of_the_device_s_side(
    elsewhere: Elsewhere, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    run_sweep(config(), folder, transports={"there": elsewhere})
    with folder.store() as store:
        visits = {each.point.device: each.visits[0] for each in store.measurements()}
        manifests = store.environments()
        sheets = store.read_note(SHEETS_NOTE)
    here, there = (manifests[visits[name].environment_id]["cpu"] for name in ("here", "there"))
    assert (there["architecture"], there["usable_cores"]) == ("pdp11", 1)
    assert (here["architecture"], here["usable_cores"]) == (os.uname().machine, len(os.sched_getaffinity(0)))
    assert sheets["there"]["multiprocessors"] == 1.0
    assert sheets["here"] != sheets["there"]
    assert (visits["here"].probes, visits["there"].probes) == ({"warmth": None}, {"warmth": 42.0})
    here_quantities, there_quantities = (visits[name].quantities for name in ("here", "there"))
    assert there_quantities["memory_bytes"] == 12345 != here_quantities["memory_bytes"]
    assert here_quantities["energy_j"] == "on this side"
    assert isinstance(there_quantities["energy_j"], float)


def test_a_sweep_over_two_machines_goes_on_in_the_environments_of_both(elsewhere: Elsewhere, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    run_sweep(config(), folder, transports={"there": elsewhere})
    assert run_sweep(config(), folder, transports={"there": elsewhere}).visits == 0
    with folder.store() as store:
        assert len(store.environments()) == 2


def load_folders(visitor: Visitor, transport: Transport) -> list[str]:
    """Where the processes of the load of a machine run."""
    return [process.cwd() for process in psutil.Process(visitor.machines[transport].process_id).children()]


def test_the_load_runs_on_the_device_s_side(elsewhere: Elsewhere) -> None:
    devices = {"here": Device(backends["torch"]), "there": Device(backends["torch"], elsewhere)}
    layer = layer_kinds["linear"].layer(in_features=64, out_features=64)
    with Visitor(devices, Measure(visit_time=0.02)) as visitor:
        for name in devices:
            visit = visitor.visit(Point(layer, Condition(utilization=0.3), name), 0)
            assert (visit.status, visit.utilization_measured is not None) == ("ok", True)
        assert load_folders(visitor, elsewhere) == [str(elsewhere.folder)]
        assert load_folders(visitor, THIS_MACHINE) == [str(Path.cwd())] * len(os.sched_getaffinity(0))


def test_a_machine_that_cannot_be_reached_is_one_sentence_with_exit_code_3(tmp_path: Path) -> None:
    class Unreachable(Transport):
        def process(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
            process = ChildProcess(module, arguments, environment)
            process.command = [str(tmp_path / "no-such-command"), *process.command]
            return process

    folder = RunFolder(tmp_path / "run")
    plain = config().model_copy(update={"devices": config().devices[:1]})
    load = {"here": Unreachable()}
    with pytest.raises(DeviceUnavailable, match=r"device here does not start: .*cannot be run: No such file") as told:
        run_sweep(plain, folder, transports=load)
    assert told.value.exit_code == 3
    assert not (tmp_path / "run").exists()
