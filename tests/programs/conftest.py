"""The programs of the small sweep, and how its layers are split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medn.core.store import Store
from medn.programs.learn import ProgramSplit, split_programs
from medn.programs.programs import MeasuredPrograms, read_programs


@pytest.fixture(scope="session")
def programs(program_run: Path) -> MeasuredPrograms:
    with Store(program_run / "measurements.sqlite", must_exist=True) as store:
        return read_programs(store)


@pytest.fixture(scope="session")
def devices(programs: MeasuredPrograms) -> tuple[str, ...]:
    return tuple(map(str, np.unique(programs.devices)))


@pytest.fixture(scope="session")
def split(programs: MeasuredPrograms) -> ProgramSplit:
    return split_programs(programs)
