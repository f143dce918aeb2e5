"""Sub-modules as they are called in a model, each as a module of tensors alone."""

from __future__ import annotations

import torch

from medn.blocks.calls import recorded_calls, timeable
from medn.capture.capture import capture


class Mixed(torch.nn.Module):
    """Takes tensors in a list and by name, and things that are no tensors; gives a list, and changes its input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(
        self, given: list[torch.Tensor], times: int, *, added: torch.Tensor, mask: object = None
    ) -> list[torch.Tensor]:
        first, second = given
        return [self.linear(first.relu_()) * times + added, second]


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Mixed()

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        first, second = self.inner([given.clone(), given + 1], 3, added=given, mask=None)
        return first + second


def test_a_sub_module_gives_by_itself_what_it_gives_in_the_model() -> None:
    model, given = Outer().eval(), torch.randn(2, 4)
    call = recorded_calls((model, (given,)), ["inner"])["inner"]
    module, inputs = timeable(call)
    with torch.inference_mode():
        first, second = module(*inputs)
        assert torch.allclose(first + second, model(given))


def test_its_inputs_are_as_they_were_before_it_changed_them() -> None:
    given = torch.tensor([[-1.0, 2.0, -3.0, 4.0]])
    call = recorded_calls((Outer().eval(), (given,)), ["inner"])["inner"]
    assert torch.equal(call.tensors[0], given)


def test_it_can_be_captured_and_has_weights_of_its_own() -> None:
    model = Outer().eval()
    module, inputs = timeable(recorded_calls((model, (torch.randn(2, 4),)), ["inner"])["inner"])
    assert "linear" in {each.layer.kind for each in capture(module, inputs).layers if each.layer}
    assert {each.data_ptr() for each in module.parameters()}.isdisjoint(each.data_ptr() for each in model.parameters())


def test_no_hook_stays_behind() -> None:
    model = Outer().eval()
    recorded_calls((model, (torch.randn(2, 4),)), ["inner"])
    assert not any(each._forward_pre_hooks for each in model.modules())
