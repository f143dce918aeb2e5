"""A check of a bundle: a few points measured on this machine, until a sequential test knows."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from medn.core.environment import disagreements
from medn.core.errors import NothingMeasured, UsageError
from medn.core.sequential import CHANGED, FITS, TOLD, TOLERANCE, Hypotheses, SequentialTest
from medn.core.statistic import Target
from medn.core.store import JOURNAL_NAME, Store
from medn.core.units import percent
from medn.core.values import Measurement, Point
from medn.devices.backend import backends
from medn.drift.expected import Expected, expected_from_bundle, expected_from_run
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.measuring.sweep import OnVisit, run_sweep
from medn.predictor.predictor import Predictor
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured

POINTS = 80
"""Measured at most, where nothing else is said; most checks need a quarter of them."""
AT_ONCE = 8
"""Points whose visits are mixed, so that a short disturbance does not meet all visits to one of them; the test looks at
all of them before it decides."""
MEASURE = {"visits": 4, "visit_time": 0.04, "max_visits": 8}
FEWEST_VISITS = 2
"""A point that time did not suffice for says nothing."""
BUSY = 0.1
"""The share of the machine that others use before a check says so."""


@dataclass(frozen=True)
class CheckedPoint:
    """What a point should take, and what it took."""

    expected: Expected
    measured_s: float
    evidence: Mapping[str, float]
    """Of all points so far, by alternative: how much likelier it is than what was promised, as a logarithm."""

    @property
    def kind(self) -> str:
        return self.expected.point.layer.kind

    @property
    def log_ratio(self) -> float:
        return math.log(self.measured_s / self.expected.latency_s)

    def as_json(self) -> dict[str, Any]:
        point = self.expected.point
        return {
            "kind": self.kind,
            "layer": dict(point.layer.values),
            "condition": dict(point.condition.values),
            "expected_s": self.expected.latency_s,
            "spread": self.expected.spread,
            "measured_s": self.measured_s,
            "evidence": dict(self.evidence),
        }


@dataclass
class BundleCheck:
    """What a check has found so far."""

    device: str
    test: SequentialTest
    compared_with: str
    """What measurements are held against: what the bundle predicts, or what its run measured."""
    points: list[CheckedPoint] = field(default_factory=list)
    failed: dict[str, int] = field(default_factory=dict)
    """Why points could not be measured, and how many."""
    differences: tuple[str, ...] = ()
    """What tells this machine from the one that was measured for the bundle."""
    busy: float | None = None
    """The share of the machine that others used meanwhile."""

    @property
    def verdict(self) -> str:
        return self.test.verdict

    @property
    def factor(self) -> float:
        """The median of measured over expected."""
        return math.exp(median(each.log_ratio for each in self.points))

    @property
    def change(self) -> str:
        """Which change was found, or is likeliest."""
        return self.test.hypotheses.change(self.test.likeliest, math.log(self.factor))

    @property
    def sentence(self) -> str:
        low, high = self.test.bounds
        factor = f"measured is {self.factor:.2f} times what {self.compared_with}"
        if self.verdict == FITS:
            return f"the bundle still fits this machine: {factor}, after {len(self.points)} points"
        if self.verdict == CHANGED:
            why = TOLD[self.change]
            return f"the bundle does not fit this machine: {why}; {factor}, after {len(self.points)} points"
        most = self.test.evidence[self.test.likeliest]
        return (
            f"undecided after {len(self.points)} points: {factor}; the evidence that {TOLD[self.test.likeliest]} is "
            f"{most:+.1f}, between {low:.1f} (ruled out) and {high:.1f} (found). More --points or --time tell"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What one should know beside the verdict."""
        found = []
        if self.differences:
            found.append(f"this is not quite where the bundle was measured: {'; '.join(self.differences)}")
        if self.busy is not None and self.busy > BUSY:
            found.append(f"others used {percent(self.busy)} of the machine meanwhile: check again when it is calm")
        found += [f"{count} points could not be measured: {reason}" for reason, count in self.failed.items()]
        return tuple(found)

    def kinds(self) -> Iterator[tuple[str, list[CheckedPoint]]]:
        for kind in sorted({each.kind for each in self.points}):
            yield kind, [each for each in self.points if each.kind == kind]

    def add(self, expected: Expected, measured_s: float) -> None:
        self.test.add(math.log(measured_s / expected.latency_s), expected.spread)
        self.points.append(CheckedPoint(expected, measured_s, dict(self.test.evidence)))

    def as_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "change": self.change if self.verdict == CHANGED else None,
            "device": self.device,
            "compared_with": self.compared_with,
            "factor": self.factor,
            "tolerance": self.test.hypotheses.tolerance,
            "false_alarm": self.test.false_alarm,
            "missed": self.test.missed,
            "bounds": list(self.test.bounds),
            "evidence": dict(self.test.evidence),
            "notes": list(self.notes),
            "points": [each.as_json() for each in self.points],
        }


