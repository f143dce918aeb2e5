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
from collections.abc import Sequence
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
from medn.core.errors import UsageError
from medn.integrations.torch_pruning import prune, prune_until
from medn.predictor.predictor import Predictor

WIDTHS = (64, 128, 256)
IMAGE = (1, 3, 64, 64)
PASSES = 20


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


def widths(model: nn.Module) -> str:
    return " ".join(str(each.out_channels) for each in model.modules() if isinstance(each, nn.Conv2d))


def compare(predictor: Predictor, share: float, passes: int = PASSES) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The network as it is, pruned to a share of its seconds, and pruned to the same share of its FLOPs."""
    torch.manual_seed(0)
    example = torch.rand(IMAGE)
    original = residual_network()
    captured = {"original": capture(original, example)}
    models = {"original": original, "to seconds": copy.deepcopy(original), "to FLOPs": copy.deepcopy(original)}
    by_seconds = prune(models["to seconds"], example, predictor, share=share)
    captured["to seconds"] = by_seconds.captured
    matter = torch_pruning.importance.GroupMagnitudeImportance(p=2)
    flops, kept = share * captured["original"].flops, [models["to FLOPs"][-1]]
    captured["to FLOPs"] = prune_until(
        models["to FLOPs"], example, matter, lambda model: model.flops, flops, ignored_layers=kept
    )
    predicted = {name: predictor.model(model).latency_s for name, model in captured.items()}
    measured = measured_s(models, example, passes)
    rows = [
        {
            "network": name,
            "channels": widths(model),
            "FLOPs, share": captured[name].flops / captured["original"].flops,
            "predicted ms": 1e3 * predicted[name],
            "predicted, share": predicted[name] / predicted["original"],
            "measured ms": 1e3 * measured[name],
            "measured, share": measured[name] / measured["original"],
            "measured against budget": measured[name] / (share * measured["original"]) - 1,
        }
        for name, model in models.items()
    ]
    about = {
        "device": predictor.device,
        "budget": f"{share:.0%} of the seconds of the original",
        "channels in multiples of": by_seconds.round_to,
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
