"""One cell: a table, a device that is left out, so many points of it, a seed. Each is kept by itself."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cross_device.learning import learn_all, learn_leaning
from experiments.cross_device.tables import DeviceTable
from experiments.cross_device.targets import Cell, table_of, write_target
from experiments.cross_device.zero_shot import Known, zero_shot
from medn.bundle.bundle import read_bundle, write_bundle
from medn.choosing.bundling import bundle_run
from medn.choosing.evaluation import Evaluated, evaluate_run
from medn.choosing.select_run import CHOSEN_FOLDER, select_run
from medn.core.atomic import atomic_write
from medn.core.metrics import score
from medn.core.table import Array
from medn.deployed.candidate import deployed_of
from medn.regressors.regressor import regressors
from medn.selection.budget import Budget
from medn.sources.learned_together import learn_together, measured_on, save_network
from medn.training.candidate_store import load_candidates
from medn.transfer.adapt_run import adapting_families

Json = dict[str, Any]

SOURCE_SETTINGS = {"lightgbm": {"learning_rate": 0.2, "num_leaves": 31}}
"""Few and small trees, as there are many devices and each is asked again and again."""

NETWORK_S = 300.0
"""Enough for the whole plan of the network that learns all known devices."""


@dataclass(frozen=True)
class Setting:
    """Where things lie, and who takes part."""

    data: Path
    out: Path
    families: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.out / "cross_device"


def devices_run(table: DeviceTable, setting: Setting) -> Path:
    """The run that holds all devices of a table."""
    return table.imported(setting.data, setting.folder)


def known_devices(table: DeviceTable, setting: Setting) -> Path:
    """The bundle of all devices of a table, each learned by itself."""
    run = devices_run(table, setting)
    bundle = run / f"{run.name}.medn"
    if not bundle.is_file():
        learn_all(run, [table.source_family], settings=SOURCE_SETTINGS)
        bundle_run(run, select_run(run, Budget()).chosen)
    return bundle


def without(bundle: Path, device: str, setting: Setting) -> Path:
    """The same bundle without what it knows of one device."""
    whole = read_bundle(bundle)
    path = setting.folder / "bundles" / f"{whole.name}-without-{device.replace(' ', '_')}.medn"
    entries = tuple(entry for entry in whole.entries if entry.device != device)
    write_bundle(path, replace(whole, name=path.stem, entries=entries))
    return path


def known_network(cell: Cell, setting: Setting) -> Path:
    """The network that has learned all devices of a table but one, trained once for all cells of that one."""
    known_devices(cell.table, setting)  # which keeps what each has learned from
    devices = devices_run(cell.table, setting)
    kind = table_of(devices, cell.device).kind
    path = setting.folder / "networks" / f"{cell.table.name}-without-{cell.device.replace(' ', '_')}.safetensors"
    if not path.is_file():
        measured = measured_on([devices], kind)
        shared = learn_together({name: own for name, own in measured.items() if name != cell.device}, NETWORK_S)
        assert shared, "the other devices have rows enough"
        save_network(path, shared)
    return path


def work_on(cell: Cell, setting: Setting, again: bool = False) -> Json:
    """What came of a cell before, or comes of it now."""
    path = setting.folder / "cells" / f"{cell.name}.json"
    if path.is_file() and not again:
        kept: Json = json.loads(path.read_text())
        return kept
    began, spent = time.monotonic(), time.process_time()
    result = _foreseen(cell, setting) if not cell.size else _adapted(cell, setting)
    result |= {"seconds": time.monotonic() - began, "processor_seconds": time.process_time() - spent}
    result |= {"table": cell.table.name, "device": cell.device, "size": cell.size, "seed": cell.seed}
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, json.dumps(result, indent=1).encode())
    print(f"{cell.name}: {100 * result['error']:.1f} % by {result['chosen']}", file=sys.stderr, flush=True)
    return result


def _foreseen(cell: Cell, setting: Setting) -> Json:
    """What `medn adapt --points 0` makes of a data sheet."""
    run = devices_run(cell.table, setting)
    known = Known(without(known_devices(cell.table, setting), cell.device, setting), run)
    return zero_shot(cell.device, run, known, cell.seed)


def _adapted(cell: Cell, setting: Setting) -> Json:
    """What `medn adapt --run` makes of the points of a cell."""
    sources = without(known_devices(cell.table, setting), cell.device, setting)
    run = setting.folder / "runs" / cell.name
    shutil.rmtree(run, ignore_errors=True)
    write_target(cell, devices_run(cell.table, setting), sources, run)
    families = setting.families or adapting_families(has_rows=True)
    needs_network = any(regressors[name].needs_source_rows for name in families)
    network = known_network(cell, setting) if needs_network else None
    learn_leaning(run, sources, network, families, cell.seed)
    select_run(run, Budget())
    result = _judged(run)
    shutil.rmtree(run)
    return result


def _judged(run: Path) -> Json:
    """Errors on test rows of every candidate and of what was chosen, and how its intervals did."""
    (evaluated,) = evaluate_run(run)
    (chosen,) = load_candidates(run / CHOSEN_FOLDER)
    test = evaluated.prepared.test
    answer = deployed_of(chosen).answer(test.inputs)
    errors: dict[str, Mapping[str, float]] = {
        part: {name: score(own[part], measured).mape for name, own in evaluated.predicted_s.items()}
        for part, measured in (("test", test.target), ("validation", evaluated.prepared.validation.target))
    }
    alone = [name for name in errors["test"] if not regressors[name].needs_sources]
    best_alone = min(alone, key=errors["validation"].__getitem__) if alone else None
    off = np.abs(answer.value / test.target - 1)
    return {
        "error": float(off.mean()),
        "standard_error": float(off.std() / np.sqrt(len(off))),
        "median": float(np.median(off)),
        "chosen": chosen.regressor,
        "families": errors["test"],
        "promised": errors["validation"],
        "alone": errors["test"][best_alone] if best_alone else None,
        "covered": float(((test.target >= answer.low) & (test.target <= answer.high)).mean()),
        "width": float(np.median((answer.high - answer.low) / answer.value)),
        "bytes": chosen.size_bytes,
        "alone_standard_error": float(_off(evaluated, best_alone).std() / np.sqrt(len(off))) if best_alone else None,
        "failed": dict(evaluated.failed),
        "rows": {"learned": len(evaluated.prepared.learned), "test": len(test)},
    }


def _off(evaluated: Evaluated, name: str) -> Array:
    """Relative errors of a candidate on test rows."""
    return np.asarray(np.abs(evaluated.predicted_s[name]["test"] / evaluated.prepared.test.target - 1))
