"""A bundle in memory: for every device and layer kind what was chosen, and how it is written and read.

The manifest holds all facts, a part in safetensors the arrays of each form. Reading runs no code from the file: forms
are rebuilt from their arrays by the classes of this package, after their numbers were checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn import __version__
from medn.bundle.archive import LIMITS, BadBundle, Json, Limits, archive_bytes, read_archive, write_archive
from medn.bundle.checks import (
    check_candidate,
    check_compositions,
    check_declared,
    check_rates,
    check_revision,
    check_usual,
)
from medn.core.checking import check_name
from medn.core.errors import MednError, UsageError
from medn.core.plugins import BRING
from medn.core.quantities import FURTHER, all_quantities
from medn.core.text import LONGEST_LINE, one_line, shown
from medn.core.values import Scalar, plain, told
from medn.deployed.candidate import Candidate, deployed_of, describe, from_description
from medn.deployed.packing import unpack
from medn.layer_generators.declared_kind import DeclaredKind
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.regressors.form import restore

VERSION = 2
READ_VERSIONS = (1, 2)

TOLD = ("scores", "noise", "fit_seconds", "row_us", "coverage", "outside", "extrapolation", "costs")
"""The facts of a candidate that no prediction needs."""

ARRAY_TYPES = {np.dtype(name) for name in ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")}


@dataclass(frozen=True, eq=False)
class Entry:
    """What predicts one layer kind on one device."""

    latency: Candidate
    further: Mapping[str, Candidate] = field(default_factory=dict)
    """Beside latency, by name: each form predicts the logarithm of its quantity."""
    usual: Mapping[str, Scalar] = field(default_factory=dict)
    """The columns beside the layer's own parameters, each with the value it has where a query does not say."""
    declared: DeclaredKind | None = None
    """The layer kind, where it is none of medn's own but was declared by an imported table."""
    revision: int | None = None
    """The revision of the layer kind that was learned from; the newest where it was learned just now."""

    @property
    def layer_kind(self) -> LayerKind:
        if self.declared:
            return self.declared
        if self.kind not in layer_kinds:
            raise UsageError(layer_kinds.absence(self.kind))
        newest = layer_kinds[self.kind]
        return newest if self.revision is None else newest.as_of(self.revision)

    @property
    def device(self) -> str:
        return self.latency.device

    @property
    def devices(self) -> tuple[str, ...]:
        """Those it answers for: its own, or all that were learned together."""
        return self.latency.answers_for

    @property
    def kind(self) -> str:
        return self.latency.kind


@dataclass(frozen=True, eq=False)
class Bundle:
    name: str
    entries: tuple[Entry, ...]
    environments: Mapping[str, Any] = field(default_factory=dict)
    """The machines that were measured, by id."""
    made_by: str = __version__
    backends: Mapping[str, str] = field(default_factory=dict)
    """What drives each device, where that is not its name."""
    streaming: Mapping[str, float] = field(default_factory=dict)
    """The most bytes per second that a measured layer read from memory, by device."""
    compositions: Mapping[str, Mapping[str, float | bool]] = field(default_factory=dict)
    """How layers compose into models, by device, where that was learned from blocks of models beside the layers."""

    def backend(self, device: str) -> str:
        return self.backends.get(device, device)

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(device for entry in self.entries for device in entry.devices))

    def on(self, device: str) -> Iterator[Entry]:
        return (entry for entry in self.entries if device in entry.devices)


def write_bundle(path: Path, bundle: Bundle) -> None:
    write_archive(path, *_packed(bundle))


def bundle_size(bundle: Bundle, first: int = 0) -> int:
    """How many bytes the file has; its entries are numbered from `first` on."""
    return len(archive_bytes(*_packed(bundle, first)))


def _packed(bundle: Bundle, first: int = 0) -> tuple[Json, dict[str, bytes]]:
    """The manifest, and every part by its name."""
    import safetensors.numpy

    parts: dict[str, bytes] = {}

    def part(name: str, arrays: Mapping[str, NDArray[Any]]) -> str:
        parts[name] = safetensors.numpy.save(dict(arrays))
        return name

    entries = []
    for place, entry in enumerate(bundle.entries, first):
        chosen = {"latency": entry.latency, **entry.further}
        described = {name: describe(candidate) for name, candidate in chosen.items()}
        written: Json = {
            "device": entry.device,
            "kind": entry.kind,
            "usual": plain(entry.usual),
            "quantities": {
                name: {"facts": _shortened(facts), "arrays": part(f"{place}/{name}.safetensors", arrays)}
                for name, (facts, arrays) in described.items()
            },
        }
        revision = entry.revision or entry.layer_kind.revision
        if revision > 1:
            written["revision"] = revision
        if entry.declared:
            written["declared"] = plain(entry.declared.as_json())
        entries.append(written)
    manifest: Json = {
        "version": VERSION,
        "medn": __version__,
        "name": bundle.name,
        "environments": plain(bundle.environments),
        "backends": dict(bundle.backends),
        "streaming": dict(bundle.streaming),
        "entries": entries,
    }
    if bundle.compositions:
        manifest["compositions"] = plain(bundle.compositions)
    return manifest, parts


