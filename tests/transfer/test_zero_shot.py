"""A device known by its data sheet alone."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import medn
from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import select_run
from medn.cli.main import run as command
from medn.core.errors import UsageError
from medn.core.table import Array
from medn.deployed.candidate import deployed_of
from medn.importing.import_table import import_table
from medn.importing.mapping import ImportMapping
from medn.predictor.predictor import Predictor
from medn.regressors.form import Parts
from medn.regressors.sources import Sources
from medn.runs.folder import RunFolder
from medn.runs.tables import kind_table, read_source
from medn.selection.budget import Budget
from medn.sources.run_sources import KnownDevices, source_files
from medn.sources.source_views import LearnedWhere, SourceView
from medn.training.train_run import train_run
from medn.transfer.adapt_run import adapt_run
from medn.transfer.adapt_sweep import Wanted, known_and_pool
from medn.transfer.sheet_source import sheet_source
from medn.transfer.zero_shot import ZeroShot, zero_shot

SHEETS = {
    "small": {"peak_gflops": 2000.0, "bandwidth_gb_s": 100.0, "multiprocessors": 10},
    "middle": {"peak_gflops": 5000.0, "bandwidth_gb_s": 300.0, "multiprocessors": 24},
    "wide": {"peak_gflops": 9000.0, "bandwidth_gb_s": 900.0, "multiprocessors": 60},
    "large": {"peak_gflops": 15000.0, "bandwidth_gb_s": 800.0, "multiprocessors": 80},
    "new": {"peak_gflops": 10000.0, "bandwidth_gb_s": 600.0, "multiprocessors": 50},
}
"""The last one is never measured."""

KNOWN = ("small", "middle", "wide", "large")
NEW = SHEETS["new"]
ON_SHEET = ",".join(f"{name}={number:g}" for name, number in NEW.items())


def seconds(sheet: dict[str, float], batch: Array, inner: Array, outer: Array) -> Array:
    """At 60 % of the arithmetic and 80 % of the bandwidth, and 8 us."""
    flops = 2.0 * batch * inner * outer
    moved = 4.0 * (batch * inner + inner * outer + batch * outer)
    return 8e-6 + flops / (0.6e9 * sheet["peak_gflops"]) + moved / (0.8e9 * sheet["bandwidth_gb_s"])


def layers(count: int, seed: int) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(seed)
    inner, outer = (np.exp(random.uniform(np.log(64), np.log(4096), count)).astype(int) for _ in range(2))
    return 2 ** random.integers(0, 8, count), inner, outer


def write_sheet_run(run: Path, devices: tuple[str, ...], count: int = 40) -> Path:
    """A run of linear layers on some of the devices, learned and bundled."""
    run.mkdir(parents=True)
    with (run / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["device", "m", "k", "n", "seconds"])
        for place, device in enumerate(devices):
            batch, inner, outer = layers(count, place)
            taken = seconds(SHEETS[device], batch, inner, outer)
            writer.writerows(zip([device] * count, batch, inner, outer, taken, strict=True))
    mapping = {
        "kind": "linear",
        "device": {"column": "device"},
        "latency_s": {"column": "seconds"},
        "columns": {"in_features": "k", "out_features": "n", "batch_size": "m", "bias": False},
        "sheets": {device: SHEETS[device] for device in devices},
    }
    import_table(run / "rows.csv", ImportMapping.model_validate(mapping), RunFolder(run))
    train_run(run, seconds=60.0, families=("roofline",))
    bundle_run(run, select_run(run, Budget()).chosen)
    return run


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sheet_run(tmp_path_factory.mktemp("gpus") / "gpus", KNOWN)


@pytest.fixture(scope="module")
def foreseen(gpus: Path) -> ZeroShot:
    known, pool = known_and_pool([gpus], Wanted("new"))
    return zero_shot(known, "new", NEW, pool)


@pytest.fixture(scope="module")
def predictor(foreseen: ZeroShot, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    return medn.load(foreseen.write(tmp_path_factory.mktemp("bundle") / "new.medn"))


def asked(count: int = 200) -> tuple[dict[str, Array], Array]:
    batch, inner, outer = layers(count, 99)
    table = {"in_features": inner, "out_features": outer, "batch_size": batch, "bias": False}
    return table, seconds(NEW, batch, inner, outer)


def test_it_is_near_what_the_device_would_take(predictor: Predictor) -> None:
    table, taken = asked()
    assert np.abs(predictor.predict(table, "linear").latency_s / taken - 1).mean() < 0.15


def test_intervals_hold_nine_of_ten_layers(predictor: Predictor) -> None:
    table, taken = asked()
    found = predictor.predict(table, "linear")
    assert ((found.low_s <= taken) & (taken <= found.high_s)).mean() > 0.9


def test_few_devices_promise_less(predictor: Predictor) -> None:
    assert predictor.layer("linear", in_features=512, out_features=512, bias=False).level == pytest.approx(4 / 5)


def test_every_prediction_says_that_the_device_was_never_measured(predictor: Predictor) -> None:
    one = predictor.layer("linear", in_features=512, out_features=512, batch_size=16, bias=False)
    assert not one.in_range
    assert one.should_measure
    assert "device=new (measured: " in str(one.outside[0])
    assert not predictor.predict(asked()[0], "linear").in_range.any()


def test_one_layer_and_many_say_the_same(predictor: Predictor) -> None:
    one = predictor.layer("linear", in_features=512, out_features=512, batch_size=16, bias=False)
    table = {"in_features": [512], "out_features": [512], "batch_size": 16, "bias": False}
    assert predictor.predict(table, "linear").latency_s[0] == pytest.approx(one.latency_s, rel=1e-5)


def test_a_faster_sheet_is_faster(gpus: Path, predictor: Predictor) -> None:
    known, pool = known_and_pool([gpus], Wanted("faster"))
    faster = {**NEW, "peak_gflops": 13000.0, "bandwidth_gb_s": 780.0}
    other = Predictor(zero_shot(known, "faster", faster, pool).bundle)
    table, _ = asked()
    assert (other.predict(table, "linear").latency_s < predictor.predict(table, "linear").latency_s).mean() > 0.95


def test_it_tells_the_error_on_each_known_device_left_out(foreseen: ZeroShot) -> None:
    left_out = foreseen.kinds["linear"].left_out
    assert set(left_out) == set(KNOWN)
    assert all(0 < error < 1 for error in left_out.values())
    assert sum(foreseen.kinds["linear"].shares.values()) == pytest.approx(1.0)


def test_without_the_peaks_nothing_is_said(gpus: Path) -> None:
    known, pool = known_and_pool([gpus], Wanted("new"))
    with pytest.raises(UsageError, match="needs bandwidth_gb_s of its data sheet"):
        zero_shot(known, "new", {"peak_gflops": 1000.0}, pool)


def test_one_known_device_is_too_few(gpus: Path) -> None:
    known, pool = known_and_pool([gpus], Wanted("new"))
    (bundle,) = known.bundles
    one = KnownDevices((replace(bundle, entries=bundle.entries[:1]),))
    with pytest.raises(UsageError, match="needs 2 known ones with data sheets, and linear has 1"):
        zero_shot(one, "new", NEW, pool)


def test_known_devices_without_a_sheet_are_told(gpus: Path) -> None:
    known, pool = known_and_pool([gpus], Wanted("new"))
    (bundle,) = known.bundles
    first, *others = bundle.entries
    facts = replace(first.latency.facts, sheets={})
    without = replace(first, latency=replace(first.latency, facts=facts))
    found = zero_shot(KnownDevices((replace(bundle, entries=(without, *others)),)), "new", NEW, pool)
    assert "learned without a data sheet" in found.unusable[f"{first.device}/linear"]
    assert first.device not in found.kinds["linear"].left_out


def test_the_command_writes_a_bundle_and_measures_nothing(
    gpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "new"
    arguments = ["adapt", str(gpus), "--device", "new", "--points", "0", "--sheet", ON_SHEET, "--run", str(run)]
    assert command([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["left_out"]["linear"]) == set(KNOWN)
    assert medn.load(told["bundle"]).devices == ("new",)
    assert command(arguments) == 0
    said = capsys.readouterr()
    assert "nothing was measured on new" in said.err
    assert command(["inspect", told["bundle"]]) == 0
    assert "was never measured there" in capsys.readouterr().err


def test_python_makes_the_same_bundle(gpus: Path, tmp_path: Path, predictor: Predictor) -> None:
    made = medn.load(medn.zero_shot([gpus], "new", NEW, tmp_path / "made"))
    table, _ = asked(20)
    assert made.predict(table, "linear").latency_s == pytest.approx(predictor.predict(table, "linear").latency_s)


def test_a_config_says_which_layers_it_is_for(gpus: Path, tmp_path: Path) -> None:
    layers = {"linear": {"in_features": [256, 512, 1024], "out_features": [256, 1024], "rows": 1, "bias": False}}
    config = {"name": "asked", "devices": ["torch"], "sampler": "grid", "layers": layers}
    bundle = tmp_path / "gpus.medn"
    bundle.write_bytes((gpus / "gpus.medn").read_bytes())
    made = medn.load(medn.zero_shot([bundle], "new", NEW, tmp_path / "made", config=config))
    one = made.layer("linear", in_features=512, out_features=512, batch_size=1, bias=False)
    assert one.latency_s == pytest.approx(float(seconds(NEW, *np.array([[1], [512], [512]]))[0]), rel=0.5)
    with pytest.raises(UsageError, match="nothing says which points to choose from"):
        medn.zero_shot([bundle], "new", NEW, tmp_path / "other")


def test_what_cannot_go_with_no_points_is_refused(gpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["adapt", str(gpus), "--points", "0", "--sheet", ON_SHEET]) == 2
    assert "--points 0 measures nothing" in capsys.readouterr().err
    assert command(["adapt", str(gpus), "--device", "new", "--points", "0"]) == 2
    assert "needs peak_gflops and bandwidth_gb_s" in capsys.readouterr().err


def test_few_measurements_lean_on_what_the_sheet_says(gpus: Path, tmp_path: Path) -> None:
    run = write_sheet_run(tmp_path / "new", ("new",), count=12)
    outcome = adapt_run(run, [gpus], seconds=60.0, families=("best_source", "source_stack"))
    assert "new from its sheet" in outcome.leaned_on["new/linear"]
    batch, inner, outer = layers(12, 0)
    measured = {"batch_size": batch, "in_features": inner, "out_features": outer, "bias": False}
    assert medn.load(outcome.bundle).predict({"kind": "linear", **measured}).in_range.mean() > 0.5


def test_what_a_sheet_says_asks_no_device_twice(gpus: Path, tmp_path: Path) -> None:
    run = write_sheet_run(tmp_path / "new", ("new",), count=12)
    source, files = read_source(run), source_files([gpus])
    known = KnownDevices.read([*files, *sheet_source(run, source, files)])
    table = kind_table(source, "linear", device="new")
    sources = known.sources(table).sources
    assert sources is not None
    assert sources.names == (*sorted(KNOWN), "new from its sheet")
    assert len({part for form in sources.forms for part in names_inside(form.parts())} & {"stack"}) == 0
    mean, sheet = sources.known_laws
    assert mean == pytest.approx([1 / len(KNOWN)] * len(KNOWN) + [0.0])
    (entry,) = known.bundles[-1].entries
    view = SourceView(LearnedWhere.of(entry, known.bundles[-1].devices[0]), table).view()
    whole = Sources(("whole",), (deployed_of(entry.latency).form,), (view,), (0,)).logs(table.table.inputs)[:, 0]
    assert sources.logs(table.table.inputs) @ np.array(sheet) == pytest.approx(whole, abs=1e-5)


def names_inside(parts: Parts) -> list[str]:
    return [parts.form, *(name for inner in parts.inner for name in names_inside(inner))]
