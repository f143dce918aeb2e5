"""Whole networks timed on a backend: real architectures with random weights, batch size 1, one thread."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.real_models import image_model, language_model
from medn.core.values import Condition, Layer
from medn.devices.backend import Runner, backends
from medn.devices.measuring import IDLE_QUANTILE, VisitOptions, process_resources, take_samples
from medn.devices.workload import Workload, output_error

if TYPE_CHECKING:
    import torch

ROUNDS = 5
VISIT_S = 0.6
LARGEST_ERROR = 1e-2

IMAGE_NAMES = (
    *("resnet18", "resnet50", "mobilenetv2_100", "mobilenetv3_large_100", "efficientnet_b0", "regnety_016"),
    *("densenet121", "convnext_atto", "vit_small_patch16_224", "mixer_s16_224", "hgnet_tiny", "poolformer_s12"),
    *("repvgg_b0", "ghostnet_100", "swin_tiny_patch4_window7_224"),
)
_SMALL_BERT = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2048}
LANGUAGE_SETTINGS: dict[str, dict[str, Any]] = {
    "bert": {**_SMALL_BERT, "vocab_size": 8192},
    "distilbert": {"n_layers": 3, "vocab_size": 8192},
    "gpt2": {"n_layer": 4, "vocab_size": 8192, "use_cache": False, "bos_token_id": 0, "eos_token_id": 0},
}
MODELS = (*IMAGE_NAMES, *LANGUAGE_SETTINGS)
"""Fifteen networks of timm and three of transformers, made smaller than their defaults."""

Made = tuple["torch.nn.Module", tuple["torch.Tensor", ...]]


def make(name: str) -> Made:
    """A network with weights drawn from seed 0 that takes tensors and gives one, and tensors to call it with."""
    import torch

    torch.manual_seed(0)
    model, inputs = (
        language_model(name, with_data=True, **LANGUAGE_SETTINGS[name])
        if name in LANGUAGE_SETTINGS
        else image_model(name, with_data=True)
    )
    names = list(inputs)

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = model

        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            output = self.network(**dict(zip(names, tensors, strict=True)))
            first: torch.Tensor = output if isinstance(output, torch.Tensor) else output[0]
            return first

    filled = (torch.randn(each.shape) if each.is_floating_point() else each for each in inputs.values())
    return Plain().eval().requires_grad_(False), tuple(filled)


@dataclass(frozen=True)
class Measured:
    seconds: float
    spread: float
    """How far apart the rounds lie, relative to the seconds."""
    environment: dict[str, str]


def measure(backend_name: str, names: Iterable[str], told: Callable[[str], None]) -> dict[str, Measured]:
    """All networks in turns, several rounds, as layers are visited in a sweep."""
    backend = backends[backend_name]
    backend.configure(1)
    runners: dict[str, Runner] = {}
    for name in names:
        told(f"{backend_name}: preparing {name}")
        module, inputs = make(name)
        workload = Workload(Layer(name, ()), Condition(), module, inputs, None)
        runners[name] = backend.prepare(workload)
        with runners[name].context():
            runners[name].run()
        error = output_error(runners[name].outputs(), workload.expected())
        if error > LARGEST_ERROR:
            raise ValueError(f"{name} on {backend_name} computes something else than torch (by {error:.2g})")
    visits: dict[str, list[float]] = {name: [] for name in runners}
    for place in range(ROUNDS):
        told(f"{backend_name}: round {place + 1} of {ROUNDS}")
        for name, runner in runners.items():
            with runner.context():
                found = take_samples(runner.run, backend.timer(), process_resources(1), VisitOptions(VISIT_S))
            visits[name].append(float(np.quantile(found.wall_s, IDLE_QUANTILE)))
    return {
        name: Measured(float(np.median(each)), float((max(each) - min(each)) / np.median(each)), backend.versions())
        for name, each in visits.items()
    }


def measured_once(file: Path, backend: str, names: Iterable[str], told: Callable[[str], None]) -> dict[str, Measured]:
    """What a file keeps of earlier measurements on a backend; what it lacks is measured and added."""
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    found = {name: Measured(**written) for name, written in kept.get(backend, {}).items()}
    missing = [name for name in names if name not in found]
    if missing:
        found |= measure(backend, missing, told)
        kept[backend] = {name: asdict(each) for name, each in found.items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    return {name: found[name] for name in names}
