"""What `medn list`, `medn doctor` and `medn schema` say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medn.cli import doctor, doctor_checks
from medn.cli.main import run
from medn.devices.backend import backends
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sweep import parse_sweep
from tests.conftest import load_plugins


@pytest.fixture
def data(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command with --json and gives what it printed."""

    def run_json(*arguments: str) -> Any:
        assert run([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run_json


def test_listing_nothing_in_particular_counts_what_there_is(data: Any) -> None:
    counts = {row["name"]: row["entries"] for row in data("list")}
    assert counts["kinds"] == len(layer_kinds)
    listings = {
        "kinds",
        "conditions",
        "quantities",
        "devices",
        "samplers",
        "probes",
        "regressors",
        "forms",
        "formats",
        "tools",
        "plugins",
        "configs",
        "mappings",
    }
    assert set(counts) == listings


def test_a_regressor_in_full_lists_what_can_be_set(data: Any) -> None:
    assert data("list", "regressors", "ridge")["settings"] == ["degree=2", "alpha=1.0"]


def test_kinds_are_those_of_the_registry(data: Any) -> None:
    assert [row["name"] for row in data("list", "kinds")] == list(layer_kinds)


@pytest.mark.parametrize("kind", list(layer_kinds))
def test_every_name_of_a_kind_is_listed(kind: str, data: Any) -> None:
    assert [row["name"] for row in data("list", "kinds", kind)] == list(layer_kinds[kind].names)


def test_a_parameter_shows_its_limits_default_and_what_a_sweep_draws(data: Any) -> None:
    rows = {row["name"]: row for row in data("list", "kinds", "linear")}
    assert rows["rows"]["default"] == 1
    assert rows["rows"]["allowed"] == "1 to 1048576"
    assert rows["in_features"]["sweep"] == {"log_range": [16, 4096]}


def test_a_device_is_available_or_says_what_is_missing(data: Any) -> None:
    rows = data("list", "devices")
    assert [row["name"] for row in rows] == list(backends)
    assert all(row["available"] == (row["missing"] is None) for row in rows)
    assert all(row["available"] == bool(row["versions"]) for row in rows)


def test_probes_that_hang_or_crash_are_listed_with_what_they_do(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    load_plugins(monkeypatch, "shaky_probes")
    monkeypatch.setattr("medn.devices.machine_client.PROBE_S", 0.5)
    missing = {row["name"]: row["missing"] for row in data("list", "probes")}
    assert missing["load_average"] is None
    assert missing["test_hanging"] == "no answer within 0.5 s; it is not read again"
    assert missing["test_crashing"] == "the process died (exit code 7); it is not read again"


def test_every_config_that_comes_along_parses(data: Any) -> None:
    assert all(parse_sweep(Path(row["path"])).layers for row in data("list", "configs"))


def test_one_entry_is_shown_alone(data: Any) -> None:
    assert data("list", "devices", "torch")["name"] == "torch"


def test_a_table_holds_the_same_as_the_json(data: Any, capsys: pytest.CaptureFixture[str]) -> None:
    names = [row["name"] for row in data("list", "probes")]
    assert run(["list", "probes"]) == 0
    table = capsys.readouterr().out
    assert all(name in table for name in names)


def test_doctor_checks_everything_once(data: Any) -> None:
    checks = data("doctor")
    names = [check["name"] for check in checks]
    assert len(names) == len(set(names))
    expected = {"python", "cores", "caches", "governor", "load", "clock", "context switches", "memory peak", "energy"}
    assert expected | {f"device {name}" for name in backends} <= set(names)
    assert {check["status"] for check in checks} <= {"ok", "warn", "missing"}


def test_doctor_gives_the_data_sheet_of_this_cpu_as_a_config_takes_it(
    data: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = [row["found"] for row in data("doctor") if row["name"] == "data sheet"]
    device = f"{{name: desk, backend: torch, {found}}}"
    (desk,) = parse_sweep(f"{{name: x, devices: [{device}], layers: {{linear: {{}}}}}}").devices
    assert {"peak_gflops", "bandwidth_gb_s", "multiprocessors"} <= desk.sheet.numbers.keys()
    assert run(["doctor"]) == 0
    assert f"data sheet: {found}" in capsys.readouterr().err


def test_doctor_says_why_something_is_missing(data: Any) -> None:
    assert all(check["found"] for check in data("doctor") if check["status"] == "missing")


def test_doctor_fails_where_no_device_is_available(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_devices", lambda: iter([doctor.Check("device torch", "missing", "torch is missing")]))
    assert run(["doctor"]) == 3
    assert "pip install 'medn[train]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("governor", "status"), [("performance", "ok"), ("powersave", "warn"), ("schedutil", "warn"), (None, "warn")]
)
def test_only_a_steady_governor_is_well(governor: str | None, status: str) -> None:
    assert doctor_checks._governor(governor).status == status


@pytest.mark.parametrize(("quota", "status"), [(None, "ok"), (2.0, "ok"), (1.5, "warn")])
def test_a_cpu_quota_below_the_cores_is_a_warning(quota: float | None, status: str) -> None:
    assert doctor_checks._quota(quota, cores=2).status == status


def test_the_schema_is_a_json_schema(data: Any) -> None:
    import jsonschema

    jsonschema.validators.validator_for(schema := data("schema")).check_schema(schema)
    assert set(layer_kinds) == set(schema["properties"]["layers"]["properties"])
