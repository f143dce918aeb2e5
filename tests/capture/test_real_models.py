"""A fixed sample of real architectures is captured on shapes alone, nearly all of their work as known layers."""

from __future__ import annotations

import importlib.util
import resource

import pytest
import torch

from experiments.real_models import IMAGE_MODELS, image_model, language_model
from medn.capture.capture import capture
from medn.model.torchvision_operators import prepare

needs_timm = pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs the extra 'models'")
needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs the extra 'models'"
)


@needs_timm
@pytest.mark.parametrize(
    ("name", "flops", "least_bytes"),
    [
        ("resnet50", 8.2e9, 1.0),
        ("mobilenetv3_large_100", 0.44e9, 1.0),
        ("convnext_tiny", 8.9e9, 1.0),
        ("vit_small_patch16_224", 9.2e9, 1.0),
        ("swin_tiny_patch4_window7_224", 9.0e9, 0.94),
        ("sequencer2d_s", 16.8e9, 0.99),
    ],
)
def test_image_model(name: str, flops: float, least_bytes: float) -> None:
    assert name in IMAGE_MODELS
    model = capture(*image_model(name))
    assert (model.how, model.guesses) == ("shapes alone", 0)
    assert model.flops == pytest.approx(flops, rel=0.05)
    assert model.unknown_flops_share < 0.01
    assert 1 - model.unknown_bytes_share >= least_bytes - 1e-9


@needs_timm
def test_layers_are_the_same_at_every_batch_size() -> None:
    net, inputs = image_model("vit_small_patch16_224")
    two, eight = (capture(net, inputs, batch_size=size) for size in (2, 8))
    assert [each.layer for each in eight.layers] == [each.layer for each in two.layers]
    assert {each.batch_size for each in eight.layers if each.layer} == {8}


@needs_transformers
def test_seven_billion_parameters_take_little_memory() -> None:
    net, inputs = language_model("llama")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = capture(net, inputs)
    grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert model.parameter_bytes > 26e9
    assert model.how == "shapes alone"
    kinds = [each.layer.kind for each in model.layers if each.layer]
    assert (kinds.count("attention"), kinds.count("rms_norm"), kinds.count("linear")) == (32, 65, 7 * 32)
    assert model.unknown_flops_share < 0.001
    assert grown_bytes < 1e9


@needs_transformers
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bert", {"num_hidden_layers": 2}),
        ("t5", {"num_layers": 2}),
        ("mixtral", {"num_hidden_layers": 1}),
        ("wav2vec2", {"num_hidden_layers": 1}),
    ],
)
def test_language_model(name: str, settings: dict[str, int]) -> None:
    model = capture(*language_model(name, **settings))
    assert model.how == "shapes alone"
    assert model.unknown_flops_share < 0.005


@needs_transformers
def test_grouped_heads_of_a_language_model_are_read() -> None:
    prepare()
    from transformers import LlamaConfig, LlamaModel

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 8, "num_key_value_heads": 2}
    net = LlamaModel(LlamaConfig(**sizes, num_hidden_layers=1, vocab_size=100)).eval()
    model = capture(net, {"input_ids": torch.zeros(1, 16, dtype=torch.long)})
    (found,) = [each.layer.values for each in model.layers if each.layer and each.layer.kind == "attention"]
    assert (found["heads"], found["kv_heads"], found["causal"]) == (8, 2, True)
