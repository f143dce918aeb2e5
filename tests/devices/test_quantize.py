"""Layers in int8 on OpenVINO: nearly right, quantised once, and refused in words where they cannot be."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from medn.core.values import Condition
from medn.devices.backend import Runner, Unsupported, backends
from medn.devices.workload import Workload, make_workload, output_error
from medn.layer_generators.kind import layer_kinds

# Not imported to find out: importing openvino first and without its backend would send a report to its maker.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("openvino") is None, reason="openvino is not installed")
needs_nncf = pytest.mark.skipif(importlib.util.find_spec("nncf") is None, reason="nncf is not installed")

NEARLY = 0.02
"""Relative to the largest output, of numbers with 7 bits."""


def workload(cache: Path | None = None, dtype: str = "int8") -> Workload:
    layer = layer_kinds["linear"].layer(in_features=64, out_features=32)
    return make_workload(layer, Condition(batch_size=2, dtype=dtype), cache)


def ran(given: Workload) -> Runner:
    runner = backends["openvino"].prepare(given)
    runner.run()
    return runner


@needs_nncf
def test_a_layer_in_int8_computes_nearly_what_torch_does() -> None:
    given = workload()
    assert 0 < output_error(ran(given).outputs(), given.expected()) < NEARLY


@needs_nncf
def test_a_layer_is_quantised_once_and_exported_once(tmp_path: Path) -> None:
    ran(workload(tmp_path, "fp32"))
    (exported,) = tmp_path.iterdir()
    first = ran(workload(tmp_path)).outputs()
    (kept,) = set(tmp_path.iterdir()) - {exported}
    written = kept.stat().st_mtime_ns
    again = ran(workload(tmp_path)).outputs()
    assert output_error(again, first) == 0
    assert kept.stat().st_mtime_ns == written


@needs_nncf
def test_a_layer_without_anything_to_quantise_is_unsupported() -> None:
    layer = layer_kinds["activation"].layer(function="relu", elements=64)
    with pytest.raises(Unsupported, match="nncf finds nothing to quantise in it"):
        ran(make_workload(layer, Condition(dtype="int8")))


def test_without_nncf_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nncf", None)
    with pytest.raises(Unsupported, match=r"int8 needs nncf: pip install 'medn\[quantize\]'"):
        ran(workload())
