"""`medn sweep --for`: the config for given models, made and kept in their run."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medn.cli.completion import complete_several_devices
from medn.cli.output import say
from medn.core.errors import UsageError, unknown
from medn.core.units import percent

if TYPE_CHECKING:
    from medn.capture.captured_model import CapturedModel
    from medn.runs.folder import RunFolder

CONFIG_FILE = "sweep.yaml"
DEFAULT_DEVICE = "torch"

ForOption = Annotated[
    list[str],
    typer.Option(
        "--for", metavar="MODEL...", help="Models instead of a config: FILE.onnx, timm:NAME, python:MOD:FUNC."
    ),
]
DeviceOption = Annotated[
    list[str],
    typer.Option(
        "--device",
        metavar="NAMES",
        help="With --for: what to measure on; torch if left out.",
        autocompletion=complete_several_devices,
    ),
]
BatchSizeOption = Annotated[
    str, typer.Option("--batch-size", metavar="1,4", help="With --for: batch sizes; those of the models if left out.")
]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="With --for: threads; 1 if left out.")]


def config_text(
    sources: Sequence[str],
    devices: Sequence[str],
    batch_sizes: str,
    threads: int | None,
    points: int | None,
    seconds: float | None,
) -> str:
    """The sweep config for models, as YAML."""
    from medn.api import config_for
    from medn.fusion.rules import rules_for
    from medn.model.sweep_config import as_yaml

    chosen = _devices(devices)
    sizes = batch_sizes_of(batch_sizes)
    models = {source: _read(source, sizes) for source in sources}
    for source, model in models.items():
        _tell_unknown(source, model)
    if len({rules_for(device) is None for device in chosen}) > 1:
        say("not all of these devices fuse layers, and each measures what any of them runs: a command each is faster")
    config = config_for(models, devices=chosen, batch_sizes=sizes, threads=threads or 1, points=points, time=seconds)
    return as_yaml(config, sweep_command(sources, chosen, sizes, threads))


def sweep_command(
    sources: Sequence[str], devices: Sequence[str], batch_sizes: Sequence[int] = (), threads: int | None = None
) -> str:
    """The command that measures what these models need."""
    words = ["medn", "sweep", "--for", *sources]
    words += ["--device", ",".join(devices)] if devices else []
    words += ["--batch-size", ",".join(map(str, batch_sizes))] if batch_sizes else []
    words += ["--threads", str(threads)] if threads else []
    return shlex.join(words)


def keep_config(folder: RunFolder, text: str) -> Path:
    """Write the config into its run. One that was there before, perhaps edited, is kept under another name."""
    from medn.core.atomic import atomic_write

    path = folder.path / CONFIG_FILE
    with folder.locked():  # another sweep may be using the one that is there
        if path.is_file() and path.read_bytes() != text.encode():
            names = (path.with_suffix(f".{number}{path.suffix}") for number in itertools.count(1))
            free = next(name for name in names if not name.exists())
            path.rename(free)
            say(f"the config that was there before is {free} now")
        atomic_write(path, text.encode())
    return path


def _devices(given: Sequence[str]) -> list[str]:
    from medn.devices.backend import backends

    names = [name.strip() for text in given for name in text.split(",")] or [DEFAULT_DEVICE]
    spelled = [backends.spelled(name) for name in names]
    for name in spelled:
        if name not in backends:
            raise UsageError(f"--device: {unknown('device', name, backends)}")
    return list(dict.fromkeys(spelled))


def batch_sizes_of(text: str) -> list[int]:
    try:
        sizes = sorted({int(part) for part in text.split(",")}) if text else []
    except ValueError:
        sizes = [0]
    if sizes and sizes[0] < 1:
        raise UsageError(f"--batch-size: must be whole numbers from 1 on, as in 1,4 (got {text})")
    return sizes


def _read(source: str, batch_sizes: Sequence[int]) -> CapturedModel:
    from medn.model.model_sources import read_model

    return read_model(source, batch_sizes[0] if batch_sizes else None)


def _tell_unknown(source: str, model: CapturedModel) -> None:
    if model.unknown_operators:
        names = ", ".join(operator.operator for operator in model.unknown_operators[:3])
        flops, moved = percent(model.unknown_flops_share), percent(model.unknown_bytes_share)
        say(f"{source}: {flops} of the FLOPs and {moved} of the bytes in operators of no known kind, as {names}")
