"""A layer plan: the points of a sweep for a device that no Python reaches, and the ONNX file of each.

DIR/plan.json      points with their keys, labels, files and conditions; files with their inputs
DIR/points.tsv     the same for scripts, a line for each point
DIR/layers/*.onnx  a file for each layer, batch size and data type
DIR/run_*          templates that run a benchmark tool for every point
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medn.core.dtypes import stated_dtypes
from medn.core.errors import StoreError
from medn.core.values import Condition, Layer, Point, Scalar, content_key, freeze

PLAN_FILE = "plan.json"
POINTS_FILE = "points.tsv"
LAYERS = "layers"
VERSION = 1


@dataclass(frozen=True)
class PlannedPoint:
    point: Point
    file: str

    @property
    def label(self) -> str:
        """What results are called by."""
        return f"{self.point.layer.kind}-{self.point.key}"


@dataclass(frozen=True)
class FileInput:
    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class LayerPlan:
    name: str
    device: str
    points: Sequence[PlannedPoint]
    inputs: Mapping[str, Sequence[FileInput]] = field(default_factory=dict)
    """By file."""
    dtypes: Mapping[str, float] = field(default_factory=dict)
    """The data types that the config states beside medn's own."""

    @property
    def key(self) -> str:
        return content_key([self.name, self.device, sorted(each.point.key for each in self.points)])

    def as_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "name": self.name,
            "device": self.device,
            "dtypes": dict(self.dtypes),
            "files": {file: [asdict(each) for each in inputs] for file, inputs in self.inputs.items()},
            "points": [_point_json(each) for each in self.points],
        }

    def lines(self) -> Iterator[str]:
        """`points.tsv`, its heading first."""
        names = list(dict.fromkeys(name for each in self.points for name in each.point.condition.values))
        names = [name for name in names if name != "threads"]
        yield "\t".join(("label", "file", "threads", "shapes", *names))
        for each in self.points:
            condition = each.point.condition
            shapes = " ".join("x".join(map(str, one.shape)) for one in self.inputs[each.file])
            cells = [each.label, each.file, condition.threads, shapes, *(condition.values.get(name) for name in names)]
            yield "\t".join(map(str, cells))


def _point_json(planned: PlannedPoint) -> dict[str, Any]:
    point = planned.point
    return {
        "key": point.key,
        "label": planned.label,
        "file": planned.file,
        "kind": point.layer.kind,
        "layer": point.layer.values,
        "condition": point.condition.values,
    }


def read_plan(folder: Path) -> LayerPlan:
    """The plan that was written to a folder; one sentence where there is none."""
    path = folder / PLAN_FILE if folder.is_dir() else folder
    try:
        written = json.loads(path.read_bytes())
        if written["version"] != VERSION:
            raise StoreError(f"{path} has version {written['version']}, this medn reads {VERSION}")
        device = str(written["device"])
        return LayerPlan(
            str(written["name"]),
            device,
            [_read_point(each, device) for each in written["points"]],
            {file: [FileInput(**each) for each in inputs] for file, inputs in written["files"].items()},
            stated_dtypes(written["dtypes"]),
        )
    except FileNotFoundError:
        raise StoreError(
            f"{folder} is no layer plan: it holds no {PLAN_FILE}. Make one: medn plan CONFIG --out DIR"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} cannot be read as a layer plan: {type(error).__name__}: {error}") from None


def _read_point(written: Mapping[str, Any], device: str) -> PlannedPoint:
    values: dict[str, Scalar] = dict(written["layer"])
    point = Point(Layer(str(written["kind"]), freeze(values)), Condition(**written["condition"]), device)
    if point.key != written["key"]:
        raise ValueError(f"the point {written['key']} was changed: its layer and condition are another point")
    return PlannedPoint(point, str(written["file"]))
