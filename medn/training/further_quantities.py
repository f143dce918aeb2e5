"""What else was measured of each layer (memory, energy, slow calls), learned from the same inputs by light families.

A candidate for a further quantity is like one for latency: its form gives the logarithm of bytes or joules, or of a
multiple of the latency, where the others give that of seconds. It lies in RUN/further/QUANTITY, in the same places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medn.core.quantities import Quantity, all_quantities
from medn.core.table import Array, Table
from medn.deployed.beyond import EDGE, HELD
from medn.deployed.candidate import Candidate, scores_of
from medn.regressors.regressor import regressors
from medn.training.candidate_store import load_candidates
from medn.training.job import Job
from medn.training.prepared import Prepared

FEWEST_ROWS = 8
"""With fewer measured rows in any part nothing can be learned, or nothing said about it."""

Further = Mapping[tuple[str, str], Mapping[str, Candidate]]
"""By device and kind, the candidate of each further quantity."""


def further_root(run: Path, quantity: str) -> Path:
    return run / "further" / quantity


def further_jobs(job: Job, run: Path) -> Iterator[Job]:
    """The same kinds for each further quantity that was measured."""
    for name, quantity in all_quantities().items():
        found = {kind: _measured(prepared, quantity) for kind, prepared in job.tables.items()}
        least = regressors[job.regressor].further_rows
        if least and not quantity.hard:
            continue
        tables = {kind: prepared for kind, prepared in found.items() if prepared and len(prepared.train) >= least}
        if tables:
            yield replace(job, root=further_root(run, name), tables=tables)


def _measured(prepared: Prepared, quantity: Quantity) -> Prepared | None:
    """The rows that have the quantity, with it in the place of the latency; None where there is nothing to learn."""
    if quantity.swept and quantity.swept not in prepared.train.schema.names:
        return None
    parts = (prepared.train, prepared.validation, prepared.calibration, prepared.test)
    train, validation, calibration, test = (_with_quantity(part, quantity) for part in parts)
    if min(map(len, (train, validation, calibration, test))) < FEWEST_ROWS:
        return None
    return replace(
        prepared,
        train=train,
        validation=validation,
        calibration=calibration,
        test=test,
        folds=prepared.folds[_rows_with(prepared.train, quantity)] if prepared.folds is not None else None,
        # A multiple of the latency does not grow with the work: the latency does. And how memory and energy grow with
        # it is not what the roofline of the latency says.
        way=EDGE if quantity.over_latency else HELD,
        roofline=None,
        shipped_roofline=None,
        fold_rooflines=(),
        smaller=None,
    )


def _rows_with(table: Table, quantity: Quantity) -> NDArray[np.int_]:
    """Nothing at all, such as memory below a page, has no relative error and is left out."""
    return np.flatnonzero(_values(table, quantity) > 0)


def _with_quantity(table: Table, quantity: Quantity) -> Table:
    rows = table.take(_rows_with(table, quantity))
    values = _values(rows, quantity)
    return replace(rows, target=values / rows.target if quantity.over_latency else values)


def _values(table: Table, quantity: Quantity) -> Array:
    return table.further.get(quantity.name, np.full(len(table), np.nan))


def load_further(run: Path) -> Further:
    """The candidate with the lowest validation error for each further quantity that was learned."""
    found: dict[tuple[str, str], dict[str, Candidate]] = {}
    for quantity in all_quantities():
        good = [candidate for candidate in load_candidates(further_root(run, quantity)) if candidate.is_good]
        for candidate in sorted(good, key=lambda each: scores_of(each).validation.mape):
            found.setdefault((candidate.device, candidate.kind), {}).setdefault(quantity, candidate)
    return found
