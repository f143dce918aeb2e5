"""A predictor of programs as the cost model of a MetaSchedule search.

    model = medn.programs.cost_model("runs/programs/programs.medn")
    tvm.s_tir.meta_schedule.tune_tir(module, target, work_dir, ..., cost_model=model)

It was taught before the search, so every trial is one that it holds for good from the first; and what is measured of a
task corrects what it says of others of that task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError, unknown
from medn.core.packages import need
from medn.core.table import Array
from medn.devices.backend import backends
from medn.devices.program_loops import stored_nests
from medn.devices.tensor_programs import EXTRA, features_of, store_positions, trace_of
from medn.programs.correction import TaskCorrection, whole_rows
from medn.programs.loops import Nest, nest_vectors
from medn.programs.predictor import ProgramPredictor
from medn.programs.programs import LEAF_SIZE, TensorProgram

FAILED_S = 1e9
"""What takes this long was not measured: TVM has no other way to say so."""
WORST = -1e3
"""The score of a candidate that cannot be lowered."""


def cost_model(bundle: str | Path | ProgramPredictor, device: str = "") -> Any:
    """A `PyCostModel` that ranks candidates by a predictor; without a device, as the target of the search tells."""
    need("a cost model", "tvm", extra=EXTRA)
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.cost_model import PyCostModel

    predictor = bundle if isinstance(bundle, ProgramPredictor) else ProgramPredictor.load(Path(bundle))
    if device and device not in predictor.devices:
        raise UsageError(unknown("device", device, predictor.devices))

    corrections: dict[int, TaskCorrection] = {}

    @derived_object
    class ProgramCostModel(PyCostModel):  # type: ignore[misc]
        def load(self, path: str) -> None:
            """It is whole already."""

        def save(self, path: str) -> None:
            """The bundle is its file."""

        def update(self, context: Any, candidates: Any, results: Any) -> None:
            """What was measured corrects what is said of the same task."""
            rows, scores, is_read = self._read(context, candidates)
            seconds = np.array([seconds_of(result) for result in results])
            if is_read.any():
                self._correction(context).learn(rows[is_read], scores[is_read], seconds[is_read])

        def predict(self, context: Any, candidates: Any) -> NDArray[np.float64]:
            rows, scores, is_read = self._read(context, candidates)
            return np.where(is_read, self._correction(context).corrected(rows, scores), WORST).astype(np.float64)

        def _read(self, context: Any, candidates: Any) -> tuple[Array, Array, NDArray[np.bool_]]:
            """Rows to compare, scores, and which candidates could be read at all."""
            schedules = [candidate.sch for candidate in candidates]
            name = device or device_of(context.target, predictor.devices)
            found = programs_of(context, schedules, name, predictor.encoding)
            is_read = np.array([predictor.encoding != "nests" or len(each.nests) > 0 for each in found], dtype=bool)
            if not found:
                return np.empty((0, 0)), np.empty(0), is_read
            return whole_rows(predictor.rows(found), predictor.encoding), predictor.rank_score(found), is_read

        def _correction(self, context: Any) -> TaskCorrection:
            return corrections.setdefault(task_key(context.mod), TaskCorrection())

    return ProgramCostModel()


def seconds_of(result: Any) -> float:
    """The mean of what a runner measured; NaN where a trial failed."""
    if result.error_msg is not None or not result.run_secs:
        return math.nan
    seconds = float(np.mean([float(each) for each in result.run_secs]))
    return seconds if seconds < FAILED_S else math.nan


def task_key(module: Any) -> int:
    from tvm_ffi import structural_hash

    return int(structural_hash(module))


def device_of(target: Any, devices: Sequence[str]) -> str:
    """The device whose programs are compiled for the same processor; none of the known ones for any other."""
    processor = str(target.attrs.get("mcpu", ""))
    return next((name for name in devices if _processor(name) == processor), "")


def _processor(device: str) -> str:
    return str(getattr(backends[device], "processor", "")) if device in backends else ""


def programs_of(context: Any, schedules: Sequence[Any], device: str, encoding: str) -> list[TensorProgram]:
    """Schedules of a search as programs, with as much of each as an encoding reads."""
    flops, moved_bytes = work_of(context.mod)
    blank = [np.zeros((0, LEAF_SIZE), dtype=np.float32)] * len(schedules)
    leaves = features_of(context, list(schedules)) if encoding in ("leaves", "pooled") else blank
    return [
        TensorProgram(
            "search",
            device,
            flops,
            moved_bytes,
            trace_of(schedule) if encoding == "steps" else [],
            np.array(store_positions(schedule.mod["main"].body) if len(own) else [], dtype=np.int64),
            own.astype(np.float32),
            nest_vectors(_nests(schedule.mod) if encoding == "nests" else []),
        )
        for schedule, own in zip(schedules, leaves, strict=True)
    ]


def _nests(module: Any) -> list[Nest]:
    """None of what TVM cannot lower: evolution makes such candidates, and they cannot be built either."""
    try:
        return [Nest.from_record(nest) for nest in stored_nests(module)]
    except Exception:  # TVM raises errors of many classes here, none of them its own
        return []


def work_of(module: Any) -> tuple[float, float]:
    """Floating-point operations, and bytes of all arguments, of the one function of a module."""
    from tvm.s_tir.analysis import estimate_tir_flops
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    arguments = ArgInfo.from_prim_func(module["main"])
    return float(estimate_tir_flops(module)), float(sum(4 * prod(map(int, each.shape)) for each in arguments))
