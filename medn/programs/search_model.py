"""A predictor of programs as the cost model of a MetaSchedule search.

    model = medn.programs.cost_model("runs/programs/programs.medn")
    tvm.s_tir.meta_schedule.tune_tir(module, target, work_dir, ..., cost_model=model)

It was taught before the search and learns nothing from it, so every trial is one that it holds for good from the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.errors import UsageError, unknown
from medn.core.packages import need
from medn.devices.backend import backends
from medn.devices.tensor_programs import EXTRA, features_of, store_positions, trace_of
from medn.programs.predictor import ProgramPredictor
from medn.programs.programs import LEAF_SIZE, TensorProgram


def cost_model(bundle: str | Path | ProgramPredictor, device: str = "") -> Any:
    """A `PyCostModel` that ranks candidates by a predictor; without a device, as the target of the search tells."""
    need("a cost model", "tvm", extra=EXTRA)
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.cost_model import PyCostModel

    predictor = bundle if isinstance(bundle, ProgramPredictor) else ProgramPredictor.load(Path(bundle))
    if device and device not in predictor.devices:
        raise UsageError(unknown("device", device, predictor.devices))

    @derived_object
    class ProgramCostModel(PyCostModel):  # type: ignore[misc]
        def load(self, path: str) -> None:
            """It is whole already."""

        def save(self, path: str) -> None:
            """The bundle is its file."""

        def update(self, context: Any, candidates: Any, results: Any) -> None:
            """What was measured does not change it."""

        def predict(self, context: Any, candidates: Any) -> NDArray[np.float64]:
            schedules = [candidate.sch for candidate in candidates]
            name = device or device_of(context.target, predictor.devices)
            found = programs_of(context, schedules, name, predictor.encoding)
            return np.asarray(predictor.rank_score(found), dtype=np.float64)

    return ProgramCostModel()


def device_of(target: Any, devices: Sequence[str]) -> str:
    """The device whose programs are compiled for the same processor; none of the known ones for any other."""
    processor = str(target.attrs.get("mcpu", ""))
    return next((name for name in devices if _processor(name) == processor), "")


def _processor(device: str) -> str:
    return str(getattr(backends[device], "processor", "")) if device in backends else ""


def programs_of(context: Any, schedules: Sequence[Any], device: str, encoding: str) -> list[TensorProgram]:
    """Schedules of a search as programs, with as much of each as an encoding reads."""
    flops, moved_bytes = work_of(context.mod)
    lowered = encoding != "steps"
    leaves = features_of(context, list(schedules)) if lowered else [np.zeros((0, LEAF_SIZE))] * len(schedules)
    return [
        TensorProgram(
            "search",
            device,
            flops,
            moved_bytes,
            [] if lowered else trace_of(schedule),
            np.array(store_positions(schedule.mod["main"].body) if lowered else [], dtype=np.int64),
            own.astype(np.float32),
        )
        for schedule, own in zip(schedules, leaves, strict=True)
    ]


def work_of(module: Any) -> tuple[float, float]:
    """Floating-point operations, and bytes of all arguments, of the one function of a module."""
    from tvm.s_tir.analysis import estimate_tir_flops
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    arguments = ArgInfo.from_prim_func(module["main"])
    return float(estimate_tir_flops(module)), float(sum(4 * prod(map(int, each.shape)) for each in arguments))
