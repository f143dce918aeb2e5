"""Torch-Pruning to a budget of seconds: medn says what every group of channels costs, and when to stop.

    pip install -c constraints.txt -e ".[optimizers]"
    python -m experiments.integrations.prune_channels --bundle runs/laptop/laptop.medn --share 0.6

A small residual network is pruned until its predicted latency is a share of what it was, channels that cost most for
what they matter first, in steps that the device's staircase suggests. Beside it the same network is pruned to the same
share of its FLOPs. All three are measured.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch_pruning
from torch import nn

import medn
from experiments.integrations.measured_networks import measured_s
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.errors import MednError, UsageError
from medn.core.values import Scalar
from medn.model.prepared_model import predict_model
from medn.predictor.predictor import Predictor

WIDTHS = (64, 128, 256)
IMAGE = (1, 3, 64, 64)
PASSES = 20
PRUNER_STEPS = 60
MOST_PRUNED = 0.9
"""Of any layer's channels, so that none is left without."""

CHANNELS = {
    "conv2d": ("in_channels", "out_channels"),
    "batch_norm2d": ("channels", "channels"),
    "linear": ("in_features", "out_features"),
}
"""What pruning the inputs and the outputs of a layer changes."""
FINEST = 4
"""The channels of sweeps are multiples of this, so a predictor knows no finer staircase."""


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.around: nn.Module = nn.Identity()
        if stride > 1 or before != after:
            self.around = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.first_norm(self.first(image)))
        return torch.relu(self.second_norm(self.second(inner)) + self.around(image))


def residual_network(widths: Sequence[int] = WIDTHS) -> nn.Sequential:
    stem = [nn.Conv2d(3, widths[0], 3, 2, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    before = (widths[0], *widths)
    stages = [
        nn.Sequential(Block(before[place], width, 1 + (place > 0)), Block(width, width, 1))
        for place, width in enumerate(widths)
    ]
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10)).eval()


Cost = Callable[[CapturedModel], float]


def predicted_cost(predictor: Predictor) -> Cost:
    """Seconds of a model: the sum of its layers."""
    return lambda captured: predict_model(predictor, captured).latency_s


def suggested_step(captured: CapturedModel, predictor: Predictor) -> int:
    """The multiple of channels that suits the convolutions in which most seconds are spent."""
    votes: dict[int, float] = {}
    for each in captured.layers:
        if each.layer is None or each.layer.kind != "conv2d":
            continue
        fixed = {name: value for name, value in each.layer.values.items() if name != "out_channels"}
        channels = int(each.layer.values["out_channels"])
        stairs = predictor.table("conv2d", fixed, out_channels=range(FINEST, channels + 1, FINEST))
        step = stairs.round_to or FINEST
        votes[step] = votes.get(step, 0.0) + float(stairs.latency_s[-1])
    return max(votes, key=lambda step: votes[step])


