"""What answers for programs: a form, how it reads them, and the devices that it knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import medn.programs.forms.nest_pool  # noqa: F401  # registers a form that a file may name
from medn.bundle.archive import BadBundle, Json, read_archive, write_archive
from medn.core.checking import check_name
from medn.core.table import Array
from medn.core.text import LONGEST_LINE, one_line
from medn.deployed.packing import pack, unpack
from medn.programs.encodings import ENCODINGS
from medn.programs.forms.sequence_encoder import SequenceEncoder
from medn.programs.programs import TensorProgram
from medn.regressors.form import Form, restore
from medn.regressors.forms.weighted_sum import WeightedSum

VERSION = 1
ARRAYS = "arrays.safetensors"
CONTENT = "tensor programs"


@dataclass(frozen=True, eq=False)
class ProgramPredictor:
    """Predicts without TVM and without what trained it."""

    family: str
    encoding: str
    devices: tuple[str, ...]
    form: Form
    about: dict[str, Any] = field(default_factory=dict)
    """How it was trained and how it scored, as JSON has it."""

    def rows(self, programs: Sequence[TensorProgram]) -> Array:
        """What the form takes."""
        return ENCODINGS[self.encoding].rows(programs, self.devices)

    def latency_s(self, programs: Sequence[TensorProgram]) -> Array:
        if not programs:
            return np.empty(0)
        return np.exp(self.form.run(self.rows(programs)))

    def rank_score(self, programs: Sequence[TensorProgram]) -> Array:
        """Higher for what is faster, to be compared within a task: what a search wants to know."""
        if not programs:
            return np.empty(0)
        rows = self.rows(programs)
        return self.form.rank_score(rows) if isinstance(self.form, SequenceEncoder) else -self.form.run(rows)

    def save(self, path: Path) -> None:
        from safetensors.numpy import save

        tree, arrays = pack(self.form.parts())
        manifest = {
            "content": CONTENT,
            "version": VERSION,
            "family": self.family,
            "encoding": self.encoding,
            "devices": list(self.devices),
            "form": tree,
            "about": self.about,
        }
        write_archive(path, manifest, {ARRAYS: save(arrays)})

    @classmethod
    def load(cls, path: Path) -> ProgramPredictor:
        """Nothing in the file runs: it names a form that medn has, and brings arrays for it, which are checked."""
        manifest, parts = read_archive(path)
        try:
            return cls._restored(manifest, parts)
        except BadBundle:
            raise
        except Exception as error:  # a damaged file breaks its reader in many ways
            raise BadBundle(f"{path} holds no predictor of tensor programs: {one_line(error, LONGEST_LINE)}") from None

    @classmethod
    def _restored(cls, manifest: Json, parts: dict[str, bytes]) -> ProgramPredictor:
        from safetensors.numpy import load

        if manifest.get("content") != CONTENT or manifest.get("version") != VERSION:
            raise ValueError("it is a bundle of something else, or of another version")
        encoding, devices = ENCODINGS[manifest["encoding"]], tuple(manifest["devices"])
        for name in (manifest["family"], *devices):
            check_name("a name", name)
        form = restore(unpack(manifest["form"], load(parts[ARRAYS])), encoding.width(len(devices)))
        if token_sizes(form) != {encoding.token_size}:
            raise ValueError(f"its form does not read {encoding.name}")
        return cls(manifest["family"], encoding.name, devices, form, dict(manifest["about"]))


def token_sizes(form: Form) -> set[int]:
    """What a form, and all of which it is the mean, take for a token; 0 where rows are no sequences."""
    if isinstance(form, WeightedSum):
        return set().union(*map(token_sizes, form.forms))
    return {getattr(form, "token_size", 0)}
