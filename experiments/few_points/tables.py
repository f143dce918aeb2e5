"""The tables that layers are drawn from: public ones, imported as a user would, and the kinds of a sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from experiments.peers.medn_verbs import verb
from experiments.public.prepare import prepared
from experiments.public.tables import MAPPINGS
from medn.core.atomic import atomic_path
from medn.core.errors import UsageError
from medn.core.values import Measurement
from medn.layer_generators.kind import layer_kinds
from medn.runs.folder import RunFolder
from medn.runs.imported_kinds import ImportedKinds
from medn.runs.stated_dtypes import DTYPES_NOTE
from medn.runs.tables import SHEETS_NOTE, TEST_PART, layer_key

MOST_TEST_LAYERS = 600
TEST_SHARE = 0.25
"""Of the layers of a table, at most so many of them."""

POINTS_PER_LAYER = 4
"""More points of the same layer say little about other layers. Only where a table has fewer layers than asked for, all
of them are taken with more points each, so that there are as many points."""

KEPT_NOTES = ("config", SHEETS_NOTE, DTYPES_NOTE)
"""What a run says of how to learn from it. The target is chosen anew, from the visits that are there."""

V100 = "Tesla V100-PCIE-32GB"


@dataclass(frozen=True)
class PublicRows:
    """Some rows of a public table, by a mapping that is shipped."""

    file: str
    mapping: str
    where: Mapping[str, str] = field(default_factory=dict)
    """Narrows the mapping to one device, and to rows that the authors learned from."""


PUBLIC: Mapping[str, PublicRows] = {
    "cde conv2d": PublicRows("cde_layers.csv.gz", "cde_conv2d.yaml"),
    "miopen conv2d": PublicRows("miopen_conv_fwd.csv.gz", "miopen_conv2d.yaml"),
    "neusight bmm": PublicRows("neusight_ops.csv.gz", "neusight_bmm.yaml"),
    "neusight linear": PublicRows("neusight_ops.csv.gz", "neusight_linear.yaml", {"device": V100, "split": "train"}),
    "neusight softmax": PublicRows("neusight_ops.csv.gz", "neusight_softmax.yaml", {"device": V100, "split": "train"}),
    "vidur projections": PublicRows("vidur_sizes.csv", "vidur_projections.yaml", {"device": "A100"}),
    "aic gemm": PublicRows("aic_gemm.csv.gz", "aic_gemm.yaml"),
}


@dataclass(frozen=True)
class Drawn:
    """Where layers are drawn from: one kind on one device of a run."""

    name: str
    run: Path
    kind: str
    device: str
    is_public: bool


def public_rows(name: str, data: Path, out: Path) -> Drawn:
    """A public table, imported by `medn import` if it is not there yet; by one process, while others wait for it."""
    from filelock import FileLock

    out.mkdir(parents=True, exist_ok=True)
    run = out / name / "whole"
    with FileLock(out / "lock"):
        if not run.is_dir():
            _import(name, data, out, run)
    ((device, kind),) = _places(run)
    return Drawn(name, run, kind, device, is_public=True)


def _import(name: str, data: Path, out: Path, run: Path) -> None:
    rows = PUBLIC[name]
    file = prepared(rows.file, data, out)
    mapping = out / name / "mapping.yaml"
    mapping.parent.mkdir(parents=True, exist_ok=True)
    mapping.write_text(yaml.safe_dump(_narrowed(rows)))
    with atomic_path(run) as beside:
        try:
            verb("import", str(file), "--map", str(mapping), "--run", str(beside))
        except RuntimeError as error:
            raise UsageError(f"{name}: {error}") from None


def _places(run: Path) -> list[tuple[str, str]]:
    """The devices and kinds that were measured."""
    with RunFolder(run).store(must_exist=True) as store:
        return sorted({(device, kind) for kind, device, _ in store.conditions()})


def _narrowed(rows: PublicRows) -> dict[str, Any]:
    mapping: dict[str, Any] = yaml.safe_load((MAPPINGS / rows.mapping).read_text())
    where = {**mapping.get("where", {}), **rows.where}
    if rows.where:
        mapping.pop("test", None)
        mapping["sheets"] = {name: sheet for name, sheet in mapping["sheets"].items() if name == where["device"]}
    return {**mapping, "where": where}


def own_kinds(run: Path) -> list[Drawn]:
    """Every kind of a sweep, on each of its devices."""
    return [Drawn(f"own {kind} on {device}", run, kind, device, is_public=False) for device, kind in _places(run)]


@dataclass(frozen=True)
class Layers:
    """The layers of a table in the order in which a seed draws them."""

    learned: Sequence[str]
    test: Sequence[str]


def draw(drawn: Drawn, seed: int) -> Layers:
    """Test layers are the same however many others are learned from, and fewer of those are among more of them."""
    names = np.random.default_rng(seed).permutation(sorted(_points(drawn)))
    test = min(MOST_TEST_LAYERS, round(TEST_SHARE * len(names)))
    return Layers(names[test:].tolist(), names[:test].tolist())


def has_enough(drawn: Drawn, layers: int, seed: int) -> bool:
    """Whether there are so many layers, or at least so many points of those there are."""
    return sum(len(_points(drawn)[name]) for name in draw(drawn, seed).learned) >= layers


def thinned(drawn: Drawn, layers: int, seed: int, folder: Path) -> None:
    """Write a run that holds so many layers to learn from, and those for test, marked as such."""
    order = draw(drawn, seed)
    random = np.random.default_rng(seed)
    # Shuffled for all layers, so that a layer has the same points first at every size.
    points = {name: [own[place] for place in random.permutation(len(own))] for name, own in _points(drawn).items()}
    each = math.ceil(POINTS_PER_LAYER * max(1.0, layers / len(order.learned)))
    parts = dict.fromkeys(order.learned[:layers], (False, each))
    parts |= dict.fromkeys(order.test, (True, POINTS_PER_LAYER))
    with RunFolder(drawn.run).store(must_exist=True) as whole, RunFolder(folder).store() as store:
        for note in filter(whole.read_note, KEPT_NOTES):
            store.note(note, whole.read_note(note))
        for name, manifest in whole.environments().items():
            store.add_environment(name, manifest)
            store.add_environment(_for_test(name), {**manifest, "part": TEST_PART})
        store.record(
            (point.point, replace(visit, environment_id=_for_test(visit.environment_id)) if is_test else visit)
            for name, (is_test, most) in parts.items()
            for point in points[name][:most]
            for visit in point.visits
        )


def _for_test(environment: str) -> str:
    return f"{environment}-{TEST_PART}"


@cache
def _points(drawn: Drawn) -> dict[str, list[Measurement]]:
    """By layer, the points that have been measured."""
    found: dict[str, list[Measurement]] = {}
    with RunFolder(drawn.run).store(must_exist=True) as store:
        imported = ImportedKinds.of(store.environments())
        kind = imported.declared.get(drawn.kind) or layer_kinds[drawn.kind]
        columns = imported.layer_columns.get(drawn.kind, ())
        for measurement in store.measurements(drawn.kind):
            point = measurement.point
            if point.device == drawn.device and measurement.status == "ok":
                said = {**kind.complete(point.layer.values), **point.condition.values}
                found.setdefault(layer_key(kind, columns, said), []).append(measurement)
    return found
