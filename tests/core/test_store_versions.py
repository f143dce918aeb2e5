"""Journals of earlier versions: read as they are, rewritten to be added to."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from medn.core.errors import StoreError
from medn.core.store import SCHEMA_VERSION, Store
from medn.core.values import Condition, Layer, Point, Visit, freeze

FIRST = Path(__file__).parents[1] / "formats" / "first" / "run" / "measurements.sqlite"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(shutil.copy(FIRST, tmp_path / FIRST.name))


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def visits(path: Path, must_exist: bool) -> list[tuple[Any, ...]]:
    with Store(path, must_exist=must_exist) as store:
        return [
            (each.point.key, visit.pass_number, visit.status, visit.samples.wall_s.tolist(), dict(visit.quantities))
            for each in store.measurements()
            for visit in each.visits
        ]


def test_who_only_reads_an_old_journal_leaves_it_as_it_is(path: Path) -> None:
    assert {visit[2]: visit[4] for visit in visits(path, must_exist=True)} == {
        "ok": {"memory_bytes": 4096},
        "failed": {},
    }
    assert version(path) == 1


def test_a_reason_of_an_old_journal_stands_where_the_number_would(path: Path) -> None:
    change(path, "UPDATE visits SET memory_bytes = NULL, memory_reason = 'no peak', energy_j = 0.1 + 0.2")
    assert visits(path, must_exist=True)[0][4] == {"memory_bytes": "no peak", "energy_j": 0.1 + 0.2}


def test_an_old_journal_holds_the_same_visits_once_more_can_be_added(path: Path) -> None:
    change(path, "UPDATE visits SET memory_reason = 'no peak', memory_bytes = NULL WHERE pass_number = 1")
    before = visits(path, must_exist=True)
    assert visits(path, must_exist=False) == before
    assert version(path) == SCHEMA_VERSION


def test_an_old_journal_that_cannot_be_rewritten_stays_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = visits(path, must_exist=True)
    monkeypatch.setattr("medn.core.store._first_quantities", lambda *_: None)  # fails where NULL is not allowed
    with pytest.raises(StoreError), Store(path):
        pass
    monkeypatch.undo()
    assert (version(path), visits(path, must_exist=True)) == (1, before)


def test_an_old_journal_that_may_not_be_written_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert len(visits(path, must_exist=True)) > 100


def test_a_quantity_that_nobody_knew_needs_no_new_schema(path: Path) -> None:
    point = Point(Layer("linear", freeze({"in_features": 8})), Condition(), "torch")
    with Store(path) as store:
        visit = Visit(point.key, 0, "here", 0.0, "ok", quantities={"cache_misses": 12.5, "energy_j": "no meter"})
        store.record([(point, visit)])
        found = {each.point.key: each.visits[0].quantities for each in store.measurements()}
    assert found[point.key] == {"cache_misses": 12.5, "energy_j": "no meter"}


def test_the_second_version_is_read_and_added_to_without_its_visits_being_known_to_be_calm(tmp_path: Path) -> None:
    path, point = tmp_path / "measurements.sqlite", Point(Layer("linear", freeze({"size": 8})), Condition(), "torch")
    with Store(path) as store:
        store.add_environment("here", {})
        store.record([(point, Visit(point.key, 0, "here", 0.0, "ok", reference_s=1e-5, quantities={"energy_j": 2.0}))])
    change(path, "ALTER TABLE visits DROP COLUMN reference_runs")
    change(path, "PRAGMA user_version = 2")
    before = visits(path, must_exist=True)
    assert version(path) == 2
    with Store(path) as store:
        runs = {"compute": [1e-5, 2e-5]}
        store.record([(point, Visit(point.key, 1, "here", 1.0, "ok", reference_runs=runs))])
        (found,) = store.measurements()
    assert (version(path), visits(path, must_exist=True)[:1]) == (SCHEMA_VERSION, before)
    assert [dict(visit.reference_runs) for visit in found.visits] == [{}, runs]
