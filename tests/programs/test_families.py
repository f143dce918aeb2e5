"""Every family learns from programs and ships as plain arrays that say the same."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from medn.network.moments import moment_discrepancy
from medn.programs import training
from medn.programs.encodings import ENCODINGS, HEAD
from medn.programs.family import Lesson, program_families
from medn.programs.forms.sequence_encoder import SequenceEncoder
from medn.programs.learn import ProgramSplit
from medn.programs.losses import ranking_loss
from medn.programs.network import EncoderDesign, ProgramNetwork
from medn.programs.pooled_nests import program_rates
from medn.programs.predictor import ProgramPredictor
from medn.programs.programs import MeasuredPrograms
from medn.regressors.form import restore
from medn.regressors.regressor import Effort

ENCODERS = {"leaves": "ast_encoder", "nests": "nest_encoder", "steps": "primitive_attention"}
OFTEN = {"epochs": 25, "batch_rows": 32}
TREES = {"most_trees": 60}
BRIEF = {
    **dict.fromkeys(ENCODERS.values(), OFTEN),
    "xgboost_pooled": TREES,
    "xgboost_nests": {**TREES, "members": 2},
    "nest_ensemble": {"xgboost_nests": {**TREES, "members": 1}, "nest_encoder": OFTEN},
}


def fitted(name: str, split: ProgramSplit, devices: tuple[str, ...], **settings: object) -> ProgramPredictor:
    family = program_families[name]
    lesson = Lesson(split.train, split.validation, devices, settings={**BRIEF[name], **settings})
    return ProgramPredictor(name, family.encoding, devices, family.fit(lesson, Effort(60.0)))


@pytest.fixture(scope="module")
def predictors(split: ProgramSplit, devices: tuple[str, ...]) -> dict[str, ProgramPredictor]:
    # Learning is what is tested here, so it stops by what it learns from.
    seen = replace(split, validation=split.train)
    return {name: fitted(name, seen, devices) for name in program_families}


@pytest.mark.parametrize("name", list(program_families))
def test_what_was_learned_is_nearer_than_the_work_alone(
    name: str, predictors: dict[str, ProgramPredictor], split: ProgramSplit
) -> None:
    train = split.train
    work = np.log([program.work_s for program in train.programs])
    usual = work + np.median(np.log(train.latency_s) - work)
    errors = [
        np.abs(each - np.log(train.latency_s)).mean()
        for each in (usual, np.log(predictors[name].latency_s(train.programs)))
    ]
    assert errors[1] < 0.8 * errors[0]


@pytest.mark.parametrize("name", list(program_families))
def test_what_is_saved_says_the_same_when_it_is_loaded(
    name: str, predictors: dict[str, ProgramPredictor], split: ProgramSplit, tmp_path: Path
) -> None:
    predictor, asked = predictors[name], split.test.programs
    predictor.save(tmp_path / "programs.medn")
    loaded = ProgramPredictor.load(tmp_path / "programs.medn")
    assert (loaded.family, loaded.devices) == (name, predictor.devices)
    np.testing.assert_allclose(loaded.latency_s(asked), predictor.latency_s(asked))
    np.testing.assert_allclose(loaded.rank_score(asked), predictor.rank_score(asked))


@pytest.mark.parametrize("name", list(program_families))
def test_one_program_is_answered_as_among_others(
    name: str, predictors: dict[str, ProgramPredictor], split: ProgramSplit
) -> None:
    """Rows beside it may be longer: what is filled up must not count."""
    asked = split.train.programs[::7]
    together = predictors[name].latency_s(asked)
    alone = [predictors[name].latency_s([program])[0] for program in asked]
    np.testing.assert_allclose(alone, together, rtol=1e-4)


@pytest.mark.parametrize("name", list(program_families))
def test_a_device_that_nobody_saw_gets_an_answer_like_those_of_the_others(
    name: str, predictors: dict[str, ProgramPredictor], split: ProgramSplit
) -> None:
    known = predictors[name].latency_s(split.train.programs)
    strange = predictors[name].latency_s([replace(program, device="another") for program in split.train.programs])
    assert np.abs(np.log(strange / known)).mean() < 0.7
    assert predictors[name].latency_s([]).shape == (0,)


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize(
    "design", [EncoderDesign(), EncoderDesign(use_positions=False, use_device=False, blocks=1, width=16)]
)
def test_the_arrays_compute_what_the_network_does(
    encoding: str, design: EncoderDesign, split: ProgramSplit, devices: tuple[str, ...]
) -> None:
    torch.manual_seed(1)
    own = ENCODINGS[encoding]
    rows = own.rows(split.train.programs, devices)
    rates = program_rates(rows, split.train.latency_s, len(devices)) if encoding == "nests" else None
    network = ProgramNetwork(rows, own.token_size, len(devices), own.adds_up, design, rates).eval()
    with torch.no_grad():
        decoded = network(network.batch(rows))
    value, score = network.export().outputs(rows)
    np.testing.assert_allclose(value, decoded.log_latency.numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(score, decoded.score.numpy(), rtol=1e-3, atol=1e-4)


def test_a_fit_with_a_seed_is_the_same_again(split: ProgramSplit, devices: tuple[str, ...]) -> None:
    first, second = (fitted("ast_encoder", split, devices, epochs=2, width=16) for _ in range(2))
    np.testing.assert_allclose(first.latency_s(split.test.programs), second.latency_s(split.test.programs), rtol=1e-6)


def test_a_fit_that_is_short_of_time_still_ends_with_small_steps(
    split: ProgramSplit, devices: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock ticks a second with every look at it, so that eight seconds are eight epochs."""
    asked: list[float] = []
    monkeypatch.setattr(training, "one_cycle", lambda at: asked.append(at) or 0.1)
    ticks = itertools.count()
    teaching = training.Teaching(EncoderDesign(width=16, blocks=1), seconds=8.0, clock=lambda: float(next(ticks)))
    training.fit_encoder("leaves", split.train, split.validation, devices, teaching)
    assert asked[0] == 0
    assert 0.75 < asked[-1] < 1
    assert len(asked) < 60


