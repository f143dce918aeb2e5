"""medn where time counts: what was trained as in `medn_verbs`, chosen again with a limit on the time of one row."""

from __future__ import annotations

from pathlib import Path

from experiments.peers.medn_verbs import RUN, chosen, copied
from experiments.peers.model import Model, Rows

LIMITS = ("--max-us", "10")
TITLE = f"medn, {' '.join(LIMITS)}"
REQUIREMENTS = ()


def load_libraries() -> None:
    """Each verb is a process of its own and imports what it needs within its time."""


def fit(rows: Rows, seconds: float, seed: int, folder: Path) -> Model:
    run = copied(folder.parent / "medn_verbs-raw" / RUN, folder / RUN)
    return chosen(rows, run, f"the same run, medn select {' '.join(LIMITS)}", *LIMITS)
