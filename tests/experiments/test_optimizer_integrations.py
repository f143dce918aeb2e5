"""Optimizers with medn in their loop, on a made-up device whose seconds are FLOPs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import medn
from medn.capture.capture import capture
from medn.integrations.torch_pruning import SecondsImportance
from medn.predictor.predictor import Predictor

torch = pytest.importorskip("torch")
pytest.importorskip("optuna")
pytest.importorskip("pymoo")
pytest.importorskip("torch_pruning")

from experiments.integrations import lookup_tables, prune_channels, search_architectures, search_populations  # noqa: E402
from experiments.integrations.search_space import (  # noqa: E402
    HAND_MADE,
    HIGHEST,
    IMAGE,
    LOWEST,
    build,
    decode,
    expressiveness,
    latency_s,
    questions,
    rows,
)


@pytest.fixture(scope="module")
def predictor(convolution_bundle: Path) -> Predictor:
    return medn.load(convolution_bundle)


def random_genes(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.int_]]:
    return np.random.default_rng(0).integers(LOWEST, HIGHEST, (count, len(LOWEST)), endpoint=True)


def test_a_network_is_asked_for_by_the_layers_that_torch_runs() -> None:
    population = decode(random_genes(3))
    network, asked = questions(population)
    built = [medn.layer_generators.kind.layer_kinds[kind].layer(**values) for kind, values in rows(asked)]
    for row in range(len(population)):
        captured = capture(build(population, row), torch.empty(IMAGE))
        expected = sorted(str(each.layer) for each in captured.layers)
        assert sorted(str(layer) for layer, owner in zip(built, network, strict=True) if owner == row) == expected


def test_a_population_costs_what_its_networks_cost(predictor: Predictor) -> None:
    population = decode(random_genes(4))
    each = [latency_s(population.take([row]), predictor).item() for row in range(4)]
    assert latency_s(population, predictor).tolist() == pytest.approx(each)


def test_deeper_networks_are_more_expressive() -> None:
    genes = HAND_MADE.copy()
    genes[0, 4] += 1
    assert expressiveness(decode(genes))[0] > expressiveness(decode(HAND_MADE))[0]


def test_optuna_keeps_to_the_budget(predictor: Predictor) -> None:
    budget_s = latency_s(decode(HAND_MADE), predictor).item()
    study = search_architectures.search(predictor, budget_s, trials=60)
    found = decode(np.array(search_architectures.best_genes(study, 2)))
    assert (latency_s(found, predictor) <= budget_s).all()
    assert expressiveness(found)[0] == pytest.approx(study.best_value)


def test_a_front_gives_expressiveness_for_seconds(predictor: Predictor) -> None:
    front = decode(search_populations.search(predictor, size=8, generations=4))
    assert (np.diff(latency_s(front, predictor)) >= 0).all()
    assert (np.diff(expressiveness(front)) >= 0).all()


def test_layer_by_layer_the_answer_is_the_same(convolution_bundle: Path) -> None:
    costs = search_populations.asking_costs(decode(random_genes(4)), convolution_bundle, None)
    assert min(costs.values()) > 0


@pytest.fixture(scope="module")
def pruned(convolution_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    out: Path = tmp_path_factory.mktemp("pruned")
    given = ["--bundle", str(convolution_bundle), "--share", "0.9", "--passes", "1", "--out", str(out)]
    assert prune_channels.main(given) == 0
    assert (out / "prune_channels.md").exists()
    found = json.loads((out / "prune_channels.json").read_text())
    return {row["network"]: row for row in found["rows"]} | {"about": found["about"]}


def test_pruning_stops_at_the_budget(pruned: dict[str, dict[str, float]]) -> None:
    assert 0.8 < pruned["to seconds"]["predicted, share"] <= 0.9
    assert 0.8 < pruned["to FLOPs"]["FLOPs, share"] <= 0.9


def test_pruned_channels_are_multiples_of_the_suggested_step(pruned: dict[str, dict[str, str]]) -> None:
    step = int(pruned["about"]["channels in multiples of"])
    assert [int(width) % step for width in pruned["to seconds"]["channels"].split()] == [0] * 15


def test_pruned_networks_are_measured(pruned: dict[str, dict[str, float]]) -> None:
    assert pruned["to seconds"]["measured ms"] > 0


def test_a_channel_at_more_pixels_takes_more_seconds(predictor: Predictor) -> None:
    import torch_pruning

    model, example = prune_channels.residual_network((16, 16, 32)), torch.rand(1, 3, 16, 16)
    aware = SecondsImportance(model, capture(model, example), predictor)
    graph = torch_pruning.DependencyGraph().build_dependency(model, example)

    def group(convolution: torch.nn.Module) -> object:
        return graph.get_pruning_group(convolution, torch_pruning.prune_conv_out_channels, list(range(16)))

    first, later = model[3][1].first, model[4][1].first  # the same channels, at four times the pixels
    assert aware.channel_s(group(first)) == pytest.approx(4 * aware.channel_s(group(later)), rel=0.05)


@pytest.mark.parametrize(
    ("script", "given", "said"),
    [
        (prune_channels, ["--share", "1.5"], "--share: must be between 0 and 1"),
        (search_architectures, ["--trials", "0"], "--trials must be at least 1"),
        (search_populations, ["--population", "1"], "--population must be at least 4"),
    ],
)
def test_what_cannot_be_is_told(script: object, given: list[str], said: str, convolution_bundle: Path) -> None:
    with pytest.raises(medn.core.errors.UsageError, match=said):
        script.main(["--bundle", str(convolution_bundle), *given])  # type: ignore[attr-defined]


def test_tables_are_written_and_checked(
    convolution_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_tables, "PASSES", 1)
    assert lookup_tables.main(["--bundle", str(convolution_bundle), "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "lookup_tables.json").read_text())["rows"]
    assert [row["table"] for row in found] == ["once-for-all", "HALP", "HAQ"]
    assert all(row["measured ms"] > 0 for row in found)
