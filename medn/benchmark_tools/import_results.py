"""What benchmark tools told of the points of a layer plan, brought into a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from medn.benchmark_tools.layer_plan import LayerPlan, PlannedPoint
from medn.benchmark_tools.tool import BenchmarkTool, Result, benchmark_tools, name_of
from medn.core.errors import NothingMeasured, UsageError
from medn.core.store import Store
from medn.core.table_content import decoded, table_content
from medn.core.values import Point, Samples, Visit, content_key
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured, record_target
from medn.runs.stated_dtypes import keep_dtypes

PLAN = "plan"
"""Where the manifest of such results keeps which plan they are of."""


@dataclass(frozen=True)
class ResultsOutcome:
    files: int
    imported: int
    """Visits that were brought in now."""
    points: int
    """Points of the plan that the run has results of, and of how many."""
    planned: int
    missing: tuple[str, ...]
    """Labels of the points that nothing was measured of yet."""
    several: int
    """Points with more than one visit."""
    known: int
    """Results that the run had already, or that were given twice."""
    refused: tuple[tuple[str, int], ...]
    """Why files and results were left out, the most frequent reason first."""
    statistics: Mapping[str, int] = field(default_factory=dict)
    """How many results are a single number, by what that is; those with every run are not here."""


@dataclass(frozen=True)
class _Read:
    tool: BenchmarkTool
    result: Result
    measured_at: float


def import_results(
    plan: LayerPlan,
    paths: Sequence[Path],
    folder: RunFolder,
    *,
    device: str = "",
    tool: str = "",
    mix_environments: bool = False,
) -> ResultsOutcome:
    """Bring results into a run, all in one step. The same results again change nothing."""
    if device:
        plan = replace(plan, device=device)
    files = list(_files(paths))
    refused: Counter[str] = Counter()
    found = list(_read_all(files, tool, refused))
    with folder.undone_on_error(), folder.locked(), folder.store() as store:
        _check_environments(store, plan, mix_environments)
        keep_dtypes(store, plan.dtypes)
        entries, known = _entries(store, plan, found, refused)
        if not entries and not known:
            reasons = "; ".join(f"{reason} ({count})" for reason, count in refused.most_common(3))
            raise NothingMeasured(f"nothing could be imported: {reasons or 'no file was given'}")
        store.note("config", store.read_note("config") or {"name": plan.name})
        store.record(entries)
        measurements, target = read_measured(store)
        record_target(store, target)
    visits = {each.point.key: len(each.visits) for each in measurements}
    labels = {_on(each, plan.device).key: each.label for each in plan.points}
    return ResultsOutcome(
        files=len(files),
        imported=len(entries),
        points=sum(key in visits for key in labels),
        planned=len(labels),
        missing=tuple(label for key, label in labels.items() if key not in visits),
        several=sum(visits.get(key, 0) > 1 for key in labels),
        known=known,
        refused=tuple(refused.most_common()),
        statistics=dict(Counter(each.result.statistic for each in found if each.result.statistic)),
    )


def _on(planned: PlannedPoint, device: str) -> Point:
    return replace(planned.point, device=device)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist")
        found = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        yield from (each for each in found if each.suffix != ".part")  # what a tool was writing when it was stopped


def _read_all(files: Sequence[Path], tool: str, refused: Counter[str]) -> Iterator[_Read]:
    tools = [benchmark_tools[tool]] if tool else list(benchmark_tools.values())
    for path in files:
        try:
            text, _ = decoded(table_content(path))
        except (UsageError, ValueError) as error:
            refused[f"it cannot be read: {error}"] += 1
            continue
        chosen = next((each for each in tools if each.recognises(text)), None)
        if chosen is None:
            names = ", ".join(each.name for each in tools)
            refused[f"it is no output of {names} that tells a time"] += 1
            continue
        try:
            results = chosen.read(path, text)
        except ValueError as error:
            refused[f"{chosen.name}: {error}"] += 1
            continue
        yield from (_Read(chosen, result, path.stat().st_mtime) for result in results)


def _check_environments(store: Store, plan: LayerPlan, mix_environments: bool) -> None:
    others = [each for each in store.environments().values() if each.get(PLAN) != plan.key]
    if others and not mix_environments:
        raise UsageError(
            f"{store.path.parent} holds measurements from elsewhere. Choose another folder with --run, "
            "or pass --mix-environments to keep both, each row marked with its own"
        )


def _manifest(plan: LayerPlan, tool: BenchmarkTool, statistic: str) -> dict[str, Any]:
    """Stands for the machine, of which the results say nothing."""
    said = {PLAN: plan.key, "device": plan.device, "tool": tool.name, "statistic": statistic or "all runs"}
    return {"source": f"{tool.name} of the plan {plan.name}", "sha256": content_key(said), **said}


def _entries(
    store: Store, plan: LayerPlan, found: Sequence[_Read], refused: Counter[str]
) -> tuple[list[tuple[Point, Visit]], int]:
    """The visits that are not there yet, and how many are."""
    passes = {key: max(numbers) + 1 for key, numbers in store.visited().items()}
    held = {
        (visit.point_key, visit.environment_id, visit.samples.wall_s.astype("<f4").tobytes())
        for measurement in store.measurements()
        for visit in measurement.visits
    }
    find = _PointFinder(plan)
    entries: list[tuple[Point, Visit]] = []
    known = 0
    for each in found:
        try:
            point = find.point(each.result)
            samples = _samples(each.result)
        except UsageError as error:
            refused[str(error)] += 1
            continue
        manifest = _manifest(plan, each.tool, each.result.statistic)
        environment = content_key(manifest)
        identity = (point.key, environment, samples.wall_s.astype("<f4").tobytes())
        if identity in held:
            known += 1
            continue
        held.add(identity)
        store.add_environment(environment, manifest)
        number = passes.get(point.key, 0)
        passes[point.key] = number + 1
        visit = Visit(point.key, number, environment, each.measured_at, "ok", samples=samples)
        entries.append((point, visit))
    return entries, known


class _PointFinder:
    """Which point of a plan a result is of."""

    def __init__(self, plan: LayerPlan) -> None:
        self._plan = plan
        self._by_label = {each.label: each for each in plan.points}
        self._by_key = {each.point.key: each for each in plan.points}
        self._by_file: dict[str, list[PlannedPoint]] = {}
        for each in plan.points:
            self._by_file.setdefault(name_of(each.file), []).append(each)

    def point(self, result: Result) -> Point:
        name = result.stem
        planned = self._by_label.get(name) or self._by_key.get(name)
        if planned is None:
            same_file = self._by_file.get(name, [])
            if len(same_file) > 1:
                raise UsageError(
                    f"{name} is the file of {len(same_file)} points that differ in their conditions; "
                    "call the result by the label of one of them (points.tsv)"
                )
            if not same_file:
                raise UsageError("it is of no point of the plan")
            (planned,) = same_file
        return _on(planned, self._plan.device)


def _samples(result: Result) -> Samples:
    seconds = np.array(result.seconds, dtype=np.float64)
    if not len(seconds) or not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise UsageError("a time is not above 0, such as one that was rounded to nothing")
    return Samples(seconds, np.full(len(seconds), math.nan), np.zeros(len(seconds), dtype=bool))
