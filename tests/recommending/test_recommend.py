"""The right device: limits with confidence, memory with a margin, prices, and slices of GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

import medn
from medn.capture.captured_model import CapturedModel
from medn.cli.main import run
from medn.devices.mig import GPUS
from medn.model.prepared_model import PreparedModel
from medn.predictor.predictor import Predictor
from medn.recommending.recommend import (
    MEMORY_MARGIN,
    ModelLimits,
    confident_latency_s,
    recommend_device,
    slice_factor,
)


@pytest.fixture(scope="module")
def bundle(made_up_bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two devices: a slow one, and an A100 that is no faster, as a law says."""
    found: Path = made_up_bundle.write_made_up_bundle(
        tmp_path_factory.mktemp("recommend") / "run", "affine", ("A100", "laptop")
    )
    return found


@pytest.fixture(scope="module")
def predictors(bundle: Path) -> dict[str, Predictor]:
    return {device: medn.load(bundle, device) for device in ("A100", "laptop")}


@pytest.fixture(scope="module")
def model() -> CapturedModel:
    torch = pytest.importorskip("torch")
    layers = [torch.nn.Linear(400, 400), torch.nn.ReLU(), torch.nn.Linear(400, 400)]
    return medn.capture(torch.nn.Sequential(*layers), torch.zeros(8, 400))


