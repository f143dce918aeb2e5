"""Visits under load, on the host and on a device with a load of its own."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import numpy as np
import pytest

from medn.core.values import Condition, Point
from medn.devices.backend import backends
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import Measure
from medn.measuring.visits import Visitor

LAYER = layer_kinds["linear"].layer(in_features=512, out_features=512, rows=64)
"""A call of about a millisecond."""


@pytest.fixture
def visitor(own_load_backend: None) -> Iterator[Visitor]:
    devices = {"host": backends["torch"], "own": backends["own-load"]}
    # Visits that never end early: a few quick samples can slip through between two turns of a load.
    with Visitor(devices, Measure(visit_time=0.2, precision=1e-9), probes=[], environment_id="here") as visitor:
        yield visitor


@pytest.fixture(scope="module")
def running_visitor() -> Iterator[Visitor]:
    """One whose worker process has started: that takes longer than a visit."""
    with Visitor({"host": backends["torch"]}, Measure(visit_time=0.01), probes=[], environment_id="here") as visitor:
        yield visitor


def point(device: str, utilization: float) -> Point:
    return Point(LAYER, Condition(utilization=utilization), device)


@pytest.mark.serial
def test_a_device_with_its_own_load_is_held_at_the_asked_utilization(visitor: Visitor) -> None:
    visitor.visit(point("own", 0.5), 0)
    visitor._read_at = 0.0  # read again, now that the load has settled
    visit = visitor.visit(point("own", 0.5), 1)
    assert visit.utilization_measured == pytest.approx(0.5, abs=0.15)
    assert visit.utilization_during is None


def test_only_the_load_of_the_device_in_use_runs(visitor: Visitor) -> None:
    visitor.visit(point("own", 0.5), 0)
    assert not visitor._load._processes
    visitor.visit(point("host", 0.5), 0)
    assert visitor._load._processes
    assert visitor._children["own", 1].held == 0.0
    visitor.visit(point("own", 0.0), 0)
    assert not visitor._load._processes


@pytest.mark.serial
def test_a_loaded_device_is_slower_and_its_samples_are_all_kept(visitor: Visitor) -> None:
    idle = visitor.visit(point("host", 0.0), 0)
    loaded = visitor.visit(point("host", 0.9), 0)
    assert loaded.status == idle.status == "ok"
    assert statistics.mean(loaded.samples.wall_s) > statistics.median(idle.samples.wall_s)


class Shaky:
    name = "shaky"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def read(self) -> float | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "number", "reason"),
    [
        (OSError("no such sensor"), None, "OSError: no such sensor"),
        (float("nan"), None, "it read nan, which is no finite number"),
        (float("inf"), None, "it read inf, which is no finite number"),
        ("warm", None, "ValueError: could not convert string to float: 'warm'"),
        (np.float32(1.5), 1.5, None),
        (None, None, None),
    ],
)
def test_a_probe_without_a_number_leaves_a_gap_and_its_reason(
    running_visitor: Visitor, answer: object, number: float | None, reason: str | None
) -> None:
    running_visitor.probes = [Shaky(answer)]
    running_visitor.probe_reasons.clear()
    visit = running_visitor.visit(point("host", 0.0), 0)
    assert (visit.status, visit.probes) == ("ok", {"shaky": number})
    assert running_visitor.probe_reasons.get("shaky") == reason
