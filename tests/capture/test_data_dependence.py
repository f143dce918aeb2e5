"""Values that only a real run would know: a real run where it can be afforded, otherwise guesses that are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel, load_captured
from medn.core.errors import UsageError

TOLERANCE = 1e-3


class Halving(nn.Module):
    """Goes on until the error is small: ten steps from an error of 1."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(96, 96)
        nn.init.zeros_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.amax() > TOLERANCE:
            x = (x + self.fc(x)) / 2
        return x


class Fixpoint(Halving):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            y = (x + self.fc(x)) / 2
            if (y - x).norm() < TOLERANCE:
                return y
            x = y


class Stubborn(Fixpoint):
    """Takes every error for one of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            try:
                if (x + self.fc(x)).sum() < 0:
                    return x
            except Exception:
                continue


class Counting(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            x = x + 1


EXAMPLE = torch.ones(96, 96)
NO_DATA = torch.ones(96, 96, device="meta")


@pytest.fixture(autouse=True)
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medn.capture.data_dependence.MAX_GUESSES_PER_LINE", 30)


def linear_layers(model: CapturedModel) -> int:
    return sum(each.layer is not None and each.layer.kind == "linear" for each in model.layers)


def test_a_loop_on_an_error_is_captured_with_all_its_steps() -> None:
    model = capture(Halving(), EXAMPLE)
    assert (linear_layers(model), model.guesses, model.how) == (10, 0, "one real run")


def test_a_loop_without_a_condition_is_captured_with_all_its_steps() -> None:
    model = capture(Fixpoint(), EXAMPLE)
    assert (model.guesses, model.how) == (0, "one real run")
    assert linear_layers(model) > 10


def test_a_guess_says_where_it_was_asked_and_what_was_taken() -> None:
    model = capture(nn.Sequential(Halving()), NO_DATA)
    assert model.guesses == 1
    (guess,) = model.guessed
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "while x.amax()" in text)
    assert (guess.name, guess.place, guess.answer, guess.count) == ("0", f"{Path(__file__).name}:{line}", "False", 1)


def test_a_guess_that_cannot_be_afforded_to_be_found_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medn.capture.torch_capture.AFFORDABLE_FLOPS", 1e6)
    model = capture(Halving(), EXAMPLE)
    assert (model.guesses, model.how) == (1, "shapes alone")


@pytest.mark.parametrize("kind", [Fixpoint, Stubborn])
def test_a_loop_that_waits_for_a_value_is_given_up(kind: type[nn.Module]) -> None:
    with pytest.raises(UsageError, match=r"value again and again that only a real run has \(test_data_dependence"):
        capture(kind(), NO_DATA)


@pytest.mark.parametrize(("kind", "example"), [(Counting, EXAMPLE), (Counting, NO_DATA), (Stubborn, EXAMPLE)])
def test_a_call_that_never_ends_is_given_up(kind: type[nn.Module], example: torch.Tensor) -> None:
    with pytest.raises(UsageError, match=r"one call takes more than max_operators = 200"):
        capture(kind(), example, max_operators=200)


def test_a_real_run_that_goes_on_is_given_up_for_what_was_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Halving()
    nn.init.eye_(net.fc.weight)  # now the error stays
    monkeypatch.setattr("medn.capture.torch_capture.AFFORDABLE_FLOPS", 1e8)
    assert capture(net, EXAMPLE).guesses == 1


def test_experts_whose_rows_are_known_get_them() -> None:
    class Experts(nn.Module):
        def forward(self, rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
            return torch._grouped_mm(rows, weights, offs=ends)

    given: tuple[Any, ...] = (torch.zeros(16, 8), torch.zeros(2, 8, 4))
    known = capture(Experts(), (*given, torch.tensor([4, 16], dtype=torch.int32)))
    assert [each.batch_size for each in known.layers if each.layer] == [4, 12]
    unknown = capture(Experts(), (*given, torch.empty(2, dtype=torch.int32, device="meta")))
    assert [each.batch_size for each in unknown.layers if each.layer] == [8, 8]
    assert [(each.answer, each.count) for each in unknown.guessed] == [("equal shares of the rows", 1)]


def test_guesses_are_saved_and_loaded(tmp_path: Path) -> None:
    model = capture(Halving(), NO_DATA)
    model.save(tmp_path / "net.json")
    assert load_captured(tmp_path / "net.json") == model


def test_a_file_from_before_guesses_had_places_is_read(tmp_path: Path) -> None:
    capture(Halving(), NO_DATA).save(tmp_path / "net.json")
    content = json.loads((tmp_path / "net.json").read_text())
    del content["model"]["guessed"]
    (tmp_path / "net.json").write_text(json.dumps(content))
    model = load_captured(tmp_path / "net.json")
    assert (model.guesses, model.guessed) == (1, ())


def test_a_large_batch_takes_no_memory() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    model = capture(net, torch.zeros(1, 3, 224, 224), batch_size=10**6)  # 600 GB
    assert {each.batch_size for each in model.layers} == {10**6}


class Positive(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x.sum(1) > 0].relu()


def test_how_many_rows_a_mask_picks_is_guessed_and_told() -> None:
    model = capture(Positive(), NO_DATA)
    assert (model.outputs[0].shape, model.guesses) == ((96, 96), 1)
    assert model.guessed[0].answer == "all elements of a mask"


def test_how_many_rows_a_mask_picks_is_found_out_where_there_is_data() -> None:
    model = capture(Positive(), torch.cat([EXAMPLE, -EXAMPLE]))
    assert (model.outputs[0].shape, model.guesses) == ((96, 96), 0)


def test_a_large_batch_is_not_made_for_a_real_run() -> None:
    class Unique(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.unique().relu()

    with pytest.raises(UsageError, match=r"one real run: not possible, inputs of 602 GB would have to be made"):
        capture(Unique(), torch.zeros(1, 3, 224, 224), batch_size=10**6)


@pytest.mark.parametrize("batch_size", [10**19, 10**39, 10**400])
def test_a_batch_that_no_tensor_can_hold_is_one_sentence(batch_size: int) -> None:
    with pytest.raises(UsageError, match=r"batch_size: 10+ is more than a tensor can hold"):
        capture(nn.ReLU(), torch.zeros(1, 3), batch_size=batch_size)
