"""How well tensor programs are predicted across networks and devices, what each part is worth, and what a search gains.

    python -m experiments.tensor_programs --run runs/programs --out results
    python -m experiments.tensor_programs --run runs/programs --out results --parts search --trials 200

The run is that of `experiments.tensor_programs.tasks`. Errors are told on networks, or on tasks of the device, that
nothing was learned from and nothing was chosen by. Writes tensor_programs_PART.{md,json}.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.script import end_with, named
from experiments.tables import markdown_table, write_tables
from experiments.tensor_programs.search import search
from experiments.tensor_programs.splits import Part, device_from_few, networks_held_out
from experiments.tensor_programs.tasks import network_tasks
from medn.core.store import Store
from medn.devices.tensor_programs import task_of
from medn.programs import MeasuredPrograms, ProgramPredictor, cost_model, read_programs
from medn.programs.family import Lesson, program_families
from medn.programs.scores import ProgramScores, score_programs
from medn.regressors.regressor import Effort, Settings

Row = dict[str, Any]

FAMILIES = ("xgboost_pooled", "xgboost_nests", "nest_encoder", "nest_ensemble", "ast_encoder", "primitive_attention")
OF_DEVICES = ("xgboost_pooled", "xgboost_nests")
ABLATIONS: Mapping[str, tuple[str, Settings]] = {
    "nest_encoder": ("nest_encoder", {}),
    "without positions": ("nest_encoder", {"use_positions": False}),
    "without device branch": ("nest_encoder", {"use_device": False}),
    "without ranking term": ("nest_encoder", {"rank_weight": 0.0}),
    "without efficiency": ("nest_encoder", {"efficiency_weight": 0.0}),
    "with moment term": ("nest_encoder", {"moment_weight": 0.3}),
    "TVM's vectors in place of loops": ("ast_encoder", {}),
    "steps in place of stores": ("primitive_attention", {"rank_weight": 0.3, "blocks": 2}),
}
FIT_S = 90.0
SHARES = (0.07, 1.0)
SEARCHED = 6
FEW_TRIALS = 60


def learned(
    part: Part, family: str, settings: Settings, devices: tuple[str, ...], seed: int, fit_s: float = FIT_S
) -> ProgramPredictor:
    found = program_families[family]
    lesson = Lesson(part.train, part.validation, devices, part.test, settings)
    form = found.fit(lesson, Effort(fit_s, seed, clock=time.process_time))
    return ProgramPredictor(family, found.encoding, devices, form)


def scored(predictor: ProgramPredictor, test: MeasuredPrograms) -> ProgramScores:
    return score_programs(test, predictor.latency_s(test.programs), predictor.rank_score(test.programs))


def compared(
    ways: Mapping[str, tuple[str, Settings]],
    parts: Callable[[int], Part],
    devices: tuple[str, ...],
    seeds: int,
    fit_s: float = FIT_S,
) -> list[Row]:
    """Means over seeds, and the spread of the error between them."""
    rows = []
    for label, (family, settings) in ways.items():
        scores = []
        for seed in range(seeds):
            part = parts(seed)
            scores.append(scored(learned(part, family, settings, devices, seed, fit_s), part.test))
            print(f"{label}, seed {seed}: {100 * scores[-1].mape:.1f} %", flush=True)
        rows.append(_row(label, scores))
    return rows


def _row(label: str, scores: Sequence[ProgramScores]) -> Row:
    mape = [100 * each.mape for each in scores]
    return {
        "way": label,
        "MAPE %": round(float(np.mean(mape)), 1),
        "of seeds": f"{min(mape):.1f} to {max(mape):.1f}",
        "median %": round(100 * float(np.mean([each.median for each in scores])), 1),
        **{
            name: round(float(np.mean([getattr(each, name) for each in scores])), 3)
            for name in ("top_1", "top_5", "pairs")
        },
    }


def across_models(programs: MeasuredPrograms, options: argparse.Namespace) -> list[Row]:
    ways = {name: (name, {}) for name in named("family", options.families, program_families)}
    return compared(ways, _held(programs), _devices(programs), options.seeds, options.fit_s)


def ablations(programs: MeasuredPrograms, options: argparse.Namespace) -> list[Row]:
    return compared(ABLATIONS, _held(programs), _devices(programs), min(options.seeds, 3), options.fit_s)


def across_devices(programs: MeasuredPrograms, options: argparse.Namespace) -> list[Row]:
    devices, rows = _devices(programs), list[Row]()
    for target in devices:
        for share in SHARES:
            found = compared(
                {name: (name, {}) for name in OF_DEVICES},
                lambda seed, target=target, share=share: device_from_few(programs, target, share, seed),  # type: ignore[misc]
                devices,
                min(options.seeds, 2),
                options.fit_s,
            )
            rows += [{"target": target, "of its tasks": f"{share:.0%}", **row} for row in found]
    return rows


def speed(programs: MeasuredPrograms, options: argparse.Namespace) -> list[Row]:
    """A thousand programs at once on one thread, from their rows and from what was kept of them."""
    rows, devices = [], _devices(programs)
    asked = [programs.programs[at % len(programs)] for at in range(1000)]
    part = _held(programs)(0)
    brief = {"epochs": 2}
    settings: dict[str, Settings] = dict.fromkeys(FAMILIES, brief) | {
        "xgboost_pooled": {},
        "xgboost_nests": {},
        "nest_ensemble": {"nest_encoder": brief},
    }
    for family in named("family", options.families, program_families):
        predictor = learned(part, family, settings[family], devices, 0, options.fit_s)
        inputs = predictor.rows(asked)
        predictor.form.run(inputs)
        times = [_seconds(lambda p=predictor, i=inputs: p.form.run(i)) for _ in range(7)]  # type: ignore[misc]
        whole = [_seconds(lambda p=predictor: p.latency_s(asked)) for _ in range(3)]  # type: ignore[misc]
        rows.append(
            {"family": family, "programs/s": round(1000 / min(times)), "with reading": round(1000 / min(whole))}
        )
    return rows


def _seconds(call: Callable[[], object]) -> float:
    began = time.thread_time()
    call()
    return time.thread_time() - began


def searches(programs: MeasuredPrograms, options: argparse.Namespace) -> list[Row]:
    """Tasks of held-out networks, on the last device: trials until what MetaSchedule's own model reaches in the end."""
    os.environ["TVM_NUM_THREADS"] = "1"
    part, devices = _held(programs)(0), _devices(programs)
    predictor = learned(part, options.searched, {}, devices, 0, options.fit_s)
    held = {*part.test.tasks}
    layers = [layer for own in network_tasks().values() for layer in own if f"{layer.key}:1" in held]
    wanted = [layer for layer in layers if layer.kind in ("conv2d", "linear", "matmul")][: options.tasks]
    rows = []
    for layer in wanted:
        task = task_of(layer, 1, "haswell", 1)
        theirs = search(task, "xgb", options.trials)
        ours = search(task, cost_model(predictor, device=devices[-1]), options.trials)
        rows.append(
            {
                "layer": layer.kind,
                "xgb us": round(1e6 * theirs[-1], 1),
                "trials of xgb": _reached(theirs, theirs[-1]),
                "trials of ours": _reached(ours, theirs[-1]),
                f"ours after {FEW_TRIALS}, over xgb": round(ours[min(FEW_TRIALS, len(ours)) - 1] / theirs[-1], 3),
                "ours in the end": round(ours[-1] / theirs[-1], 3),
            }
        )
        print(rows[-1], flush=True)
    return rows


