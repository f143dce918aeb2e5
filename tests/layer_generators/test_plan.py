"""Plans: the same points for the same config, fairly shared out, within every limit."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from medn.core.dtypes import ELEMENT_BYTES
from medn.core.errors import UsageError
from medn.core.values import Point
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.plan import SweepPlan, pass_order, plan_points
from medn.layer_generators.sweep import load_sweep, parse_sweep

CONFIGS = sorted((Path(__file__).parents[2] / "experiments" / "configs").glob("*.yaml"))


def plan(more: str, layers: str = "{linear: }", devices: str = "[torch]") -> SweepPlan:
    return plan_points(parse_sweep(f"name: small\nseed: 1\ndevices: {devices}\nlayers: {layers}\n{more}"))


def kinds_of(plan: SweepPlan) -> dict[str, int]:
    return dict(Counter(point.layer.kind for point in plan.points))


def test_the_same_config_gives_the_same_points_in_the_same_order() -> None:
    more = "budget: {points: 50}\nconditions: {batch_size: [1, 2, 4], per_layer: 2}"
    assert plan(more).points == plan(more).points


def test_another_seed_gives_other_points() -> None:
    text = "name: small\nseed: {}\ndevices: [torch]\nlayers: {{linear: }}\nbudget: {{points: 20}}"
    first, second = (plan_points(parse_sweep(text.format(seed))) for seed in (1, 2))
    assert first.points != second.points


@pytest.mark.parametrize("sampler", ["random", "sobol", "grid", "architectures"])
def test_a_larger_budget_keeps_the_points_of_a_smaller_one(sampler: str) -> None:
    more = f"sampler: {sampler}\nconditions: {{batch_size: [1, 2, 4], per_layer: 2}}\nbudget: {{points: %d}}"
    small, large = (plan(more % points, "{linear: , conv2d: }", "[torch, mnn]") for points in (60, 240))
    for kind in ("linear", "conv2d"):
        few = [point for point in small.points if point.layer.kind == kind]
        many = [point for point in large.points if point.layer.kind == kind]
        assert many[: len(few)] == few


def test_another_kind_beside_it_does_not_change_what_a_kind_draws() -> None:
    alone = plan("budget: {points: 20}")
    beside = plan("budget: {points: 40}", "{conv2d: , linear: }")
    assert [point for point in beside.points if point.layer.kind == "linear"] == alone.points


def test_no_point_stands_twice() -> None:
    points = plan("budget: {points: 600}\nconditions: {batch_size: [1, 2], utilization: [0, 0.5]}").points
    assert len({point.key for point in points}) == len(points) == 600


def test_every_device_measures_the_same_layers_under_the_same_conditions() -> None:
    points = plan("budget: {points: 40}\nconditions: {batch_size: [1, 8]}", devices="[torch, mnn]").points
    on_torch, on_mnn = ([(p.layer, p.condition) for p in points if p.device == name] for name in ("torch", "mnn"))
    assert on_torch == on_mnn
    assert len(points) == 40


def test_points_are_shared_out_by_share() -> None:
    planned = plan("budget: {points: 100}", "{linear: {share: 3}, matmul: , softmax: }")
    assert kinds_of(planned) == {"linear": 60, "matmul": 20, "softmax": 20}


def test_what_an_exhausted_kind_leaves_goes_to_the_others() -> None:
    few = "{linear: {in_features: [8, 16], out_features: 8, rows: 1, bias: true}, matmul: }"
    assert kinds_of(plan("budget: {points: 100}", few)) == {"linear": 2, "matmul": 98}


def test_without_a_budget_a_thousand_points_are_planned() -> None:
    assert len(plan("").points) == 1000


def test_without_a_budget_a_grid_is_planned_whole() -> None:
    grid = "{linear: {in_features: [8, 16], out_features: [8, 16, 32], rows: 1, bias: true}}"
    assert len(plan("sampler: grid\nconditions: {batch_size: [1, 2]}", grid).points) == 12


def test_a_grid_without_end_asks_for_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medn.layer_generators.plan.MOST_POINTS", 100)
    with pytest.raises(UsageError, match=r"budget.points: missing, and the grid holds more than 100 points"):
        plan("sampler: grid", "{linear: {in_features: {range: [1, 4000]}}}")


def test_every_point_keeps_the_limits_with_its_batch() -> None:
    planned = plan(
        "limits: {flops: 1e7, memory_bytes: 1e6}\nbudget: {points: 200}\n"
        "conditions: {batch_size: {powers_of_two: [1, 64]}, dtype: [fp32, bf16], per_layer: 3}",
        "{linear: , conv2d: , embedding: }",
    )
    for point in planned.points:
        element_bytes = ELEMENT_BYTES[point.condition.dtype]
        values = SimpleNamespace(**point.layer.values)
        costs = layer_kinds[point.layer.kind].costs(values, point.condition.batch_size, element_bytes)
        assert costs.flops <= 1e7
        assert costs.input_bytes + costs.output_bytes + costs.parameter_bytes <= 1e6


def test_limits_that_nothing_keeps_are_told() -> None:
    with pytest.raises(UsageError, match=r"layers.linear: nothing can be drawn .* limits.flops: .* is above 1"):
        plan("limits: {flops: 1}")


def test_each_layer_gets_as_many_different_conditions_as_asked_for() -> None:
    planned = plan(
        "budget: {points: 90}\nconditions: {batch_size: {powers_of_two: [1, 16]}, utilization: [0, 0.5], per_layer: 3}"
    )
    by_layer = itertools.groupby(planned.points, key=lambda point: point.layer)
    assert all(len({point.condition for point in group}) == 3 for _, group in by_layer)


def test_fewer_conditions_than_asked_for_are_all_taken() -> None:
    planned = plan("budget: {points: 20}\nconditions: {batch_size: [1, 2], per_layer: 5}")
    assert Counter(Counter(point.layer.key for point in planned.points).values()) == {2: 10}


def test_without_per_layer_each_layer_gets_the_whole_grid_of_conditions() -> None:
    planned = plan("budget: {points: 60}\nconditions: {batch_size: [1, 2, 4], cache: [hot, cold]}")
    assert Counter(Counter(point.layer.key for point in planned.points).values()) == {6: 10}


def test_weights_of_a_condition_decide_how_often_it_is_drawn() -> None:
    planned = plan("budget: {points: 400}\nconditions: {cache: {choices: {hot: 0.9, cold: 0.1}}, per_layer: 1}")
    assert 10 < sum(point.condition.cache == "cold" for point in planned.points) < 80


def test_the_users_columns_belong_to_every_condition() -> None:
    planned = plan("budget: {points: 5}\ncolumns: {rack: A3, level: 2}")
    assert all(point.condition.own == {"level": 2, "rack": "A3"} for point in planned.points)


def test_utilization_is_a_fraction_even_when_written_as_a_whole_number() -> None:
    assert all(type(p.condition.utilization) is float for p in plan("conditions: {utilization: 0}").points)


def test_the_summary_counts_and_can_be_written_as_json() -> None:
    planned = plan("budget: {points: 60}\nlimits: {flops: 1e6}", "{linear: , matmul: }", "[torch, mnn]")
    summary = json.loads(json.dumps(planned.summary()))
    assert (summary["points"], summary["layers"], summary["devices"]) == (60, 30, ["torch", "mnn"])
    assert summary["kinds"]["linear"]["points"] == {"torch": 15, "mnn": 15}
    assert summary["kinds"]["linear"]["layers"] == 15
    assert sum(summary["kinds"]["linear"]["rejected"].values()) > 0


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_can_be_planned(path: Path) -> None:
    config = load_sweep(path)
    planned = plan_points(config)
    assert config.budget.points is not None
    assert len(planned.points) == config.budget.points
    assert kinds_of(planned).keys() == config.layers.keys()


def blocks_of(points: list[Point]) -> list[tuple[str, int, float]]:
    keys = ((point.device, point.condition.threads, point.condition.utilization) for point in points)
    return [key for key, _ in itertools.groupby(keys)]


@pytest.fixture(scope="module")
def mixed_points() -> list[Point]:
    more = "budget: {points: 160}\nconditions: {utilization: [0, 0.5], threads: [1, 2], batch_size: [1, 2]}"
    return plan(more, devices="[torch, mnn]").points


def test_a_pass_visits_every_point_once(mixed_points: list[Point]) -> None:
    order = pass_order(mixed_points, seed=1, pass_number=0)
    assert Counter(point.key for point in order) == Counter(point.key for point in mixed_points)


def test_a_pass_changes_device_threads_and_load_as_seldom_as_possible(mixed_points: list[Point]) -> None:
    assert len(blocks_of(pass_order(mixed_points, seed=1, pass_number=1))) == 8


@pytest.mark.parametrize("seed", range(5))
def test_a_first_pass_that_is_cut_short_has_points_of_every_device_and_state(
    mixed_points: list[Point], seed: int
) -> None:
    order = pass_order(mixed_points, seed=seed, pass_number=0)
    assert len(set(blocks_of(order[:32]))) == 8
    for part in (40, 80, 120):
        counts = Counter(point.device for point in order[:part])
        assert max(counts.values()) <= 3 * min(counts["torch"], counts["mnn"])


def test_every_pass_has_its_own_order_of_blocks_and_points(mixed_points: list[Point]) -> None:
    orders = [pass_order(mixed_points, seed=1, pass_number=number) for number in range(4)]
    assert len({tuple(blocks_of(order)) for order in orders}) > 1
    insides = {tuple(p.key for p in order if (p.device, p.condition.utilization) == ("mnn", 0.5)) for order in orders}
    assert len(insides) == 4


def test_a_pass_can_be_repeated(mixed_points: list[Point]) -> None:
    assert pass_order(mixed_points, 1, 3) == pass_order(mixed_points, 1, 3)


def test_an_empty_pass_is_empty() -> None:
    assert pass_order([], 1, 0) == []
