"""A model that onnxruntime runs on one thread, for many rows or, as quickly as it can, for one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.packages import is_installed
from medn.regressors.onnx_bytes import INPUT, OUTPUT

Run = Callable[[NDArray[Any]], float]


@cache
def has_onnxruntime() -> bool:
    return is_installed("onnxruntime")


class Session:
    """Safe to share between threads. The model has one input and one column of output."""

    def __init__(self, model: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._own = threading.local()

    def rows(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        results: list[NDArray[np.float32]] = self._session.run(None, {INPUT: values})
        return results[0][:, 0]

    def one(self, row: NDArray[Any]) -> float:
        try:
            run: Run = self._own.run
        except AttributeError:
            run = self._own.run = self._bound(len(row))
        return run(row)

    def _bound(self, width: int) -> Run:
        """Runs one row in arrays that are bound to the session once: a third of the time goes without them.

        The arrays belong to the thread that asks for them.
        """
        from onnxruntime import OrtValue

        given, result = np.zeros((1, width), dtype=np.float32), np.zeros((1, 1), dtype=np.float32)
        binding = self._session.io_binding()
        binding.bind_ortvalue_input(INPUT, OrtValue.ortvalue_from_numpy(given))
        binding.bind_ortvalue_output(OUTPUT, OrtValue.ortvalue_from_numpy(result))
        run = self._session.run_with_iobinding

        def one(row: NDArray[Any]) -> float:
            given[0] = row
            run(binding)
            return result.item()

        return one
