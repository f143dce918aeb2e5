"""Networks learn, keep to their time, repeat themselves, and go on where they were stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from medn.core.errors import UsageError
from medn.core.metrics import score
from medn.core.table import Schema, Table
from medn.network.design import from_settings, task_names
from medn.network.tasks import all_tasks
from medn.regressors.form import restore
from medn.regressors.networks import FittedNetwork, fit_networks
from medn.regressors.regressor import Effort, regressors

torch = pytest.importorskip("torch")

SMALL: Mapping[str, object] = {"width": 32, "hidden": 32, "blocks": 1, "epochs": 6}


def make_table(rows: int, seed: int, peak: float = 1e10) -> Table:
    """Layers whose time is a small overhead and the larger of computing and moving, by one of two functions."""
    random = np.random.default_rng(seed)
    channels, size = random.integers(4, 256, rows), random.integers(4, 64, rows)
    function = random.integers(0, 2, rows)
    flops, moved = 2.0 * channels**2 * size**2, 8.0 * channels * size**2
    seconds = 1e-5 * (1 + function) + np.maximum(flops / peak, moved / 5e9)
    inputs = np.column_stack([channels, size, flops, moved, function]).astype(np.float32).astype(np.float64)
    schema = Schema(("channels", "size", "flops", "moved_bytes", "function"), {"function": ("relu", "tanh")})
    targets = {"latency_p90_s": seconds * 1.1, "memory_bytes": np.where(random.random(rows) < 0.5, moved, np.nan)}
    return Table(schema, inputs, seconds, np.arange(rows).astype(str), targets)


@pytest.fixture(scope="module")
def train() -> Table:
    return make_table(600, 0)


@pytest.fixture(scope="module")
def validation() -> Table:
    return make_table(150, 1)


@pytest.fixture(scope="module")
def held_out() -> Table:
    return make_table(200, 2)


Fit = Callable[..., FittedNetwork]


@pytest.fixture
def fit(train: Table, validation: Table) -> Fit:
    def fit(seed: int = 0, seconds: float = 60.0, **settings: object) -> FittedNetwork:
        effort = Effort(seconds=seconds, seed=seed)
        return fit_networks({"kind": (train, validation)}, {**SMALL, **settings}, effort)["kind"]

    return fit


def error(fitted: FittedNetwork, table: Table) -> float:
    return score(fitted.predict(table.inputs), table.target).mape


@pytest.mark.parametrize("name", ["medn", "mlp"])
def test_a_family_learns(name: str, train: Table, validation: Table, held_out: Table) -> None:
    fitted = regressors[name].fit(train, validation, {"epochs": 10}, Effort(seconds=20.0))
    assert score(fitted.predict(held_out.inputs), held_out.target).mape < 0.05


def test_every_task_is_learned_beside_the_latency(fit: Fit, held_out: Table) -> None:
    tasks = ("quantiles", "tail", "memory", "energy", "efficiency", "reconstruction")
    assert error(fit(tasks=tasks), held_out) < 0.15
    assert error(fit(tasks=tasks, task_weight=0.1), held_out) < 0.15


def test_an_unknown_task_is_named(fit: Fit) -> None:
    with pytest.raises(UsageError, match=r"no task named 'memroy'\. Did you mean 'memory'"):
        fit(tasks=("memroy",))


def test_tasks_can_be_switched_by_their_names() -> None:
    assert set(task_names()) == set(all_tasks())
    assert from_settings({"memory": False, "tail": True})[0].tasks == ("efficiency", "tail")
    assert from_settings({"tasks": (), "energy": True})[0].tasks == ("energy",)


def test_an_unknown_setting_is_named(fit: Fit) -> None:
    with pytest.raises(UsageError, match=r"no network setting named 'widht'\. Did you mean 'width'"):
        fit(widht=3)


def test_the_same_seed_gives_the_same_network(fit: Fit, held_out: Table) -> None:
    first, again, other = fit(seed=3, epochs=2), fit(seed=3, epochs=2), fit(seed=4, epochs=2)
    assert np.array_equal(first.predict(held_out.inputs), again.predict(held_out.inputs))
    assert not np.array_equal(first.predict(held_out.inputs), other.predict(held_out.inputs))


def test_training_leaves_the_random_state_and_the_threads_alone(fit: Fit) -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    fit(epochs=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_a_long_plan_ends_in_time(fit: Fit) -> None:
    began, granted_s = time.thread_time(), 1.0
    fit(seconds=granted_s, epochs=100_000)
    assert time.thread_time() - began < 4 * granted_s


def test_a_plan_cut_short_still_brings_the_learning_rate_down(fit: Fit, held_out: Table) -> None:
    assert error(fit(seconds=2.0, epochs=100_000), held_out) < 0.15


def test_no_time_at_all_still_gives_a_network(fit: Fit, held_out: Table) -> None:
    assert np.isfinite(fit(seconds=0.0).predict(held_out.inputs)).all()


def test_reports_are_the_lowest_error_so_far(train: Table, validation: Table) -> None:
    reports: list[tuple[int, float]] = []
    effort = Effort(seconds=30.0, report=lambda step, error: reports.append((step, error)))
    fit_networks({"kind": (train, validation)}, {**SMALL, "epochs": 3}, effort)
    assert [step for step, _ in reports] == list(range(1, len(reports) + 1))
    assert [error for _, error in reports] == sorted((error for _, error in reports), reverse=True)


def test_kinds_with_other_columns_share_an_encoder(held_out: Table) -> None:
    def without_size(table: Table) -> Table:
        kept = [0, 2, 3, 4]
        names = tuple(table.schema.names[column] for column in kept)
        return replace(table, schema=Schema(names, table.schema.categories), inputs=table.inputs[:, kept])

    fast, slow = make_table(500, 5, peak=4e10), without_size(make_table(500, 6))
    tables = {"fast": (fast, make_table(100, 7, peak=4e10)), "slow": (slow, without_size(make_table(100, 8)))}
    fitted = regressors["medn_shared"].fit_together(tables, {**SMALL, "epochs": 15}, Effort(60.0))
    for kind, tested in (("fast", make_table(200, 9, peak=4e10)), ("slow", without_size(held_out))):
        own = fitted[kind]
        assert score(own.predict(tested.inputs), tested.target).mape < 0.1
        assert restore(own.export().parts(), tested.inputs.shape[1]).predict(tested.inputs) == pytest.approx(
            own.predict(tested.inputs), rel=1e-5
        )
