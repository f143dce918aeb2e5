"""A device that whoever runs the tests names: a board, a container, a pod.

MEDN_TEST_OVER="podman exec -i box" pytest tests/remote/test_given_device.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from medn.measuring.sweep import run_sweep
from medn.runs.folder import RunFolder
from tests.remote.conftest import far_config

OVER = os.environ.get("MEDN_TEST_OVER", "")
pytestmark = pytest.mark.skipif(not OVER, reason="MEDN_TEST_OVER names no device")


def test_a_sweep_over_it_has_every_visit(tmp_path: Path) -> None:
    given = {"over": OVER, "backend": "onnxruntime", "python": os.environ.get("MEDN_TEST_PYTHON", "python3")}
    run = RunFolder(tmp_path / "run")
    outcome = run_sweep(far_config(given), run)
    assert outcome.finished
    with run.store() as store:
        found = list(store.measurements())
    assert [each.status for each in found] == ["ok"] * 6
    assert max(each.output_error or 0.0 for each in found) < 1e-4
