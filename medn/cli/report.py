"""`medn report`: one HTML file about a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, say, write_json
from medn.cli.predict_model import BatchSizeOption, CompositionOption, UtilizationOption, read_composition
from medn.cli.summary import RunArgument
from medn.core.errors import StoreError, UsageError

if TYPE_CHECKING:
    from medn.capture.captured_model import CapturedModel
    from medn.report.models import ModelPart

OpenOption = Annotated[bool, typer.Option("--open", help="Show it in the browser.")]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to write it.")]


def report(
    run: RunArgument,
    open_page: OpenOption = False,
    out: OutOption = None,
    by: Annotated[
        str, typer.Option("--by", metavar="A,B", help="The two parameters of the heat maps; those that matter most.")
    ] = "",
    models: Annotated[
        list[str],
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Also show a whole model: FILE.onnx, timm:NAME or python:MODULE:FUNCTION; may be given again.",
        ),
    ] = [],  # noqa: B006  # typer copies it
    batch_size: BatchSizeOption = None,
    utilization: UtilizationOption = None,
    composition: CompositionOption = None,
    as_json: AsJson = False,
) -> None:
    """Write a report of a run as one HTML file.

    It needs no network, opens from disk, and shows what was chosen by medn select, how good it is and where it errs.

    \b
    Examples:
      medn report runs/quickstart
      medn report runs/laptop --open
      medn report runs/laptop --by in_channels,out_channels --out laptop.html
      medn report runs/laptop --model timm:resnet50 --model net.onnx --batch-size 8
    """
    from medn.report.content import gather
    from medn.report.models import predicted_models
    from medn.report.next_steps import next_steps
    from medn.report.page import need_libraries, report_page
    from medn.report.summary_text import summary

    need_libraries()
    if not models and (batch_size, utilization, composition) != (None, None, None):
        raise UsageError("--batch-size, --utilization and --composition go with --model")
    names = _two_names(by)
    # First, as it is quick to tell what is wrong with a model and slow to gather a run.
    captured, how = _captured(models, batch_size), read_composition(None, composition)
    parts = predicted_models(run, captured, batch_size, utilization or 0.0, how) if models else []
    content = gather(run, names)
    if content.grown:
        say(content.grown)
    path = write_out(out or run / "report.html", report_page(content, parts))
    sentences, steps = summary(content), next_steps(content)
    if as_json:
        totals = {"models": [_totals(part) for part in parts]} if parts else {}
        kinds = [dict(kind.row) for kind in content.kinds]
        about = {"report": str(path), "bytes": path.stat().st_size, "summary": sentences}
        write_json({**about, "next": [asdict(step) for step in steps], "kinds": kinds, **totals})
    else:
        for sentence in sentences:
            say(sentence)
        for step in steps:
            say(f"{step.sentence}\n  {step.command}" if step.command else step.sentence)
        for part in parts:
            say(f"{part.name} on {part.device}: {part.sentences[0]}")
        typer.echo(path)
    if open_page:
        show(path)


def write_out(path: Path, page: str) -> Path:
    """Write a page where --out may say."""
    from medn.report.page import write_page

    try:
        return write_page(path, page)
    except StoreError as error:
        raise StoreError(f"{error}; choose another place with --out") from None


def show(path: Path) -> None:
    """Open a page in the user's browser; where there is none, say where the page is."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        say(f"no browser could be opened; the page is {path.resolve()}")


def _captured(sources: Sequence[str], batch_size: int | None) -> dict[str, CapturedModel]:
    from medn.model.model_sources import read_model

    return {source: read_model(source, batch_size) for source in sources}


def _totals(part: ModelPart) -> dict[str, Any]:
    """What `medn predict --json` tells of a model, but for its layers."""
    totals = {name: value for name, value in part.prediction.as_json().items() if not isinstance(value, list)}
    return {"model": part.name, "device": part.device, **totals}


def _two_names(by: str) -> tuple[str, str] | None:
    if not by:
        return None
    names = [name.strip() for name in by.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise UsageError(f"--by: must be two different names with a comma between them, as in a,b (got {by!r})")
    return names[0], names[1]
