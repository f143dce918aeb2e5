"""The tasks of the experiment: layers of real networks, each of the first network that has it.

    python -m experiments.tensor_programs.tasks --schedules 40 > programs.yaml
    medn sweep programs.yaml --run runs/programs --time 15m

The second command again goes on where it stopped; more schedules keep those that are measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import yaml

from experiments.script import end_with
from medn.capture.capture import capture
from medn.core.values import Layer
from medn.layer_generators.kind import layer_kinds

NETWORKS = (
    *("resnet18", "mobilenetv2_050", "regnetx_002", "vit_tiny_patch16_224", "convnext_atto", "mixer_s32_224"),
    *("efficientnet_b0", "mobilenetv3_small_100", "repvgg_a0", "densenet121", "ghostnet_100", "edgenext_xx_small"),
)
DEVICES = ("tvm-x86-64", "tvm-avx", "tvm-avx2")
TASKS = 16
"""Of each network, as far as it has them."""
TURNS = ("conv2d", "conv2d", "linear", "matmul", "conv2d", "softmax", "layer_norm", "conv2d", "max_pool2d")
"""The kinds that get a task one after the other, again and again: products have most to schedule."""
ONCE = ("adaptive_avg_pool2d", "batch_norm2d")
"""Kinds of which one layer of a network is enough."""
FLOPS = (5e4, 1.2e8)
"""Between these a layer is worth scheduling, and its worst schedule is soon timed."""


def network_tasks() -> dict[str, list[Layer]]:
    """The tasks by network; no two networks share one."""
    taken: set[Layer] = set()
    tasks: dict[str, list[Layer]] = {}
    for name in NETWORKS:
        tasks[name] = _chosen([layer for layer in _layers(name) if layer not in taken])
        taken |= {*tasks[name]}
    return tasks


def _layers(network: str) -> list[Layer]:
    """The distinct layers of a network that can be scheduled, in the order in which they run."""
    import timm
    import torch

    timm.layers.set_fused_attn(False)  # two products and a softmax, each with loops of its own
    model = timm.create_model(network).eval()
    found = dict.fromkeys(
        captured.layer for captured in capture(model, torch.zeros(1, 3, 224, 224)).layers if captured.layer is not None
    )
    return [layer for layer in found if layer.kind in {*TURNS, *ONCE} and FLOPS[0] <= _flops(layer) <= FLOPS[1]]


def _flops(layer: Layer) -> float:
    kind = layer_kinds[layer.kind]
    return float(kind.costs(kind.values_of(layer), 1, 4).flops)


def _chosen(layers: Sequence[Layer]) -> list[Layer]:
    """Spread over the depth of the network: of each kind the first, the last, the middle and so on."""
    waiting = {kind: spread_out([layer for layer in layers if layer.kind == kind]) for kind in (*TURNS, *ONCE)}
    chosen = [waiting[kind].pop(0) for kind in ONCE if waiting[kind]]
    while len(chosen) < TASKS and any(waiting[kind] for kind in TURNS):
        chosen += [waiting[kind].pop(0) for kind in TURNS if waiting[kind]]
    return chosen[:TASKS]


def spread_out(layers: list[Any]) -> list[Any]:
    """The first, the last, the middle, and so on, each as far from those before as can be."""
    order = [*range(len(layers))]
    picked = order[:1] + order[1:][-1:]
    while len(picked) < len(order):
        picked.append(max(order, key=lambda at: (min(abs(at - other) for other in picked), -at)))
    return [layers[at] for at in picked]


def sweep_config(schedules: int) -> dict[str, Any]:
    """What `medn sweep` measures."""
    layers = [layer for tasks in network_tasks().values() for layer in tasks]
    kinds = dict.fromkeys(layer.kind for layer in layers)
    listed = {kind: [layer.values for layer in layers if layer.kind == kind] for kind in kinds}
    return {
        "name": "programs",
        "devices": [*DEVICES],
        "sampler": "listed",
        "budget": {"points": len(layers) * schedules * len(DEVICES)},
        "layers": {kind: {"share": len(own), "listed": own} for kind, own in listed.items()},
        "programs": {"schedules": schedules},
        "measure": {"visits": 1, "max_visits": 1, "visit_time": 0.02},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=40)
    options = parser.parse_args(arguments)
    print(yaml.safe_dump(sweep_config(options.schedules), sort_keys=False, width=140), end="")
    return 0


if __name__ == "__main__":
    end_with(main)
