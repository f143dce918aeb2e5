"""OpenVINO on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.text import last_line
from medn.devices.backend import FUSION_RULES, Backend, NodeGroups, Runner, Unsupported, backends
from medn.devices.quantize import Parts, quantized, quantizer, to_bytes, to_parts
from medn.devices.take_samples import run_for_profile
from medn.devices.workload import Workload

WARM_UP_RUNS = 3
CONVERSION = "Reorder"
"""The operator that OpenVINO adds where a tensor changes its layout."""


class OpenVinoRunner(Runner):
    """One infer request, with the inputs set once."""

    def __init__(self, compile_model: Callable[[bool], Any], inputs: list[NDArray[Any]]) -> None:
        self._compile_model = compile_model
        self._inputs = inputs
        compiled = compile_model(False)
        self._request = self._requested(compiled)
        self._output_count = len(compiled.outputs)

    def _requested(self, compiled: Any) -> Any:
        import openvino

        request = compiled.create_infer_request()
        for index, array in enumerate(self._inputs):
            request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))
        return request

    def run(self) -> None:
        self._request.infer(share_inputs=True, share_outputs=True)

    def conversion_share(self) -> float:
        request = self._requested(self._compile_model(True))

        def profile(runs: int) -> NDArray[np.float64]:
            """The seconds of all runs so far that convert, and all of them; the profile has their mean."""
            nodes = [(node.node_type, node.real_time.total_seconds()) for node in request.get_profiling_info()]
            return runs * np.array(
                [sum(each for name, each in nodes if name == CONVERSION), sum(each for _, each in nodes)]
            )

        def run() -> None:
            request.infer(share_inputs=True, share_outputs=True)

        for _ in range(WARM_UP_RUNS):  # the first takes far longer than the others
            run()
        before = profile(WARM_UP_RUNS)
        converting_s, all_s = profile(WARM_UP_RUNS + run_for_profile(run)) - before
        return float(np.clip(converting_s / max(all_s, 1e-6), 0, 1))

    def outputs(self) -> list[NDArray[np.float32]]:
        arrays = [self._request.get_output_tensor(index).data for index in range(self._output_count)]
        return [array.astype(np.float32) for array in arrays]


@lru_cache(maxsize=1)
def core() -> Any:
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
    dtypes = ("fp32", "int8")
    fusion_rules = FUSION_RULES / "openvino.json"
    tells_conversions = True

    def load(self, workload: Workload) -> Runner:
        inputs = workload.arrays
        return OpenVinoRunner(partial(compiled_model, _parts(workload, inputs), workload.condition.threads), inputs)

    def fused_groups(self, model: bytes) -> NodeGroups:
        from medn.devices.openvino_groups import read_fused

        return read_fused(model)


def _parts(workload: Workload, inputs: list[NDArray[Any]]) -> Parts:
    def quantize() -> bytes:
        # One example is enough: the numbers of all are drawn from the same range.
        return to_bytes(quantized(core().read_model(workload.onnx_file()), [inputs]))

    if workload.condition.dtype == "int8":
        return to_parts(workload.kept(f"int8-{quantizer()}", quantize))
    return (workload.onnx_file(),)


def compiled_model(parts: Parts, threads: int, profiled: bool) -> Any:
    """The model ready to run on so many threads, and to tell what its operators take if it is profiled."""
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "f32",
        # A pinned thread cannot move away from the load that holds a utilisation, as other backends' can.
        "ENABLE_CPU_PINNING": False,
        "PERF_COUNT": profiled,
    }
    try:
        return core().compile_model(core().read_model(*parts), "CPU", settings)
    except RuntimeError as error:
        raise Unsupported(f"openvino does not load it: {last_line(error)}") from error
