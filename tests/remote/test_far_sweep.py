"""Sweeps on real agents: over a plain pipe and over ssh, with everything between killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from experiments.loopback_ssh import LoopbackSsh, Proxy, kill
from medn.core.errors import DeviceUnavailable
from medn.core.values import Measurement, Point, Visit
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import SweepConfig
from medn.measuring.sweep import SweepOutcome, run_sweep
from medn.runs.folder import RunFolder
from tests.conftest import load_plugins
from tests.remote.conftest import far_config

LIGHT = {"backend": "onnxruntime", "python": sys.executable}
"""A worker that starts faster than one of torch."""


def measured(folder: RunFolder) -> list[Measurement]:
    with folder.store() as store:
        return list(store.measurements())


def all_passes_made(config: SweepConfig, folder: RunFolder) -> bool:
    with folder.store() as store:
        found = {key: sorted(passes) for key, passes in store.visited().items()}
    return found == {point.key: list(range(config.measure.visits)) for point in plan_points(config).points}


def test_a_device_without_torch_measures_the_same_points_with_the_same_outputs(
    folder: RunFolder, bare_python: str, tmp_path: Path
) -> None:
    layers = {"linear": {"in_features": [64, 256]}, "conv2d": {"in_size": [7, 14]}, "embedding": {}, "lstm": {}}
    changes = {"layers": layers, "budget": {"points": 8}, "limits": {"flops": 1e7}}
    config = far_config({"backend": "onnxruntime", "python": bare_python}, **changes)
    assert run_sweep(config, folder).finished
    local = RunFolder(tmp_path / "local")
    run_sweep(far_config({"backend": "onnxruntime", "over": []}, **changes), local)
    far, near = measured(folder), measured(local)
    assert [each.point.key for each in far] == [each.point.key for each in near]
    assert [each.status for each in far] == ["ok"] * 8
    assert [each.output_error for each in far] == pytest.approx([each.output_error for each in near], abs=1e-5)
    assert all(isinstance(each.visits[0].quantities["memory_bytes"], int | str) for each in far)
    with folder.store() as store, local.store() as near_store:
        (there,), (here,) = store.environments().values(), near_store.environments().values()
        assert store.read_note("sheets").keys() == {"board"}
    assert (set(there["libraries"]), set(here["libraries"])) == ({"onnxruntime"}, {"onnxruntime", "torch"})
    assert there["cpu"] == here["cpu"]


@pytest.mark.usefixtures("faulty_layers")
def test_layers_that_fail_are_rows_of_the_device_and_modules_of_one_s_own_are_copied_there(folder: RunFolder) -> None:
    config = far_config(
        {"python": sys.executable},
        layers={"faulty": {"how": ["nothing", "hang", "killed"], "size": 64}},
        **{"sampler": "grid", "conditions": {}, "budget": {}},
        measure={"visits": 1, "max_visits": 1, "visit_time": 0.01, "timeout": 3},
    )
    assert run_sweep(config, folder).finished
    statuses = {each.point.layer.values["how"]: each.status for each in measured(folder)}
    assert statuses == {"nothing": "ok", "hang": "timeout", "killed": "out_of_memory"}


@pytest.fixture
def over_ssh(sshd: LoopbackSsh) -> SweepConfig:
    measure = {"visits": 8, "max_visits": 8, "visit_time": 0.05, "precision": 1e-9}
    return far_config({"over": sshd.over(), **LIGHT}, measure=measure)


def swept_with(config: SweepConfig, folder: RunFolder, *faults: Callable[[], object]) -> tuple[SweepOutcome, list[str]]:
    """Sweep, with a fault after every tenth visit; what was told about the link."""
    told: list[str] = []
    left = list(faults)

    def after(pass_number: int, done: int, planned: int, point: Point, visit: Visit) -> None:
        if done % 10 == 0 and left:
            left.pop(0)()

    outcome = run_sweep(config, folder, on_visit=after, on_link=lambda _, sentence: told.append(sentence))
    return outcome, told


def killer(server: LoopbackSsh, word: str) -> Callable[[], object]:
    return lambda: [kill(process) for process in server.processes(word)]


def kill_clients() -> None:
    for child in psutil.Process().children():
        if child.name() == "ssh":
            child.kill()


def kill_sessions(server: LoopbackSsh) -> None:
    for session in psutil.Process(server.server.pid).children(recursive=False):
        session.kill()


def test_worker_agent_client_and_server_killed_in_the_middle_cost_no_point(
    over_ssh: SweepConfig, sshd: LoopbackSsh, folder: RunFolder
) -> None:
    agent = killer(sshd, "medn-agent")  # stands in the text of the program that Python was given
    faults = (killer(sshd, "medn.devices.worker"), agent, kill_clients, lambda: kill_sessions(sshd))
    outcome, told = swept_with(over_ssh, folder, *faults)
    assert outcome.finished
    assert sum("trying again" in sentence for sentence in told) >= 3
    with folder.store() as store:
        statuses = {key: set(found.values()) for key, found in store.visited().items()}
    assert set().union(*statuses.values()) <= {"ok", "out_of_memory"}
    assert all_passes_made(over_ssh, folder)
    wait_until(lambda: not sshd.processes("medn"))


def wait_until(is_so: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.1)


def test_a_link_that_is_slow_stalls_and_breaks_costs_no_point(
    sshd: LoopbackSsh, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medn.remote.link.SILENCE_S", 3.0)
    monkeypatch.setattr("medn.measuring.side_by_side.SILENCE_S", 0.1)
    with Proxy(sshd.port) as proxy:
        config = far_config({"over": sshd.over(proxy.port), **LIGHT}, measure={"visits": 6, "max_visits": 6})
        proxy.delay_s = 0.02

        def stall() -> None:
            proxy.is_stalled = True
            threading.Timer(6.0, setattr, (proxy, "is_stalled", False)).start()

        outcome, told = swept_with(config, folder, proxy.cut, stall, proxy.cut)
    assert outcome.finished
    assert any("no sign of life for 3 s" in sentence for sentence in told)
    with folder.store() as store:
        assert {each.status for row in store.measurements() for each in row.visits} == {"ok"}
        assert len(store.visited()) == 6


def test_a_host_key_that_does_not_match_is_what_ssh_says(sshd: LoopbackSsh, folder: RunFolder) -> None:
    config = far_config({"over": sshd.over(), "python": sys.executable})
    sshd.trust("user_key")
    try:
        with pytest.raises(DeviceUnavailable, match="exit code 255: Host key verification failed"):
            run_sweep(config, folder)
    finally:
        sshd.trust("host_key")


def test_a_device_without_the_backend_is_told_the_command_that_installs_it(folder: RunFolder, bare_python: str) -> None:
    with pytest.raises(DeviceUnavailable, match=r"torch needs torch.* there; install it: env .*pip install torch"):
        run_sweep(far_config({"python": bare_python}), folder)


def test_what_a_shell_prints_on_the_way_does_not_matter(folder: RunFolder, tmp_path: Path) -> None:
    chatty = tmp_path / "chatty"
    chatty.write_text('#!/bin/sh\necho Welcome\nfor i in $(seq 9000); do echo noise $i >&2; done\nexec "$@"\n')
    chatty.chmod(0o755)
    config = far_config({"over": str(chatty), **LIGHT}, measure={"visits": 1, "max_visits": 1})
    assert run_sweep(config, folder).finished


SCRIPT = """
import sys
from pathlib import Path
from tests.remote.conftest import far_config
from medn.runs.folder import RunFolder
from medn.measuring.sweep import run_sweep
measure = {{"visits": 50, "max_visits": 50, "visit_time": 0.05, "precision": 1e-6}}
device = {{"over": {over!r}, "backend": "onnxruntime", "python": sys.executable}}
config = far_config(device, measure=measure, conditions={{"utilization": 0.3}})
run_sweep(config, RunFolder(Path({run!r})), on_visit=lambda *_: print("visit", flush=True))
"""


def test_killing_the_sweep_leaves_nothing_on_the_device_and_loses_nothing(sshd: LoopbackSsh, folder: RunFolder) -> None:
    script = SCRIPT.format(over=sshd.over(), run=str(folder.path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(5):
        assert process.stdout.readline() == b"visit\n"
    assert sshd.processes("medn.devices.worker")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with folder.store() as store:
        assert sum(len(passes) for passes in store.visited().values()) >= 5
    wait_until(lambda: not sshd.processes(""))


def test_the_modules_that_are_copied_import_nothing_but_numpy(
    bare_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_plugins(monkeypatch, "faulty_layers")
    from medn.remote.link import AgentLink

    link = AgentLink("env", bare_python)
    greeting = link.open()
    try:
        assert greeting.numpy
        assert link.ask({"do": "instruments"})["backends"]["onnxruntime"]["missing"] is None
    finally:
        link.close()
