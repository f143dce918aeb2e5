"""The fuzzers find nothing in what they try first, and they notice what they are there for."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from experiments.fuzz import harness
from experiments.fuzz.bundles import main as fuzz_bundles
from experiments.fuzz.harness import isolated


def test_forged_bundles_are_refused_or_predict(bundle_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz_bundles([str(bundle_path), "--count", "60", "--seed", "3"]) == 0, capsys.readouterr().err


def test_what_raises_crashes_or_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "STUCK_S", 1)

    def once(data: bytes) -> None:
        number = data[0] % 4
        if number == 1:
            raise ValueError("raised")
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 3:
            while True:
                signal.pause()

    monkeypatch.setattr(harness, "_input", lambda seed, number: bytes([number]))
    found = isolated(once, 4, seed=0)
    assert [number for number, _ in found] == [1, 2, 3]
    assert "raised" in found[0][1]
    assert "-9" in found[1][1]
