"""Which sub-modules of a model become its blocks."""

from __future__ import annotations

import torch

from medn.blocks.calls import callable_names
from medn.blocks.chosen import LARGEST, MOST_BLOCKS, SMALLEST, ModelBlock, chosen_blocks
from medn.capture.capture import capture


class Residual(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return given + self.narrow(torch.relu(self.wide(given)))


def blocks_of(module: torch.nn.Module, given: torch.Tensor) -> list[ModelBlock]:
    return chosen_blocks(capture(module, given), callable_names((module, (given,))))


def test_of_equal_sub_modules_the_first_is_a_block() -> None:
    model = torch.nn.Sequential(*(Residual(64) for _ in range(6)))
    assert [block.name for block in blocks_of(model, torch.zeros(8, 64))] == ["0"]


def test_blocks_are_as_large_as_they_may_be_and_then_what_these_consist_of() -> None:
    pairs = (torch.nn.Sequential(Residual(64), Residual(64), torch.nn.Linear(64, 64)) for _ in range(4))
    found = blocks_of(torch.nn.Sequential(*pairs), torch.zeros(8, 64))
    assert [(block.name, block.within) for block in found] == [("0", "0"), ("0.0", "0")]


def test_no_block_is_more_than_a_share_of_the_model_nor_hardly_any_of_it() -> None:
    sizes = (16, 32, 48, 64, 80, 96, 112)
    parts = (torch.nn.Sequential(torch.nn.Linear(128, size), torch.nn.Linear(size, 128)) for size in sizes)
    found = blocks_of(torch.nn.Sequential(*parts), torch.zeros(64, 128))
    assert found
    assert all(SMALLEST <= block.share <= LARGEST for block in found)


def test_there_are_only_so_many_blocks() -> None:
    parts = (torch.nn.Sequential(torch.nn.Linear(128, size), torch.nn.Linear(size, 128)) for size in range(60, 76))
    assert len(blocks_of(torch.nn.Sequential(*parts), torch.zeros(64, 128))) == MOST_BLOCKS


def test_a_model_of_single_layers_has_no_blocks() -> None:
    assert blocks_of(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 32)), torch.zeros(8, 64)) == []


def test_what_is_called_twice_or_never_is_no_block_by_itself() -> None:
    class Shared(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.twice = Residual(64)
            self.listed = torch.nn.ModuleList([Residual(48), Residual(32)])

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            given = self.twice(self.twice(given))
            return self.listed[0](given[:, :48])[:, :32] + self.listed[1](given[:, :32])

    model, given = Shared(), torch.zeros(8, 64)
    assert callable_names((model, (given,))) == {
        *("listed.0", "listed.0.wide", "listed.0.narrow", "listed.1", "listed.1.wide", "listed.1.narrow")
    }
    assert {block.name for block in blocks_of(model, given)} <= {"listed.0", "listed.1"}
