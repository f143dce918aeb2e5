"""`medn place`: how whole models run on a device, learned from a few that are measured."""

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
from medn.core.units import latency_words, percent

if TYPE_CHECKING:
    from medn.model.placement import Placement
    from medn.model.prepared import PreparedModel
    from medn.predictor.predictor import Predictor


def place(
    bundle: BundleArgument,
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="timm:NAME or python:MODULE:FUNCTION, at least three.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write it.")] = Path("placement.json"),
    device: DeviceOption = "",
    threads: Annotated[int, typer.Option("--threads", min=1, help="As many as the layers were measured with.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Measure whole models here, and learn how layers run among others.

    The machine must be the one whose layers are in the bundle. What is learned goes into a file for
    `medn predict BUNDLE MODEL --placement FILE`. The errors shown are of each model when it is predicted
    with what the others teach.

    \b
    Examples:
      medn place runs/laptop/laptop.medn timm:resnet18 timm:mobilenetv2_100 timm:vit_tiny_patch16_224
      medn place runs/laptop/laptop.medn python:my_nets:small python:my_nets:wide python:my_nets:deep --out nets.json
    """
    import medn
    from medn.capture.capturing import capture
    from medn.model.measuring import measure_models, plain, usable_backend
    from medn.model.placement import FEWEST, fit_placement
    from medn.model.prepared import PreparedModel
    from medn.model.sources import make_model

    if len(set(models)) < FEWEST:
        raise UsageError(f"give at least {FEWEST} different models (got {len(set(models))})")
    predictor = medn.load(bundle, device or None)
    backend = usable_backend(predictor.bundle.backend(predictor.device))
    made = {}
    for source in dict.fromkeys(models):
        say(f"making {source}")
        made[source] = plain(*make_model(source))
    prepared = {source: PreparedModel(predictor, capture(*each)) for source, each in made.items()}
    makers = {source: partial(made.pop, source) for source in prepared}  # a compiled one needs its module no longer
    found = measure_models(backend, makers, threads, say)
    measured = [(prepared[source], each.seconds) for source, each in found.items()]
    placement = fit_placement(predictor, measured)
    rows = [{"model": source, **row} for source, row in zip(found, _rows(predictor, measured), strict=True)]
    if as_json:
        write_json({"placement": asdict(placement), "models": rows})
    else:
        write_rows([{name: _in_words(name, value) for name, value in row.items()} for row in rows], as_json=False)
        say(_words(placement))
    placement.save(out)
    say(f"written to {out}; use it: medn predict {bundle} MODEL --placement {out}")


def _rows(predictor: Predictor, measured: Sequence[tuple[PreparedModel, float]]) -> Iterator[dict[str, float]]:
    """Each model as it was measured, as its layers alone say, and as the other models teach."""
    from medn.model.placement import taught_by_others

    for (model, seconds), placement in zip(measured, taught_by_others(predictor, measured), strict=True):
        predicted_s = model.predict(placement=placement).latency_s
        alone_s = model.predict().latency_s
        error = predicted_s / seconds - 1
        yield {"measured_s": seconds, "layers_alone_s": alone_s, "predicted_s": predicted_s, "error": error}


def _in_words(name: str, value: Any) -> str:
    """Seconds and shares as people read them."""
    if name.endswith("_s"):
        return latency_words(value)
    return f"{value:+.1%}" if name == "error" else str(value)


def _words(placement: Placement) -> str:
    stretched = f"{placement.stretch:.2f} times as long as alone, {latency_words(placement.overhead_s)} more each"
    shares = f"{percent(placement.small_share)} (small models) to {percent(placement.large_share)} (large ones)"
    return f"layers take {stretched}, and {shares} of what a cold cache adds"
