"""ONNX Runtime on the CPU."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.text import first_line
from medn.devices.backend import FUSION_RULES, Backend, NodeGroups, Runner, Unsupported, backends
from medn.devices.take_samples import run_for_profile
from medn.devices.workload import Workload

CONVERSIONS = ("ReorderInput", "ReorderOutput")
"""Operators that ONNX Runtime adds where tensors enter or leave its blocked layout."""


class OnnxRuntimeRunner(Runner):
    """A session with inputs and outputs bound once, so that a run copies nothing and looks nothing up."""

    def __init__(self, open_session: Callable[[Path | None], Any], inputs: list[NDArray[Any]]) -> None:
        self._open_session = open_session
        self._inputs = inputs
        self._session = open_session(None)
        self._binding = self._bind(self._session)

    def _bind(self, session: Any) -> Any:
        import onnxruntime

        binding = session.io_binding()
        for slot, array in zip(session.get_inputs(), self._inputs, strict=True):
            binding.bind_ortvalue_input(slot.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for slot in session.get_outputs():
            binding.bind_output(slot.name)
        return binding

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[NDArray[np.float32]]:
        return [array.astype(np.float32) for array in self._binding.copy_outputs_to_cpu()]

    def conversion_share(self) -> float:
        with tempfile.TemporaryDirectory(prefix="medn-onnxruntime-") as folder:
            session = self._open_session(Path(folder))
            binding = self._bind(session)
            run_for_profile(partial(session.run_with_iobinding, binding))
            events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        times_us: dict[tuple[str, str], list[float]] = {}
        for event in events:
            if event["name"].endswith("kernel_time"):  # cut to whole microseconds
                times_us.setdefault((event["name"], event["args"]["op_name"]), []).append(event["dur"] + 0.5)
        # The first run, and any that is disturbed, takes far longer than the others.
        usual_us = [(operator, statistics.median(each)) for (_, operator), each in times_us.items()]
        converting_us = sum(each for operator, each in usual_us if operator in CONVERSIONS)
        return converting_us / max(sum(each for _, each in usual_us), 1.0)


@backends.register
class OnnxRuntime(Backend):
    name = "onnxruntime"
    description = "ONNX Runtime on the CPU"
    packages = ("onnxruntime", "torch")
    fusion_rules = FUSION_RULES / "onnxruntime.json"
    tells_conversions = True

    def load(self, workload: Workload) -> Runner:
        inputs = workload.arrays
        return OnnxRuntimeRunner(partial(_open, workload.onnx_file(), workload.condition.threads), inputs)

    def fused_groups(self, model: bytes) -> NodeGroups:
        from medn.devices.onnxruntime_groups import read_fused

        return read_fused(model)


def _open(content: bytes, threads: int, profile: Path | None) -> Any:
    """A session that uses so many threads, and writes into a folder what its operators take if it is given one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4
    # Threads that spin while they wait would take the utilisation that the load generator holds.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile / "profile")
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors share no base class of their own
        raise Unsupported(f"onnxruntime does not load it: {first_line(error)}") from error
