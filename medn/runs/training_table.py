"""What candidates learn from and are judged by, made once by training: the rows of one kind, their split, their target.

RUN/tables/DEVICE/KIND.safetensors holds all of it, facts as JSON in the header of the file, rows as plain arrays.
Whoever selects, reports or ships reads this file, and not the measurements again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from medn.core.atomic import atomic_write
from medn.core.errors import ConfigError, StoreError
from medn.core.splits import PARTS, Split, SplitRows
from medn.core.statistic import NoiseFloor
from medn.core.table import Schema, Table, former_name, name_of_today
from medn.core.values import Scalar, canonical_json, plain
from medn.layer_generators.declared_kind import DeclaredKind
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.runs.inputs import InputChoice
from medn.runs.measured import RunTarget
from medn.runs.tables import KindTable

VERSION = 1
SUFFIX = ".safetensors"
FACTS = "medn"
"""What the facts are called in the header of the file."""

Arrays = dict[str, NDArray[Any]]
Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """The table of one kind on one device, or on several together, with its split."""

    device: str
    source: KindTable
    rows: SplitRows
    split: str
    seed: int
    target: RunTarget
    usual: Mapping[str, Scalar] = field(default_factory=dict)
    """The circumstances at which most was measured, for queries that do not say."""
    streaming: Mapping[str, float] = field(default_factory=dict)
    """The most bytes per second that any layer of the run read from memory, by device."""

    @property
    def kind(self) -> str:
        return self.source.kind

    @cached_property
    def key(self) -> str:
        """Changes with anything that a candidate could learn from, or be judged by."""
        source = self.source
        constants = {former_name(name): value for name, value in plain(source.constants).items()}
        facts = [source.key, self.split, self.seed, source.layer_kind.revision, constants]
        codes, folds = self.rows.codes(len(source.table)), self.rows.folds
        in_folds = b"" if folds is None else folds.tobytes()
        return hashlib.sha256(canonical_json(facts).encode() + codes.tobytes() + in_folds).hexdigest()[:20]


def split_folder(path: Path, name: str, split: Split) -> Path:
    """Where a run keeps something of a split: that of the random one is the product, others answer a question."""
    run = path.parent if path.suffix == ".parquet" else path
    return run / (name if split.form == "random" else f"{name}-{re.sub('[^A-Za-z0-9.+-]+', '-', str(split))}")


def table_path(path: Path, split: Split, device: str, kind: str) -> Path:
    """A device may be named with any characters, so they are quoted as in a web address."""
    return split_folder(path, "tables", split) / quote(device, safe="") / f"{quote(kind, safe='')}{SUFFIX}"


def save_table(path: Path, table: TrainingTable) -> None:
    """Write a table in one step, unless it is there already."""
    import safetensors.numpy

    known = read_facts(path)
    facts = {"version": VERSION, "key": table.key, **_facts(table)}
    if known == json.loads(json.dumps(facts)):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None
    atomic_write(path, safetensors.numpy.save(_arrays(table), {FACTS: json.dumps(facts)}))


def read_facts(path: Path) -> Json | None:
    """The facts of a written table, without its rows; None where there is none that this version reads."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            facts: Json = json.loads((file.metadata() or {})[FACTS])
        return facts if facts["version"] == VERSION else None
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def load_table(path: Path) -> TrainingTable | None:
    """A table as it was written; None where there is none, or where this version would make another one.

    A damaged one counts as none: it can be made again from the measurements.
    """
    import safetensors.numpy
    from safetensors import SafetensorError

    facts = read_facts(path)
    if facts is None:
        return None
    try:
        layer_kind = _layer_kind(facts)
        if layer_kind.revision != facts["revision"]:  # its costs, which are inputs, are counted otherwise by now
            return None
        table = _from_parts(facts, layer_kind, safetensors.numpy.load(path.read_bytes()))
        return table if table.key == facts["key"] else None
    except (OSError, SafetensorError, ConfigError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def _layer_kind(facts: Json) -> LayerKind:
    if facts["declared"]:
        return DeclaredKind.from_json(facts["declared"])
    if facts["kind"] not in layer_kinds:
        raise StoreError(layer_kinds.absence(facts["kind"]))
    return layer_kinds[facts["kind"]]


def _facts(table: TrainingTable) -> Json:
    source = table.source
    declared = source.layer_kind.as_json() if isinstance(source.layer_kind, DeclaredKind) else None
    facts: Json = plain(
        {
            "device": table.device,
            "kind": table.kind,
            "declared": declared,
            "revision": source.layer_kind.revision,
            "split": table.split,
            "seed": table.seed,
            "parts": list(PARTS),
            "target": table.target.as_json(),
            "usual": table.usual,
            "streaming": table.streaming,
            "names": source.table.schema.names,
            "categories": source.table.schema.categories,
            "further": list(source.table.further),
            **source.choice.as_json(),
            "constants": source.constants,
            "left_out": source.left_out,
            "gaps": source.gaps,
            "unstable": source.unstable,
            "never_calm": None if source.never_calm is None else int(source.never_calm.sum()),
            "noise": asdict(source.noise) if source.noise else None,
            "output_error": source.output_error,
            "devices": source.devices,
            "sheets": source.sheets,
            "dtypes": source.dtypes,
        }
    )
    return facts


def _arrays(table: TrainingTable) -> Arrays:
    source, rows = table.source, table.source.table
    names, groups = np.unique(rows.groups, return_inverse=True)
    encoded = np.char.encode(names, "utf-8")
    found: Arrays = {
        "inputs": _shortest(rows.inputs),
        "target": rows.target,
        "groups": groups.astype(np.int32),
        "group_names": np.frombuffer(encoded.tobytes(), dtype=np.uint8).reshape(len(names), -1),
        "part": table.rows.codes(len(rows)),
    }
    found |= {f"further.{name}": column for name, column in rows.further.items() if not np.isnan(column).all()}
    if source.is_test is not None:
        found["is_test"] = source.is_test
    if source.never_calm is not None:
        found["never_calm"] = source.never_calm
    if table.rows.folds is not None:
        found["fold"] = table.rows.folds
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def _shortest(inputs: NDArray[np.float64]) -> NDArray[Any]:
    single = inputs.astype(np.float32)
    return single if np.array_equal(single, inputs) else inputs


def _from_parts(facts: Json, layer_kind: LayerKind, arrays: Arrays) -> TrainingTable:
    names = arrays["group_names"]
    known = np.char.decode(names.reshape(-1).view(f"S{names.shape[1]}"), "utf-8")
    categories = {name: tuple(strings) for name, strings in facts["categories"].items()}
    missing = np.full(len(arrays["part"]), np.nan)
    table = Table(
        Schema(tuple(name_of_today(name) for name in facts["names"]), categories),
        arrays["inputs"].astype(np.float64),
        arrays["target"],
        known[arrays["groups"]],
        {name: arrays.get(f"further.{name}", missing) for name in facts["further"]},
    )
    source = KindTable(
        layer_kind=layer_kind,
        table=table,
        choice=InputChoice.from_config(facts),
        constants={name_of_today(name): value for name, value in facts["constants"].items()},
        left_out=facts["left_out"],
        gaps=tuple(facts["gaps"]),
        unstable=facts["unstable"],
        noise=NoiseFloor(**facts["noise"]) if facts["noise"] else None,
        output_error=facts["output_error"],
        devices=tuple(facts["devices"]),
        sheets=facts["sheets"],
        dtypes=facts["dtypes"],
        is_test=arrays.get("is_test"),
        never_calm=arrays.get("never_calm"),
    )
    return TrainingTable(
        device=facts["device"],
        source=source,
        rows=SplitRows.from_codes(arrays["part"], arrays.get("fold")),
        split=facts["split"],
        seed=facts["seed"],
        target=RunTarget.from_json(facts["target"]),
        usual=facts["usual"],
        streaming=facts["streaming"],
    )
