"""What a user's `medn train` and `medn adapt` would learn given enough time, family by family in this process.

How long a fit takes depends on who else uses the machine; here every family is fitted once, with the settings it starts
from, however long that takes, so that results can be made again anywhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from medn.core.errors import MednError
from medn.core.splits import Split
from medn.deployed.candidate import Candidate
from medn.runs.tables import read_source
from medn.sources.learned_together import network_path
from medn.sources.run_sources import FOLDER as SOURCES
from medn.sources.run_sources import KnownDevices, keep_sources
from medn.training.candidate_store import candidates_root
from medn.training.config import FamilySettings
from medn.training.extrapolation import made_ready
from medn.training.halving import standing
from medn.training.job import Job, Round
from medn.training.job_under_way import run_job
from medn.training.prepared import prepare, write_tables
from medn.transfer.sheet_source import sheet_source

LONG_S = 600.0


def learn_all(
    run: Path, families: Sequence[str], seed: int = 0, settings: FamilySettings | None = None
) -> list[Candidate]:
    """Every family once for every device and kind of a run, into the candidates of the run; what is there is kept."""
    source, split = read_source(run), Split()
    tables, refused = prepare(source, sorted(source.rows), split, seed, False, known=KnownDevices.of_run(run))
    if refused:
        raise MednError("; ".join(f"{each.kind} on {each.device}: {each.reason}" for each in refused))
    write_tables(run, source, split, tables)
    made: list[Candidate] = []
    for device, kinds in tables.items():
        for kind, table in kinds.items():
            ready = made_ready(table, seed)
            for family in families:
                root = candidates_root(run, split)
                fixed = (settings or {}).get(family, {})
                job = Job(root, device, family, {kind: ready}, str(split), seed, LONG_S, LONG_S, fixed, Round.WHOLE)
                made += standing(job, Round.WHOLE) or run_job(job)
    return made


def learn_leaning(run: Path, sources: Path, network: Path | None, families: Sequence[str], seed: int = 0) -> None:
    """The same for the run of a new device that leans on a bundle of known ones and on what its data sheet says.

    `network` has learned the rows of the known devices together.
    """
    source = read_source(run)
    keep_sources(run, [sources, *sheet_source(run, source, [sources])])
    if network:
        (kind,) = source.rows
        copy = network_path(run / SOURCES, kind)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(network, copy)
    learn_all(run, families, seed)
