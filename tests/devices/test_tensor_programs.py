"""Tensor programs are drawn by number, compute what their layers do, and are kept with what they were made of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from medn.core.errors import UsageError
from medn.core.store import Store
from medn.core.values import Condition, Layer, Point, Samples, Visit
from medn.devices.backend import Unsupported, backends
from medn.devices.workload import make_workload, output_error
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import parse_sweep
from medn.measuring.sweep import run_sweep
from medn.merging.merge_runs import merge_runs
from medn.runs.folder import RunFolder

SWEEP = """
name: programs
devices: [DEVICE]
sampler: grid
layers: {softmax: {features: 16, rows: 4}, linear: {in_features: 8, out_features: [4, 8], rows: 1, bias: true}}
programs: {schedules: 2}
measure: {visits: 1, max_visits: 1, visit_time: 0.001}
"""
SMALL = {
    "activation": {"function": "gelu", "elements": 40},
    "adaptive_avg_pool2d": {"channels": 3, "in_size": 7, "out_size": 1},
    "avg_pool2d": {"channels": 3, "in_size": 8, "kernel_size": 3, "stride": 2, "padding": 1},
    "batch_norm2d": {"channels": 5, "in_size": 6},
    "conv1d": {"in_channels": 4, "out_channels": 6, "in_length": 9, "kernel_length": 3, "same_padding": True},
    "conv2d": {"in_channels": 8, "out_channels": 8, "in_size": 7, "kernel_size": 3, "stride": 2, "depthwise": True},
    "conv3d": {"in_channels": 2, "out_channels": 4, "in_d": 3, "in_size": 4, "kernel_size": 2, "groups": 2},
    "elementwise": {"operation": "div", "rows": 6, "columns": 8, "broadcast": "per_row"},
    "fused_conv2d": {
        **{"in_channels": 4, "out_channels": 8, "in_size": 5, "kernel_size": 3, "same_padding": True},
        **{"activation": "hardswish", "residual": True},
    },
    "fused_linear": {"in_features": 6, "out_features": 8, "activation": "relu6"},
    "layer_norm": {"features": 24, "rows": 3},
    "linear": {"in_features": 12, "out_features": 10, "rows": 3, "bias": False},
    "matmul": {"matrices": 2, "rows": 5, "inner": 6, "columns": 7},
    "max_pool2d": {"channels": 3, "in_size": 9, "kernel_size": 2, "dilation": 2},
    "rms_norm": {"features": 24, "rows": 3},
    "softmax": {"features": 20, "rows": 3},
}
needs_tvm = pytest.mark.skipif(
    backends["tvm-x86-64"].missing() is not None, reason=backends["tvm-x86-64"].missing() or ""
)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_NUM_THREADS", "1")


def sweep(device: str) -> str:
    return SWEEP.replace("DEVICE", device)


def test_every_schedule_of_a_layer_is_a_point_of_its_own() -> None:
    points = plan_points(parse_sweep(sweep("tvm-avx"))).points
    assert len({point.key for point in points}) == len(points) == 6
    assert {point.condition.schedule for point in points} == {1, 2}


def test_more_schedules_keep_the_points_of_fewer() -> None:
    few, many = (
        {
            point.key
            for point in plan_points(parse_sweep(sweep("tvm-avx").replace("schedules: 2", f"schedules: {n}"))).points
        }
        for n in (2, 3)
    )
    assert few < many


def test_a_point_without_a_schedule_keeps_the_key_it_had() -> None:
    layer = layer_kinds["linear"].layer(in_features=8, out_features=4)
    assert "schedule" not in Condition().said
    assert Point(layer, Condition(), "torch").key == Point(layer, Condition(schedule=0), "torch").key


def test_a_device_that_draws_no_schedules_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"torch draws no schedules; devices that do: .*tvm-avx2"):
        run_sweep(parse_sweep(sweep("torch")), RunFolder(tmp_path / "run"))


def test_a_backend_that_draws_no_schedules_says_so() -> None:
    layer = layer_kinds["linear"].layer(in_features=8, out_features=4)
    with pytest.raises(Unsupported, match="torch runs a layer in one way"):
        backends["torch"].prepare(make_workload(layer, Condition(schedule=3)))


def test_a_program_is_kept_with_its_point_and_read_as_it_was(tmp_path: Path) -> None:
    point = Point(layer_kinds["linear"].layer(in_features=8, out_features=4), Condition(schedule=1), "tvm-avx")
    program = {"trace": [[["GetSBlock", [], ["linear", "main"], ["b0"]]], []], "positions": [3], "leaves": [[0.5, 1.0]]}
    with Store(tmp_path / "measurements.sqlite") as store:
        assert list(store.programs()) == []
        store.add_environment("here", {})
        store.record([(point, Visit(point.key, 0, "here", 0.0, "ok", program=program))])
        assert list(store.programs()) == [(point.key, program)]


@needs_tvm
@pytest.mark.parametrize("kind", SMALL)
def test_a_drawn_program_computes_what_torch_does(kind: str) -> None:
    layer = layer_kinds[kind].layer(**SMALL[kind])
    workload = make_workload(layer, Condition(batch_size=2, schedule=1))
    runner = backends["tvm-x86-64"].prepare(workload)
    runner.run()
    assert output_error(runner.outputs(), workload.expected()) < 1e-5


@needs_tvm
def test_a_number_means_the_same_program_on_every_level_and_another_number_another() -> None:
    traces = [record("tvm-x86-64", number)["trace"] for number in (1, 2)]
    assert record("tvm-avx2", 1)["trace"] == traces[0] != traces[1]


@needs_tvm
def test_a_record_has_a_vector_and_a_place_for_every_stored_buffer() -> None:
    kept = record("tvm-x86-64", 1)
    assert json.loads(json.dumps(kept)) == kept
    assert {len(leaf) for leaf in kept["leaves"]} == {164}
    assert len(kept["positions"]) == len(kept["leaves"])
    assert kept["positions"] == sorted(set(kept["positions"]))


@needs_tvm
def test_a_kind_without_a_tensor_expression_is_unsupported_with_its_name() -> None:
    layer = layer_kinds["lstm"].layer(input_size=4, hidden_size=4, sequence_length=2)
    with pytest.raises(Unsupported, match=r"lstm\(.*has no tensor expression"):
        backends["tvm-x86-64"].prepare(make_workload(layer, Condition()))


@needs_tvm
def test_a_sweep_measures_programs_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    config, folder = parse_sweep(sweep("tvm-x86-64")), RunFolder(tmp_path / "run")
    first = run_sweep(config, folder, seconds=0)
    second = run_sweep(config, folder)
    assert first.visits + second.visits == 6
    assert second.finished
    with folder.store(must_exist=True) as store:
        measured = list(store.measurements())
        assert {key for key, _ in store.programs()} == {each.point.key for each in measured}
    assert [each.status for each in measured] == ["ok"] * 6
    assert run_sweep(config, folder).visits == 0


def record(device: str, number: int) -> dict[str, object]:
    layer: Layer = layer_kinds["matmul"].layer(rows=6, inner=8, columns=12)
    return backends[device].prepare(make_workload(layer, Condition(schedule=number))).program()


def test_a_program_goes_with_its_visits_to_another_device_and_to_a_merged_run(tmp_path: Path) -> None:
    layer, program = layer_kinds["linear"].layer(in_features=8, out_features=4), {"trace": [[], []]}
    runs = [tmp_path / "first", tmp_path / "second"]
    for number, run in enumerate(runs, start=1):
        point = Point(layer, Condition(schedule=number), "tvm-avx")
        samples = Samples(np.array([1e-3]), np.array([1e-3]), np.array([False]))
        with RunFolder(run).store() as store:
            store.add_environment("here", {})
            store.note("config", {"name": run.name, "seed": 0, "backends": {"tvm-avx": "tvm-avx"}})
            store.record([(point, Visit(point.key, 0, "here", 1.0, "ok", samples=samples, program=program))])
    merge_runs(runs, RunFolder(tmp_path / "merged"))
    with RunFolder(tmp_path / "merged").store() as store:
        assert [kept for _, kept in store.programs()] == [program, program]
        store.move_visits("here", "tvm-avx", "another")
        moved = {measured.point.key for measured in store.measurements()}
        assert moved <= {key for key, _ in store.programs()}