def test_rows_of_one_device_do_not_teach_the_head_of_another(split: ProgramSplit, devices: tuple[str, ...]) -> None:
    one = split.train.take(split.train.devices == devices[0])
    form = program_families["ast_encoder"].fit(
        Lesson(
            one,
            one.take(np.zeros(len(one), dtype=bool)),
            devices,
            settings={"epochs": 1, "width": 16, "weight_decay": 0.0},
        ),
        Effort(60.0),
    )
    assert isinstance(form, SequenceEncoder)
    torch.manual_seed(0)
    rows = ENCODINGS["leaves"].rows(one.programs, devices)
    fresh = (
        ProgramNetwork(rows, form.token_size, len(devices), True, EncoderDesign(width=16))
        .latency.weight.detach()
        .numpy()
    )
    changed = np.abs(form.arrays["latency.weight"] - fresh).max(axis=1)
    assert changed[0] > 0
    np.testing.assert_array_equal(changed[1:-1], 0)  # the last answers for devices that nobody has seen


def test_the_moment_term_draws_two_domains_together(split: ProgramSplit, devices: tuple[str, ...]) -> None:
    same = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    assert float(moment_discrepancy(same, same)) == 0
    assert float(moment_discrepancy(same, same + 1)) > float(moment_discrepancy(same, same + 0.1)) > 0
    lesson = Lesson(
        split.train, split.validation, devices, split.test, {"epochs": 1, "width": 16, "moment_weight": 1.0}
    )
    assert np.isfinite(program_families["ast_encoder"].fit(lesson, Effort(60.0)).arrays["rank.weight"]).all()  # type: ignore[attr-defined]


def test_the_ranking_term_wants_faster_programs_to_score_higher() -> None:
    latency, groups = torch.log(torch.tensor([1.0, 2.0, 4.0, 8.0])), torch.zeros(4, dtype=torch.int64)
    right, wrong = torch.tensor([3.0, 2.0, 1.0, 0.0]), torch.tensor([0.0, 1.0, 2.0, 3.0])
    assert ranking_loss(right, latency, groups) < ranking_loss(wrong, latency, groups)
    assert float(ranking_loss(right, latency, torch.arange(4))) == 0


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        ("latency.weight", np.zeros((2, 3), np.float32), "must have the shape"),
        ("token.weight", np.full((16, 164), np.nan, np.float32), "must be between"),
        ("blocks.0.mix.bias", None, "without blocks.0.mix.bias"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    name: str, wrong: np.ndarray | None, sentence: str, split: ProgramSplit, devices: tuple[str, ...]
) -> None:
    rows = ENCODINGS["leaves"].rows(split.train.programs[:4], devices)
    form = ProgramNetwork(rows, 164, len(devices), True, EncoderDesign(width=16)).export()
    arrays = {key: array for key, array in form.arrays.items() if key != name}
    broken = replace(form.parts(), arrays=arrays if wrong is None else {**arrays, name: wrong})
    with pytest.raises(ValueError, match=sentence):
        restore(broken, HEAD + 166)


def test_trees_over_rates_of_another_shape_are_refused(predictors: dict[str, ProgramPredictor]) -> None:
    predictor = predictors["xgboost_nests"]
    parts = predictor.form.parts()
    width = ENCODINGS["nests"].width(len(predictor.devices))
    with pytest.raises(ValueError, match="the rates of a pool"):
        restore(replace(parts, arrays={"rates": parts.arrays["rates"][:, 1:]}), width)


def test_every_family_says_what_it_is() -> None:
    for name in program_families:
        family = program_families[name]
        assert family.description
        assert family.encoding in ENCODINGS
        assert family.missing() is None


def test_programs_are_rows_of_one_table(programs: MeasuredPrograms, devices: tuple[str, ...]) -> None:
    assert {len(encoding.rows(programs.programs, devices)) for encoding in ENCODINGS.values()} == {len(programs)}