def _reached(best: Sequence[float], aim: float) -> int | str:
    """The first trial within two per cent of an aim, as near as two measurements are."""
    return next((at + 1 for at, seconds in enumerate(best) if seconds <= 1.02 * aim), "never")


def _held(programs: MeasuredPrograms) -> Callable[[int], Part]:
    network_of = {f"{layer.key}:1": name for name, layers in network_tasks().items() for layer in layers}
    return lambda seed: networks_held_out(programs, network_of, seed)


def _devices(programs: MeasuredPrograms) -> tuple[str, ...]:
    return tuple(map(str, np.unique(programs.devices)))


PARTS = {
    "models": across_models,
    "ablations": ablations,
    "devices": across_devices,
    "speed": speed,
    "search": searches,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--fit-s", type=float, default=FIT_S, help="processor time of one fit at most")
    parser.add_argument("--searched", default="xgboost_nests", help="the family that leads searches")
    parser.add_argument("--tasks", type=int, default=SEARCHED, help="that are searched")
    parser.add_argument("--trials", type=int, default=200, help="of each search")
    options = parser.parse_args(arguments)
    with Store(options.run / "measurements.sqlite", must_exist=True) as store:
        programs = read_programs(store)
    about = {
        "programs": f"{len(programs):,} of {len(np.unique(programs.tasks))} tasks on {', '.join(_devices(programs))}",
        "noise": "of two visits" if programs.noise is None else f"{100 * programs.noise:.1f} % between two visits",
        "errors": "on networks held out, or on tasks of the device that nothing was learned from",
    }
    for name in named("part", options.parts, PARTS):
        rows = PARTS[name](programs, options)
        write_tables(options.out, f"tensor_programs_{name}", rows, about)
        print(markdown_table(rows), flush=True)
    return 0


if __name__ == "__main__":
    end_with(main)
