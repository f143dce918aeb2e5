"""A training on disk: its tensors by name and a few facts in one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from medn.core.errors import UsageError

FACTS = "medn.training"


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    # Tensors that share memory, such as views of one matrix, are not allowed in one file.
    save_file(
        {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()},
        partial,
        metadata={FACTS: json.dumps(dict(facts))},
    )
    os.replace(partial, path)


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The tensors and facts of a checkpoint; None where there is none."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})[FACTS])
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118 (not a mapping)
    except (SafetensorError, KeyError, ValueError) as error:
        raise UsageError(f"{path} is not a checkpoint of a training ({error}); remove it to start anew") from None
