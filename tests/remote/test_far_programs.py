"""Tensor programs at the other end of a pipe: compiled, timed and kept there as here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from medn.devices.backend import backends
from medn.layer_generators.sweep import parse_sweep
from medn.measuring.sweep import run_sweep
from medn.programs.programs import read_programs
from medn.runs.folder import RunFolder

DEVICE = "tvm-x86-64"
pytestmark = pytest.mark.skipif(backends[DEVICE].missing() is not None, reason=backends[DEVICE].missing() or "")

SWEEP = f"""
name: far-programs
devices: [{{name: board, backend: {DEVICE}, over: "env A=1", python: {sys.executable}}}]
sampler: grid
layers: {{linear: {{in_features: 8, out_features: [4, 8], rows: 2, bias: true}}}}
programs: {{schedules: 2}}
measure: {{visits: 1, max_visits: 1, visit_time: 0.001, timeout: 120}}
"""


def test_programs_of_a_device_elsewhere_are_kept_with_their_loops(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert run_sweep(parse_sweep(SWEEP), folder).finished
    with folder.store() as store:
        assert [each.status for each in store.measurements()] == ["ok"] * 4
        programs = read_programs(store)
    assert {*programs.devices} == {"board"}
    assert all(len(program.nests) for program in programs.programs)
