"""ONNX Runtime on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.devices.backend import Backend, Runner, Unsupported, backends
from medn.devices.workload import Workload


class OnnxRuntimeRunner(Runner):
    """A session with inputs and outputs bound once, so that a run copies nothing and looks nothing up."""

    def __init__(self, session: Any, inputs: list[NDArray[Any]]) -> None:
        import onnxruntime

        self._session = session
        self._binding = session.io_binding()
        for slot, array in zip(session.get_inputs(), inputs, strict=True):
            self._binding.bind_ortvalue_input(slot.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        for slot in session.get_outputs():
            self._binding.bind_output(slot.name)

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[NDArray[np.float32]]:
        return [array.astype(np.float32) for array in self._binding.copy_outputs_to_cpu()]


@backends.register
class OnnxRuntime(Backend):
    name = "onnxruntime"
    description = "ONNX Runtime on the CPU"
    packages = ("onnxruntime", "torch")

    def load(self, workload: Workload) -> Runner:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = workload.condition.threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.log_severity_level = 4
        # Threads that spin while they wait would take the utilisation that the load generator holds.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        content = workload.onnx_file()
        try:
            session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors share no base class of their own
            raise Unsupported(f"onnxruntime does not load it: {str(error).splitlines()[0]}") from error
        return OnnxRuntimeRunner(session, [tensor.numpy() for tensor in workload.inputs])
