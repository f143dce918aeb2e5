"""Sweeps on this machine: measured, resumed, interrupted, and never mixed up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import pytest

from medn.core.errors import DeviceUnavailable, MednError, NothingMeasured, StoreError
from medn.core.statistic import Target
from medn.core.values import Point, Samples, Visit
from medn.devices.machine_client import MachineClient
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.measuring.sweep import SweepOutcome, VisitPlan, run_sweep
from medn.runs.folder import RunFolder
from medn.runs.summary import summarise
from medn.runs.tables import SHEETS_NOTE, kind_table, read_source


def small_config(**changes: object) -> SweepConfig:
    written: dict[str, object] = {
        "name": "small",
        "seed": 3,
        "devices": ["torch"],
        "budget": {"points": 6},
        "layers": {"linear": {"in_features": [16, 32, 64], "out_features": [16, 32, 64], "rows": 1}},
        "conditions": {"batch_size": [1, 4]},
        "measure": {"visits": 2, "max_visits": 2, "visit_time": 0.01},
        "probes": ["load_average"],
    }
    return parse_sweep(json.dumps({**written, **changes}))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


class Swept(NamedTuple):
    """A sweep that was finished. Copy its folder before changing anything."""

    folder: RunFolder
    outcome: SweepOutcome


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    folder = RunFolder(tmp_path_factory.mktemp("swept") / "run")
    return Swept(folder, run_sweep(small_config(), folder))


@pytest.fixture
def swept_copy(swept: Swept, tmp_path: Path) -> RunFolder:
    return RunFolder(shutil.copytree(swept.folder.path, tmp_path / "swept"))


def test_a_sweep_visits_every_point_in_every_pass(swept: Swept) -> None:
    assert (swept.outcome.visits, swept.outcome.finished) == (12, True)
    with swept.folder.store() as store:
        visited = store.visited()
        assert [sorted(passes) for passes in visited.values()] == [[0, 1]] * 6
        assert Target.from_definition(store.read_note("target"))
        (first, *_) = store.measurements()
        assert first.visits[0].probes.keys() == {"load_average"}


def test_a_finished_sweep_has_nothing_more_to_do(swept_copy: RunFolder) -> None:
    assert run_sweep(small_config(), swept_copy).visits == 0


def test_a_sweep_cut_short_by_time_goes_on_where_it_stopped(folder: RunFolder) -> None:
    seen: list[str] = []

    def count(pass_number: int, done: int, planned: int, point: Point, visit: Visit) -> None:
        seen.append(f"{visit.point_key} {visit.pass_number}")

    ticks = iter(range(10_000))
    first = run_sweep(small_config(), folder, seconds=6, on_visit=count, clock=lambda: float(next(ticks)))
    assert not first.finished
    assert 0 < first.visits < 12
    second = run_sweep(small_config(), folder, on_visit=count)
    assert first.visits + second.visits == len(set(seen)) == 12


def test_unstable_points_get_more_visits(folder: RunFolder) -> None:
    measure = {"visits": 2, "max_visits": 5, "visit_time": 0.01, "unstable_above": 1e-9}
    assert run_sweep(small_config(measure=measure), folder).visits > 12


def made_up(folder: RunFolder, config: SweepConfig, calm: Mapping[int, int], unstable: int = -1) -> None:
    """All planned visits; of the points by number so many were calm, all others at every visit."""
    with folder.store() as store:
        store.add_environment("here", {})
        for number, point in enumerate(plan_points(config).points):
            for pass_number in range(config.measure.visits):
                wall = np.full(5, 1.0 + (number == unstable) * pass_number)
                slow = 1.0 if pass_number < calm.get(number, config.measure.visits) else 1.5
                runs = {"compute": [slow * 1e-5] * 3}
                samples = Samples(wall, wall, np.zeros(5, dtype=np.bool_))
                visit = Visit(point.key, pass_number, "here", 0.0, "ok", samples=samples, reference_runs=runs)
                store.record([(point, visit)])


def due(folder: RunFolder, config: SweepConfig) -> list[tuple[int, int]]:
    """The passes and the numbers of the points that are visited next, if nothing becomes better."""
    points = plan_points(config).points
    with folder.store() as store:
        return [
            (number, points.index(point)) for number, due in VisitPlan(config, points, store).passes() for point in due
        ]


def test_points_with_too_few_calm_visits_are_visited_again_before_the_unstable(folder: RunFolder) -> None:
    config = small_config(measure={"visits": 4, "max_visits": 5})
    made_up(folder, config, calm={1: 1, 3: 0, 4: 2}, unstable=0)
    order = due(folder, config)
    assert {point for _, point in order[:2]} == {1, 3}
    assert order[2:] == [(4, 0)]


def test_how_many_calm_visits_a_point_needs_is_what_the_config_says(folder: RunFolder) -> None:
    measure = {"visits": 4, "max_visits": 6}
    made_up(folder, small_config(measure=measure), calm={2: 1})
    assert due(folder, small_config(measure={**measure, "calm_visits": 1})) == []
    assert due(folder, small_config(measure={**measure, "calm_visits": 2})) == [(4, 2), (5, 2)]


def test_points_of_which_nothing_is_known_get_no_visits_for_calm(folder: RunFolder) -> None:
    config = small_config(measure={"visits": 4, "max_visits": 6})
    made_up(folder, config, calm={2: 0})
    with folder.store() as store:
        store._connection.execute("UPDATE visits SET reference_runs = '{}'")
    assert due(folder, config) == []


def test_a_run_measured_elsewhere_is_not_mixed_in_silently(swept_copy: RunFolder) -> None:
    folder = swept_copy
    with folder.store() as store:
        store._connection.execute(
            "UPDATE environments SET id = 'elsewhere', manifest = json_set(manifest, '$.cpu.model', 'Another CPU')"
        )
        store._connection.execute("UPDATE visits SET environment_id = 'elsewhere'")
    more = small_config(budget={"points": 8})
    with pytest.raises(StoreError, match=r"cpu model.*Another CPU.*--mix-environments"):
        run_sweep(more, folder)
    assert run_sweep(more, folder, mix_environments=True).visits == 4
    with folder.store() as store:
        assert len(store.environments()) == 2


def test_a_missing_device_is_named_before_anything_is_measured(folder: RunFolder) -> None:
    with pytest.raises(DeviceUnavailable, match="torch-cuda needs"):
        run_sweep(small_config(devices=["torch-cuda"], budget={"points": 2}), folder)


def test_two_sweeps_in_one_folder_are_kept_apart(folder: RunFolder) -> None:
    with folder.locked(), pytest.raises(StoreError, match=f"in use by process {os.getpid()}"):
        run_sweep(small_config(), folder)


@pytest.mark.usefixtures("faulty_layers")
def test_layers_that_fail_are_rows_and_the_rest_is_measured(folder: RunFolder) -> None:
    config = small_config(
        layers={"faulty": {"how": ["nothing", "hang", "crash", "fail", "memory"], "size": 64}},
        sampler="grid",
        conditions={},
        budget={},
        measure={"visits": 3, "max_visits": 3, "visit_time": 0.01, "timeout": 2},
        probes=[],
    )
    run_sweep(config, folder)
    with folder.store() as store:
        statuses = {m.point.layer.values["how"]: m.status for m in store.measurements()}
        visits = {m.point.layer.values["how"]: len(m.visits) for m in store.measurements()}
        summary = summarise(store)
    assert statuses == {
        "nothing": "ok",
        "hang": "timeout",
        "crash": "crashed",
        "fail": "failed",
        "memory": "out_of_memory",
    }
    assert visits == {"nothing": 3, "hang": 2, "crash": 2, "fail": 1, "memory": 2}
    assert summary.statuses["ok"] == 1
    assert ("failed: this layer always fails", 1) in summary.failures


@pytest.mark.usefixtures("wrong_backend")
def test_a_layer_with_wrong_outputs_is_kept_and_not_visited_again_nor_learned_from(folder: RunFolder) -> None:
    config = small_config(devices=["twice"], budget={"points": 2}, measure={"visits": 3, "visit_time": 0.01}, probes=[])
    run_sweep(config, folder)
    with folder.store() as store:
        measurements = list(store.measurements())
        summary = summarise(store)
    assert [(each.status, len(each.visits), len(each.visits[0].samples) > 0) for each in measurements] == [
        ("wrong", 1, True),
        ("wrong", 1, True),
    ]
    reason = "the output differs from torch's by more than 2 % of its largest value"
    assert summary.failures == ((f"wrong: {reason}", 2),)
    with pytest.raises(NothingMeasured, match="differs from torch's"):
        kind_table(read_source(folder.path), measurements[0].point.layer.kind)


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_sweep import small_config
from medn.runs.folder import RunFolder
from medn.measuring.sweep import run_sweep
from medn.runs.tables import kind_table, read_source
measure = {{"visits": 50, "max_visits": 50, "visit_time": 0.05, "precision": 1e-6}}
loaded = {{"batch_size": [1, 4], "utilization": 0.3}}
config = small_config(measure=measure, conditions=loaded)
run_sweep(config, RunFolder(Path({run!r})), on_visit=lambda *_: print("visit", flush=True))
"""


