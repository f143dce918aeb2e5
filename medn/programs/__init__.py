"""Tensor programs: the latency of one layer under one schedule, and what it tells a search.

read_programs    the measured programs of a run
train_programs   every family, fitted and judged alike; chosen_candidate picks one within a budget
ProgramPredictor what ships: loaded without TVM, asked for programs
cost_model       a predictor as the cost model of a MetaSchedule search
tuned            how fast the layers of a model could be
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.core.lazy import lazy_names

if TYPE_CHECKING:
    from medn.programs.learn import chosen_candidate as chosen_candidate
    from medn.programs.learn import train_programs as train_programs
    from medn.programs.predictor import ProgramPredictor as ProgramPredictor
    from medn.programs.programs import MeasuredPrograms as MeasuredPrograms
    from medn.programs.programs import TensorProgram as TensorProgram
    from medn.programs.programs import read_programs as read_programs
    from medn.programs.search_model import cost_model as cost_model
    from medn.programs.tuning import tuned as tuned

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "medn.programs.search_model": ("cost_model",),
        "medn.programs.learn": ("chosen_candidate", "train_programs"),
        "medn.programs.predictor": ("ProgramPredictor",),
        "medn.programs.programs": ("MeasuredPrograms", "TensorProgram", "read_programs"),
        "medn.programs.tuning": ("tuned",),
    },
)
