"""A condition is declared in one place: what is declared here is known to every part, with nothing else touched.

The same parts take a user's own condition, which nobody declares, and a data type that only its data states.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest
import torch
import yaml

import medn
from medn.bundle.archive import BadBundle, read_archive, write_archive
from medn.capture.capture import capture
from medn.choosing.bundling import bundle_run
from medn.cli.main import run as run_command
from medn.core.conditions import CONDITIONS
from medn.core.errors import UsageError
from medn.core.parameters import number
from medn.layer_generators.features import analytic_features
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import parse_sweep, sweep_json_schema
from medn.measuring.sweep import run_sweep
from medn.predictor.predictor import Predictor
from medn.runs.folder import RunFolder
from medn.runs.tables import kind_table, read_source
from medn.serving.schema import layer_schema

SWEEP = {
    "name": "capped",
    "devices": ["torch"],
    "sampler": "grid",
    "layers": {"linear": {"in_features": 16, "out_features": 16, "rows": 1, "bias": True}},
    "measure": {"visits": 1, "max_visits": 1, "visit_time": 0.001},
}
MAPPING = {
    "kind": "linear",
    "device": "phone",
    "latency_s": "seconds",
    "columns": {"in_features": "n", "out_features": "n", "power_cap_w": "watts", "dtype": "type"},
    "extra": {"power_mode": "mode"},
    "dtypes": {"nvfp4": 0.5625},
}
OLD_BUNDLE = Path(__file__).parent / "formats" / "first" / "bundle.medn"
LAYER = {"in_features": 200, "out_features": 200}


@pytest.fixture(scope="module", autouse=True)
def power_cap() -> Iterator[None]:
    """The declaration."""
    with pytest.MonkeyPatch.context() as patch:
        declared = number("power_cap_w", "what the device may draw", 10, 1000, default=300.0, unit="W")
        patch.setitem(CONDITIONS, declared.name, declared)
        yield


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A sweep over the declared condition, over one of the user's own, and over a data type that torch cannot run."""
    folder = RunFolder(tmp_path_factory.mktemp("swept") / "run")
    conditions = {"power_cap_w": [100, 300], "dtype": ["fp32", "nvfp4"]}
    columns = {"power_mode": ["low", "high"], "rack": "A3"}
    written = {**SWEEP, "conditions": conditions, "columns": columns, "dtypes": {"nvfp4": 0.5625}}
    run_sweep(parse_sweep(json.dumps(written)), folder)
    return folder


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a table with all of them."""
    folder = tmp_path_factory.mktemp("imported")
    lines = ["n,watts,mode,type,seconds"]
    for n in range(16, 400, 8):
        for watts, mode, dtype in ((100, "low", "nvfp4"), (300, "high", "float16")):
            lines.append(f"{n},{watts},{mode},{dtype},{n * n / watts * 1e-6}")
    (folder / "table.csv").write_text("\n".join(lines))
    (folder / "mapping.yaml").write_text(yaml.safe_dump(MAPPING))
    command = ["import", str(folder / "table.csv"), "--map", str(folder / "mapping.yaml"), "--run", str(folder / "run")]
    assert run_command(command) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def bundle(imported: Path, made_up_bundle: ModuleType) -> Path:
    return bundle_run(imported, made_up_bundle.made_up_candidates(imported, "trees", ("linear",)))


@pytest.fixture(scope="module")
def predictor(bundle: Path) -> Predictor:
    return medn.load(bundle)


def test_it_is_swept_and_stored_in_the_journal(swept: RunFolder) -> None:
    with swept.store() as store:
        found = {
            tuple(each.point.condition.values[name] for name in ("power_cap_w", "power_mode", "rack"))
            for each in store.measurements()
        }
    assert found == {(cap, mode, "A3") for cap in (100.0, 300.0) for mode in ("low", "high")}


def test_what_a_backend_cannot_run_is_a_row_that_says_so(swept: RunFolder) -> None:
    with swept.store() as store:
        found = {each.point.condition.dtype: (each.status, each.reason[:36]) for each in store.measurements()}
    assert found == {"fp32": ("ok", ""), "nvfp4": ("unsupported", "torch does not run layers in nvfp4, ")}


@pytest.mark.usefixtures("mode_backend")
def test_a_backend_finds_the_users_own_condition(tmp_path: Path) -> None:
    written = {**SWEEP, "devices": ["modes"], "columns": {"power_mode": ["low", "high"]}}
    run_sweep(parse_sweep(json.dumps(written)), RunFolder(tmp_path))
    with RunFolder(tmp_path).store() as store:
        found = {each.point.condition.own["power_mode"]: each.status for each in store.measurements()}
    assert found == {"low": "unsupported", "high": "ok"}


def test_visits_are_grouped_by_the_state_of_the_machine(swept: RunFolder) -> None:
    with swept.store() as store:
        measured = sorted(store.measurements(), key=lambda each: each.visits[0].started_at)
    states = [(each.point.condition.values["power_cap_w"], each.point.condition.own) for each in measured]
    assert sum(first != second for first, second in itertools.pairwise(states)) == 3


def test_a_run_of_before_goes_on_with_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.dumps({**SWEEP, "conditions": {"batch_size": [1, 2]}})
    with monkeypatch.context() as patch:
        patch.delitem(CONDITIONS, "power_cap_w")
        assert run_sweep(parse_sweep(config), RunFolder(tmp_path)).visits == 2
    assert run_sweep(parse_sweep(config), RunFolder(tmp_path)).visits == 0
    with RunFolder(tmp_path).store() as store:
        assert {each.point.condition.values["power_cap_w"] for each in store.measurements()} == {300.0}


def test_it_is_imported_and_is_an_input_of_the_table(imported: Path) -> None:
    schema = kind_table(read_source(imported), "linear").table.schema
    assert {"power_cap_w", "power_mode", "dtype"} <= set(schema.names)
    assert schema.categories["power_mode"] == ("high", "low")
    assert schema.categories["dtype"] == ("fp16", "nvfp4")


def test_it_is_asked_for_in_a_query(predictor: Predictor) -> None:
    asked = {**LAYER, "power_mode": "low", "dtype": "nvfp4"}
    assert predictor.layer("linear", **asked, power_cap_w=100).in_range
    assert not predictor.layer("linear", **asked, power_cap_w=700).in_range


def test_limits_hold_in_queries_too(predictor: Predictor) -> None:
    with pytest.raises(UsageError, match=r"power_cap_w: must be at least 10 \(got 1\)"):
        predictor.layer("linear", **LAYER, power_cap_w=1)


def test_a_condition_of_ones_own_is_asked_for_in_a_query(predictor: Predictor) -> None:
    asked = {**LAYER, "power_cap_w": 100, "dtype": "nvfp4"}
    assert predictor.layer("linear", **asked, power_mode="low").in_range
    assert not predictor.layer("linear", **asked, power_mode="middling").in_range


@pytest.mark.parametrize(("dtype", "known"), [(torch.float16, True), (torch.float64, False)])
def test_a_model_is_asked_for_in_the_data_types_that_were_measured(
    dtype: torch.dtype, known: bool, predictor: Predictor
) -> None:
    captured = capture(torch.nn.Linear(200, 200).to(dtype), torch.zeros(1, 200, dtype=dtype))
    assert predictor.model(captured).known.tolist() == [known]


def test_a_bundle_of_before_was_measured_at_the_default() -> None:
    predictor, asked = medn.load(OLD_BUNDLE), {"in_features": 100, "out_features": 200, "batch_size": 8}
    assert predictor.layer("linear", **asked).in_range
    assert predictor.layer("linear", **asked, power_cap_w=300).in_range
    for _ in range(3):  # the fast way too
        assert not predictor.layer("linear", **asked, power_cap_w=100).in_range


def test_it_is_in_the_json_schema() -> None:
    written = {**SWEEP, "conditions": {"power_cap_w": {"range": [100, 300]}}}
    schema = sweep_json_schema()
    jsonschema.validate(written, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written, "conditions": {"power_cap_w": 1}}, schema)


def test_it_is_in_the_schema_of_the_server(predictor: Predictor) -> None:
    found = layer_schema(predictor.estimator("linear").query, {})["properties"]["power_cap_w"]
    assert (found["minimum"], found["maximum"], found["description"]) == (10, 1000, "what the device may draw")


def test_it_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["list", "conditions", "power_cap_w", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["allowed"], found["default"], found["unit"]) == ("10 to 1000", 300.0, "W")


def test_no_column_of_ones_own_may_have_its_name() -> None:
    with pytest.raises(UsageError, match=r"columns\.power_cap_w: this name has a meaning already"):
        parse_sweep(json.dumps({**SWEEP, "columns": {"power_cap_w": 3}}))


def test_the_stated_size_of_an_element_reaches_the_costs(imported: Path, predictor: Predictor) -> None:
    kind, table = layer_kinds["linear"], kind_table(read_source(imported), "linear").table
    layer = kind.layer(in_features=16, out_features=16)
    expected = analytic_features(kind, kind.values_of(layer), 1, 0.5625)["bytes_read"]
    assert table.column("bytes_read").min() == pytest.approx(expected)
    opened = predictor.estimator("linear").prepare({"in_features": 16, "out_features": 16, "dtype": "nvfp4"}, 1)
    assert opened.columns["bytes_read"] == pytest.approx(expected)


def test_exported_tables_keep_the_stated_sizes(imported: Path, tmp_path: Path) -> None:
    assert run_command(["export", str(imported), "--to", str(tmp_path / "tables")]) == 0
    assert read_source(tmp_path / "tables").dtypes == {"nvfp4": 0.5625}


def test_a_bundle_with_sizes_that_cannot_be_is_refused(bundle: Path, tmp_path: Path) -> None:
    manifest, parts = read_archive(bundle)
    manifest["entries"][0]["quantities"]["latency"]["facts"]["dtypes"] = {"nvfp4": -1}
    write_archive(tmp_path / "bad.medn", manifest, parts)
    with pytest.raises(BadBundle, match="the bytes of one element of nvfp4"):
        medn.load(tmp_path / "bad.medn")


def test_a_bundle_that_lacks_the_size_of_its_data_type_is_refused(bundle: Path, tmp_path: Path) -> None:
    manifest, parts = read_archive(bundle)
    manifest["entries"][0]["quantities"]["latency"]["facts"]["dtypes"] = {}
    manifest["entries"][0]["usual"]["dtype"] = "nvfp4"
    write_archive(tmp_path / "bad.medn", manifest, parts)
    with pytest.raises(UsageError, match=r"dtype.*usually is 'nvfp4'"):
        medn.load(tmp_path / "bad.medn")


def test_a_run_that_states_another_size_takes_nothing_in(imported: Path, tmp_path: Path) -> None:
    other = {**MAPPING, "dtypes": {"nvfp4": 1}}
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(other))
    table = imported.parent / "table.csv"
    command = ["import", str(table), "--map", str(tmp_path / "mapping.yaml"), "--run", str(imported)]
    assert run_command([*command, "--mix-environments"]) == 2
