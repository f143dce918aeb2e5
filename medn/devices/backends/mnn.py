"""MNN on the CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.text import last_line
from medn.devices.backend import FUSION_RULES, Backend, NodeGroups, Runner, Unsupported, backends
from medn.devices.native_output import captured_prints
from medn.devices.workload import Workload

Shape = tuple[int, ...]


class MnnRunner(Runner):
    """A module rather than a session: a session lends its inputs' memory to what it computes and so loses them."""

    def __init__(self, module: Any, inputs: Sequence[NDArray[Any]], output_shapes: list[Shape]) -> None:
        self._module = module
        self._inputs = [_variable(array) for array in inputs]
        self._output_shapes = output_shapes
        self._outputs: list[Any] = []

    def run(self) -> None:
        self._outputs = self._module.onForward(self._inputs)

    def outputs(self) -> list[NDArray[np.float32]]:
        import MNN

        plain = [MNN.expr.convert(output, MNN.expr.NCHW) for output in self._outputs]
        # MNN gives a row of values as an image one pixel wide, so the shape comes from the model it was given.
        return [
            np.array(output.read(), np.float32).reshape(shape)
            for output, shape in zip(plain, self._output_shapes, strict=True)
        ]

    def conversion_share(self) -> float:
        raise Unsupported("mnn does not tell how long it converts layouts, so no layer can be timed as inside a model")


@backends.register
class Mnn(Backend):
    name = "mnn"
    description = "MNN on the CPU"
    packages = ("MNN", "onnx", "torch")
    extra = "mnn"
    fusion_rules = FUSION_RULES / "mnn.json"

    def load(self, workload: Workload) -> Runner:
        content = workload.onnx_file()
        settings = {"backend": "CPU", "numThread": workload.condition.threads, "precision": "high"}
        with tempfile.TemporaryDirectory(prefix="medn-mnn-") as folder, captured_prints() as printed:
            import MNN

            converted = convert(content, Path(folder), printed)
            manager = MNN.nn.create_runtime_manager((settings,))
            inputs, outputs = _slots(content)
            # Not with shape_mutable=False: then a recurrent layer repeats its last step over the whole sequence.
            module = MNN.nn.load_module_from_file(str(converted), inputs, list(outputs), runtime_manager=manager)
            if module is None:
                raise Unsupported(f"mnn does not load it: {last_line(printed())}")
        return MnnRunner(module, workload.arrays, list(outputs.values()))

    def fused_groups(self, model: bytes) -> NodeGroups:
        from medn.devices.mnn_groups import read_fused

        return read_fused(model)


def _variable(array: NDArray[Any]) -> Any:
    import MNN

    shape = list(array.shape)
    if np.issubdtype(array.dtype, np.floating):
        return MNN.expr.const(array, shape, MNN.expr.NCHW)
    return MNN.expr.const(array.astype(np.int32), shape, MNN.expr.NCHW, MNN.expr.int)


def convert(content: bytes, folder: Path, printed: Callable[[], str], *options: str) -> Path:
    """The file in the folder that MNN makes of an ONNX model, in its own format."""
    source, target = folder / "layer.onnx", folder / "layer.mnn"
    source.write_bytes(content)
    arguments = ("--framework", "ONNX", "--modelFile", str(source), "--MNNModel", str(target), "--bizCode", "medn")
    call_converter(*arguments, *options)
    if not target.exists():
        raise Unsupported(f"mnn does not convert it: {last_line(printed())}")
    return target


def call_converter(*arguments: str) -> None:
    """Call the converter's own function: its command line takes seconds to start."""
    import _tools as converter  # type: ignore[import-not-found]  # MNN installs it under this bare name

    converter.mnnconvert(["mnnconvert", *arguments])


def _slots(content: bytes) -> tuple[list[str], dict[str, Shape]]:
    """The names of a model's inputs, and of its outputs with their shapes, in their order, which MNN itself forgets."""
    import onnx

    graph = onnx.load_model_from_string(content).graph
    shapes = {slot.name: tuple(size.dim_value for size in slot.type.tensor_type.shape.dim) for slot in graph.output}
    return [slot.name for slot in graph.input], shapes
