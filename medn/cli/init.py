"""`medn init`: a config that comes with medn, written to be edited."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from medn.cli.completion import complete_shipped
from medn.cli.output import AsJson, say, write_json
from medn.core.errors import MednError, UsageError
from medn.core.registry import known_name
from medn.core.shipped import CONFIGS, MAPPINGS, shipped

DEFAULT = "cpu-layers"


def init(
    name: Annotated[
        str,
        typer.Argument(
            help="One of `medn list configs` or `medn list mappings`.",
            autocompletion=complete_shipped(CONFIGS, MAPPINGS),
        ),
    ] = DEFAULT,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Where to write it; NAME.yaml if left out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a config that comes with medn, to be edited.

    A sweep config is named after its file, and so is the run that it makes. No file is overwritten.

    \b
    Examples:
      medn init
      medn init transformer --to laptop.yaml
      medn init cde_conv2d --to gpu_layers.yaml
    """
    configs, mappings = shipped(CONFIGS), shipped(MAPPINGS)
    meant = known_name("config", name, [*configs, *mappings])
    path = to or Path(f"{meant}.yaml")
    text = (configs | mappings)[meant].read_text(encoding="utf-8")
    if meant in configs:
        text = re.sub(r"^name: .*$", f"name: {path.stem}", text, count=1, flags=re.M)
    _write_new(path, text)
    if as_json:
        write_json({"file": str(path), "from": meant, "what": "config" if meant in configs else "mapping"})
    else:
        typer.echo(path)
    if meant in configs:
        say(f"edit it, then: medn sweep {path} --dry-run")
    else:
        say(f"edit it, then: medn import TABLE --map {path} --run runs/NAME")


def _write_new(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        if path.exists():
            raise UsageError(f"{path} is there already and is left as it is; choose another with --to FILE") from None
        raise MednError(f"cannot write {path}: {error.strerror}") from None
