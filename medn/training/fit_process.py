"""A process that fits: one that crashes, hangs or runs out of memory fails alone, and the others go on.

`python -m medn.training.fit_process` is such a process. It keeps what it has imported for the fits that follow.
"""

from __future__ import annotations

import faulthandler
import importlib
import pickle
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from medn.core.child import Answer, serve
from medn.regressors.regressor import regressors
from medn.training.job import Job
from medn.training.train_regressor import Request, fit_request

PROGRAM = "medn.training.fit_process"


@dataclass(frozen=True)
class Load:
    """Import what a regressor needs, so that no fit's time goes into it."""

    regressor: str
    module: str


@dataclass(frozen=True)
class Loaded:
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Fit:
    """A request of a job, which comes as bytes that stay the same from fit to fit."""

    job: bytes
    request: Request
    latest_s: float
    """After how long nobody waits for an answer any more."""


def work(message: bytes, answer: Answer) -> None:
    """What the child does with a message."""
    asked = pickle.loads(message)
    if isinstance(asked, Load):
        answer(pickle.dumps(Loaded(_load(asked))))
        return
    # Whoever holds the interpreter does not notice that the parent is gone: this ends the process all the same.
    faulthandler.dump_traceback_later(asked.latest_s, exit=True)
    try:
        made = fit_request(_job(asked.job), asked.request)
    finally:
        faulthandler.cancel_dump_traceback_later()
    answer(pickle.dumps(made))


@lru_cache(maxsize=1)
def _job(packed: bytes) -> Job:
    """With what was worked out of its tables for the fit before."""
    found: Job = pickle.loads(packed)
    return found


def _load(asked: Load) -> str:
    """Why the regressor cannot be fitted here; nothing if it can."""
    if asked.module != "__main__":
        with suppress(Exception):  # then the registry does not know it, which is said below
            importlib.import_module(asked.module)
    if asked.regressor not in regressors:
        where = f"{asked.regressor} is registered in {asked.module}, which the processes that fit cannot import"
        return f"{where}: put it into a module that MEDN_PLUGINS names"
    regressor = regressors[asked.regressor]
    with suppress(Exception):  # the fit says what is wrong with its libraries, as the reason of its candidate
        regressor.prepare()
    return regressor.missing() or ""


if __name__ == "__main__":
    # Run as a script this module has another name than the one that its messages are known by.
    from medn.training import fit_process as fitting

    serve(fitting.work)