def check_bundle(
    predictor: Predictor,
    *,
    run: Path | None = None,
    points: int = POINTS,
    seconds: float | None = None,
    tolerance: float = TOLERANCE,
    keep: Path | None = None,
    seed: int = 0,
    on_visit: OnVisit | None = None,
) -> BundleCheck:
    """Measure points until the test knows, or until there are no more of them or no more time.

    They are drawn from what the bundle has learned, or taken from the `run` that it was made from. What was measured is
    kept as a run in `keep`, where that is said.
    """
    if run is None:
        wanted, compared = expected_from_bundle(predictor, points, seed), "is predicted"
    else:
        wanted, compared = expected_from_run(predictor, run, points, seed), "was measured before"
    if not wanted:
        raise NothingMeasured(f"no layer was drawn that lies inside what {predictor.bundle.name} was measured on")
    check = BundleCheck(predictor.device, SequentialTest(Hypotheses(tolerance)), compared)
    target = _target(predictor, run)
    batches = [wanted[start : start + AT_ONCE] for start in range(0, len(wanted), AT_ONCE)]
    waiting: list[Expected] = []

    def next_points(store: Store) -> Sequence[Point]:
        _take(check, waiting, store, target)
        if check.verdict in (FITS, CHANGED) or not batches:
            return ()
        waiting[:] = batches.pop(0)
        return [each.point for each in waiting]

    with _folder(keep) as folder:
        run_sweep(_config(predictor), folder, seconds=seconds, on_visit=on_visit, next_points=next_points)
        with folder.store(must_exist=True) as store:
            _take(check, waiting, store, target)
            check.differences = _differences(predictor, store)
            check.busy = _busy(store)
    if not check.points:
        reasons = "; ".join(check.failed) or "there was no time for a single point"
        raise NothingMeasured(f"nothing could be measured on {predictor.device}: {reasons}")
    return check


def _take(check: BundleCheck, waiting: list[Expected], store: Store, target: Target) -> None:
    """Hand what was measured of the waiting points to the test."""
    found, _ = read_measured(store)
    measured: dict[str, Measurement] = {each.point.key: each for each in found}
    for expected in waiting:
        measurement = measured.get(expected.point.key)
        if measurement is None:
            continue
        if measurement.status != "ok":
            check.failed[measurement.reason] = check.failed.get(measurement.reason, 0) + 1
        elif len(measurement.good_visits) >= FEWEST_VISITS:
            check.add(expected, target.latency_s(measurement))
    waiting.clear()


def _target(predictor: Predictor, run: Path | None) -> Target:
    """The statistic that the bundle has learned: another one would differ by itself."""
    if run is not None:
        with RunFolder(run).store(must_exist=True) as store:
            return read_measured(store)[1].target
    definitions = [entry.latency.facts.target for entry in predictor.bundle.on(predictor.device)]
    return next((Target.from_definition(each) for each in definitions if "idle" in each), Target())


def _config(predictor: Predictor) -> SweepConfig:
    """Of a sweep on the bundle's device; which points, it is told as it goes."""
    entries = list(predictor.bundle.on(predictor.device))
    sheet = next((dict(entry.latency.facts.sheets.get(predictor.device, {})) for entry in entries), {})
    dtypes = {name: size for entry in entries for name, size in entry.latency.facts.dtypes.items()}
    written = {
        "name": "check",
        "devices": [
            {
                "name": predictor.device,
                "backend": predictor.bundle.backend(predictor.device),
                **({"sheet": sheet} if sheet else {}),
            }
        ],
        "layers": {"linear": {}},  # every config names some
        "measure": MEASURE,
        "dtypes": dtypes,
    }
    return parse_sweep(yaml.safe_dump(written), list(backends))


@contextmanager
def _folder(keep: Path | None) -> Iterator[RunFolder]:
    if keep is not None:
        if (keep / JOURNAL_NAME).exists():
            raise UsageError(f"{keep} holds measurements already, and a check makes new ones. Choose another folder")
        yield RunFolder(keep)
        return
    with tempfile.TemporaryDirectory(prefix="medn-check-") as folder:
        yield RunFolder(Path(folder))


def _differences(predictor: Predictor, store: Store) -> tuple[str, ...]:
    """Between this machine and that among those of the bundle which is most like it."""
    here = list(store.environments().values())
    there = [each for each in predictor.bundle.environments.values() if "libraries" in each]
    found = [tuple(disagreements(now, before)) for now in here for before in there]
    return min(found, key=len, default=())


def _busy(store: Store) -> float | None:
    """What others used of the machine before visits to points that are measured on an idle one."""
    found = [
        visit.utilization_measured
        for measurement in store.measurements()
        if measurement.point.condition.utilization == 0
        for visit in measurement.visits
        if visit.utilization_measured is not None
    ]
    return median(found) if found else None
