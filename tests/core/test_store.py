"""The journal: what is committed stays, what cannot be done is said in one sentence."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from medn.core.errors import StoreError
from medn.core.store import JOURNAL_NAME, SCHEMA_VERSION, BlockVisit, MeasuredBlock, Store
from medn.core.values import Condition, Layer, Point, Samples, Visit, freeze


def make_point(size: int = 8, batch_size: int = 1) -> Point:
    return Point(Layer("linear", freeze({"in_features": size})), Condition(batch_size=batch_size), "torch")


def make_visit(point: Point, pass_number: int = 0, latency_s: float = 1e-3) -> Visit:
    samples = Samples(np.full(3, latency_s), np.full(3, latency_s / 2), np.array([False, True, False]), 4)
    return Visit(
        point_key=point.key,
        pass_number=pass_number,
        environment_id="here",
        started_at=1.5,
        status="ok",
        samples=samples,
        utilization_measured=0.25,
        quantities={"memory_bytes": 1024, "energy_j": "no counter"},
        probes={"load_average": 0.5, "temperature": None},
        elapsed_s=0.1,
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "run" / "measurements.sqlite")


def test_a_visit_comes_back_as_it_was_recorded(store: Store) -> None:
    point = make_point()
    with store:
        store.add_environment("here", {"cpu": "some"})
        store.record([(point, make_visit(point))])
        (measurement,) = store.measurements()
    assert measurement.point == point
    (visit,) = measurement.visits
    np.testing.assert_allclose(visit.samples.wall_s, 1e-3, rtol=1e-6)
    assert visit.samples.preempted.tolist() == [False, True, False]
    assert visit.samples.calls_per_sample == 4
    assert visit.probes == {"load_average": 0.5, "temperature": None}
    assert visit.utilization_measured == 0.25
    assert visit.quantities == {"memory_bytes": 1024, "energy_j": "no counter"}


def test_condition_columns_of_the_user_come_back(store: Store) -> None:
    point = Point(Layer("linear", ()), Condition(rack="A3"), "torch")
    with store:
        store.record([(point, make_visit(point))])
        (measurement,) = store.measurements()
    assert measurement.point.condition.values["rack"] == "A3"


def test_measurements_gather_all_visits_of_a_point_in_order(store: Store) -> None:
    first, second = make_point(8), make_point(16)
    with store:
        store.record([(first, make_visit(first, 1)), (second, make_visit(second)), (first, make_visit(first, 0))])
        passes = {m.point.key: [visit.pass_number for visit in m.visits] for m in store.measurements()}
    assert passes == {first.key: [0, 1], second.key: [0]}


def test_the_same_pass_over_a_point_is_kept_once(store: Store) -> None:
    point = make_point()
    with store:
        store.record([(point, make_visit(point, latency_s=1.0))])
        store.record([(point, make_visit(point, latency_s=2.0))])
        (measurement,) = store.measurements()
    assert [visit.samples.wall_s[0] for visit in measurement.visits] == [1.0]


def test_a_failure_inside_record_leaves_nothing_half_done(store: Store) -> None:
    point = make_point()

    def entries():  # type: ignore[no-untyped-def]
        yield point, make_visit(point)
        raise RuntimeError("stop")

    with store:
        with pytest.raises(RuntimeError):
            store.record(entries())
        assert not list(store.measurements())


def test_notes_are_kept_and_replaced(store: Store) -> None:
    with store:
        store.note("target", {"within": 0.1})
        store.note("target", {"within": 0.5})
        assert store.read_note("target") == {"within": 0.5}
        assert store.read_note("nothing") is None


def test_only_environments_with_measurements_count(store: Store) -> None:
    point = make_point()
    with store:
        store.add_environment("here", {"cpu": "a"})
        store.add_environment("unused", {"cpu": "b"})
        store.record([(point, make_visit(point))])
        assert store.environments() == {"here": {"cpu": "a"}}


def test_rows_survive_reopening(store: Store) -> None:
    point = make_point()
    with store:
        store.record([(point, make_visit(point))])
    with store:
        assert store.visited() == {point.key: {0: "ok"}}


def test_a_store_that_must_exist_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="medn sweep"), Store(tmp_path / "none.sqlite", must_exist=True):
        pass


def test_another_schema_is_refused_with_both_versions(store: Store) -> None:
    with store:
        pass
    connection = sqlite3.connect(store.path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(StoreError, match=f"schema {SCHEMA_VERSION + 1}.*schema {SCHEMA_VERSION}"), store:
        pass


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "measurements.sqlite"
    path.write_text("this is not a database, only some text that is long enough" * 20)
    with pytest.raises(StoreError, match="not a medn journal"), Store(path):
        pass


def test_a_full_disk_is_said_and_earlier_rows_stay(store: Store) -> None:
    first = make_point(8)
    with store:
        store.record([(first, make_visit(first))])
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        points = [make_point(size) for size in range(9, 2000)]
        with pytest.raises(StoreError, match="disk is full"):
            store.record((point, make_visit(point)) for point in points)
        assert len(list(store.measurements())) == 1


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot make the run folder"), Store(tmp_path / "file" / "run" / "m.sqlite"):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="cannot be written"), Store(tmp_path / "measurements.sqlite"):
        pass


def test_a_locked_journal_names_the_other_process(store: Store) -> None:
    point = make_point()
    with store:
        store._connection.execute("PRAGMA busy_timeout = 50")
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process is writing"):
            store.record([(point, make_visit(point))])
        other.execute("ROLLBACK")
        other.close()


def test_a_lost_visit_is_a_row_until_the_visit_is_made(store: Store) -> None:
    point = make_point()
    with store:
        store.record([(point, Visit(point.key, 0, "here", 1.0, "lost", "the link broke"))])
        assert (store.visited(), store.statuses(point.key)) == ({}, {})
        assert [each.status for each in store.measurements()] == ["lost"]
        store.record([(point, make_visit(point))])
        store.record([(point, Visit(point.key, 0, "here", 2.0, "lost", "the link broke"))])
        assert [visit.status for each in store.measurements() for visit in each.visits] == ["ok"]


def test_the_state_of_the_machine_comes_back(store: Store) -> None:
    point = make_point()
    with store:
        store.record([(point, Visit(point.key, 0, "here", 1.0, "ok", state={"temperature_c": 61.5}))])
        assert [visit.state for each in store.measurements() for visit in each.visits] == [{"temperature_c": 61.5}]


def test_visits_to_blocks_are_kept_beside_and_none_twice(tmp_path: Path) -> None:
    samples = Samples(np.array([2e-3, 1e-3]), np.array([2e-3, 1e-3]), np.array([True, False]))
    block = MeasuredBlock("torch", {"name": "layer1", "captured": "{}"})
    with Store(tmp_path / JOURNAL_NAME) as store:
        assert list(store.blocks()) == []
        for moment in (1.0, 2.0, 2.0):
            store.record_blocks([(block, BlockVisit(moment, samples))])
    with Store(tmp_path / JOURNAL_NAME, must_exist=True) as store:
        ((found, visits),) = store.blocks()
        assert found == block
        assert [visit.started_at for visit in visits] == [1.0, 2.0]
        assert visits[0].samples.wall_s == pytest.approx(samples.wall_s)
        assert visits[0].samples.preempted.tolist() == [True, False]
        assert store.visited() == {}
