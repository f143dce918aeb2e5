"""Candidates on disk: a fitted, exported regressor with everything known about it, as JSON and plain arrays.

RUN/candidates/DEVICE/KIND/REGRESSOR holds candidate.json and arrays.safetensors; no code is read from either.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import StoreError
from medn.core.intervals import Interval
from medn.core.ranges import Range
from medn.core.table import Schema
from medn.regressors.form import Form, Parts, restore

VERSION = 1
FACTS_FILE = "candidate.json"
ARRAYS_FILE = "arrays.safetensors"

Arrays = dict[str, NDArray[Any]]
Json = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """One regressor for one kind on one device. A failed one has a reason and little else."""

    device: str
    kind: str
    regressor: str
    key: str
    """Made from the data and from how it was split and learned: the same key means there is nothing new to learn."""
    budget_s: float
    """The time of the whole training that made this candidate; one with more time goes on tuning."""
    seed: int
    split: str
    reason: str = ""
    split_sizes: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    unstable: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By part: validation, test, and test_held, where rows outside the range hold the efficiency at its edge.

    A score that does not exist, such as the R2 of one row, is None.
    """
    noise: Mapping[str, float] | None = None
    fit_seconds: float = 0.0
    size_bytes: int = 0
    row_us: float = 0.0
    """Microseconds for the prediction of one row: rough, to be measured again before anything is chosen by it."""
    interval: Interval | None = None
    coverage: Mapping[str, float] = field(default_factory=dict)
    range: Range | None = None
    outside: float = 0.0
    """Share of test rows outside the range."""
    extrapolation: Mapping[str, float] = field(default_factory=dict)
    """Scores beyond the range of the least work, learned from that alone; empty where there was no time to find out."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """What the deployed form takes, as `medn.pipeline.costs` measured it; empty until then."""
    form: Form | None = None

    @property
    def is_good(self) -> bool:
        return not self.reason

    def without_form(self) -> Candidate:
        return replace(self, form=None)

    def summary(self) -> Json:
        """The facts one wants to see in a list, ready for JSON."""
        long = ("schema", "range", "interval", "form", "inputs", "constants", "target")
        return {each.name: plain(getattr(self, each.name)) for each in fields(self) if each.name not in long}


def plain(value: Any) -> Any:
    """The same value with nothing in it that JSON lacks: no number that is none, no NumPy type, no tuple."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def candidate_folder(root: Path, device: str, kind: str, regressor: str) -> Path:
    """A device may be named with any characters, so they are quoted as in a web address."""
    return root / quote(device, safe="") / kind / regressor


def pack(parts: Parts, prefix: str = "") -> tuple[Json, Arrays]:
    """The parts of a form as JSON, and all its arrays side by side under names that say where they belong."""
    arrays = {f"{prefix}{name}": np.array(array, order="C") for name, array in parts.arrays.items()}
    inner = []
    for index, part in enumerate(parts.inner):
        tree, more = pack(part, f"{prefix}{index}/")
        inner.append(tree)
        arrays |= more
    return {"form": parts.form, "facts": plain(dict(parts.facts)), "arrays": list(parts.arrays), "inner": inner}, arrays


def unpack(tree: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Parts:
    """What `pack` took apart."""
    return Parts(
        tree["form"],
        tree["facts"],
        {name: arrays[f"{prefix}{name}"] for name in tree["arrays"]},
        tuple(unpack(part, arrays, f"{prefix}{index}/") for index, part in enumerate(tree["inner"])),
    )


def describe(candidate: Candidate) -> tuple[Json, Arrays]:
    """Everything a candidate is: facts that JSON can hold, and the arrays of its form."""
    facts = candidate.summary()
    facts |= {name: plain(getattr(candidate, name)) for name in ("inputs", "constants", "target")}
    facts["schema"] = plain(asdict(candidate.schema)) if candidate.schema else None
    facts["range"] = plain(candidate.range.as_json()) if candidate.range else None
    facts["interval"] = plain(candidate.interval.as_json()) if candidate.interval else None
    facts["form"], arrays = pack(candidate.form.parts()) if candidate.form else (None, {})
    return facts, arrays


def from_description(description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None) -> Candidate:
    """What `describe` took apart, without its form where there are no arrays; fails in many ways if damaged."""
    facts = dict(description)
    tree = facts.pop("form")
    facts["schema"] = schema = facts["schema"] and _schema(facts["schema"])
    facts["range"] = facts["range"] and Range.from_json(facts["range"], schema)
    facts["interval"] = facts["interval"] and Interval.from_json(facts["interval"])
    return Candidate(**facts, form=restore(unpack(tree, arrays)) if tree and arrays is not None else None)


def save_candidate(root: Path, candidate: Candidate) -> Path:
    """Write a candidate. Its facts come last and name the arrays by their hash, so a kill leaves no half of one."""
    import safetensors.numpy

    folder = candidate_folder(root, candidate.device, candidate.kind, candidate.regressor)
    folder.mkdir(parents=True, exist_ok=True)
    facts, arrays = describe(candidate)
    arrays_hash = None
    if candidate.form:
        written = safetensors.numpy.save(arrays)
        arrays_hash = hashlib.sha256(written).hexdigest()
        replace_file(folder / ARRAYS_FILE, written)
    stated = {"version": VERSION, **facts, "arrays_sha256": arrays_hash}
    replace_file(folder / FACTS_FILE, json.dumps(stated, indent=1).encode())
    return folder


def replace_file(path: Path, content: bytes) -> None:
    beside = path.with_name(f"{path.name}.part")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


def load_candidate(folder: Path, *, with_form: bool = True) -> Candidate:
    """A candidate as it was saved; one sentence if it is damaged or of another version."""
    path = folder / FACTS_FILE
    try:
        facts: Json = json.loads(path.read_text(encoding="utf-8"))
        version = facts.pop("version")
        if version != VERSION:
            raise StoreError(
                f"{path} has version {version}, this medn reads version {VERSION}. Train it again: medn train RUN"
            )
        arrays_hash = facts.pop("arrays_sha256")
        return from_description(facts, _load_arrays(folder, arrays_hash) if arrays_hash and with_form else None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}). Delete it and train again: medn train RUN") from None


def _schema(written: Json) -> Schema:
    return Schema(tuple(written["names"]), {name: tuple(known) for name, known in written["categories"].items()})


def _load_arrays(folder: Path, arrays_hash: str) -> Arrays:
    import safetensors.numpy

    written = (folder / ARRAYS_FILE).read_bytes()
    if hashlib.sha256(written).hexdigest() != arrays_hash:
        raise ValueError(f"{ARRAYS_FILE} is not the one it was saved with")
    return safetensors.numpy.load(written)


def load_candidates(root: Path, *, with_forms: bool = True) -> list[Candidate]:
    """Every candidate below a folder of candidates, failed ones too, by device, kind and regressor."""
    return [load_candidate(path.parent, with_form=with_forms) for path in sorted(root.glob(f"*/*/*/{FACTS_FILE}"))]
