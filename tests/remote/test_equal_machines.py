"""Several machines that serve one device: points are shared out, and one that is not equal is kept apart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medn.core.errors import StoreError
from medn.layer_generators.plan import plan_points
from medn.measuring.agreement import COMPARED_POINTS
from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder
from tests.remote.conftest import far_config, simulated


def machine(folder: Path, name: str, *options: str) -> str:
    """A command that leads to a simulated device with options of its own."""
    file = folder / name
    folder.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\nexport SIMULATED='{' '.join(options)}'\nexec \"$@\"\n")
    file.chmod(0o755)
    return str(file)


def shared(*overs: str, **changes: Any) -> Any:
    measure = {"visits": 4, "max_visits": 4}
    return far_config({"over": list(overs), "python": f"{simulated()} $SIMULATED"}, measure=measure, **changes)


def test_points_are_shared_out_and_a_handful_is_measured_on_all(folder: RunFolder, tmp_path: Path) -> None:
    overs = [machine(tmp_path / "bin", name, "--visit-time 0.005") for name in ("a", "b")]
    config = shared(*overs, budget={"points": 12})
    outcome = run_sweep(config, folder)
    assert (outcome.finished, outcome.visits, outcome.apart) == (True, 48, {})
    with folder.store() as store:
        made_on = Counter(visit.environment_id for each in store.measurements() for visit in each.visits)
        on_both = [each for each in store.measurements() if len({visit.environment_id for visit in each.visits}) == 2]
        reached = {manifest["reached_over"] for manifest in store.environments().values()}
    assert (reached, len(made_on)) == (set(overs), 2)
    assert min(made_on.values()) >= 2 * COMPARED_POINTS
    assert len(on_both) >= COMPARED_POINTS
    assert run_sweep(config, folder).visits == 0


def test_a_machine_that_takes_longer_is_reported_and_kept_apart(folder: RunFolder, tmp_path: Path) -> None:
    slow = machine(tmp_path / "bin", "slow", "--latency 1.3e-3")
    config = shared(machine(tmp_path / "bin", "first"), slow, budget={"points": 8})
    outcome = run_sweep(config, folder)
    assert outcome.finished
    assert outcome.apart[slow].startswith(f"{slow} takes 30% longer than ")
    with folder.store() as store:
        latencies = {
            device: {round(float(v.samples.wall_s[0]) / float(e.visits[0].samples.wall_s[0]), 3) for v in e.visits}
            for e in store.measurements()
            for device in [e.point.device]
        }
        counts = Counter(each.point.device for each in store.measurements())
        visited = store.visited()
    assert counts["board"] == 8
    assert counts["board-machine2"] >= COMPARED_POINTS
    assert latencies == {"board": {1.0}, "board-machine2": {1.0}}
    assert all(len(visited[point.key]) == 4 for point in plan_points(config).points)
    again = run_sweep(config, folder)
    assert (again.visits, list(again.apart)) == (0, [slow])


def test_machines_of_another_make_are_refused(folder: RunFolder, tmp_path: Path) -> None:
    other = machine(tmp_path / "bin", "other", "--model PDP-11")
    config = shared(machine(tmp_path / "bin", "first"), other)
    with pytest.raises(StoreError, match=r"is no machine like .*cpu model.*give it a device of its own"):
        run_sweep(config, folder)


def test_a_machine_that_is_lost_leaves_its_points_to_the_others(folder: RunFolder, tmp_path: Path) -> None:
    lives = tmp_path / "lives"
    lives.write_text("3 " + "0 " * 100)
    mortal = machine(tmp_path / "bin", "mortal", f"--lives {lives}")
    config = shared(machine(tmp_path / "bin", "first", "--visit-time 0.01"), mortal)
    outcome = run_sweep(config, folder)
    assert outcome.finished
    assert outcome.visits == 24
