"""`medn compose`: how layer times compose into model times on a device, fitted to a few models that are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, say, write_json, write_rows
from medn.cli.predict import BundleArgument, DeviceOption
from medn.core.errors import UsageError
from medn.core.units import format_latency

if TYPE_CHECKING:
    from medn.model.prepared_model import PreparedModel
    from medn.predictor.predictor import Predictor


AS_GIVEN = "as given"
"""The batch size of a model's example inputs."""


ModelsArgument = Annotated[
    list[str], typer.Argument(metavar="MODEL...", help="timm:NAME or python:MODULE:FUNCTION, at least three.")
]
OutOption = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")]
BatchSizesOption = Annotated[
    str, typer.Option("--batch-sizes", metavar="N,N,...", help="To measure each model at; as its inputs are.")
]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="As many as the layers were measured with.")]


def compose(
    bundle: BundleArgument,
    models: ModelsArgument,
    out: OutOption = Path("composition.json"),
    device: DeviceOption = "",
    batch_sizes: BatchSizesOption = AS_GIVEN,
    threads: ThreadsOption = 1,
    as_json: AsJson = False,
) -> None:
    """Measure whole models here, and fit how layer times compose into theirs.

    The machine must be the one whose layers are in the bundle. The fit goes into a file for
    `medn predict BUNDLE MODEL --composition FILE`. The errors shown are of each model when the fit is to the others
    alone. Intervals are wider at batch sizes beyond those that were measured.

    \b
    Examples:
      medn compose runs/laptop/laptop.medn timm:resnet18 timm:mobilenetv2_100 timm:vit_tiny_patch16_224
      medn compose runs/laptop/laptop.medn python:my_nets:small python:my_nets:wide python:my_nets:deep --out nets.json
      medn compose runs/laptop/laptop.medn timm:resnet18 timm:vit_tiny_patch16_224 timm:lcnet_100 --batch-sizes 1,4,16
    """
    import medn
    from medn.capture.capture import capture
    from medn.model.fit_composition import FEWEST_NETWORKS, fit_composition
    from medn.model.measured_models import Timeable, batched, measure_models, plain, usable_backend
    from medn.model.model_sources import make_model
    from medn.model.prepared_model import PreparedModel

    if len(set(models)) < FEWEST_NETWORKS:
        raise UsageError(f"give at least {FEWEST_NETWORKS} different models (got {len(set(models))})")
    predictor = medn.load(bundle, device or None)
    backend = usable_backend(predictor.bundle.backend(predictor.device))
    sizes = _read_sizes(batch_sizes)
    runnable: dict[tuple[str, int | None], Timeable] = {}
    for source in dict.fromkeys(models):
        say(f"making {source}")
        alone = plain(*make_model(source))
        runnable |= {(source, size): alone if size is None else batched(alone, size) for size in sizes}
    prepared = {case: PreparedModel(predictor, capture(*model)) for case, model in runnable.items()}
    names = {case: case[0] if len(sizes) == 1 else f"{case[0]} at batch size {case[1]}" for case in prepared}
    makers = {
        names[case]: partial(runnable.pop, case) for case in prepared
    }  # a compiled one needs its module no longer
    timed = measure_models(backend, makers, threads, say)
    measured = [(prepared[case], timed[names[case]].seconds) for case in prepared]
    networks = [source for source, _ in prepared]
    composition = fit_composition(predictor, measured, networks=networks)
    rows = [
        {"model": source, "batch_size": model.model.batch_size, **row}
        for source, (model, _), row in zip(networks, measured, _rows(predictor, measured, networks), strict=True)
    ]
    if as_json:
        write_json({"composition": asdict(composition), "models": rows})
    else:
        write_rows([{name: _readable(name, value) for name, value in row.items()} for row in rows], as_json=False)
        say(composition.sentence)
    composition.save(out)
    say(f"written to {out}; use it: medn predict {bundle} MODEL --composition {out}")


def place(
    bundle: BundleArgument,
    models: ModelsArgument,
    out: OutOption = Path("placement.json"),
    device: DeviceOption = "",
    batch_sizes: BatchSizesOption = AS_GIVEN,
    threads: ThreadsOption = 1,
    as_json: AsJson = False,
) -> None:
    """medn place is the former name of medn compose, which takes the same arguments.

    \b
    Example:
      medn compose runs/laptop/laptop.medn timm:resnet18 timm:mobilenetv2_100 timm:vit_tiny_patch16_224
    """
    say("medn place is now called medn compose, and --placement is called --composition")
    compose(bundle, models, out, device, batch_sizes, threads, as_json)


def _read_sizes(text: str) -> list[int | None]:
    if text == AS_GIVEN:
        return [None]
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        raise UsageError(f"--batch-sizes: must be whole numbers from 1 on, such as 1,4,16 (got {text!r})")
    return list(dict.fromkeys(int(part) for part in parts))


def _rows(
    predictor: Predictor, measured: Sequence[tuple[PreparedModel, float]], networks: Sequence[str]
) -> Iterator[dict[str, float]]:
    """Each model as it was measured, as its layers alone say, and as the fit to the other models says."""
    from medn.model.composition import HOT
    from medn.model.fit_composition import leave_one_network_out

    compositions = leave_one_network_out(predictor, measured, networks=networks)
    for (model, seconds), composition in zip(measured, compositions, strict=True):
        predicted_s = model.predict(composition=composition).latency_s
        alone_s = model.predict(composition=HOT).latency_s
        error = predicted_s / seconds - 1
        yield {"measured_s": seconds, "layers_alone_s": alone_s, "predicted_s": predicted_s, "error": error}


def _readable(name: str, value: Any) -> str:
    """Seconds and shares as people read them."""
    if name.endswith("_s"):
        return format_latency(value)
    return f"{value:+.1%}" if name == "error" else str(value)
