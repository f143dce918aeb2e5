"""A small real sweep: 144 programs of six layers on three instruction-set levels, two visits each."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from medn.core.store import Store
from medn.programs.learn import ProgramSplit, split_programs
from medn.programs.programs import MeasuredPrograms, read_programs

SAMPLE = Path(__file__).parent / "sample.sqlite.xz"


@pytest.fixture(scope="session")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("programs")
    (run / "measurements.sqlite").write_bytes(lzma.decompress(SAMPLE.read_bytes()))
    return run


@pytest.fixture(scope="session")
def programs(sample_run: Path) -> MeasuredPrograms:
    with Store(sample_run / "measurements.sqlite", must_exist=True) as store:
        return read_programs(store)


@pytest.fixture(scope="session")
def devices(programs: MeasuredPrograms) -> tuple[str, ...]:
    return tuple(map(str, np.unique(programs.devices)))


@pytest.fixture(scope="session")
def split(programs: MeasuredPrograms) -> ProgramSplit:
    return split_programs(programs)
