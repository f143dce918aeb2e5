"""A job on its way to another machine and back: plain data, and nothing of the run folder but the files it needs.

There go the job and the files that tell how far its family has come: candidates and the journal of its study. The
worker lays them out in a folder of its own, fits in a child process as on this machine, and gives back the files that
came of it. Whoever asked writes them into the run.
"""

from __future__ import annotations

import os
import pickle
import platform
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import medn
from medn.core.atomic import atomic_write
from medn.core.errors import MednError, StoreError
from medn.core.plugins import PLUGINS
from medn.deployed.candidate import Candidate
from medn.training.candidate_store import ARRAYS_FILE, FACTS_FILE, candidate_folder, load_candidate, update_facts
from medn.training.fit_processes import ONE_THREAD, Fitters, Timetable
from medn.training.job import Job
from medn.training.scoring import row_us

Files = Mapping[str, bytes]
"""The content of files by their paths below the folder of candidates, with / between the parts."""

JOURNAL_SUFFIX = ".journal"


@dataclass(frozen=True)
class PackedJob:
    """What travels to a worker."""

    version: str
    """Of medn and of Python."""
    plugins: str
    job: bytes
    files: Files


@dataclass(frozen=True)
class PackedResult:
    """What comes back."""

    files: Files
    loading_s: float = 0.0
    """What the worker took to load libraries, which is not fitting."""
    worked_s: float = 0.0
    """What it took in all; the rest of the wait was for a worker, or for one that died."""
    problem: str = ""
    """Why nothing could be fitted there, whatever the job: this ends the training."""


def version_here() -> str:
    return f"medn {medn.__version__} on Python {'.'.join(platform.python_version_tuple()[:2])}"


def pack(job: Job) -> PackedJob:
    """The job as it is sent: its tables are arrays, and its folder is up to the worker."""
    files = {name: (job.root / name).read_bytes() for name in _files_of(job)}
    return PackedJob(version_here(), os.environ.get(PLUGINS, ""), pickle.dumps(replace(job, root=Path())), files)


def fit_packed(packed: PackedJob) -> PackedResult:
    """Runs on the worker: fit in a child process, which ends with this one however that ends."""
    if packed.version != version_here():  # which may read and fit otherwise
        told = f"a worker has {version_here()}, here is {packed.version}: install the same on all machines"
        return PackedResult({}, problem=told)
    try:
        return _fitted(packed)
    except MednError as error:  # such as a disk that is full
        return PackedResult({}, problem=f"a worker on {platform.node()} cannot fit: {error}")


def _fitted(packed: PackedJob) -> PackedResult:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="medn-fit-") as folder:
        job: Job = replace(pickle.loads(packed.job), root=Path(folder))
        _write(job.root, packed.files)
        fitters = _own_fitters(packed.plugins)
        loaded_before = fitters.loading_s
        for _ in fitters.run(Timetable([job], 1, job.seconds, job.seconds)):
            pass
        files = {name: (job.root / name).read_bytes() for name in _files_of(job)}
        return PackedResult(files, fitters.loading_s - loaded_before, time.monotonic() - began)


def unpack(job: Job, result: PackedResult) -> list[Candidate]:
    """Write what a worker has made into the run, and give its candidates without their forms."""
    if result.problem:
        raise MednError(result.problem)
    allowed = {folder.relative_to(job.root).as_posix() for folder in _folders(job)}
    strange = [name for name in result.files if PurePosixPath(name).parent.as_posix() not in allowed]
    if strange:
        raise StoreError(f"a worker gave back {strange[0]}, which is no file of {job.regressor}")
    _write(job.root, result.files)
    return [_timed_here(job, kind) for kind in job.tables]


def _timed_here(job: Job, kind: str) -> Candidate:
    """The candidate of a kind without its form. What a prediction takes is told by this machine for all of them."""
    folder = candidate_folder(job.root, job.device, kind, job.regressor)
    candidate = load_candidate(folder)
    if candidate.deployed is not None:
        candidate = replace(candidate, row_us=row_us(candidate.deployed.form, job.tables[kind]))
        update_facts(folder, {"row_us": candidate.row_us})
    return candidate.without_form()


def _folders(job: Job) -> list[Path]:
    """Where the candidates of a job and its journal lie."""
    own = [candidate_folder(job.root, job.device, kind, job.regressor) for kind in job.tables]
    return list(dict.fromkeys((*own, job.journal.parent)))


def _files_of(job: Job) -> Iterator[str]:
    for folder in _folders(job):
        for path in sorted(folder.glob("*")):
            if path.name in (FACTS_FILE, ARRAYS_FILE) or path.suffix == JOURNAL_SUFFIX:
                yield path.relative_to(job.root).as_posix()


def _write(root: Path, files: Files) -> None:
    """Facts come last: they name the arrays by their hash, so that a kill leaves no half of a candidate."""
    for name in sorted(files, key=lambda name: name.endswith(FACTS_FILE)):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, files[name])


_of_thread = threading.local()
"""A worker's threads keep their child processes, which keep the libraries that they have loaded."""


def _own_fitters(plugins: str) -> Fitters:
    if getattr(_of_thread, "plugins", None) != plugins:
        _of_thread.fitters = Fitters(1, environment={**ONE_THREAD, PLUGINS: plugins})
        _of_thread.plugins = plugins
    found: Fitters = _of_thread.fitters
    return found
