"""Hot and cold caches in whole models, and learning from whole models how they run."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from medn.bundle.bundle import Entry, write_bundle
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.cli.main import run
from medn.core.errors import UsageError
from medn.core.intervals import LEVEL
from medn.core.table import Array, Schema
from medn.deployed.candidate import deployed_of
from medn.model.composition import (
    HOT,
    Composition,
    everywhere,
    load_composition,
)
from medn.model.description import sentences
from medn.model.fit_composition import fit_composition, least_squares_problem, leave_one_network_out
from medn.model.prepared_model import PreparedModel, predict_model
from medn.model.usual_composition import USUAL
from medn.predictor.predictor import Predictor, load
from medn.regressors.form import Form, Parts


class SlowWhenCold(Form):
    """Three times the latency of another form where the last input says that the cache is cold."""

    name = "slow-when-cold"

    def __init__(self, hot: Form) -> None:
        self.hot = hot

    def log_value(self, inputs: Array) -> Array:
        return self.hot.log_value(inputs[:, :-1]) + math.log(3) * inputs[:, -1]

    def parts(self) -> Parts:
        raise NotImplementedError("is never written")

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> SlowWhenCold:
        raise NotImplementedError("is never read")


def with_cache(entry: Entry) -> Entry:
    """The same entry, had it been measured with a hot and with a cold cache."""
    latency = entry.latency
    deployed = deployed_of(latency)
    known = deployed.range
    schema = Schema((*known.schema.names, "cache"), {**known.schema.categories, "cache": ("hot", "cold")})
    known = replace(
        known,
        schema=schema,
        low=np.append(known.low, 0),
        high=np.append(known.high, 0),
        seen={**known.seen, "cache": (0, 1)},
        shift=np.append(known.shift, 0),
        components=np.vstack([known.components, np.zeros(known.components.shape[1])]),
    )
    constants = {name: value for name, value in latency.facts.constants.items() if name != "cache"}
    deployed = replace(deployed, range=known, form=SlowWhenCold(deployed.form), constants=constants, roofline=None)
    facts = replace(latency.facts, schema=schema, constants=constants)
    return replace(entry, latency=replace(latency, facts=facts, deployed=deployed))


@pytest.fixture(scope="module")
def both(predictor: Predictor) -> Predictor:
    return Predictor(replace(predictor.bundle, entries=tuple(map(with_cache, predictor.bundle.entries))))


def model(*sizes: int, batch_size: int = 1) -> CapturedModel:
    layers = [torch.nn.Linear(wide, high) for wide, high in pairwise(sizes)]
    return capture(torch.nn.Sequential(*layers), torch.zeros(batch_size, sizes[0]))


SIZES = ((50, 90), (70, 150, 80), (200, 300, 250, 100), (400, 500))


@pytest.fixture(scope="module")
def models() -> list[CapturedModel]:
    return [model(50, 90), model(70, 150, 80), model(200, 300, 250, 100), model(400, 500), model(*[60] * 9)]


def on_backend(predictor: Predictor, backend: str) -> Predictor:
    return Predictor(replace(predictor.bundle, backends={predictor.device: backend}))


@pytest.mark.parametrize("backend", USUAL)
def test_layers_that_were_measured_hot_and_cold_compose_as_usual_on_their_backend(
    both: Predictor, models: list[CapturedModel], backend: str
) -> None:
    found = predict_model(on_backend(both, backend), models[2])
    same = predict_model(both, models[2], composition=USUAL[backend])
    assert found.latency_s == same.latency_s > predict_model(both, models[2], composition=HOT).latency_s
    assert any("medn compose" in sentence for sentence in sentences(found))


def test_layers_that_were_measured_hot_alone_are_added_up_as_they_are(
    predictor: Predictor, models: list[CapturedModel]
) -> None:
    found = predict_model(on_backend(predictor, "torch"), models[2])
    assert found.latency_s == predict_model(predictor, models[2], composition=HOT).latency_s


def test_a_composition_from_elsewhere_adds_the_errors_of_the_layers(
    both: Predictor, models: list[CapturedModel]
) -> None:
    own = Composition(error=0.1)
    here, elsewhere = (predict_model(both, models[2], composition=each) for each in (own, replace(own, elsewhere=True)))
    alone = predict_model(both, models[2], composition=HOT)
    assert here.high_s - here.latency_s == pytest.approx(0.1 * here.latency_s)
    of_layers = alone.high_s - alone.latency_s
    assert elsewhere.high_s - elsewhere.latency_s == pytest.approx(math.hypot(0.1 * here.latency_s, of_layers))


def test_layers_on_a_backend_that_is_not_known_are_hot_unless_said_otherwise(
    both: Predictor, models: list[CapturedModel]
) -> None:
    found = predict_model(both, models[0])
    layer = {"in_features": 50, "out_features": 90, "dtype": "fp32"}
    assert found.latency_s == pytest.approx(both.layer("linear", **layer, cache="hot").latency_s)
    assert found.cold_share == 0


def test_a_cold_share_lies_between_hot_and_cold(both: Predictor, models: list[CapturedModel]) -> None:
    hot, half, cold = (predict_model(both, models[1], composition=everywhere(share)) for share in (0.0, 0.5, 1.0))
    assert cold.latency_s == pytest.approx(3 * hot.latency_s)
    assert half.latency_s == pytest.approx(2 * hot.latency_s)
    assert half.low_s < half.latency_s < half.high_s
    assert half.rows[0].in_range == hot.rows[0].in_range


def test_a_bundle_measured_one_way_gives_that_way(predictor: Predictor, models: list[CapturedModel]) -> None:
    hot, cold = (predict_model(predictor, models[0], composition=everywhere(share)) for share in (0.0, 1.0))
    assert hot.latency_s == cold.latency_s
    assert hot.rows[0].in_range


def test_every_layer_pays_the_overhead(predictor: Predictor, models: list[CapturedModel]) -> None:
    without, paid = (
        predict_model(predictor, models[2], composition=each) for each in (HOT, Composition(overhead_s=1e-3))
    )
    assert paid.latency_s == pytest.approx(without.latency_s + 3e-3)
    assert paid.rows[0].latency_s == pytest.approx(without.rows[0].latency_s + 1e-3)


def test_what_measured_models_obey_is_found_again(both: Predictor, models: list[CapturedModel]) -> None:
    law = Composition(stretch=1.2, small_share=0.1, large_share=0.7, cache_bytes=300_000, overhead_s=2e-6)
    measured = [(each, PreparedModel(both, each).predict(composition=law).latency_s) for each in models]
    found = fit_composition(both, measured, cache_bytes=law.cache_bytes)
    for each, seconds in measured:
        assert predict_model(both, each, composition=found).latency_s == pytest.approx(seconds, rel=0.01)
    # Where cold is three times hot for every layer, a stretch cannot be told from a cold share.
    assert found.stretch + 2 * found.large_share == pytest.approx(law.stretch + 2 * law.large_share, rel=0.05)
    assert found.overhead_s == pytest.approx(law.overhead_s, rel=0.1)


@pytest.mark.parametrize("backend", USUAL)
def test_what_is_fitted_does_not_depend_on_how_layers_usually_compose(
    both: Predictor, models: list[CapturedModel], backend: str
) -> None:
    usual = on_backend(both, backend)
    measured = [(each, 0.9 * predict_model(usual, each, composition=HOT).latency_s) for each in models]
    found, expected = (asdict(fit_composition(each, measured)) for each in (usual, both))
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)  # the order of sums may differ, and a search follows


def test_models_slower_than_their_layers_by_a_factor_are_stretched(
    predictor: Predictor, models: list[CapturedModel]
) -> None:
    found = fit_composition(predictor, [(each, 1.3 * predict_model(predictor, each).latency_s) for each in models])
    assert found.stretch == pytest.approx(1.3, rel=0.01)
    assert found.overhead_s == pytest.approx(0, abs=1e-7)


def test_without_a_cold_cache_only_the_overhead_is_learned(predictor: Predictor, models: list[CapturedModel]) -> None:
    measured = [(each, predict_model(predictor, each).latency_s + 1e-5 * len(each.layers)) for each in models]
    found = fit_composition(predictor, measured)
    assert (found.small_share, found.large_share) == pytest.approx((0, 0), abs=1e-6)
    assert found.overhead_s == pytest.approx(1e-5, rel=0.01)


def test_models_faster_than_their_layers_have_no_overhead(both: Predictor, models: list[CapturedModel]) -> None:
    found = fit_composition(both, [(each, predict_model(both, each).latency_s / 2) for each in models])
    assert (found.small_share, found.large_share, found.overhead_s) == pytest.approx((0, 0, 0), abs=1e-6)


def test_an_interval_is_as_wide_as_measured_models_were_off(both: Predictor, models: list[CapturedModel]) -> None:
    odd = [1.0, 1.2, 0.8, 1.3, 0.7]
    found = fit_composition(
        both, [(each, share * predict_model(both, each).latency_s) for each, share in zip(models, odd, strict=True)]
    )
    assert 0.2 < found.error < 1.5
    composed = predict_model(both, models[0], composition=found)
    assert composed.high_s == pytest.approx(composed.latency_s * (1 + found.error))
    assert composed.level == found.level == LEVEL


def at_level(entry: Entry, level: float) -> Entry:
    deployed = deployed_of(entry.latency)
    interval = replace(deployed.interval, level=level, calibration_layers=1000)
    return replace(entry, latency=replace(entry.latency, deployed=replace(deployed, interval=interval)))


@pytest.mark.parametrize("level", [0.5, 0.8])
def test_a_bundle_of_another_level_tells_it_of_layers_models_and_what_is_fitted_to_them(
    both: Predictor, models: list[CapturedModel], tmp_path: Path, level: float
) -> None:
    other = Predictor(replace(both.bundle, entries=tuple(at_level(entry, level) for entry in both.bundle.entries)))
    alone = predict_model(other, models[0], composition=HOT)
    assert alone.level == level
    assert f"by intervals of {level:.1%}".replace("%", " %") in " ".join(sentences(alone))
    assert set(alone.layers.level) == {level}
    measured = [(each, (1 + 0.1 * place) * predict_model(other, each).latency_s) for place, each in enumerate(models)]
    found = fit_composition(other, measured)
    assert found.level == level
    assert found.error <= fit_composition(both, measured).error
    found.save(tmp_path / "composition.json")
    composed = predict_model(other, models[0], composition=load_composition(tmp_path / "composition.json"))
    assert composed.level == level
    usual = replace(USUAL["torch"], level=0.9)
    assert predict_model(other, models[0], composition=usual).level == level


def test_a_bundle_of_another_level_keeps_it(
    predictor: Predictor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = tuple(at_level(entry, 0.8) for entry in predictor.bundle.entries)
    write_bundle(tmp_path / "other.medn", replace(predictor.bundle, entries=entries))
    other = load(tmp_path / "other.medn")
    assert other.layer("linear", in_features=64, out_features=64, batch_size=1).level == 0.8
    assert run(["inspect", str(tmp_path / "other.medn"), "--json"]) == 0
    assert {entry["level"] for entry in json.loads(capsys.readouterr().out)["entries"]} == {0.8}


def test_a_composition_of_before_has_the_level_that_all_had(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"stretch": 1.1, "error": 0.2}')
    assert load_composition(tmp_path / "old.json").level == LEVEL
    (tmp_path / "wrong.json").write_text('{"level": 1.5}')
    with pytest.raises(UsageError, match="level: must be between 0 and 1"):
        load_composition(tmp_path / "wrong.json")


def test_layers_outside_of_what_was_measured_widen_an_interval(both: Predictor) -> None:
    composed = predict_model(both, model(50_000, 90), composition=Composition(error=1e-6))
    assert not composed.rows[0].in_range
    assert composed.high_s > composed.latency_s * 1.01


def half_width(predictor: Predictor, asked: CapturedModel, composition: Composition, batch_size: int = 1) -> float:
    """Of the interval of a model, as a share of its time."""
    found = predict_model(predictor, asked, composition=composition, batch_size=batch_size)
    return (found.high_s - found.latency_s) / found.latency_s


def test_what_lies_outside_adds_to_what_models_like_those_are_off_by(both: Predictor) -> None:
    outside = model(50_000, 90)
    alone, little, much = (half_width(both, outside, Composition(error=error)) for error in (1e-6, 0.05, 0.3))
    assert little == pytest.approx(math.hypot(alone, 0.05))
    assert much == pytest.approx(math.hypot(alone, 0.3))


def test_what_layers_outside_explain_is_no_error_of_the_model(both: Predictor) -> None:
    inside = [
        (each, predict_model(both, each).latency_s) for each in (model(50, 90), model(70, 150, 80), model(*[60] * 9))
    ]
    outside = model(50_000, 90)
    off = half_width(both, outside, Composition(error=1e-9))
    for share, left in ((0.8, 0.0), (1.25, 0.75 * off)):
        odd = (outside, (1 + share * off) * predict_model(both, outside).latency_s)
        problem = least_squares_problem(both, [*inside, odd])
        left_out = problem.left_out(3, problem.other_networks(3))
        assert left_out is not None
        assert left_out.error == pytest.approx(left, rel=0.05, abs=1e-9)


def test_a_batch_size_that_was_not_fitted_widens_an_interval(both: Predictor, models: list[CapturedModel]) -> None:
    fitted = Composition(error=0.05, smallest_batch=1, largest_batch=2, batch_error=0.1)
    first, last, beyond, far = (half_width(both, models[1], fitted, batch_size) for batch_size in (1, 2, 4, 8))
    assert (first, last) == pytest.approx((0.05, 0.05))
    assert beyond == pytest.approx(math.hypot(0.05, 0.1))
    assert far == pytest.approx(math.hypot(0.05, 0.2))


def test_that_a_batch_size_was_not_fitted_is_told(both: Predictor, models: list[CapturedModel]) -> None:
    fitted = Composition(error=0.05, smallest_batch=1, largest_batch=2)
    inside, outside = (predict_model(both, models[1], composition=fitted, batch_size=size) for size in (2, 8))
    assert (inside.batch_doublings, outside.batch_doublings) == (0, 2)
    warning = "the batch size lies beyond those that the composition was fitted to"
    assert [any(warning in line for line in sentences(found)) for found in (inside, outside)] == [False, True]


def test_where_nothing_was_fitted_no_batch_size_is_beyond(both: Predictor, models: list[CapturedModel]) -> None:
    assert predict_model(both, models[1], composition=everywhere(0.5), batch_size=8).batch_doublings == 0


def test_how_far_another_batch_size_is_off_is_learned(predictor: Predictor) -> None:
    def fitted(longer: float) -> Composition:
        prepared = [PreparedModel(predictor, model(*each, batch_size=size)) for each in SIZES for size in (1, 8)]
        seconds = [each.predict().latency_s * (longer if each.model.batch_size == 8 else 1) for each in prepared]
        names = [str(each) for each in SIZES for _ in (1, 8)]
        return fit_composition(predictor, list(zip(prepared, seconds, strict=True)), networks=names)

    plain, odd = fitted(1.0), fitted(2.0)
    assert (plain.smallest_batch, plain.largest_batch) == (1, 8)
    assert plain.batch_error == pytest.approx(0, abs=0.01)
    assert odd.batch_error > 0.1


def test_all_batch_sizes_of_a_network_are_left_out_together(predictor: Predictor) -> None:
    prepared = [PreparedModel(predictor, model(*each, batch_size=size)) for each in SIZES for size in (1, 8)]
    odd = [(each, (1 + 0.1 * place) * each.predict().latency_s) for place, each in enumerate(prepared)]
    names = [str(each) for each in SIZES for _ in (1, 8)]
    first = next(iter(leave_one_network_out(predictor, odd, networks=names)))
    assert first == fit_composition(predictor, odd[2:], networks=names[2:])


def test_nothing_is_fitted_to_nothing(predictor: Predictor, models: list[CapturedModel]) -> None:
    with pytest.raises(UsageError, match="at least one"):
        fit_composition(predictor, [])
    with pytest.raises(UsageError, match="measured seconds: must be above 0"):
        fit_composition(predictor, [(models[0], 0.0)])
    with pytest.raises(UsageError, match="networks: must be as many as the measured models, 1"):
        fit_composition(predictor, [(models[0], 1.0)], networks=["small", "large"])


def test_a_composition_is_saved_and_read_again(tmp_path: Path) -> None:
    written = Composition(1.1, 0.2, 0.1, 0.8, 1e6, 3e-6, 0.07, 1, 16, 0.02)
    written.save(tmp_path / "composition.json")
    assert load_composition(tmp_path / "composition.json") == written


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"shape": 0}'])
def test_a_file_that_is_no_composition_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "composition.json").write_text(text)
    with pytest.raises(UsageError, match="not a composition"):
        load_composition(tmp_path / "composition.json")


@pytest.mark.parametrize(
    ("name", "value", "mistake"),
    [
        ("small_share", "a", "must be a number"),
        ("small_share", 2, "small_share: must be from 0 to 1"),
        ("conversion_share", -1, "conversion_share: must be from 0 to 1"),
        ("stretch", 0, "stretch: must be above 0"),
        ("cache_bytes", 0, "cache_bytes: must be above 0"),
        ("overhead_s", -1, "overhead_s: must be"),
        ("error", -1, "error: must be"),
        ("smallest_batch", 0, "smallest_batch: must be"),
        ("largest_batch", 0.5, "largest_batch: must be"),
        ("batch_error", -1, "batch_error: must be"),
        ("elsewhere", 1, "elsewhere true or false"),
    ],
)
def test_a_wrong_value_in_a_composition_is_one_sentence(name: str, value: object, mistake: str, tmp_path: Path) -> None:
    (tmp_path / "composition.json").write_text(json.dumps({**asdict(HOT), name: value}))
    with pytest.raises(UsageError, match=mistake):
        load_composition(tmp_path / "composition.json")


def test_a_composition_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load_composition(tmp_path / "none.json")


def test_a_cold_share_is_a_share() -> None:
    with pytest.raises(UsageError, match="cold_share: must be from 0 to 1"):
        everywhere(1.5)
