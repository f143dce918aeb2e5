"""Which environments of a run a sweep goes on in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medn.core.environment import environment_id, environment_manifest
from medn.core.errors import StoreError
from medn.core.store import Store
from medn.core.values import Condition, Point, Visit
from medn.layer_generators.kind import layer_kinds
from medn.measuring.environments import enter_environments

LAYER = layer_kinds["linear"].layer(in_features=8, out_features=8)


def manifest(model: str = "a CPU", **libraries: str) -> dict[str, Any]:
    made = environment_manifest(libraries)
    made["cpu"]["model"] = model
    return made


def measured(folder: Path, *environments: tuple[dict[str, Any], tuple[str, ...]]) -> Store:
    """A journal with one visit for each device in each environment."""
    store = Store(folder / "run" / "measurements.sqlite")
    with store:
        for number, (written, devices) in enumerate(environments):
            key = environment_id(written) if "source" not in written else "imported"
            store.add_environment(key, written)
            for device in devices:
                point = Point(LAYER, Condition(), device)
                store.record([(point, Visit(point.key, number, key, 0.0, "failed", "made up"))])
    return store


def test_a_run_of_several_devices_in_one_environment_goes_on_in_it(tmp_path: Path) -> None:
    before = manifest(torch="2.13", onnxruntime="1.31")
    with measured(tmp_path, (before, ("torch", "onnxruntime"))) as store:
        now = {"torch": manifest(torch="2.13"), "onnxruntime": manifest(torch="2.13", onnxruntime="1.31")}
        assert set(enter_environments(store, now, False).values()) == {environment_id(before)}


def test_a_device_that_is_added_gets_an_environment_of_its_own(tmp_path: Path) -> None:
    with measured(tmp_path, (manifest(torch="2.13"), ("torch",))) as store:
        now = {"torch": manifest(torch="2.13"), "onnxruntime": manifest(torch="2.13", onnxruntime="1.31")}
        ids = enter_environments(store, now, False)
        assert ids == {name: environment_id(written) for name, written in now.items()}


def test_another_version_of_a_library_is_refused_and_named_alone(tmp_path: Path) -> None:
    with measured(tmp_path, (manifest(torch="2.12", onnxruntime="1.31"), ("torch",))) as store:
        with pytest.raises(StoreError, match=r"another environment \(torch: 2\.13 here, 2\.12 in the run\)"):
            enter_environments(store, {"torch": manifest(torch="2.13")}, False)
        ids = enter_environments(store, {"torch": manifest(torch="2.13")}, True)
        assert ids == {"torch": environment_id(manifest(torch="2.13"))}


def test_devices_of_two_machines_go_on_each_in_its_own(tmp_path: Path) -> None:
    now = {"desk": manifest("a desk", torch="2.13"), "board": manifest("a board", torch="2.13")}
    with measured(tmp_path, *((now[name], (name,)) for name in now)) as store:
        assert enter_environments(store, now, False) == {name: environment_id(now[name]) for name in now}
        swapped = {"desk": now["board"], "board": now["desk"]}
        with pytest.raises(StoreError, match="cpu model"):
            enter_environments(store, swapped, False)


def test_a_new_device_on_a_machine_that_the_run_does_not_know_is_refused(tmp_path: Path) -> None:
    with (
        measured(tmp_path, (manifest("a desk", torch="2.13"), ("torch",))) as store,
        pytest.raises(StoreError, match="cpu model: a board here, a desk in the run"),
    ):
        enter_environments(store, {"openvino": manifest("a board", openvino="2026.4")}, False)


def test_imported_rows_are_not_mixed_with_measured_ones_unasked(tmp_path: Path) -> None:
    with (
        measured(tmp_path, ({"source": "table.csv"}, ("torch",))) as store,
        pytest.raises(StoreError, match=r"imported from table\.csv"),
    ):
        enter_environments(store, {"torch": manifest(torch="2.13")}, False)
