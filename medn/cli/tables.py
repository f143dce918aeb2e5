"""`medn tables`: lookup tables in the formats of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medn.cli.completion import complete_formats
from medn.cli.output import AsJson, write_rows
from medn.cli.predict import BundleArgument, DeviceOption, parse_texts


def tables(
    bundle: BundleArgument,
    options: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="Options of the format.")] = [],  # noqa: B006  # typer copies it
    table_format: Annotated[
        str, typer.Option("--format", help="As `medn list formats` shows them.", autocompletion=complete_formats)
    ] = "csv",
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="FILE.onnx, timm:NAME or another source.")
    ] = "",
    to: Annotated[Path | None, typer.Option("--to", metavar="PATH", help="The file or folder to write.")] = None,
    device: DeviceOption = "",
    as_json: AsJson = False,
) -> None:
    """Write a lookup table for another program: once-for-all, HALP, HAQ, or plain CSV.

    The files are for programs that prune or search by looking latencies up; `medn table` shows one layer's latency
    along a parameter instead. `medn list formats NAME` shows what a format takes.

    \b
    Examples:
      medn tables runs/laptop/laptop.medn --format once-for-all image_size=160 multiplier=1.2
      medn tables runs/laptop/laptop.medn --format halp --model timm:resnet50 step=16 --to halp
      medn tables runs/laptop/laptop.medn --format haq --model net.onnx dtypes=fp32,bf16
      medn tables runs/laptop/laptop.medn --format csv --model net.onnx --to layers.csv
      medn tables runs/laptop/laptop.medn --format csv kind=linear in_features=64,128 out_features=8:513:8
    """
    import medn
    from medn.exporting.exporter import exporters
    from medn.model.model_sources import read_model

    exporter, given = exporters[table_format], parse_texts(options)
    exporter.read_options(given)  # before anything takes long
    predictor = medn.load(bundle, device or None)
    written = exporter.write(predictor, to, read_model(model) if model else None, given)
    write_rows([{"file": str(path), "bytes": path.stat().st_size} for path in written], as_json)
