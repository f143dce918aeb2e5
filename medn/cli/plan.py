"""`medn plan`: the layers of a sweep as files, for devices that no Python reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medn.cli.output import AsJson, say, write_json, write_rows
from medn.cli.sweep import ConfigArgument, chosen_config
from medn.cli.sweep_for import BatchSizeOption, DeviceOption, ForOption, ThreadsOption

MOST_REASONS = 10
"""Reasons that are shown; JSON has them all."""


def plan(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder that gets layers, manifest, scripts.")],
    config: ConfigArgument = [],  # noqa: B006  # typer copies it
    models: ForOption = [],  # noqa: B006
    devices: DeviceOption = [],  # noqa: B006
    batch_size: BatchSizeOption = "",
    threads: ThreadsOption = None,
    points: Annotated[int | None, typer.Option(min=1, help="Points to plan, instead of budget.points.")] = None,
    name: Annotated[
        str, typer.Option("--as", metavar="NAME", help="What the device is called; as in the config if left out.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Write the layers of a sweep as ONNX files, for phones, NPUs and boards.

    DIR gets layers/*.onnx, each layer once; plan.json with the points, their conditions and the inputs of each file;
    and a script template for each of several benchmark tools (`medn list tools`). What they tell is read by
    `medn import --plan DIR`. The same command again goes on where the last one stopped.

    \b
    Examples:
      medn plan cpu-layers --as pixel --out phone
      medn plan --for timm:mobilenetv3_small_100 --device onnxruntime --as pixel --out phone
      medn import phone/results --plan phone --run runs/pixel
    """
    from medn.benchmark_tools.write_plan import write_plan
    from medn.cli.progress import FileProgress
    from medn.devices.workload import torch_dtype

    chosen, _ = chosen_config(config, models, devices, batch_size, threads, points, None)
    with FileProgress() as progress:
        outcome = write_plan(chosen, out, name, progress.on_file)
    made = outcome.plan
    left_out = [{"points": count, "left out because": reason} for reason, count in outcome.left_out]
    if as_json:
        facts = {"out": str(out), "device": made.device, "points": len(made.points), "files": len(made.inputs)}
        write_json({**facts, "written": outcome.written, "left_out": left_out})
    else:
        write_rows(left_out[:MOST_REASONS], as_json=False)
    conditions = {each.point.condition for each in made.points}
    narrow = sorted({each.dtype for each in conditions if torch_dtype(each) == "float32" and each.dtype != "fp32"})
    if narrow:
        say(f"files of {', '.join(narrow)} hold float32: the tool has to convert them")
    say(f"{len(made.points)} points of {made.device} in {len(made.inputs)} files, {outcome.written} of them new")
    results = f"medn import {out}/results --plan {out} --run runs/NAME"
    say(f"next: run one of the scripts in {out} where the device is, then: {results}")
