"""Whole networks timed on a backend: real architectures with random weights, batch size 1, one thread."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from experiments.real_models import image_model, language_model
from medn.model.measuring import Measured, Timeable, measure_models, plain, usable_backend

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
"""Fifteen networks of timm and three of transformers, these smaller than by default."""


def make(name: str) -> Timeable:
    """A network with weights drawn from seed 0."""
    import torch

    torch.manual_seed(0)
    if name in LANGUAGE_SETTINGS:
        return plain(*language_model(name, with_data=True, **LANGUAGE_SETTINGS[name]))
    return plain(*image_model(name, with_data=True))


def measured_once(file: Path, backend: str, names: Iterable[str], tell: Callable[[str], None]) -> dict[str, Measured]:
    """What a file keeps of earlier measurements on a backend; what it lacks is measured and added."""
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    found = {name: Measured(**written) for name, written in kept.get(backend, {}).items()}
    missing = {name: partial(make, name) for name in names if name not in found}
    if missing:
        found |= measure_models(usable_backend(backend), missing, tell=tell)
        kept[backend] = {name: asdict(each) for name, each in found.items()}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    return {name: found[name] for name in names}
