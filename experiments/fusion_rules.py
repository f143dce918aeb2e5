"""Which layers compiled backends run as one, read from their own graphs of real models.

    python -m experiments.fusion_rules
    python -m experiments.fusion_rules --only resnet18,vit_tiny_patch16_224 --rules /tmp/rules

Writes the rules of each backend that is installed, and prints how often each chain of layers was run as one or left
apart, and how far the rules agree with each graph. Random weights; nothing is downloaded.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from experiments.real_models import image_model, language_model
from experiments.script import end_with
from experiments.tables import markdown_table
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.errors import UsageError, unknown
from medn.devices.backend import NodeGroups, Unsupported
from medn.devices.backend import backends as device_backends
from medn.devices.onnx_export import export_onnx
from medn.fusion.chain_counts import added, agreement, count_chains, count_folded
from medn.fusion.decomposition import recompose
from medn.fusion.rules import ChainCount, FusionRules, usual, write_rules
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.kinds.activation import FUNCTIONS

FOLDED_CHAIN = ("conv2d", "batch_norm2d")

IMAGE_NAMES = (
    *("convnext_atto", "densenet121", "efficientnet_b0", "ghostnet_100", "hgnet_tiny", "mixer_s32_224"),
    *("mobilenetv2_100", "mobilenetv3_large_100", "poolformer_s12", "regnety_016", "repvgg_a0", "resnet18", "resnet50"),
    *("seresnext26d_32x4d", "vit_tiny_patch16_224"),
)
SMALL_SIZES: Mapping[str, Mapping[str, int]] = {
    "bert": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024},
    "distilbert": {"dim": 256, "n_layers": 4, "n_heads": 4, "hidden_dim": 1024},
    "gpt2": {"n_embd": 256, "n_layer": 4, "n_head": 4},
}
ACTIVATIONS = "activations"
"""Not a real model: every activation function behind every product, since real models use few of them."""
NAMES = (*IMAGE_NAMES, *SMALL_SIZES, ACTIVATIONS)


@dataclass(frozen=True)
class Read:
    """One model: as it was captured, as it was exported, and what each backend fuses of that."""

    name: str
    captured: CapturedModel
    exported: CapturedModel
    groups: Mapping[str, NodeGroups]
    """Of the backends that take the model."""


def read_model(name: str, backends: tuple[str, ...]) -> Read:
    module, inputs = random_model(name)
    return read_module(name, module, tuple(inputs.values()), backends)


def read_module(name: str, module: Any, inputs: tuple[Any, ...], backends: tuple[str, ...]) -> Read:
    content = export_onnx(module.requires_grad_(False), inputs, None, "")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(content)
        exported = recompose(capture(file))
    groups = dict(read_groups(name, content, backends))
    return Read(name, capture(module, inputs), exported, groups)


def read_groups(name: str, content: bytes, backends: tuple[str, ...]) -> Iterator[tuple[str, NodeGroups]]:
    for backend in backends:
        try:
            yield backend, device_backends[backend].fused_groups(content)
        except Unsupported as reason:
            print(f"{backend} without {name}: {reason}", file=sys.stderr)


def random_model(name: str) -> tuple[Any, dict[str, Any]]:
    """A model with weights that hold numbers, since backends fold them, and inputs for it."""
    import torch

    if name == ACTIVATIONS:
        return every_activation(), {"x": torch.zeros(1, 16, 8, 8)}
    if name in IMAGE_NAMES:
        module, inputs = image_model(name, with_data=True)
        return module, {key: torch.zeros(tensor.shape) for key, tensor in inputs.items()}
    module, inputs = language_model(name, with_data=True, **SMALL_SIZES[name])
    module.config.use_cache = module.config.return_dict = False  # the exporter knows tensors alone
    return module, inputs


def every_activation() -> Any:
    """Side by side, because some backends also fuse one product with the next."""
    import torch

    class SideBySide(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            kind = layer_kinds["activation"]
            made = [kind.build(SimpleNamespace(function=function)) for function in FUNCTIONS]
            images = [torch.nn.Sequential(torch.nn.Conv2d(16, 16, 3), each) for each in made]
            rows = [torch.nn.Sequential(torch.nn.Flatten(2), torch.nn.Linear(64, 64), each) for each in made]
            one_row = [torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(1024, 64), each) for each in made]
            self.branches = torch.nn.ModuleList([*images, *rows, *one_row])

        def forward(self, image: torch.Tensor) -> list[torch.Tensor]:
            # A layer before the branches, since backends treat inputs of a model in ways of their own.
            image = torch.nn.functional.max_pool2d(image, 3, stride=1, padding=1)
            return [branch(image) for branch in self.branches]

    return SideBySide().eval()


def rules_of(backend: str, counts: list[ChainCount], folded: ChainCount, names: tuple[str, ...]) -> FusionRules:
    device = device_backends[backend]
    version = device.versions()[device.packages[0]]
    return FusionRules(backend, version, names, usual([folded]), usual(counts))


def fusing_backends() -> tuple[str, ...]:
    """Those that bring rules and are installed here."""
    named = device_backends.values()
    return tuple(device.name for device in named if device.fusion_rules is not None and device.missing() is None)


def rules_path(backend: str, folder: Path | None) -> Path:
    own = device_backends[backend].fusion_rules
    assert own is not None, "only backends with rules are read"
    return own if folder is None else folder / own.name


def chain_rows(backend: str, counts: list[ChainCount], rules: FusionRules) -> Iterator[dict[str, Any]]:
    for count in counts:
        yield {
            "backend": backend,
            "chain": " + ".join(count.chain),
            "fused": count.fused,
            "apart": count.apart,
            "rule": "yes" if count.chain in rules.chains else "",
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=Path, help="a folder to write the rules to, instead of each backend's own file")
    parser.add_argument("--only", help="names with commas between them")
    options = parser.parse_args()
    names = tuple(options.only.split(",")) if options.only else NAMES
    for name in names:
        if name not in NAMES:
            raise UsageError(unknown("model", name, NAMES))
    backends = fusing_backends()
    read: list[Read] = []
    for name in names:
        print(f"{len(read) + 1}/{len(names)} {name}", file=sys.stderr)
        read.append(read_model(name, backends))
    (folded,) = added(count_folded(each.captured, each.exported, FOLDED_CHAIN) for each in read)
    agreements: dict[str, dict[str, Any]] = {each.name: {"model": each.name} | dict.fromkeys(backends) for each in read}
    rows: list[dict[str, Any]] = []
    for backend in backends:
        taken = [each for each in read if backend in each.groups]
        counts = added(count for each in taken for count in count_chains(each.exported, each.groups[backend]))
        rules = rules_of(backend, counts, folded, tuple(each.name for each in taken))
        write_rules(rules, rules_path(backend, options.rules))
        rows += chain_rows(backend, counts, rules)
        for each in taken:
            agreements[each.name][backend] = agreement(each.exported, each.groups[backend], rules)
    print(markdown_table(rows))
    print(f"\nFolded by the export: {' + '.join(folded.chain)}: {folded.fused} of {folded.fused + folded.apart}\n")
    print("Layers in the same group by the rules as by the graph:\n")
    print(markdown_table(list(agreements.values())))
    return 0


if __name__ == "__main__":
    end_with(main)
