"""From what selection chose to the bundle that is shipped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from medn.bundle.bundle import Bundle, Entry, bundle_size, write_bundle
from medn.core.environment import largest_cache_bytes
from medn.core.errors import UsageError
from medn.core.splits import Split
from medn.core.store import JOURNAL_NAME
from medn.core.values import Scalar
from medn.deployed.candidate import Candidate
from medn.deployed.facts import FormCosts
from medn.layer_generators.declared_kind import DeclaredKind
from medn.runs.folder import RunFolder
from medn.runs.memory_rate import streaming_rates
from medn.runs.tables import read_source
from medn.runs.training_table import read_facts, table_path
from medn.runs.usual_conditions import measured_conditions, usual_conditions
from medn.training.further_quantities import Further, load_further

SUFFIX = ".medn"
LARGEST_SIZE = 10**9
COMPOSITION_BYTES = 500
"""More than the manifest takes to say how layers compose on a device, which is learned from blocks afterwards."""
COMMAS = 2
"""In the manifest, between an entry and the next: in the list of entries and in that of parts."""

Place = tuple[str, str]
"""A device and a kind."""


def bundle_run(folder: Path, chosen: Sequence[Candidate], path: Path | None = None) -> Path:
    """Write the bundle of a run, RUN/NAME.medn if no path is given, and say where it is."""
    target = path or folder / f"{folder.resolve().name}{SUFFIX}"
    write_bundle(target, made_bundle(folder, chosen, target.stem))
    return target


def made_bundle(folder: Path, chosen: Sequence[Candidate], name: str) -> Bundle:
    """The bundle of a run, in memory."""
    if not chosen:
        raise UsageError(f"nothing was chosen to put into a bundle of {folder}")
    return Shipping.of(folder, chosen).bundle(name, sorted(chosen, key=lambda each: (each.device, each.kind)))


class Trained(NamedTuple):
    """What training found out about a run, for a bundle to tell."""

    usual: Mapping[Place, Mapping[str, Scalar]]
    declared: Mapping[str, DeclaredKind]
    streaming: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Shipping:
    """What a bundle of a run holds beside the candidates."""

    trained: Trained
    further: Further
    environments: Mapping[str, Any]
    backends: Mapping[str, str]
    composing: frozenset[str]
    """The devices with blocks, which tell how layers compose."""

    @classmethod
    def of(cls, folder: Path, candidates: Collection[Candidate]) -> Shipping:
        """`candidates` are of all devices and kinds that may be shipped."""
        trained = _trained(folder, candidates) or _trained_by_an_earlier_version(folder, candidates)
        return cls(trained, load_further(folder), *_machines(folder))

    def bundle(self, name: str, chosen: Sequence[Candidate]) -> Bundle:
        entries = tuple(map(self._entry, chosen))
        return Bundle(name, entries, self.environments, backends=self.backends, streaming=self.trained.streaming)

    def _entry(self, candidate: Candidate) -> Entry:
        return Entry(
            latency=candidate,
            further=self.further.get((candidate.device, candidate.kind), {}),
            usual=self.trained.usual[candidate.device, candidate.kind],
            declared=self.trained.declared.get(candidate.kind),
        )


class Sizes:
    """How many bytes the file has that candidates of a run are shipped in, found by packing them."""

    def __init__(self, folder: Path, candidates: Collection[Candidate]) -> None:
        """`candidates` are one for each device and kind that is shipped."""
        self.shipping = Shipping.of(folder, candidates)
        self.name = folder.resolve().name
        self.last = max(len(candidates) - 1, 0)
        self._empty = bundle_size(self.shipping.bundle(self.name, ()))
        self.fixed = self._empty + COMPOSITION_BYTES * len(self.shipping.composing)
        """What a bundle has before anything is in it."""

    def added(self, candidate: Candidate, costs: FormCosts) -> int:
        """What a candidate adds. Its own size stands in it as well, and takes no more room than the number here."""
        told = replace(candidate, costs=replace(costs, bytes=LARGEST_SIZE))
        whole = bundle_size(self.shipping.bundle(self.name, (told,)), self.last)
        return whole - self._empty + COMMAS


def _machines(folder: Path) -> tuple[dict[str, Any], dict[str, str], frozenset[str]]:
    """The environments that were measured, the backends of devices with names of their own, the devices with blocks."""
    if not (folder / JOURNAL_NAME).is_file():
        return {}, {}, frozenset()
    with RunFolder(folder).store(must_exist=True) as store:
        written = (store.read_note("config") or {}).get("backends", {})
        own_names = {name: backend for name, backend in written.items() if name != backend}
        return store.environments(), own_names, frozenset(block.device for block, _ in store.blocks())


def _trained(folder: Path, candidates: Collection[Candidate]) -> Trained | None:
    """As it stands with the training tables; None where one is missing."""
    usual: dict[Place, Mapping[str, Scalar]] = {}
    declared: dict[str, DeclaredKind] = {}
    streaming: dict[str, float] = {}
    for each in candidates:
        facts = read_facts(table_path(folder, Split.parse(each.facts.split), each.device, each.kind))
        if facts is None:
            return None
        usual[each.device, each.kind] = facts["usual"]
        if facts["declared"]:
            declared[each.kind] = DeclaredKind.from_json(facts["declared"])
        for device, rate in facts["streaming"].items():  # tables of several trainings may have seen different layers
            streaming[device] = max(rate, streaming.get(device, 0.0))
    return Trained(usual, declared, streaming)


def _trained_by_an_earlier_version(folder: Path, candidates: Collection[Candidate]) -> Trained:
    """The same, found out from the measurements."""
    source = read_source(folder)
    conditions = measured_conditions(folder, source)
    return Trained(
        {(each.device, each.kind): usual_conditions(conditions, each.device, each.kind) for each in candidates},
        source.imported.declared,
        streaming_rates(source, largest_cache_bytes(source.environments)),
    )
