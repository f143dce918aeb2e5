"""`medn.integrations`: the functions hold on networks of many shapes; tests/docs runs the snippets of the docs."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medn
from medn.capture.capture import capture
from medn.core.errors import MednError, UsageError
from medn.core.packages import missing
from medn.integrations import optuna as with_optuna
from medn.integrations import pymoo as with_pymoo
from medn.integrations.pipelining import balanced_stages, split
from medn.integrations.torch_pruning import SecondsImportance, last_layers, prune, prune_until, suggested_step
from medn.predictor.predictor import Predictor

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'medn[train]'")
nn = torch.nn

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "integrations.md"
NEEDED = {
    "torch_pruning": ("torch_pruning", "optimizers"),
    "optuna": ("optuna", "train"),
    "pymoo": ("pymoo", "optimizers"),
    "pipelining": ("torch", "train"),
    "nncf": ("nncf", "quantize"),
}
"""Each integration with its package and the extra that brings it."""


def needs(integration: str) -> pytest.MarkDecorator:
    package, extra = NEEDED[integration]
    sentence = missing(f"medn.integrations.{integration}", [package], extra)
    return pytest.mark.skipif(sentence is not None, reason=sentence or "")


def snippets() -> dict[str, str]:
    """The Python blocks by the integration they import; the first one, which imports none, makes the network."""
    blocks = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.S | re.M)
    found = {(re.findall(r"medn\.integrations\.(\w+)", block) or ["network"])[0]: block for block in blocks}
    assert set(found) == {"network", *NEEDED}
    return found


@pytest.fixture(scope="module")
def predictor(convolution_bundle: Path) -> Predictor:
    return medn.load(convolution_bundle)


@pytest.mark.parametrize("integration", NEEDED)
def test_a_snippet_has_at_most_twenty_lines(integration: str) -> None:
    assert len([line for line in snippets()[integration].splitlines() if line.strip()]) <= 20


def test_importing_the_integrations_imports_none_of_their_programs() -> None:
    import subprocess
    import sys

    modules = ", ".join(f"medn.integrations.{name}" for name in NEEDED)
    heavy = ["torch_pruning", "optuna", "pymoo", "nncf", "openvino"]
    code = f"import sys, {modules}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("integration", "call"),
    [
        ("torch_pruning", lambda: prune(nn.Linear(1, 1), torch.rand(1, 1), None, share=0.5)),  # type: ignore[arg-type]
        ("optuna", with_optuna.constrained_study),
        ("pymoo", lambda: with_pymoo.latency_problem(len, len, [0], [1])),  # type: ignore[arg-type]
    ],
)
def test_a_missing_program_is_one_sentence_with_the_fix(
    integration: str, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    package, extra = NEEDED[integration]
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(MednError, match=rf"needs {package}: pip install 'medn\[{extra}\]'"):
        call()


def mobile() -> Any:
    """A depthwise convolution between two others, a way around them, and two heads."""

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 32, 3, 2, padding=1)
            self.wide, self.deep = nn.Conv2d(32, 64, 1), nn.Conv2d(64, 64, 3, padding=1, groups=64)
            self.narrow, self.grouped = nn.Conv2d(64, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=4)
            self.heads = nn.ModuleList([nn.Linear(32 * 16, 10), nn.Linear(32 * 16, 4)])

        def forward(self, image: Any) -> Any:
            stem = torch.relu(self.stem(image))
            inner = stem + self.narrow(torch.relu(self.deep(torch.relu(self.wide(stem)))))
            flat = torch.nn.functional.max_pool2d(self.grouped(inner), 4).flatten(1)
            return [head(flat) for head in self.heads]

    torch.manual_seed(0)
    return Net().eval()


@needs("torch_pruning")
@pytest.mark.parametrize("batch_size", [1, 2])
def test_depthwise_and_grouped_layers_and_several_heads_are_pruned(predictor: Predictor, batch_size: int) -> None:
    net, images = mobile(), torch.rand(batch_size, 3, 32, 32)
    pruned = prune(net, images, predictor, share=0.7, round_to=4)
    assert pruned.share <= 0.7
    assert [tuple(output.shape) for output in net(images)] == [(batch_size, 10), (batch_size, 4)]


def test_the_layers_that_give_the_outputs_are_found(predictor: Predictor) -> None:
    net = mobile()
    assert set(last_layers(net, capture(net, torch.rand(1, 3, 32, 32)))) == set(net.heads)


@needs("torch_pruning")
def test_a_model_within_its_budget_stays_as_it_is(predictor: Predictor) -> None:
    net, image = mobile(), torch.rand(1, 3, 32, 32)
    pruned = prune(net, image, predictor, budget_s=1.0)
    assert pruned.after_s == pruned.before_s
    assert net.wide.out_channels == 64


@needs("torch_pruning")
def test_a_budget_that_cannot_be_reached_is_told(predictor: Predictor) -> None:
    with pytest.raises(MednError, match=r"the budget .* is not reached with 50% of the channels"):
        prune(mobile(), torch.rand(1, 3, 32, 32), predictor, share=0.001, max_pruning_ratio=0.5, round_to=8)


@needs("torch_pruning")
@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({}, "either share or budget_s"),
        ({"share": 0.5, "budget_s": 1.0}, "either share or budget_s"),
        ({"share": 1.5}, r"share: must be between 0 and 1 \(got 1.5\)"),
        ({"share": float("nan")}, "share: must be between 0 and 1"),
        ({"budget_s": 0.0}, "budget_s: must be above 0"),
    ],
)
def test_a_budget_that_is_none_is_one_sentence(wanted: dict[str, float], sentence: str, predictor: Predictor) -> None:
    with pytest.raises(UsageError, match=sentence):
        prune(mobile(), torch.rand(1, 3, 32, 32), predictor, **wanted)  # type: ignore[arg-type]


@needs("torch_pruning")
def test_any_cost_of_the_captured_model_may_be_the_budget(predictor: Predictor) -> None:
    net, image = mobile(), torch.rand(1, 3, 32, 32)
    importance = SecondsImportance(net, capture(net, image), predictor)
    before = capture(net, image).parameter_bytes
    after = prune_until(net, image, importance, lambda now: now.parameter_bytes, 0.8 * before, 4, list(net.heads))
    assert after.parameter_bytes <= 0.8 * before


def test_a_network_without_convolutions_is_pruned_channel_by_channel(predictor: Predictor) -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    assert suggested_step(capture(net, torch.rand(1, 8)), predictor) == 1


@needs("optuna")
def test_trials_beyond_the_budget_are_not_among_the_best(predictor: Predictor) -> None:
    image = torch.rand(1, 3, 16, 16)

    def net(width: int) -> Any:
        return nn.Sequential(nn.Conv2d(3, width, 3), nn.MaxPool2d(14), nn.Flatten(), nn.Linear(width, 4)).eval()

    budget_s = predictor.model(net(32), image).latency_s

    def objective(trial: Any) -> float:
        width = trial.suggest_int("width", 8, 64, step=8)
        with_optuna.predict_within(trial, predictor, net(width), image, 1.001 * budget_s)
        return float(width)

    study = with_optuna.constrained_study("maximize")
    for width in (24, 64, 32, 32):
        study.enqueue_trial({"width": width})
    study.optimize(objective, n_trials=4)
    best = with_optuna.best_within(study, 2)
    assert [trial.params["width"] for trial in best] == [32, 24]


@needs("optuna")
def test_a_study_of_which_nothing_is_within_the_budget_is_one_sentence() -> None:
    study = with_optuna.constrained_study("minimize")
    study.optimize(lambda trial: with_optuna.constrain(trial, 2.0, 1.0) or 0.0, n_trials=2)
    with pytest.raises(MednError, match="none of 2 networks is within the budget"):
        with_optuna.best_within(study)


@needs("pymoo")
def test_a_front_keeps_to_its_budget(predictor: Predictor) -> None:
    def seconds(genes: Any) -> Any:
        sizes = 8 * genes[:, 0]
        columns = {"linear": {"in_features": sizes, "out_features": sizes}}
        return with_pymoo.layers_latency_s(predictor, np.arange(len(genes)), columns, len(genes))

    budget_s = float(seconds(np.array([[10]]))[0])
    problem = with_pymoo.latency_problem(seconds, lambda genes: genes[:, 0], [1], [30], budget_s)
    front = with_pymoo.search_front(problem, population=12, generations=6)
    assert (seconds(front) <= budget_s).all()
    assert (np.diff(seconds(front)) >= 0).all()


def test_layers_and_their_networks_must_be_as_many(predictor: Predictor) -> None:
    columns = {"linear": {"in_features": [8, 16], "out_features": [8, 16]}}
    with pytest.raises(UsageError, match="owners: must name a network for each of the 2 layers"):
        with_pymoo.layers_latency_s(predictor, [0], columns, 1)


def test_modules_of_a_population_are_captured_one_by_one(predictor: Predictor) -> None:
    nets = [(nn.Linear(size, size), torch.rand(1, size)) for size in (16, 64)]
    small, large = with_pymoo.models_latency_s(predictor, nets)
    assert 0 < small < large


@pytest.mark.parametrize("named", [False, True])
def test_stages_take_a_model_of_several_inputs(named: bool, predictor: Predictor) -> None:
    class Two(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 9000)

        def forward(self, left: Any, right: Any) -> Any:
            return self.third(torch.relu(self.second(torch.relu(self.first(left)) + right)))

    net, left, right = Two().eval(), torch.rand(1, 64), torch.rand(1, 64)
    given: Any = {"left": left, "right": right} if named else (left, right)
    stages = balanced_stages(net, given, 2, predictor)
    assert stages.begin == ("third",)
    pipe = split(net, given, stages.begin)
    found = pipe(**given) if named else pipe(*given)
    assert torch.allclose(found[0], net(left, right))


def test_one_stage_is_no_pipeline(predictor: Predictor) -> None:
    with pytest.raises(UsageError, match=r"stages: must be at least 2 \(got 1\)"):
        balanced_stages(mobile(), torch.rand(1, 3, 32, 32), 1, predictor)
