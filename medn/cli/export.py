"""`medn export`: a run as Parquet tables, or a bundle as ONNX models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medn.cli.export_onnx import export_onnx
from medn.cli.output import AsJson, write_rows
from medn.cli.summary import RunArgument
from medn.core.errors import StoreError, UsageError

if TYPE_CHECKING:
    from medn.core.store import Store

SAMPLES_FILE = "samples.parquet"


ONNX = Path("onnx")
"""The word that stands before a bundle."""


def export(
    run: RunArgument,
    bundle: Annotated[
        Path | None,
        typer.Argument(metavar="[BUNDLE]", help="After the word onnx: the bundle, NAME.medn.", show_default=False),
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="Where to; RUN/dataset if left out.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help=f"Also every sample, in {SAMPLES_FILE}.")] = False,
    kind: Annotated[str, typer.Option("--kind", help="After onnx: one layer kind; all if left out.")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PATH", help="After onnx: FILE.onnx for one kind, or a folder.")
    ] = None,
    device: Annotated[str, typer.Option(help="After onnx: which device of the bundle, if it has several.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write a run as Parquet, one file for each layer kind; or a bundle as ONNX.

    An ONNX model takes the parameters of a kind by their names, one column each (strings for categories), and gives
    latency_s, low_s, high_s, in_range and what else the bundle predicts. It needs onnxruntime alone, in any language.

    \b
    Examples:
      medn export runs/quickstart
      medn export runs/quickstart --to tables --raw
      medn export onnx runs/quickstart/quickstart.medn --kind conv2d --out conv2d.onnx
    """
    if bundle is not None or kind or out or device:
        if run != ONNX or bundle is None or to or raw:
            raise UsageError("what is exported is a run, or the word onnx and a bundle: medn export onnx NAME.medn")
        write_rows(export_onnx(bundle, kind, out, device), as_json)
        return
    from medn.runs.folder import RunFolder

    folder = RunFolder(run)
    with folder.store(must_exist=True) as store:
        files = write_dataset(store, to or folder.dataset, raw=raw)
    write_rows([{"file": str(path), "bytes": path.stat().st_size} for path in files], as_json)


def write_dataset(store: Store, to: Path, *, raw: bool = False) -> list[Path]:
    """The run's tables, without the columns its config drops; the target is that of what is there now."""
    from medn.core.dataset import write_parquet, write_samples
    from medn.runs.imported_kinds import kind_notes
    from medn.runs.measured import read_measured
    from medn.runs.stated_dtypes import dtypes_note, read_dtypes

    measurements, chosen = read_measured(store)
    drop = (store.read_note("config") or {}).get("drop", ())
    try:
        environments, dtypes = store.environments(), dtypes_note(read_dtypes(store))
        files = write_parquet(
            to, measurements, chosen.target, drop, lambda kind: kind_notes(kind, environments) | dtypes
        )
        if raw:
            files.append(write_samples(to / SAMPLES_FILE, measurements))
    except OSError as error:
        raise StoreError(f"cannot write tables to {to}: {error.strerror or error}") from None
    return files
