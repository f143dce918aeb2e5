"""Two devices with data sheets, imported, learned by one regressor, shipped as one file and asked by device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medn import load
from medn.bundle.archive import BadBundle
from medn.bundle.bundle import read_bundle
from medn.bundle.checks import check_candidate
from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import select_run
from medn.core.errors import ConfigError, UsageError
from medn.core.splits import Split
from medn.importing.import_table import import_table
from medn.importing.mapping import ImportMapping, load_mapping
from medn.predictor.predictor import Predictor
from medn.runs.folder import RunFolder
from medn.runs.inputs import InputChoice
from medn.runs.tables import kind_table, read_source
from medn.selection.budget import Budget
from medn.training.candidate_store import load_candidates
from medn.training.prepared import POOLED, prepare
from medn.training.train_run import train_run

SHEETS: Mapping[str, Mapping[str, float]] = {
    "small": {"multiprocessors": 8, "peak_gflops": 500, "bandwidth_gb_s": 50, "cache_mb": 1},
    "large": {"multiprocessors": 64, "peak_gflops": 4000, "bandwidth_gb_s": 400, "cache_mb": 6, "clock_mhz": 1200},
}
LAYERS = 60


def latency_ms(device: str, inputs: int, outputs: int, batch: int) -> float:
    """What a device takes whose law is its data sheet."""
    sheet = SHEETS[device]
    compute_us = 2 * batch * inputs * outputs / sheet["peak_gflops"] / 1e3
    memory_us = 4 * (batch * (inputs + outputs) + inputs * outputs) / sheet["bandwidth_gb_s"] / 1e3
    return (2.0 + max(compute_us, memory_us)) / 1e3


def write_table(path: Path) -> Path:
    random = np.random.default_rng(0)
    lines = ["device,part,inputs,outputs,batch,ms"]
    for number in range(LAYERS):
        inputs, outputs = (int(2 ** random.uniform(4, 11)) for _ in range(2))
        part = "test" if number % 6 == 0 else "train"
        lines += [
            f"{device},{part},{inputs},{outputs},{batch},{latency_ms(device, inputs, outputs, batch)}"
            for device in SHEETS
            for batch in (1, 16)
        ]
    path.write_text("\n".join(lines) + "\n")
    return path


def mapping(tmp_path: Path, **changes: object) -> ImportMapping:
    written: dict[str, Any] = {
        "kind": "linear",
        "device": {"column": "device"},
        "latency_s": {"column": "ms", "scale": 0.001},
        "columns": {"in_features": "inputs", "out_features": "outputs", "batch_size": "batch", "bias": False},
        "sheets": SHEETS,
    }
    path = tmp_path / "mapping.yaml"
    path.write_text(json.dumps({**written, **changes}))
    return load_mapping(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pooled")
    import_table(write_table(folder / "layers.csv"), mapping(folder), RunFolder(folder / "run"))
    return folder / "run"


@pytest.fixture(scope="module")
def bundle(run: Path) -> Path:
    families = ("roofline", "ridge", "lightgbm")
    train_run(run, seconds=6.0, families=families, split=Split("pooled"))
    outcome = select_run(run, Budget(), split=Split("pooled"))
    return bundle_run(run, outcome.chosen)


def test_one_entry_answers_for_both_devices(bundle: Path) -> None:
    (entry,) = read_bundle(bundle).entries
    assert (entry.device, entry.devices) == (POOLED, ("large", "small"))
    assert load(bundle, "small").kinds == load(bundle, "large").kinds == ("linear",)


def test_a_device_must_be_said_where_several_were_pooled(bundle: Path) -> None:
    with pytest.raises(UsageError, match=r"several devices: large, small"):
        load(bundle)


@pytest.mark.parametrize("device", list(SHEETS))
def test_a_pooled_predictor_knows_each_device(bundle: Path, device: str) -> None:
    predictor = load(bundle, device)
    found = [
        predictor.layer("linear", in_features=inputs, out_features=outputs, bias=False, batch_size=16).latency_s
        / (latency_ms(device, inputs, outputs, 16) / 1e3)
        for inputs, outputs in ((200, 300), (500, 700), (1000, 1000))
    ]
    assert np.abs(np.log(found)).mean() < 0.3


@pytest.mark.parametrize("device", list(SHEETS))
def test_one_layer_and_a_table_are_answered_alike(bundle: Path, device: str) -> None:
    """The first question of a layer takes the ordinary way, later ones the traced way."""
    predictor = load(bundle, device)
    sizes = [64, 100, 250, 600, 1000]
    table = predictor.predict({"in_features": sizes, "out_features": 300, "bias": False, "batch_size": 16}, "linear")
    for _ in range(2):
        fresh = Predictor(predictor.bundle, device)
        single = [
            fresh.layer("linear", in_features=size, out_features=300, bias=False, batch_size=16) for size in sizes
        ]
        assert [each.latency_s for each in single] == pytest.approx(table.latency_s.tolist(), rel=1e-6)
        assert [each.in_range for each in single] == table.in_range.tolist()


def test_a_gradient_follows_what_the_sheet_says(run: Path, tmp_path: Path) -> None:
    train_run(run, seconds=2.0, families=("roofline",), split=Split("pooled"), seed=1)
    candidates = [each for each in load_candidates(run / "candidates-pooled") if each.regressor == "roofline"]
    predictor = load(bundle_run(run, candidates, tmp_path / "law.medn"), "large")

    def latency_s(size: int) -> float:
        return predictor.layer("linear", in_features=size, out_features=301, bias=False, batch_size=16).latency_s

    slope = predictor.gradient("linear", in_features=501, out_features=301, bias=False, batch_size=16)["in_features"]
    assert slope == pytest.approx((latency_s(503) - latency_s(499)) / 4, rel=0.3)


def test_pooled_candidates_lie_beside_those_of_each_device(run: Path, bundle: Path) -> None:
    made = train_run(run, seconds=1.0, families=("ridge",)).candidates
    assert {(each.device, tuple(each.facts.devices)) for each in made} == {("large", ()), ("small", ())}
    assert {each.device for each in load_candidates(run / "candidates-pooled")} == {POOLED}


def test_only_numbers_that_all_pooled_devices_have_are_inputs(run: Path) -> None:
    source = read_source(run)
    pooled = kind_table(source, "linear")
    assert {"multiprocessors", "peak_us", "device"} <= set(pooled.table.schema.names)
    assert "clock_mhz" not in pooled.table.schema.names
    assert pooled.sheets["large"].keys() == SHEETS["small"].keys()
    alone = kind_table(source, "linear", device="large")
    assert alone.constants["clock_mhz"] == 1200


def test_without_the_group_there_is_no_trace_of_a_sheet(run: Path) -> None:
    found = kind_table(read_source(run), "linear", choice=InputChoice(("raw", "analytic")))
    assert found.sheets == {}
    assert not {"peak_us", "multiprocessors"} & {*found.table.schema.names, *found.constants}


def test_the_hardware_group_can_be_had_alone(run: Path) -> None:
    found = kind_table(read_source(run), "linear", choice=InputChoice(("hardware",)))
    assert "peak_us" in found.table.schema.names
    assert not {"flops", "batch_size"} & set(found.table.schema.names)


def test_a_bundle_with_an_impossible_sheet_is_refused(bundle: Path) -> None:
    (entry,) = read_bundle(bundle).entries
    for sheet in ({"peak_gflops": 0}, {"cores": 3}, {"cache_mb": "4"}, {"cache_mb": 10**400}, None):
        both = {"large": SHEETS["large"], **({"small": sheet} if sheet else {})}
        object.__setattr__(entry.latency.facts, "sheets", both)
        with pytest.raises((ValueError, BadBundle), match="data sheet"):
            check_candidate(entry.latency)


def test_rows_marked_for_test_are_tested_and_nothing_else_is(tmp_path: Path) -> None:
    run = tmp_path / "run"
    import_table(write_table(tmp_path / "layers.csv"), mapping(tmp_path, test={"part": "test"}), RunFolder(run))
    prepared, refused = prepare(read_source(run), ["linear"], Split("pooled"), 0, False)
    found = prepared[POOLED]["linear"]
    assert not refused
    assert len(found.test) == LAYERS / 6 * 4
    assert not set(found.test.groups) & {*found.train.groups, *found.validation.groups, *found.calibration.groups}
    assert sum(found.rows.sizes.values()) == LAYERS * 4


def test_the_test_rows_do_not_change_with_the_seed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    import_table(
        write_table(tmp_path / "layers.csv"), mapping(tmp_path, test={"inputs": {"above": 500}}), RunFolder(run)
    )
    source = read_source(run)
    tests = [prepare(source, ["linear"], Split(), seed, False)[0]["small"]["linear"].test for seed in (0, 1)]
    assert (tests[0].inputs == tests[1].inputs).all()
    assert tests[0].column("in_features").min() > 500


def test_a_split_of_ones_own_cannot_go_with_that_of_the_data(tmp_path: Path) -> None:
    run = tmp_path / "run"
    import_table(write_table(tmp_path / "layers.csv"), mapping(tmp_path, test={"part": "test"}), RunFolder(run))
    _, refused = prepare(read_source(run), ["linear"], Split.parse("range:flops:1e5"), 0, False)
    assert "bring a split of their own" in refused[0].reason


def test_a_sheet_of_a_device_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    wrong = mapping(tmp_path, sheets={"smal": SHEETS["small"]})
    with pytest.raises(UsageError, match="small"):
        import_table(write_table(tmp_path / "layers.csv"), wrong, RunFolder(tmp_path / "run"))


@pytest.mark.parametrize("number", [0, -1, "many", True])
def test_a_sheet_holds_numbers_above_0(tmp_path: Path, number: object) -> None:
    with pytest.raises(ConfigError, match=r"sheets.small.peak_gflops"):
        mapping(tmp_path, sheets={"small": {"peak_gflops": number}})
