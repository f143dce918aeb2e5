"""Capture leaves everything as it was: the model, what it shares with others, the inputs and the random state."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import random
import resource
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from experiments.real_models import SMALL, image_model, language_model
from experiments.state_snapshot import changes_by_capture, differences, random_snapshot, snapshot
from medn.capture.capture import capture
from medn.core.errors import MednError, UsageError
from tests.capture import hostile


def seeded() -> None:
    random.seed(3)
    np.random.seed(3)  # the shared one
    torch.manual_seed(3)


def everything(net: nn.Module, inputs: Any) -> dict[str, Any]:
    """The model, its inputs, its classes, the names of its file, and what all share."""
    found = {**snapshot(net), **snapshot(inputs, "inputs"), **random_snapshot()}
    for kind in {type(part) for part in net.modules() if not type(part).__module__.startswith("torch")}:
        for name, value in vars(kind).items():
            found |= snapshot(value, f"{kind.__name__}.{name}")
    for name in ("LAST", "LOG", "STATE"):
        found |= snapshot(getattr(hostile, name), name)
    return found


@pytest.mark.parametrize("name", hostile.MAKERS)
def test_nothing_changes(name: str) -> None:
    net, inputs = hostile.MAKERS[name]()
    seeded()
    before = everything(net, inputs)
    with contextlib.suppress(MednError):
        capture(net, inputs)
    after = everything(net, inputs)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    assert differences(before, after) == []


@pytest.mark.parametrize("name", [name for name in hostile.MAKERS if name != "a_call_that_fails_half_way"])
def test_hostile_modules_are_captured(name: str) -> None:
    net, inputs = hostile.MAKERS[name]()
    assert capture(net, inputs).layers


@pytest.mark.parametrize("name", [name for name in hostile.MAKERS if name != "a_call_that_fails_half_way"])
def test_a_later_call_gives_what_it_would_have_given(name: str) -> None:
    found = []
    for captured in (False, True):
        seeded()
        net, inputs = hostile.MAKERS[name]()
        hostile.table.cache_clear()
        hostile.LOG.clear()
        hostile.VARIABLE.set(None)
        if captured:
            capture(net, inputs)
        seeded()
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        with torch.no_grad():
            found.append(net(*given))
        torch.set_default_dtype(torch.float32)
        torch.set_grad_enabled(True)
    assert torch.equal(*found)


def test_weights_used_twice_keep_their_data() -> None:
    layer = nn.Linear(16, 16)
    before = layer.weight.detach().clone()
    capture(nn.Sequential(layer, nn.ReLU(), layer), hostile.rows())
    assert torch.equal(layer.weight, before)


def test_a_result_from_before_can_still_be_differentiated() -> None:
    net, inputs = hostile.a_call_that_needs_data()
    loss = net.fc(inputs).square().sum()
    capture(net, inputs)
    loss.backward()
    assert net.fc.weight.grad is not None


@pytest.mark.parametrize("name", ["a_forward_replaced_by_one_around_it", "a_forward_that_names_its_model"])
def test_a_forward_that_goes_around_the_copy_is_led_to_it(name: str) -> None:
    model = capture(*hostile.MAKERS[name]())
    named = {each.name: each.parameter_bytes for each in model.layers if each.operator == "aten.addmm"}
    assert set(named) <= {"0", "fc"}
    assert set(named.values()) == {(16 * 16 + 16) * 4}
    assert "aten.add_" not in {each.operator for each in model.layers}  # batches are only counted in training


def test_an_interrupted_capture_leaves_no_trace() -> None:
    def interrupted(self: Any, x: torch.Tensor) -> torch.Tensor:
        hostile.STATE["x"] = x
        random.random()
        raise KeyboardInterrupt

    net, inputs = hostile.Calls(interrupted), hostile.rows()
    before = everything(net, inputs)
    with pytest.raises(KeyboardInterrupt):
        capture(net, inputs)
    assert differences(before, everything(net, inputs)) == []


def test_modules_at_work_in_other_threads_are_not_captured() -> None:
    other, stop = nn.LSTM(4, 4), threading.Event()

    def work() -> None:
        while not stop.is_set():
            other(torch.zeros(2, 1, 4))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        model = capture(nn.Sequential(*(nn.Linear(16, 16) for _ in range(100))), hostile.rows())
    finally:
        stop.set()
        thread.join()
    assert [each.operator for each in model.layers] == ["aten.addmm"] * 100


def test_nothing_is_cleaned_up_with_the_copy() -> None:
    net, inputs = hostile.a_resource_that_cleans_up()
    hostile.CLEANED.clear()
    capture(net, inputs)
    gc.collect()
    assert hostile.CLEANED == []


def test_a_generator_that_a_call_uses_is_refused_by_its_name() -> None:
    net, inputs = hostile.a_generator_that_is_not_used()
    net.function = lambda self, x: x * next(self.source)
    with pytest.raises(UsageError, match=r"the model\.source is a generator, which cannot be copied"):
        capture(net, inputs)
    assert next(net.source) == 0  # type: ignore[arg-type]


def test_what_a_call_writes_into_a_file_goes_nowhere(tmp_path: Path) -> None:
    with (tmp_path / "log.txt").open("w") as log:
        capture(hostile.Calls(lambda self, x: (self.log.write("called"), x)[1], log=log), hostile.rows())
    assert (tmp_path / "log.txt").read_text() == ""


def test_what_is_kept_where_nobody_can_look_is_told() -> None:
    def hides(self: Any, x: torch.Tensor) -> torch.Tensor:
        sys.modules[__name__].__dict__["hid" + "den"] = x.relu()
        return x

    with pytest.warns(UserWarning, match="1 tensors without data are still held"):
        capture(hostile.Calls(hides), hostile.rows())
    del globals()["hidden"]


def test_weights_are_not_copied() -> None:
    net = nn.Linear(20_000, 10_000, bias=False)  # 800 MB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    capture(net, torch.zeros(1, 20_000))
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 400e6


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="needs the extra 'models'")
@pytest.mark.parametrize("name", ["resnet18", "levit_128", "swin_tiny_patch4_window7_224"])
def test_image_models_are_untouched(name: str) -> None:
    net, inputs = image_model(name, with_data=True)
    assert changes_by_capture(net, inputs) == []


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs the extra 'models'")
@pytest.mark.parametrize("name", ["bert", "mixtral", "whisper"])
def test_language_models_are_untouched(name: str) -> None:
    net, inputs = language_model(name, with_data=True, **SMALL[name])
    assert changes_by_capture(net, inputs) == []


def test_a_property_in_the_place_of_a_slot_is_not_put_back() -> None:
    class Plain:
        __slots__ = ("value",)

    class Computed(Plain):
        @property
        def value(self) -> list[int]:  # type: ignore[override]
            return []

    class Holder(hostile.Calls):
        held = Computed()

    with warnings.catch_warnings(action="error"):
        capture(Holder(lambda self, x: x * len(self.held.value)), hostile.rows())