@pytest.fixture(scope="module")
def model_file(model: CapturedModel, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model") / "model.json"
    model.save(path)
    return str(path)


def test_the_cheapest_that_meets_the_limits_comes_first(predictors: dict[str, Predictor], model: CapturedModel) -> None:
    found = recommend_device(
        model, predictors, ModelLimits(max_s=1.0), prices={"A100": 2.0, "laptop": 0.1, "A100/1g.5gb": 0.2}, slices=True
    )
    assert found.best is not None
    assert found.best.name == "laptop"
    assert "the cheapest that meets the limits: laptop" in found.sentence
    prices = [each.price for each in found.options if each.meets and each.price is not None]
    assert prices == sorted(prices)


def test_a_slice_without_a_price_costs_its_share(predictors: dict[str, Predictor], model: CapturedModel) -> None:
    found = recommend_device(model, predictors, ModelLimits(max_s=1.0), prices={"A100": 7.0})
    prices = {each.name: each.price for each in found.options}
    assert prices["A100/2g.10gb"] == pytest.approx(2.0)
    assert prices["laptop"] is None


def test_a_limit_must_hold_with_the_confidence(predictors: dict[str, Predictor], model: CapturedModel) -> None:
    predicted = PreparedModel(predictors["laptop"], model).predict()
    sure = [confident_latency_s(predicted, share) for share in (0.5, 0.8, 0.95, 0.999)]
    assert sure[0] == pytest.approx(predicted.latency_s)
    assert sure == sorted(sure)
    one_sided = confident_latency_s(predicted, (1 + predicted.level) / 2)
    assert one_sided == pytest.approx(predicted.high_s)
    between = ModelLimits(max_s=(sure[0] + sure[2]) / 2, confidence=0.95)
    only = {"laptop": predictors["laptop"]}
    assert recommend_device(model, only, between).best is None
    assert recommend_device(model, only, ModelLimits(max_s=between.max_s, confidence=0.5)).best is not None
    (option,) = recommend_device(model, only, between).options
    assert "but only below" in option.reasons[0]


def test_memory_counts_with_its_margin(predictors: dict[str, Predictor], model: CapturedModel) -> None:
    needed = PreparedModel(predictors["laptop"], model).predict().memory_bytes
    only = {"laptop": predictors["laptop"]}
    assert recommend_device(model, only, ModelLimits(max_bytes=1.01 * MEMORY_MARGIN * needed)).best is not None
    (option,) = recommend_device(model, only, ModelLimits(max_bytes=1.01 * needed)).options
    assert "more than" in option.reasons[0]
    assert not option.meets


def test_the_smallest_slice_that_meets_the_limits_is_taken_and_none_where_none_does(
    predictors: dict[str, Predictor], model: CapturedModel
) -> None:
    only = {"A100": predictors["A100"]}
    whole = recommend_device(model, only, ModelLimits(), slices=False).options[0]
    assert whole.confident_s is not None
    for times, best in ((9.0, "A100/1g.5gb"), (4.5, "A100/2g.10gb"), (2.5, "A100/3g.20gb"), (1.01, "A100")):
        found = recommend_device(model, only, ModelLimits(max_s=times * whole.confident_s))
        assert found.best is not None
        assert found.best.name == best
        assert found.best.scaled == (best != "A100")
    refused = recommend_device(model, only, ModelLimits(max_s=0.9 * whole.confident_s))
    assert refused.best is None
    assert "none of 6 options meets the limits" in refused.sentence
    assert all(each.reasons for each in refused.options)


def test_a_model_that_does_not_fit_a_slice_is_refused_there(predictors: dict[str, Predictor]) -> None:
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        net = torch.nn.Sequential(*(torch.nn.Linear(30_000, 30_000) for _ in range(2)))
    large = medn.capture(net, torch.empty(1, 30_000, device="meta"))
    found = recommend_device(large, {"A100": predictors["A100"]}, ModelLimits())
    assert [each.name for each in found.options if not each.meets] == ["A100/1g.5gb"]
    assert "and it has 5 GB" in next(each for each in found.options if not each.meets).reasons[0]


def test_a_layer_is_slowed_by_what_bounds_it(predictors: dict[str, Predictor], model: CapturedModel) -> None:
    profile = GPUS["A100-40GB"].profiles[3]  # 3g.20gb: 3 of 7 multiprocessors, half of the bandwidth
    found = PreparedModel(predictors["A100"], model).predict()
    assert slice_factor(found, profile, balance=1e-9) == pytest.approx(7 / 3)  # all of it is arithmetic
    assert slice_factor(found, profile, balance=1e9) == pytest.approx(2.0)  # all of it is memory
    assert slice_factor(found, profile, balance=None) == pytest.approx(7 / 3)


def test_several_batch_sizes_are_each_judged(predictors: dict[str, Predictor], model: CapturedModel) -> None:
    only = {"laptop": predictors["laptop"]}
    found = recommend_device(model, only, ModelLimits(max_s=1.0), batch_sizes=(1, 8))
    assert {each.batch_size for each in found.options} == {1, 8}


def test_the_command_says_which_and_why_not(
    bundle: Path, model_file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["recommend", model_file, "--max-ms", "1000", "--max-mb", "4000", "--bundles", str(bundle)]
    assert run([*arguments, "--prices", "A100=3", "--prices", "laptop=0.5"]) == 0
    out, err = capsys.readouterr()
    assert max(map(len, out.splitlines())) <= 80
    assert "A100/1g.5gb" in out
    assert "are scaled from those of the whole GPU, not measured" in err
    assert "the cheapest that meets the limits: A100/1g.5gb" in err
    assert run([*arguments, "--json", "--no-mig"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {each["name"] for each in told["options"]} == {"A100", "laptop"}
    assert told["best"]["meets"] is True


def test_where_nothing_meets_the_limits_the_command_fails_with_the_nearest(
    bundle: Path, model_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["recommend", model_file, "--max-ms", "0.000001", "--bundles", str(bundle)]) == 1
    assert "meets the limits; the nearest is " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say which devices there are"),
        (["--bundles", "BUNDLE"], "say what must be met"),
        (["--bundles", "BUNDLE", "--max-ms", "-1"], "--max-ms: must be a number above 0"),
        (["--bundles", "BUNDLE", "--max-ms", "nan"], "--max-ms: must be a number above 0"),
        (["--bundles", "BUNDLE", "--max-mb", "0"], "--max-mb: must be a number above 0"),
        (["--bundles", "BUNDLE", "--max-ms", "1", "--confidence", "1"], "--confidence: must be from 0.5"),
        (["--bundles", "BUNDLE", "--max-ms", "1", "--batch", "0"], "--batch: must be whole numbers"),
        (["--bundles", "BUNDLE", "--max-ms", "1", "--prices", "phone=1"], "no device is named phone"),
        (["--bundles", "BUNDLE", "--max-ms", "1", "--prices", "A100=cheap"], "must be a number from 0 on"),
        (["--bundles", "BUNDLE", "--max-ms", "1", "--prices", "nowhere.yaml"], "cannot be read"),
        (["--bundles", "BUNDLE", "BUNDLE2", "--max-ms", "1"], "BUNDLE2"),
    ],
)
def test_wrong_options_are_one_sentence(
    bundle: Path, model_file: str, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(bundle) if each == "BUNDLE" else each for each in arguments]
    assert run(["recommend", model_file, *given]) in (1, 2)
    assert sentence in capsys.readouterr().err


def test_prices_come_from_a_file(bundle: Path, model_file: str, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("A100: 3\nlaptop: 0.1\n")
    arguments = ["recommend", model_file, "--max-ms", "1000", "--bundles", str(bundle), "--prices"]
    assert run([*arguments, str(prices)]) == 0
    prices.write_text("- 3\n")
    assert run([*arguments, str(prices)]) == 2
