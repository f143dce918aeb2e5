"""Attention with causal masks, grouped heads and windows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from medn.core.errors import ConfigError, UsageError
from medn.core.values import Condition, Layer, Point, freeze
from medn.devices.workload import make_workload
from medn.layer_generators.kind import layer_kinds

KIND = layer_kinds["attention"]
BEFORE = {"heads": 4, "head_size": 8, "query_length": 12, "key_length": 12, "causal": True}


def costs(batch_size: int = 2, **changes: Any) -> Any:
    return KIND.costs(KIND.values_of(KIND.layer(**{**BEFORE, **changes})), batch_size, 4)


def seen(length: int, window: int) -> int:
    """Pairs of tokens that look at one another, counted one by one."""
    return sum(0 <= row - column < window for row in range(length) for column in range(length))


def test_layers_measured_before_keep_their_keys() -> None:
    layer = Layer("attention", freeze(BEFORE))
    assert KIND.layer(**BEFORE) == layer
    assert KIND.layer(**BEFORE, kv_heads=0, window=0) == layer
    assert Point(layer, Condition(), "torch").key == "1addf7e64cb66a6dfe8e"


def test_one_layer_is_written_in_one_way() -> None:
    assert KIND.layer(**BEFORE, kv_heads=4) == KIND.layer(**BEFORE)
    assert KIND.layer(**BEFORE, window=12) == KIND.layer(**BEFORE) == KIND.layer(**BEFORE, window=999)
    assert KIND.layer(**BEFORE, kv_heads=2).values["kv_heads"] == 2


def test_only_what_a_causal_token_sees_is_counted() -> None:
    assert costs().flops == 2 * 4 * 4 * seen(12, 12) * 8
    assert costs(causal=False).flops == 2 * 4 * 4 * 12 * 12 * 8


@pytest.mark.parametrize("window", range(1, 13))
def test_only_what_lies_in_the_window_is_counted(window: int) -> None:
    assert costs(window=window).flops == 2 * 4 * 4 * seen(12, window) * 8


def test_fewer_heads_of_keys_and_values_are_fewer_bytes() -> None:
    token = 2 * 8 * 4
    assert costs().input_bytes == (12 * 4 + 2 * 12 * 4) * token
    assert costs(kv_heads=2).input_bytes == (12 * 4 + 2 * 12 * 2) * token
    assert costs(kv_heads=2).flops == costs().flops


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kv_heads": 3}, r"kv_heads: must divide heads=4 \(got 3\)"),
        ({"kv_heads": 8}, r"kv_heads: must divide heads=4 \(got 8\)"),
        ({"causal": False, "window": 3}, r"window: needs causal \(got window=3\)"),
    ],
)
def test_what_cannot_go_together_is_told(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        KIND.layer(**{**BEFORE, **changes})


@pytest.mark.parametrize("changes", [{"kv_heads": 2}, {"window": 5}, {"kv_heads": 1, "window": 3}, {}])
def test_the_module_computes_what_it_says(changes: dict[str, Any]) -> None:
    workload = make_workload(KIND.layer(**{**BEFORE, **changes}), Condition(batch_size=2))
    query, key, value = workload.inputs
    groups = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
    scores = query @ key.transpose(-1, -2) / 8**0.5
    distance = torch.arange(12)[:, None] - torch.arange(12)
    hidden = (distance < 0) | (distance >= changes.get("window", 12))
    expected = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value
    assert torch.allclose(workload.module(*workload.inputs), expected, atol=1e-5)


def test_what_was_learned_before_goes_on_with_its_own_costs() -> None:
    first = KIND.as_of(1)
    values = first.values_of(Layer("attention", freeze(BEFORE)))
    assert first.costs(values, 2, 4).flops == costs(causal=False).flops
    assert set(first.costs(values, 2, 4).more) == {"pairs", "score_bytes"}
    assert [each.name for each in first.parameters] == list(BEFORE)
    assert KIND.as_of(KIND.revision) is KIND


def test_a_revision_of_tomorrow_is_not_guessed() -> None:
    with pytest.raises(UsageError, match="attention: there is no revision 9 of it"):
        KIND.as_of(9)
