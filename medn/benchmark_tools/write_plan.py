"""Writing a layer plan: each layer exported once, with what tells tools and people what to do with it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medn.benchmark_tools.layer_plan import LAYERS, PLAN_FILE, POINTS_FILE, FileInput, LayerPlan, PlannedPoint
from medn.benchmark_tools.tool import benchmark_tools
from medn.core.atomic import atomic_write
from medn.core.errors import NothingMeasured, StoreError, UsageError
from medn.core.values import Condition, Layer, Point, content_key
from medn.devices.backend import Unsupported
from medn.devices.onnx_export import input_names
from medn.devices.workload import make_workload, torch_dtype
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import SweepConfig

OnFile = Callable[[int, int], None]
"""Called after each file: files done, files in all."""


@dataclass(frozen=True)
class PlanOutcome:
    plan: LayerPlan
    written: int
    """Files that were exported now; the others were there."""
    left_out: tuple[tuple[str, int], ...]
    """Why points are not in the plan, the most frequent reason first."""


def write_plan(config: SweepConfig, folder: Path, device: str = "", on_file: OnFile | None = None) -> PlanOutcome:
    """Write the layers of a config. What is there already is kept, so that the same call goes on after a kill."""
    name = device or _only_device(config)
    left_out: Counter[str] = Counter()
    points = [each for each in _points(config, name) if not _refused(each, left_out)]
    by_file: dict[str, list[Point]] = {}
    for point in points:
        by_file.setdefault(file_name(point.layer, point.condition), []).append(point)
    planned: list[PlannedPoint] = []
    inputs: dict[str, Sequence[FileInput]] = {}
    written = 0
    for number, (file, its_points) in enumerate(by_file.items(), start=1):
        reason, is_new = _export(folder / LAYERS / file, its_points[0])
        written += is_new
        if reason:
            left_out[reason] += len(its_points)
        else:
            inputs[file] = file_inputs(its_points[0].layer, its_points[0].condition)
            planned += [PlannedPoint(point, file) for point in its_points]
        if on_file:
            on_file(number, len(by_file))
    if not planned:
        reasons = "; ".join(f"{reason} ({count} points)" for reason, count in left_out.most_common(3))
        raise NothingMeasured(f"no point of {config.name} can be planned: {reasons}")
    plan = LayerPlan(config.name, name, planned, inputs, dict(config.dtypes))
    _write_texts(folder, plan)
    return PlanOutcome(plan, written, tuple(left_out.most_common()))


def _only_device(config: SweepConfig) -> str:
    names = [device.name for device in config.devices]
    if len(names) > 1:
        raise UsageError(f"a plan is for one device, the config names {', '.join(names)}: say --as NAME")
    return names[0]


def _points(config: SweepConfig, device: str) -> Iterator[Point]:
    """Every layer under every condition once; devices of a config share them."""
    pairs = dict.fromkeys((point.layer, point.condition) for point in plan_points(config).points)
    yield from (Point(layer, condition, device) for layer, condition in pairs)


def _refused(point: Point, left_out: Counter[str]) -> bool:
    """A result under a condition that a tool does not bring about would be a wrong number."""
    condition = point.condition
    if condition.utilization > 0:
        left_out["utilization above 0: benchmark tools hold no load beside the layer"] += 1
    elif condition.cache != "hot":
        left_out[f"cache {condition.cache}: benchmark tools call a layer again and again, so it is hot"] += 1
    else:
        return False
    return True


def file_name(layer: Layer, condition: Condition) -> str:
    """The same for all points that run the same file: threads and the like are up to the tool."""
    return f"{layer.kind}-{content_key([layer.key, condition.batch_size, torch_dtype(condition)])[:16]}.onnx"


def file_inputs(layer: Layer, condition: Condition) -> list[FileInput]:
    kind = layer_kinds[layer.kind]
    specs = kind.inputs(kind.values_of(layer), condition.batch_size)
    return [
        FileInput(name, tuple(spec.shape), "int64" if spec.indices_below is not None else torch_dtype(condition))
        for name, spec in zip(input_names(len(specs)), specs, strict=True)
    ]


def _export(path: Path, point: Point) -> tuple[str, bool]:
    """Why the layer is not there, if it is not, and whether it was written now."""
    if path.exists():
        return "", False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = make_workload(point.layer, point.condition).onnx_file()
    except OSError as error:
        raise StoreError(f"cannot write to {path.parent}: {error.strerror or error}") from None
    except Unsupported as error:
        return str(error), False
    atomic_write(path, content)
    return "", True


def _write_texts(folder: Path, plan: LayerPlan) -> None:
    atomic_write(folder / POINTS_FILE, "".join(f"{line}\n" for line in plan.lines()).encode())
    for tool in benchmark_tools.values():
        path = folder / tool.script_name
        if not path.exists():  # one that was edited stays
            atomic_write(path, tool.script.encode())
            path.chmod(0o755)
    atomic_write(folder / PLAN_FILE, json.dumps(plan.as_json(), indent=1).encode())