class PerSecond:
    """How much channels matter for each second that is spent on them."""

    def __init__(self, model: nn.Module, captured: CapturedModel, predictor: Predictor) -> None:
        self.matter = torch_pruning.importance.GroupMagnitudeImportance(p=2)
        self.predictor = predictor
        self.names = {module: name for name, module in model.named_modules()}
        self.captured = captured
        """The model as it now is; whoever prunes it says so here."""

    def __call__(self, group: Any) -> torch.Tensor:
        matter: torch.Tensor = self.matter(group)
        return matter / self.channel_s(group)

    def channel_s(self, group: Any) -> float:
        """Predicted seconds that each channel of a group takes, from what a quarter fewer of them would save."""
        layers = {each.name: each.layer for each in self.captured.layers if each.layer is not None}
        fewer = max(1, len(group[0].idxs) // 4)
        changed: dict[str, dict[str, Scalar]] = {}
        for dependency, _ in group:
            name = self.names.get(dependency.target.module, "")
            layer = layers.get(name)
            if layer is None or layer.kind not in CHANNELS:
                continue
            parameter = CHANNELS[layer.kind][dependency.handler.__name__ == "prune_out_channels"]
            values = changed.setdefault(name, {"kind": layer.kind, **layer.values})
            values[parameter] = max(1, int(layer.values[parameter]) - fewer)
        before = [{"kind": layers[name].kind, **layers[name].values} for name in changed]
        seconds = self.predictor.predict([*before, *changed.values()]).latency_s
        saved_s = float(seconds[: len(before)].sum() - seconds[len(before) :].sum())
        # On a wide stair fewer channels save nothing, and a predictor may even see it rise a little.
        return max(saved_s, 0.01 * float(seconds[: len(before)].sum())) / fewer


def prune(
    model: nn.Sequential, example: torch.Tensor, importance: Callable[[Any], Any], step: int, cost: Cost, budget: float
) -> CapturedModel:
    """Prune a model in place, group by group, until it costs no more than the budget; the model it then is."""
    pruner = torch_pruning.pruner.BasePruner(
        model,
        example,
        importance=importance,
        global_pruning=True,
        pruning_ratio=MOST_PRUNED,
        max_pruning_ratio=MOST_PRUNED,
        iterative_steps=PRUNER_STEPS,
        round_to=step,
        ignored_layers=[model[-1]],
    )
    captured = capture(model, example)
    for _ in range(PRUNER_STEPS):
        if isinstance(importance, PerSecond):
            importance.captured = captured
        for group in pruner.step(interactive=True):
            group.prune()
            captured = capture(model, example)
            if cost(captured) <= budget:
                return captured
    raise MednError(f"the budget {budget:.3g} is not reached with {1 - MOST_PRUNED:.0%} of the channels")


def widths(model: nn.Module) -> str:
    return " ".join(str(each.out_channels) for each in model.modules() if isinstance(each, nn.Conv2d))


def compare(predictor: Predictor, share: float, passes: int = PASSES) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The network as it is, pruned to a share of its seconds, and pruned to the same share of its FLOPs."""
    torch.manual_seed(0)
    example = torch.rand(IMAGE)
    original = residual_network()
    captured = {"original": capture(original, example)}
    seconds = predicted_cost(predictor)
    step = suggested_step(captured["original"], predictor)
    models = {"original": original, "to seconds": copy.deepcopy(original), "to FLOPs": copy.deepcopy(original)}
    budget_s = share * seconds(captured["original"])
    per_second = PerSecond(models["to seconds"], captured["original"], predictor)
    captured["to seconds"] = prune(models["to seconds"], example, per_second, step, seconds, budget_s)
    captured["to FLOPs"] = prune(
        models["to FLOPs"], example, per_second.matter, 1, lambda model: model.flops, share * captured["original"].flops
    )
    measured = measured_s(models, example, passes)
    rows = [
        {
            "network": name,
            "channels": widths(model),
            "FLOPs, share": captured[name].flops / captured["original"].flops,
            "predicted ms": 1e3 * seconds(captured[name]),
            "predicted, share": seconds(captured[name]) / seconds(captured["original"]),
            "measured ms": 1e3 * measured[name],
            "measured, share": measured[name] / measured["original"],
            "measured against budget": measured[name] / (share * measured["original"]) - 1,
        }
        for name, model in models.items()
    ]
    about = {
        "device": predictor.device,
        "budget": f"{share:.0%} of the seconds of the original",
        "channels in multiples of": step,
        "measured": f"lowest of {passes} short visits, one thread, seconds of the processor",
    }
    return rows, about


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--device")
    parser.add_argument("--share", type=float, default=0.6, help="of the original's latency")
    parser.add_argument("--passes", type=int, default=PASSES, help="short visits to each network")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    if not 0 < options.share < 1:
        raise UsageError(f"--share: must be between 0 and 1 (got {options.share})")
    torch.set_num_threads(1)
    rows, about = compare(medn.load(options.bundle, options.device), options.share, options.passes)
    write_tables(options.out, "prune_channels", rows, about)
    print(markdown_table(rows))
    return 0


if __name__ == "__main__":
    end_with(main)
