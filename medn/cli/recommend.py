"""`medn recommend`: the cheapest device that meets limits for a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medn.cli.output import AsJson, say, write_json, write_rows
from medn.core.errors import MednError, UsageError
from medn.core.units import format_bytes, format_latency, percent

if TYPE_CHECKING:
    from medn.predictor.predictor import Predictor
    from medn.recommending.recommend import JudgedDevice

MUCH = 0.2
"""The share of a model's time that may be extrapolated before it is said."""


class NothingMeets(MednError):
    """No device meets the limits."""


def recommend(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="FILE.onnx, timm:NAME or python:MODULE:FUNCTION.")],
    more: Annotated[
        list[str], typer.Argument(metavar="[BUNDLE]...", help="Further bundles: a shell makes several of *.medn.")
    ] = [],  # noqa: B006  # typer copies it
    bundles: Annotated[list[Path], typer.Option("--bundles", metavar="BUNDLE...", help="One for each device.")] = [],  # noqa: B006
    max_ms: Annotated[float | None, typer.Option("--max-ms", help="Milliseconds that a call may take.")] = None,
    max_mb: Annotated[float | None, typer.Option("--max-mb", help="Megabytes that it may need.")] = None,
    batch: Annotated[str, typer.Option("--batch", metavar="N,N,...", help="Batch sizes; the model's own.")] = "",
    confidence: Annotated[float, typer.Option("--confidence", help="With which the latency must hold.")] = 0.9,
    prices: Annotated[
        list[str], typer.Option("--prices", metavar="FILE|NAME=PRICE", help="What devices cost, per hour say.")
    ] = [],  # noqa: B006
    mig: Annotated[bool, typer.Option("--mig/--no-mig", help="MIG slices of GPUs that can be cut, too.")] = True,
    as_json: AsJson = False,
) -> None:
    """Recommend the cheapest device that meets limits, and say why others do not.

    The latency must stay below --max-ms with the confidence, by the interval of the prediction; memory is that of
    the model's tensors and 10 % more. Devices named like an A100, H100, H200 or B200 are also judged by their MIG
    slices: their latencies are scaled from those of the whole GPU, not measured.
    The exit code is 1 where nothing meets the limits.

    \b
    Examples:
      medn recommend timm:resnet50 --max-ms 20 --bundles runs/*/*.medn
      medn recommend net.onnx --max-ms 20 --max-mb 4000 --batch 1,8 --prices prices.yaml --bundles a.medn b.medn
      medn recommend net.onnx --max-ms 5 --confidence 0.99 --prices A100=2.5 --prices laptop=0.1 --bundles *.medn
    """
    from medn.model.model_sources import read_model
    from medn.recommending.prices import read_prices
    from medn.recommending.recommend import ModelLimits, recommend_device

    files = [*bundles, *map(Path, more)]
    if not files:
        raise UsageError("say which devices there are: --bundles BUNDLE...")
    limits = ModelLimits(_limit("--max-ms", max_ms, 1e-3), _limit("--max-mb", max_mb, 1e6), _confidence(confidence))
    if max_ms is None and max_mb is None:
        raise UsageError("say what must be met: --max-ms, --max-mb or both")
    costs = read_prices(prices)
    predictors = _predictors(files)
    found = recommend_device(
        read_model(model), predictors, limits, batch_sizes=_batch_sizes(batch), prices=costs, slices=mig
    )
    if as_json:
        best = found.best.as_json() if found.best else None
        write_json({"best": best, "options": [each.as_json() for each in found.options]})
    else:
        write_rows([_row(each, limits.confidence) for each in found.options], as_json=False)
    if any(each.scaled for each in found.options):
        say("latencies of MIG slices (NAME/1g.10gb and the like) are scaled from those of the whole GPU, not measured")
    for name, share in _extrapolated(found.options).items():
        say(f"{name}: {percent(share)} of the time is extrapolated or not predicted by its bundle")
    if found.best is None:
        raise NothingMeets(found.sentence)
    say(found.sentence)


def _extrapolated(options: Sequence[JudgedDevice]) -> dict[str, float]:
    """Devices whose bundles know little of the model, and how much they do not."""
    shares: dict[str, float] = {}
    for each in options:
        if not each.scaled and each.outside_share is not None:
            shares[each.name] = max(each.outside_share, shares.get(each.name, 0.0))
    return {name: share for name, share in shares.items() if share > MUCH}


def _limit(option: str, value: float | None, unit: float) -> float:
    if value is None:
        return float("inf")
    if not 0 < value < float("inf"):
        raise UsageError(f"{option}: must be a number above 0 (got {value:g})")
    return value * unit


def _confidence(value: float) -> float:
    if not 0.5 <= value <= 0.999:
        raise UsageError(f"--confidence: must be from 0.5 to 0.999, such as 0.9 (got {value:g})")
    return value


def _batch_sizes(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        raise UsageError(f"--batch: must be whole numbers from 1 on, such as 1,4,16 (got {text!r})")
    return list(dict.fromkeys(map(int, parts)))


def _predictors(files: Sequence[Path]) -> dict[str, Predictor]:
    """Every device of every bundle; by the bundle's name too, where two have a device of one name."""
    import medn
    from medn.bundle.bundle import read_bundle

    loaded = [medn.load(file, device) for file in dict.fromkeys(files) for device in read_bundle(file).devices]
    names = [each.device for each in loaded]
    found: dict[str, Predictor] = {}
    for each in loaded:
        name = each.device if names.count(each.device) == 1 else f"{each.bundle.name}:{each.device}"
        if name in found:
            raise UsageError(f"two bundles are named {each.bundle.name} and know {each.device}: give one of them")
        found[name] = each
    return found


def _row(option: JudgedDevice, confidence: float) -> dict[str, Any]:
    return {
        "device": option.name,
        "batch": option.batch_size,
        "latency": None if option.latency_s is None else format_latency(option.latency_s),
        f"{confidence:.0%} below": None if option.confident_s is None else format_latency(option.confident_s),
        "memory": None if option.memory_bytes is None else format_bytes(option.memory_bytes),
        "price": option.price,
        "meets": option.meets,
        "reason": "; ".join(option.reasons) or ("scaled" if option.scaled else None),
    }
