"""Devices that are reached through a pipe: an sshd of their own, one that is simulated, one without torch."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.loopback_ssh import LoopbackSsh, missing
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.runs.folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]

BARE = """
import sys
for name in ("torch", "pydantic", "psutil", "onnx", "yaml"):
    sys.modules[name] = None
# Nor medn itself, which would lend the agent what was forgotten to be copied.
sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in getattr(each, "__module__", "")]
"""


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackSsh]:
    if reason := missing():
        pytest.skip(reason)
    with LoopbackSsh(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has numpy and the backends' libraries, but neither torch nor what medn needs beside."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "sitecustomize.py").write_text(BARE)
    return f"env PYTHONPATH={folder} {sys.executable}"


def simulated(*options: str) -> str:
    """The `python` of a device that is not there."""
    script = ROOT / "experiments" / "simulated_agent.py"
    return shlex.join(["env", f"PYTHONPATH={ROOT}", sys.executable, str(script), *options])


def far_config(*devices: dict[str, Any] | str, **changes: Any) -> SweepConfig:
    written: dict[str, Any] = {
        "name": "far",
        "seed": 3,
        "devices": [
            each if isinstance(each, str) else {"name": "board", "backend": "torch", "over": "env", **each}
            for each in devices
        ],
        "budget": {"points": 6 * len(devices)},
        "layers": {"linear": {"in_features": [16, 32, 64], "out_features": [16, 32, 64], "rows": 1}},
        "conditions": {"batch_size": [1, 4]},
        "measure": {"visits": 3, "max_visits": 3, "visit_time": 0.01},
    }
    return parse_sweep(json.dumps({**written, **changes}))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """LaneLost devices are tried again at once."""
    monkeypatch.setattr("medn.measuring.side_by_side.FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("medn.measuring.side_by_side.LOOK_S", 0.02)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is copied to devices lies in one folder of these tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "device-cache"))