def test_killing_the_sweep_loses_at_most_the_visit_under_way_and_leaves_no_process(folder: RunFolder) -> None:
    script = SCRIPT.format(tests=str(Path(__file__).parent), run=str(folder.path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(15):
        assert process.stdout.readline() == b"visit\n"
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) >= 3  # the worker, the machine's program and its load
    process.send_signal(signal.SIGKILL)
    process.wait()
    with folder.store() as store:
        committed = sum(len(passes) for passes in store.visited().values())
    assert committed >= 15
    assert psutil.wait_procs(started, timeout=30)[1] == []
    resumed = run_sweep(small_config(measure={"visits": 4, "max_visits": 4, "visit_time": 0.01}), folder)
    assert resumed.finished


def test_the_summary_of_an_empty_run_says_what_to_do(folder: RunFolder) -> None:
    with folder.store() as store, pytest.raises(MednError, match="medn sweep"):
        summarise(store)


def sheets(folder: RunFolder) -> Mapping[str, Any]:
    return read_source(folder.path).sheets


def test_a_sweep_keeps_the_data_sheet_that_its_config_states(folder: RunFolder) -> None:
    stated = {"peak_gflops": 100.0, "multiprocessors": 4.0}
    run_sweep(small_config(devices=[{"name": "desk", "backend": "torch", "sheet": stated}]), folder)
    assert sheets(folder) == {"desk": stated}
    table = kind_table(read_source(folder.path), "linear")
    assert "peak_compute_us" in table.table.schema.names
    assert table.constants["multiprocessors"] == 4.0


def test_a_silent_sweep_measures_the_cpu_once_and_does_not_learn_from_it_unasked(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sweep(small_config(), folder, seconds=0)
    with folder.store() as store:
        kept = store.read_note(SHEETS_NOTE)
    assert kept["torch"]["peak_gflops"] > 0
    monkeypatch.setattr(MachineClient, "cpu_sheet", lambda _: pytest.fail("measured again"))
    run_sweep(small_config(), folder)
    assert sheets(folder) == kept
    assert kind_table(read_source(folder.path), "linear").sheets == {}


def test_a_measured_data_sheet_is_learned_from_where_that_is_asked_for(folder: RunFolder) -> None:
    run_sweep(small_config(inputs=["raw", "hardware"]), folder)
    assert "peak_us" in kind_table(read_source(folder.path), "linear").table.schema.names
