"""`medn programs`: learn from the tensor programs of a run, and write the predictor that leads searches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from medn.cli.output import AsJson, say, write_json, write_rows
from medn.cli.select import MaxKbOption, ModeOption, RowsOption
from medn.cli.summary import RunArgument
from medn.cli.sweep import seconds_option
from medn.cli.train import names_option, need_libraries
from medn.core.units import format_bytes, percent

USUAL_S = 120.0
FILE = "programs.medn"


def programs(
    run: RunArgument,
    time: Annotated[
        float | None, typer.Option("--time", metavar="TIME", parser=seconds_option, help="How long to learn: 90s, 10m.")
    ] = None,
    families: Annotated[str, typer.Option("--families", metavar="A,B", help="Only these families.")] = "",
    mode: ModeOption = "accuracy",
    max_us: Annotated[float | None, typer.Option("--max-us", help="Microseconds a program.")] = None,
    max_kb: MaxKbOption = None,
    rows: RowsOption = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed splits and learns alike.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="RUN/programs.medn if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Learn the latency of tensor programs, and write what keeps a budget.

    The run was swept with `programs: {schedules: 40}`. Whole layers are held back: some to choose by, some to tell the
    errors of. top_1 and top_5 say how near the best of the 1 or 5 programs predicted fastest come to the best of all.

    \b
    Examples:
      medn programs runs/programs
      medn programs runs/programs --time 5m --max-us 50 --rows 100
    """
    need_libraries()
    from medn.programs import chosen_candidate, read_programs, train_programs
    from medn.runs.folder import RunFolder
    from medn.selection.budget import Budget

    budget = Budget(mode, rows, max_us, max_kb)
    with RunFolder(run).store(must_exist=True) as store:
        measured = read_programs(store)
    names = names_option(families, "--families")
    candidates = train_programs(measured, families=names, seconds=time or USUAL_S, seed=seed, tell=say)
    chosen = chosen_candidate(candidates, budget)
    file = out or run / FILE
    about = {"budget": budget.as_json(), "seed": seed, "noise": measured.noise, "programs": len(measured)}
    predictor = chosen.predictor
    predictor.about.update(about, test=chosen.test.as_json(), validation=chosen.validation.as_json())
    predictor.save(file)
    shown = [{**each.row(), "chosen": each is chosen} for each in candidates]
    if as_json:
        write_json({"programs": len(measured), "noise": measured.noise, "candidates": shown, "bundle": str(file)})
        return
    write_rows([_shown(row) for row in shown], as_json)
    noise = "unknown: no program was visited twice" if measured.noise is None else percent(measured.noise)
    say(f"{len(measured)} programs, noise {noise}; errors on layers that nothing learned from")
    say(f"{predictor.family} is {file}, {format_bytes(file.stat().st_size)}")


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """The row as people read it."""
    return {
        "family": ("* " if row["chosen"] else "") + row["family"],
        "MAPE": percent(row["mape"]),
        "median": percent(row["median"]),
        **{name: f"{row[name]:.3f}" for name in ("top_1", "top_5", "pairs")},
        "us of 1": f"{row['us_1']:.0f}",
        "us of 100": f"{row['us_100']:.1f}",
        "kB": f"{row['kB']:.0f}",
        "fit s": f"{row['fit_s']:.0f}",
    }
