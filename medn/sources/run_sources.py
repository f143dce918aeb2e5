"""The bundles that a run leans on: kept in RUN/sources, so that whatever is trained there later has them too."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from medn.bundle.bundle import Bundle, Entry, read_bundle
from medn.core.atomic import atomic_path
from medn.core.errors import MednError, UsageError, reason_of
from medn.core.packages import missing
from medn.deployed.candidate import deployed_of
from medn.regressors.form import Form
from medn.regressors.shared_encoder import SharedEncoder
from medn.regressors.sources import Sources, with_sources
from medn.regressors.views import View
from medn.runs.tables import KindTable
from medn.sources.learned_together import FOLDER as TOGETHER
from medn.sources.learned_together import (
    learn_together,
    measured_on,
    network_path,
    read_network,
    save_network,
    seen_from,
)
from medn.sources.sheet_law import SheetLaw, endless, laws
from medn.sources.source_views import LearnedWhere, SourceView

FOLDER = "sources"
SUFFIX = ".medn"


class Usable(NamedTuple):
    sources: Sources | None
    """None where nothing can be leaned on."""
    reasons: dict[str, str]
    """Why not on a device, by its name."""


@dataclass(frozen=True, eq=False)
class KnownDevices:
    """Bundles of known devices."""

    bundles: tuple[Bundle, ...] = ()
    folder: Path | None = None
    """Where a network lies that has learned them together, if one has."""

    @classmethod
    def read(cls, paths: Sequence[Path], folder: Path | None = None) -> KnownDevices:
        return cls(tuple(read_bundle(path) for path in paths), folder)

    @classmethod
    def of_run(cls, run: Path) -> KnownDevices:
        """What a run keeps; none where it keeps nothing."""
        return cls.read(sorted((run / FOLDER).glob(f"*{SUFFIX}")), run / FOLDER)

    @cached_property
    def devices(self) -> Mapping[str, tuple[Bundle, str]]:
        """Every device by a name of its own: where several bundles know one of that name, with its bundle."""
        known = [(bundle, device) for bundle in self.bundles for device in bundle.devices]
        counts = Counter(device for _, device in known)
        found: dict[str, tuple[Bundle, str]] = {}
        for bundle, device in known:
            name = device if counts[device] == 1 else f"{device} of {bundle.name}"
            same = sum(each == name or each.startswith(f"{name} (") for each in found)
            found[f"{name} ({same + 1})" if same else name] = (bundle, device)
        return found

    def entries(self, kind: str) -> Iterator[tuple[str, str, Entry]]:
        """Every device that knows a kind: its name among all, its name in its bundle, and what predicts there."""
        for name, (bundle, device) in self.devices.items():
            for entry in bundle.on(device):
                if entry.kind == kind:
                    yield name, device, entry

    def sources(self, table: KindTable) -> Usable:
        """What can be leaned on for the rows of a table."""
        views: dict[str, View] = {}
        forms: dict[str, Form] = {}
        reasons: dict[str, str] = {}
        for name, device, entry in self.entries(table.kind):
            try:
                views[name] = SourceView(LearnedWhere.of(entry, device), table).view()
                forms[name] = deployed_of(entry.latency).form
            except MednError as error:
                reasons[name] = reason_of(error)
        if not views:
            return Usable(None, reasons)
        parted = _taken_apart(forms)
        forms |= {name: each.rest for name, each in parted.items()}
        views |= {name: endless(views[name]) for name in parted}
        own = list({id(form): form for form in forms.values()}.values())  # devices that learned together share one
        places = [next(place for place, form in enumerate(own) if form is forms[name]) for name in views]
        names, shared = tuple(views), self._shared(table)
        sources = Sources(names, tuple(own), tuple(views.values()), tuple(places), shared, laws(names, parted))
        return Usable(sources, reasons)

    def _shared(self, table: KindTable) -> SharedEncoder | None:
        """The network that has learned a kind on them, as it sees a table."""
        shared = read_network(network_path(self.folder, table.kind)) if self.folder else None
        try:
            return seen_from(shared, table) if shared else None
        except MednError:  # it has learned from inputs that the new device's rows do not have
            return None

    def beside(self, table: KindTable) -> KindTable:
        """The same table with what its rows take on these devices."""
        sources = self.sources(table).sources if self.bundles else None
        return replace(table, table=with_sources(table.table, sources)) if sources else table


def _taken_apart(forms: Mapping[str, Form]) -> dict[str, SheetLaw]:
    """Of what predicts devices, by their names, that which other devices among them and a data sheet say."""
    found = {name: SheetLaw.of(form) for name, form in forms.items()}
    whole = [name for name, own in found.items() if own is None]
    return {name: own for name, own in found.items() if own and own.weights.keys() <= set(whole)}


def source_files(given: Sequence[Path]) -> list[Path]:
    """The bundles that are meant: a file NAME.medn, or the run folder that one lies in."""
    found = []
    for path in given:
        file = path / f"{path.resolve().name}{SUFFIX}" if path.is_dir() else path
        if not file.is_file():
            what = "a run without a bundle: medn select makes one" if path.is_dir() else "no such file"
            raise UsageError(f"{path}: {what}")
        found.append(file)
    return found


def keep_sources(run: Path, files: Sequence[Path]) -> None:
    """Copy bundles into a run, in the place of those that it leaned on before."""
    names: dict[str, Path] = {}
    for file in files:
        number = sum(known.split("~")[0] == file.stem for known in names)
        names[f"{file.stem}~{number + 1}" if number else file.stem] = file
    wanted = {f"{name}{SUFFIX}": file.read_bytes() for name, file in names.items()}
    if {path.name: path.read_bytes() for path in (run / FOLDER).glob(f"*{SUFFIX}")} == wanted:
        return
    with atomic_path(run / FOLDER) as beside:
        beside.mkdir(parents=True, exist_ok=True)
        for name, file in zip(wanted, files, strict=True):
            shutil.copyfile(file, beside / name)


def keep_network(run: Path, runs: Sequence[Path], kinds: Iterable[str], seconds: float, seed: int = 0) -> None:
    """Let one network learn what known devices were measured at, where their runs say so, for the kinds of a run."""
    if missing("a network of known devices", ("torch",), "train"):
        return
    tables = {kind: measured_on(runs, kind) for kind in kinds}
    wanted = {kind: own for kind, own in tables.items() if own and not network_path(run / FOLDER, kind).is_file()}
    for place, (kind, own) in enumerate(wanted.items()):
        began = time.monotonic()
        shared = learn_together(own, seconds / (len(wanted) - place), seed)
        seconds -= time.monotonic() - began
        if shared:
            save_network(network_path(run / FOLDER, kind), shared)


def has_network(run: Path) -> bool:
    """Whether a run keeps a network of known devices, of any kind."""
    return any((run / FOLDER / TOGETHER).glob("*"))
