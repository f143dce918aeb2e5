"""Post-training quantisation by NNCF: what OpenVINO reads, with weights and activations of 8 bits."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from medn.core.packages import missing
from medn.devices.backend import Unsupported
from medn.devices.native_output import captured_prints

Parts = tuple[bytes, ...]
"""A model as OpenVINO's `read_model` takes it: an ONNX file, or its own two, the graph and the weights."""

LENGTH_BYTES = 8


def quantized(model: Any, examples: Sequence[Sequence[NDArray[Any]]], ignored: Collection[str] = ()) -> Any:
    """An OpenVINO model in int8, calibrated with examples of its inputs; operators of the ignored names stay as is.

    Weights get 7 of the 8 bits: sums of larger ones overflow on processors without VNNI instructions.
    """
    with captured_prints():
        import nncf

        try:
            smaller = nncf.quantize(
                model,
                nncf.Dataset(list(examples)),
                subset_size=len(examples),
                ignored_scope=nncf.IgnoredScope(names=list(ignored)) if ignored else None,
                advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE),
            )
        except Exception as error:  # nncf fails with whatever error its innermost step raised
            raise Unsupported(f"nncf cannot quantise it: {type(error).__name__}: {error}") from error
    if not any(each.get_type_name() == "FakeQuantize" for each in smaller.get_ops()):
        raise Unsupported("nncf finds nothing to quantise in it")
    return smaller


def quantizer() -> str:
    """What decides how a model is quantised, as a part of a file's name; `Unsupported` where it is not installed."""
    if sentence := missing("int8", ["nncf"], "quantize"):
        raise Unsupported(sentence)
    return "-".join(importlib.metadata.version(name) for name in ("nncf", "openvino"))


def to_bytes(model: Any) -> bytes:
    """An OpenVINO model as one text of bytes."""
    import openvino

    with tempfile.TemporaryDirectory(prefix="medn-openvino-") as folder:
        file = Path(folder) / "model.xml"
        openvino.save_model(model, file, compress_to_fp16=False)
        graph, weights = file.read_bytes(), file.with_suffix(".bin").read_bytes()
    return len(graph).to_bytes(LENGTH_BYTES, "little") + graph + weights


def to_parts(content: bytes) -> Parts:
    """What `to_bytes` put into one.

    >>> to_parts((5).to_bytes(8, "little") + b"graphweights")
    (b'graph', b'weights')
    """
    end = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    return content[LENGTH_BYTES:end], content[end:]
