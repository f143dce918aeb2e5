"""Candidates on disk, as JSON and plain arrays.

RUN/candidates/DEVICE/KIND/REGRESSOR holds candidate.json and arrays.safetensors; no code is read from either.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from urllib.parse import quote

from medn.core.atomic import atomic_write
from medn.core.errors import StoreError, UsageError
from medn.core.registry import spelled
from medn.core.splits import Split
from medn.deployed.candidate import CHECKED_PREFIX, HELD_OUT, TESTED, Candidate, describe, from_description
from medn.deployed.packing import Arrays, Json
from medn.runs.training_table import split_folder

VERSION = 2
READ_VERSIONS = (1, 2)
FACTS_FILE = "candidate.json"
ARRAYS_FILE = "arrays.safetensors"


def candidates_root(path: Path, split: Split) -> Path:
    """Where the candidates of a run lie."""
    return split_folder(path, "candidates", split)


def candidate_folder(root: Path, device: str, kind: str, regressor: str) -> Path:
    """A device may be named with any characters, so they are quoted as in a web address.

    Some families were once spelled with `-`: a folder of before is theirs.
    """
    folder = root / quote(device, safe="") / kind
    return folder / spelled(regressor, (path.name for path in folder.glob("*")))


def save_candidate(root: Path, candidate: Candidate) -> Path:
    """Write a candidate. Its facts come last and name the arrays by their hash, so a kill leaves no half of one."""
    import safetensors.numpy

    folder = candidate_folder(root, candidate.device, candidate.kind, candidate.regressor)
    folder.mkdir(parents=True, exist_ok=True)
    facts, arrays = describe(candidate)
    arrays_hash = None
    if candidate.deployed:
        arrays |= {f"{CHECKED_PREFIX}{name}": array for name, array in candidate.checked.items()}
        kept = {HELD_OUT: candidate.held_out, TESTED: candidate.tested}
        arrays |= {name: array for name, array in kept.items() if array is not None}
        written = safetensors.numpy.save(arrays)
        arrays_hash = hashlib.sha256(written).hexdigest()
        atomic_write(folder / ARRAYS_FILE, written)
    stated = {"version": VERSION, **facts, "arrays_sha256": arrays_hash}
    atomic_write(folder / FACTS_FILE, json.dumps(stated, indent=1).encode())
    return folder


def update_facts(folder: Path, changed: Json) -> None:
    """Write some facts of a saved candidate anew."""
    path = folder / FACTS_FILE
    atomic_write(path, json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changed}, indent=1).encode())


def load_candidate(folder: Path, *, with_form: bool = True) -> Candidate:
    """A candidate as it was saved; one sentence if it is damaged or of another version."""
    path = folder / FACTS_FILE
    try:
        facts: Json = json.loads(path.read_text(encoding="utf-8"))
        version = facts.pop("version")
        if version not in READ_VERSIONS:
            raise StoreError(
                f"{path} has version {version}, this medn reads version {VERSION}. Train it again: medn train RUN"
            )
        arrays_hash = facts.pop("arrays_sha256")
        return from_description(facts, _load_arrays(folder, arrays_hash) if arrays_hash and with_form else None)
    except UsageError as error:  # a form that nobody registered
        regressor, kind = folder.name, folder.parent.name
        raise StoreError(f"the regressor {regressor} of {kind} cannot be used: {error}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}). Delete it and train again: medn train RUN") from None


def _load_arrays(folder: Path, arrays_hash: str) -> Arrays:
    import safetensors.numpy

    written = (folder / ARRAYS_FILE).read_bytes()
    if hashlib.sha256(written).hexdigest() != arrays_hash:
        raise ValueError(f"{ARRAYS_FILE} is not the one it was saved with")
    return safetensors.numpy.load(written)


def load_candidates(root: Path, *, with_forms: bool = True) -> list[Candidate]:
    """Every candidate below a folder of candidates, failed ones too, by device, kind and regressor."""
    return [load_candidate(path.parent, with_form=with_forms) for path in sorted(root.glob(f"*/*/*/{FACTS_FILE}"))]
