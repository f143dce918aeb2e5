"""Real architectures with random weights, for experiments and tests on whole models; nothing is downloaded.

    pip install -c constraints.txt -e ".[models]"

Weights have no data (they are on the meta device) wherever a model can be made without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from medn.core.packages import need
from medn.model.model_sources import timm_model, without_data
from medn.model.torchvision_operators import prepare

if TYPE_CHECKING:
    import torch

Inputs = dict[str, "torch.Tensor"]
TOKENS = 128

IMAGE_MODELS = (
    *("beit_base_patch16_224", "botnet26t_256", "cait_s24_224", "coat_lite_tiny", "coatnet_0_rw_224", "convit_tiny"),
    *("convmixer_768_32", "convnext_tiny", "crossvit_9_240", "cspresnet50", "davit_tiny", "deit_small_patch16_224"),
    *("densenet121", "dla34", "dpn68", "edgenext_small", "efficientformer_l1", "efficientnet_b0", "efficientvit_b0"),
    *("eva02_tiny_patch14_224", "fastvit_t8", "focalnet_tiny_srf", "gcvit_xxtiny", "ghostnet_100", "hardcorenas_a"),
    *("hgnet_tiny", "hiera_tiny_224", "hrnet_w18_small", "inception_next_tiny", "inception_v3", "levit_128"),
    *(
        "mambaout_tiny",
        "maxvit_tiny_tf_224",
        "mixer_b16_224",
        "mnasnet_100",
        "mobilenetv2_100",
        "mobilenetv3_large_100",
    ),
    *("mobileone_s1", "mobilevit_s", "mvitv2_tiny", "nest_tiny", "nf_resnet50", "pit_s_224", "poolformer_s12"),
    *("pvt_v2_b0", "regnety_016", "repvgg_b0", "repvit_m1", "res2net50_26w_4s", "resnest26d", "resnet50"),
    *("resnetv2_50", "rexnet_100", "seresnext50_32x4d", "sequencer2d_s", "swin_tiny_patch4_window7_224"),
    *("swinv2_tiny_window8_256", "twins_svt_small", "vgg16", "vit_small_patch16_224"),
)
"""Sixty timm models, each of another family."""


def _tokens(config: Any) -> Inputs:
    import torch

    return {"input_ids": torch.ones(1, TOKENS, dtype=torch.int64)}


def _two_sequences(config: Any) -> Inputs:
    import torch

    return {**_tokens(config), "decoder_input_ids": torch.ones(1, TOKENS // 4, dtype=torch.int64)}


def _image(config: Any) -> Inputs:
    import torch

    size = getattr(config, "image_size", 512)
    return {"pixel_values": torch.empty(1, 3, size, size, device="meta")}


def _image_and_text(config: Any) -> Inputs:
    import torch

    tokens = torch.ones(1, config.text_config.max_position_embeddings, dtype=torch.int64)
    return {"input_ids": tokens, **_image(config.vision_config)}


def _sound(config: Any) -> Inputs:
    import torch

    return {"input_values": torch.empty(1, 16_000, device="meta")}


def _spectrum(config: Any) -> Inputs:
    import torch

    frames = torch.empty(1, config.num_mel_bins, 2 * config.max_source_positions, device="meta")
    return {"input_features": frames, "decoder_input_ids": torch.ones(1, TOKENS // 4, dtype=torch.int64)}


LANGUAGE_MODELS: Mapping[str, Callable[[Any], Inputs]] = {
    "bert": _tokens,
    "deberta-v2": _tokens,
    "distilbert": _tokens,
    "gpt2": _tokens,
    "llama": _tokens,
    "mamba": _tokens,
    "mixtral": _tokens,
    "qwen3": _tokens,
    "bart": _two_sequences,
    "t5": _two_sequences,
    "vit": _image,
    "segformer": _image,
    "clip": _image_and_text,
    "wav2vec2": _sound,
    "whisper": _spectrum,
}
"""Fifteen configurations of transformers at their default sizes (Llama: 7B), by the name of the model type."""


_NARROW = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
_SHORT = {"num_hidden_layers": 2, "vocab_size": 512}
SMALL: Mapping[str, Mapping[str, Any]] = {
    **{name: {**_NARROW, **_SHORT} for name in ("bert", "deberta-v2")},
    **{name: {**_NARROW, **_SHORT, "num_key_value_heads": 2} for name in ("llama", "mixtral", "qwen3")},
    "distilbert": {"dim": 64, "n_heads": 4, "n_layers": 2, "hidden_dim": 128, "vocab_size": 512},
    "gpt2": {"n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 512},
    "mamba": {"hidden_size": 64, "num_hidden_layers": 1, "vocab_size": 512},
    "bart": {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 512},
    "t5": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 1, "vocab_size": 512},
    "vit": {**_NARROW, "num_hidden_layers": 2},
    "segformer": {},
    "clip": {},
    "wav2vec2": {**_NARROW, "num_hidden_layers": 1},
    "whisper": {"d_model": 96, "encoder_layers": 1, "decoder_layers": 1},
}
"""Settings that make the same configurations small enough to have weights with data."""


def image_model(name: str, batch_size: int = 1, with_data: bool = False) -> tuple[torch.nn.Module, Inputs]:
    """A timm model with inputs of the size it is made for."""
    _need("timm")
    model, image = timm_model(name, with_data)
    return model, {"x": image.new_empty(batch_size, *image.shape[1:])}


def language_model(name: str, with_data: bool = False, **settings: Any) -> tuple[torch.nn.Module, Inputs]:
    """A model of transformers, by default at full size; `settings` change its configuration."""
    _need("transformers")
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(name, **settings)

    def made() -> torch.nn.Module:
        model: torch.nn.Module = AutoModel.from_config(config)
        return model

    return (made() if with_data else without_data(made)).eval(), LANGUAGE_MODELS[name](config)


def _need(library: str) -> None:
    need("this model", library, extra="models")
    prepare()
