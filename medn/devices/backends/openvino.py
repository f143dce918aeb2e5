"""OpenVINO on the CPU."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.devices.backend import Backend, Runner, Unsupported, backends
from medn.devices.workload import Workload


class OpenVinoRunner(Runner):
    """One infer request, with the inputs set once."""

    def __init__(self, compiled: Any, inputs: list[NDArray[Any]]) -> None:
        import openvino

        self._request = compiled.create_infer_request()
        self._output_count = len(compiled.outputs)
        for index, array in enumerate(inputs):
            self._request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))

    def run(self) -> None:
        self._request.infer(share_inputs=True, share_outputs=True)

    def outputs(self) -> list[NDArray[np.float32]]:
        arrays = [self._request.get_output_tensor(index).data for index in range(self._output_count)]
        return [array.astype(np.float32) for array in arrays]


@lru_cache(maxsize=1)
def _core() -> Any:
    # Importing openvino sends a report to its maker from a process of its own, unless its telemetry is not installed.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino.Core()


@backends.register
class OpenVino(Backend):
    name = "openvino"
    description = "OpenVINO on the CPU"
    packages = ("openvino", "torch")
    extra = "openvino"

    def load(self, workload: Workload) -> Runner:
        settings = {
            "INFERENCE_NUM_THREADS": workload.condition.threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
            # A pinned thread cannot move away from the load that holds a utilisation, as other backends' can.
            "ENABLE_CPU_PINNING": False,
        }
        content = workload.onnx_file()
        try:
            model = _core().read_model(content)
            compiled = _core().compile_model(model, "CPU", settings)
        except RuntimeError as error:
            raise Unsupported(f"openvino does not load it: {str(error).strip().splitlines()[-1]}") from error
        return OpenVinoRunner(compiled, [tensor.numpy() for tensor in workload.inputs])