def _shortened(facts: Json) -> Json:
    """The same facts; what is only there to be read by people has as many digits as they read."""
    return {name: told(value) if name in TOLD else value for name, value in facts.items()}


def read_bundle(path: Path, limits: Limits = LIMITS) -> Bundle:
    """The bundle in a file; one sentence if it is anything else."""
    manifest, parts = read_archive(path, limits)
    version = manifest.get("version")
    if version not in READ_VERSIONS:
        made = f"was made by medn {shown(manifest.get('medn'))} and has version {shown(version)}"
        newer = isinstance(version, int) and version > VERSION
        remedy = "pip install --upgrade medn" if newer else "make it again: medn select RUN"
        raise BadBundle(f"{path} {made}, this medn reads version {VERSION}. To use it: {remedy}")
    try:
        bundle = Bundle(
            str(manifest["name"]),
            tuple(_entry(written, parts) for written in manifest["entries"]),
            dict(manifest["environments"]),
            str(manifest["medn"]),
            {str(device): str(backend) for device, backend in manifest.get("backends", {}).items()},
            check_rates(manifest.get("streaming", {})),
            check_compositions(manifest.get("compositions", {})),
        )
        for name in (bundle.name, bundle.made_by, *bundle.backends, *bundle.backends.values()):
            check_name("a name in it", name)
        places = [(device, entry.kind) for entry in bundle.entries for device in entry.devices]
        if not places or len(set(places)) < len(places):
            raise ValueError("it needs entries, one for each device and layer kind")
        return bundle
    except MednError as error:  # such as a form that this version does not know
        raise BadBundle(f"{path} cannot be used: {one_line(error, LONGEST_LINE)}") from None
    except Exception as error:  # a damaged manifest can break what it describes in any way
        what = f"{type(error).__name__}: {one_line(error, LONGEST_LINE)}"
        raise BadBundle(f"{path} is damaged or was not made by medn ({what})") from None


def _entry(written: Json, parts: Mapping[str, bytes]) -> Entry:
    quantities = {}
    for name, described in written["quantities"].items():
        if name not in ("latency", *FURTHER) and name not in all_quantities():
            raise UsageError(f"this medn knows no quantity named {shown(name)}. {BRING}")
        arrays = _arrays(parts[described["arrays"]])
        candidate = from_description(described["facts"], arrays)
        if (candidate.device, candidate.kind) != (written["device"], written["kind"]):
            raise ValueError(f"the {name} of {shown(written['kind'])} belongs to another entry")
        check_candidate(candidate)
        quantities[name] = candidate
    latency, usual = _with_roofline(quantities.pop("latency"), written, parts), written["usual"]
    for candidate in (latency, *quantities.values()):
        check_usual(usual, candidate)
    declared = DeclaredKind.from_json(written["declared"]) if written.get("declared") else None
    if declared:
        check_declared(declared, [latency, *quantities.values()])
        return Entry(latency, quantities, dict(usual), declared)
    revision = written.get("revision", 1)
    check_revision(revision)
    if written["kind"] in layer_kinds:
        layer_kinds[written["kind"]].as_of(revision)
    return Entry(latency, quantities, dict(usual), revision=revision)


def _with_roofline(latency: Candidate, written: Json, parts: Mapping[str, bytes]) -> Candidate:
    """Where the first version kept the roofline: beside the candidate, in a part of its own."""
    beside, deployed = written.get("roofline"), deployed_of(latency)
    if not beside:
        return latency
    arrays = _arrays(parts[beside["arrays"]])
    roofline = restore(unpack(beside["form"], arrays), len(deployed.schema.names))
    return replace(latency, deployed=replace(deployed, roofline=roofline))


def _arrays(part: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a part, all of a plain type and finite."""
    import safetensors.numpy

    arrays = safetensors.numpy.load(part)
    for name, array in arrays.items():
        if array.dtype not in ARRAY_TYPES:
            raise ValueError(f"the array {shown(name)} has the type {array.dtype}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"the array {shown(name)} holds a number that is not finite")
    return arrays
