"""What the program that times blocks answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medn.blocks.worker import FEWEST_TURNS, BlockWorker
from medn.capture.captured_model import parse_captured
from medn.devices.backend import backends


@pytest.mark.parametrize("backend", ["torch", "onnxruntime"])
def test_blocks_are_timed_in_turns_each_as_often(backend: str, source: str, tmp_path: Path) -> None:
    worker = BlockWorker(backends[backend], 1, tmp_path / "onnx")
    worker.start({})
    answer = worker.prepare({"source": source, "batch_size": 4})
    assert [block["name"] for block in answer["blocks"]] == [f"network.{number}" for number in range(4)]
    assert answer["reasons"] == {}
    captured = parse_captured(answer["blocks"][0]["captured"].encode(), "the first")
    assert captured.batch_size == 4
    assert [each.layer.kind for each in captured.layers if each.layer] == [
        "linear",
        "activation",
        "linear",
        "elementwise",
    ]
    samples = np.array(worker.measure({"seconds": 0.0})["samples"], dtype=float)
    assert samples.shape == (4, 3, FEWEST_TURNS)
    assert (samples[:, 0] > 0).all()


def test_a_model_without_blocks_has_none(source: str) -> None:
    worker = BlockWorker(backends["torch"], 1, None)
    assert worker.prepare({"source": source.replace("make", "plain"), "batch_size": None})["blocks"] == []
