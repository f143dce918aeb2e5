"""Tables read back as the programs they are for would read them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import yaml

import medn
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.errors import UsageError
from medn.exporting.exporter import exporters
from medn.exporting.formats.halp import halp_grid
from medn.exporting.formats.haq import haq_table, narrowest
from medn.exporting.formats.once_for_all import Block, mobilenet_v3_blocks, mobilenet_v3_entries
from medn.exporting.layer_list import listed_model
from medn.layer_generators.kind import layer_kinds
from medn.predictor.predictor import Predictor

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def predictor(convolution_bundle: Path) -> Predictor:
    return medn.load(convolution_bundle)


@pytest.fixture(scope="module")
def model() -> CapturedModel:
    layers = [
        *(torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3, 1, 1, groups=16)),
        *(torch.nn.Conv2d(16, 20, 1), torch.nn.Flatten(), torch.nn.Linear(20 * 16 * 16, 10)),
    ]
    return capture(torch.nn.Sequential(*layers), torch.empty(2, 3, 32, 32))


def ms(predictor: Predictor, model: CapturedModel, place: int) -> float:
    layer = model.layers[place].layer
    assert layer is not None
    return 1e3 * predictor.layer(layer.kind, **layer.values, batch_size=2).latency_s


@pytest.fixture(scope="module")
def halp_folder(predictor: Predictor, model: CapturedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("halp")
    exporters["halp"].write(predictor, folder, model, {"step": 8})
    return folder


def test_halp_finds_every_convolution_of_the_model(
    halp_folder: Path, predictor: Predictor, model: CapturedModel
) -> None:
    table = pickle.loads((halp_folder / "latency.pkl").read_bytes())
    assert table["2_3_16_32_3_2_1"] == pytest.approx(ms(predictor, model, 0))
    assert table["2_16_16_16_3_1_16"] == pytest.approx(ms(predictor, model, 2))
    assert table["2_16_20_16_1_1_1"] == pytest.approx(ms(predictor, model, 3))


def test_halp_finds_every_pruned_convolution(halp_folder: Path) -> None:
    table = pickle.loads((halp_folder / "latency.pkl").read_bytes())
    stem = {f"2_3_{count}_32_3_2_1" for count in (8, 16)}
    depthwise = {f"2_{count}_{count}_16_3_1_{count}" for count in (8, 16)}
    pointwise = {f"2_{before}_{after}_16_1_1_1" for before in (8, 16) for after in (8, 16, 20)}
    assert set(table) == stem | depthwise | pointwise


def test_halp_knows_sizes_and_groups_of_channels_by_the_names_of_its_layers(halp_folder: Path) -> None:
    sizes = json.loads((halp_folder / "feature_sizes.json").read_text())
    assert sizes == {"module.0": 32, "module.2": 16, "module.3": 16}
    assert json.loads((halp_folder / "group_sizes.json").read_text()) == dict.fromkeys(sizes, 8)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"in_h": 8, "in_w": 9}, "square convolutions only; in is not"),
        ({"in_size": 8, "groups": 2}, "one group and depthwise ones only"),
    ],
)
def test_halp_is_refused_what_its_keys_cannot_say(given: dict[str, int], said: str) -> None:
    layer = layer_kinds["conv2d"].layer(in_channels=8, out_channels=8, kernel_size=1, **given)
    with pytest.raises(UsageError, match=said):
        halp_grid(listed_model([layer]), step=8)


def test_halp_is_refused_two_convolutions_of_one_key() -> None:
    layers = [
        layer_kinds["conv2d"].layer(in_channels=8, out_channels=8, kernel_size=3, in_size=9, padding=padding)
        for padding in (0, 1)
    ]
    with pytest.raises(UsageError, match="cannot tell it from a convolution of another padding"):
        halp_grid(listed_model(layers), step=8)


def test_haq_finds_each_layer_in_order_at_every_pair_of_bits(
    predictor: Predictor, model: CapturedModel, tmp_path: Path
) -> None:
    path = tmp_path / "tables" / "net_images_batch2_latency_table.npy"
    exporters["haq"].write(predictor, path, model)
    table = np.load(path)
    assert table.shape == (4, 8, 8)
    expected = [ms(predictor, model, place) for place in (0, 2, 3, len(model.layers) - 1)]
    assert table[:, 8 - 1, 8 - 1] == pytest.approx(expected)


def test_haq_takes_the_narrowest_type_that_holds_the_bits() -> None:
    assert [narrowest(["fp32", "bf16"], bits) for bits in (1, 16, 17)] == ["bf16", "bf16", "fp32"]


def test_bits_that_no_type_holds_are_refused() -> None:
    with pytest.raises(UsageError, match="none of the data types bf16 holds 17 bits"):
        narrowest(["bf16"], 17)


def test_haq_is_refused_a_model_without_anything_to_quantise(predictor: Predictor) -> None:
    relu = layer_kinds["activation"].layer(function="relu", elements=8)
    with pytest.raises(UsageError, match="no convolution or linear layer"):
        haq_table(predictor, listed_model([relu]))


@pytest.fixture(scope="module")
def once_for_all(predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    path: Path = tmp_path_factory.mktemp("ofa") / "160_lookup_table.yaml"
    exporters["once-for-all"].write(predictor, path, options={"image_size": 160, "multiplier": 1.2})
    read: dict[str, dict[str, float]] = yaml.safe_load(path.read_text())
    return read


def test_once_for_all_finds_the_parts_around_the_blocks(once_for_all: dict[str, dict[str, float]]) -> None:
    around = [
        "Conv-input:160x160x3-output:80x80x24",
        "Conv_1-input:5x5x192-output:5x5x1152",
        "AvgPool2D-input:5x5x1152-output:1x1x1152",
        "Conv_2-input:1x1x1152-output:1x1x1536",
        "Logits-input:1x1x1536-output:1000",
    ]
    assert all(once_for_all[key]["mean"] > 0 for key in around)


def test_once_for_all_finds_every_block_a_network_can_have(once_for_all: dict[str, dict[str, float]]) -> None:
    size, before = 80, 24
    wanted = {"expanded_conv-input:80x80x24-output:80x80x24-expand:24-kernel:3-stride:1-idskip:1-se:0-hs:0"}
    for width, stride, kind in zip(
        (32, 48, 96, 136, 192),
        (2, 2, 2, 1, 2),
        ("se:0-hs:0", "se:1-hs:0", "se:0-hs:1", "se:1-hs:1", "se:1-hs:1"),
        strict=True,
    ):
        after = (size - 1) // stride + 1
        for kernel in (3, 5, 7):
            for ratio in (3, 4, 6):
                for step, skip, from_size, channels in ((stride, 0, size, before), (1, 1, after, width)):
                    shapes = f"input:{from_size}x{from_size}x{channels}-output:{after}x{after}x{width}"
                    facts = f"expand:{channels * ratio}-kernel:{kernel}-stride:{step}-idskip:{skip}-{kind}"
                    wanted.add(f"expanded_conv-{shapes}-{facts}")
        size, before = after, width
    assert {key for key in once_for_all if key.startswith("expanded")} == wanted


def test_an_entry_is_the_sum_of_its_layers(once_for_all: dict[str, dict[str, float]], predictor: Predictor) -> None:
    block = next(block for block in mobilenet_v3_blocks(160, 1.2) if not block.squeezes and not block.shortcut)
    expected = sum(predictor.layer(layer.kind, **layer.values).latency_s for layer in block.layers())
    assert once_for_all[block.key]["mean"] == pytest.approx(1e3 * expected)


def test_the_layers_of_a_block_are_those_of_the_same_block_in_torch() -> None:
    block = Block(14, 16, 48, 24, kernel=5, stride=2)
    names = ("conv2d", "batch_norm2d", "activation")
    module = torch.nn.Sequential(
        *(torch.nn.Conv2d(16, 48, 1, bias=False), torch.nn.BatchNorm2d(48), torch.nn.ReLU()),
        *(torch.nn.Conv2d(48, 48, 5, 2, 2, groups=48, bias=False), torch.nn.BatchNorm2d(48), torch.nn.ReLU()),
        *(torch.nn.Conv2d(48, 24, 1, bias=False), torch.nn.BatchNorm2d(24)),
    ).eval()
    captured = capture(module, torch.empty(1, 16, 14, 14))
    assert [each.layer for each in captured.layers] == list(block.layers())
    assert {layer.kind for layer in block.layers()} == set(names)


def test_a_tiny_image_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 32"):
        mobilenet_v3_entries(16)
