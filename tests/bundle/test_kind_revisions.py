"""What was learned before a layer kind had other costs and parameters goes on as it was."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from medn.bundle.archive import BadBundle, read_archive, write_archive
from medn.bundle.bundle import read_bundle
from medn.capture.capture import capture
from medn.choosing.bundling import bundle_run
from medn.core.errors import UsageError
from medn.core.values import Condition, Layer, Point, Samples, Visit, freeze
from medn.layer_generators.kind import layer_kinds
from medn.predictor.predictor import load
from medn.runs.folder import RunFolder
from medn.runs.tables import kind_table, read_source

KIND = layer_kinds["attention"]
SHAPE = {"heads": 4, "head_size": 32, "query_length": 64, "key_length": 64, "causal": True}


def write_attention_run(path: Path, with_groups: bool) -> Path:
    """A run of attention. Without groups it is such as was written before the kind had any."""
    visits = []
    for heads, length, causal in itertools.product((2, 4, 8), (16, 48, 64, 96, 128, 200), (False, True)):
        sizes = {"heads": heads, "head_size": 32, "query_length": length, "key_length": length, "causal": causal}
        layers = [Layer("attention", freeze(sizes))]
        layers += [KIND.layer(**sizes, kv_heads=2)] if with_groups and heads > 2 else []
        for layer in layers:
            point = Point(layer, Condition(), "made-up")
            times = 1e-9 * heads * length**2 * (1 + 0.01 * np.arange(5))
            samples = Samples(times, times, np.zeros(5, dtype=bool))
            visits += [(point, Visit(point.key, number, "here", 0.0, "ok", samples=samples)) for number in range(3)]
    with RunFolder(path).store() as store:
        store.add_environment("here", {"source": "a law"})
        store.note("config", {"name": "made-up", "seed": 0})
        store.record(visits)
    return path


@pytest.fixture
def bundle_path(made_up_bundle: ModuleType, tmp_path: Path) -> Path:
    run = write_attention_run(tmp_path / "run", with_groups=True)
    return bundle_run(run, made_up_bundle.made_up_candidates(run, "affine", ("attention",)))


@pytest.fixture
def older_path(made_up_bundle: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle as it was written before: learned from the costs of then, and without a revision."""
    run = write_attention_run(tmp_path / "older", with_groups=False)
    with monkeypatch.context() as patch:
        patch.setattr("medn.runs.tables.layer_kinds", {"attention": KIND.as_of(1)})
        path = bundle_run(run, made_up_bundle.made_up_candidates(run, "affine", ("attention",)))
    manifest, parts = read_archive(path)
    for entry in manifest["entries"]:
        del entry["revision"]
    write_archive(path, manifest, parts)
    return path


def test_rows_of_before_have_the_defaults_of_what_came_later(tmp_path: Path) -> None:
    source = read_source(write_attention_run(tmp_path / "run", with_groups=False))
    found = kind_table(source, "attention")
    assert {"kv_heads": 0, "window": 0}.items() <= found.constants.items()
    assert len(found.table) == 36


def test_rows_with_and_without_what_came_later_are_one_table(tmp_path: Path) -> None:
    source = read_source(write_attention_run(tmp_path / "run", with_groups=True))
    found = kind_table(source, "attention")
    assert len(found.table) == 36 + 24
    assert found.gaps == ()
    assert "kv_heads" in found.table.schema.names


def test_a_new_bundle_knows_the_new_costs(bundle_path: Path) -> None:
    (entry,) = read_bundle(bundle_path).entries
    assert entry.layer_kind is KIND
    predictor = load(bundle_path)
    assert predictor.layer("attention", **SHAPE, kv_heads=2).latency_s > 0


def test_an_older_bundle_counts_as_it_learned(older_path: Path) -> None:
    """Its form is a line through FLOPs, so that causal layers took as long as others."""
    predictor = load(older_path)
    causal, other = (predictor.layer("attention", **{**SHAPE, "causal": causal}) for causal in (True, False))
    assert causal.latency_s == pytest.approx(other.latency_s)


def test_an_older_bundle_does_not_pretend_to_know_what_came_later(older_path: Path) -> None:
    with pytest.raises(UsageError, match="kv_heads"):
        load(older_path).layer("attention", **SHAPE, kv_heads=2)


@pytest.mark.parametrize(("kv_heads", "known"), [(4, True), (2, False)])
def test_in_a_model_an_older_bundle_estimates_what_it_does_not_know(
    kv_heads: int, known: bool, older_path: Path
) -> None:
    class Net(torch.nn.Module):
        def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(query, key, key, is_causal=True, enable_gqa=True)

    captured = capture(Net(), (torch.zeros(1, 4, 64, 32), torch.zeros(1, kv_heads, 64, 32)))
    assert load(older_path).model(captured).known.tolist() == [known]


@pytest.mark.parametrize("revision", [0, 9, -1, "2", True, None, 1.5])
def test_a_revision_that_is_none_is_refused(revision: object, bundle_path: Path) -> None:
    manifest, parts = read_archive(bundle_path)
    manifest["entries"][0]["revision"] = revision
    write_archive(bundle_path, manifest, parts)
    with pytest.raises(BadBundle, match="revision"):
        read_bundle(bundle_path)
