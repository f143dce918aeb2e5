"""A real MetaSchedule search of one task, with any cost model: what the best program takes after each trial.

TVM's evolutionary strategy proposes, this builds and times by processor time on one thread, as sweeps do, and tells the
results to the strategy, its database and the cost model. Everything runs in this process.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from medn.devices.tensor_programs import ProgramTask, design_space, without_intrinsics

POPULATION = 128
PER_ITERATION = 16
SAMPLES = 5
LONG_S = 0.02
FAILED_S = 1e10


def search(task: ProgramTask, cost_model: Any, trials: int, seed: int = 0) -> list[float]:
    """Seconds of the best program so far, one for each trial; `cost_model` is TVM's name of one, or an object."""
    from tvm.s_tir import meta_schedule as ms

    strategy = ms.search_strategy.EvolutionarySearch(
        population_size=POPULATION, init_min_unmeasured=POPULATION // 2, genetic_num_iters=3
    )
    model = ms.cost_model.CostModel.create(cost_model) if isinstance(cost_model, str) else cost_model
    database = ms.database.MemoryDatabase()
    with without_intrinsics():
        context = ms.TuneContext(
            mod=task.module,
            target=task.target,
            space_generator=design_space(),
            search_strategy=strategy,
            rand_state=seed + 1,
            num_threads=1,
        )
    context.pre_tuning(trials, PER_ITERATION, context.generate_design_space(), database, model)
    arguments, best, least = _arguments(task), list[float](), math.inf
    workload = database.commit_workload(task.module)
    while len(best) < trials and (candidates := context.generate_measure_candidates()):
        times = [_time(candidate.sch.mod, task, arguments) for candidate in candidates]
        results = [ms.runner.RunnerResult([seconds], None) for seconds in times]
        for candidate, seconds in zip(candidates, times, strict=True):
            least = min(least, seconds)
            best.append(least)
            database.commit_tuning_record(
                ms.database.TuningRecord(candidate.sch.trace, workload, [seconds], task.target, candidate.args_info)
            )
        context.notify_runner_results(candidates, results)
        model.update(context, candidates, results)
    context.post_tuning()
    return best[:trials]


def _arguments(task: ProgramTask) -> list[Any]:
    import tvm
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo

    random = np.random.default_rng(0)
    shapes = [tuple(map(int, each.shape)) for each in ArgInfo.from_prim_func(task.module["main"])]
    return [tvm.runtime.tensor(random.standard_normal(shape).astype(np.float32)) for shape in shapes]


def _time(module: Any, task: ProgramTask, arguments: list[Any]) -> float:
    """The least processor time of a run."""
    import tvm

    try:
        function = tvm.compile(module, target=task.target)["main"]
        function(*arguments)
    except Exception:  # TVM raises errors of many classes here; the search goes on
        return FAILED_S
    times = []
    for _ in range(SAMPLES):
        began = time.thread_time()
        function(*arguments)
        times.append(time.thread_time() - began)
        if times[-1] > LONG_S:
            break
    return min(times)
