"""Runs made apart become one: every visit once, equal points compared, different machines told apart."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medn.core.environment import environment_id, environment_manifest
from medn.core.errors import MednError, NothingMeasured, StoreError, TooNoisy, UsageError
from medn.core.store import JOURNAL_NAME, BlockVisit, MeasuredBlock
from medn.core.values import Condition, Point, Samples, Visit
from medn.layer_generators.kind import layer_kinds
from medn.merging.merge_runs import merge_runs
from medn.runs.folder import RunFolder
from medn.runs.measured import read_measured
from medn.runs.tables import read_source

ROOT = Path(__file__).resolve().parents[2]

TORCH = environment_manifest({"torch": "2.13.0"})
LATER_TORCH = environment_manifest({"torch": "2.14.0"})


def write(
    path: Path,
    sizes: tuple[int, ...],
    *,
    manifest: dict[str, Any] = TORCH,
    slower: float = 1.0,
    seed: int = 0,
    visits: int = 4,
    device: str = "desk",
    config: dict[str, Any] | None = None,
    dtypes: dict[str, float] | None = None,
) -> Path:
    """A run of linear layers whose visits spread by about one per cent."""
    random = np.random.default_rng(seed)
    environment = environment_id(manifest) if "cpu" in manifest else str(manifest["source"])
    entries = []
    for size in sizes:
        point = Point(layer_kinds["linear"].layer(in_features=size, out_features=64), Condition(), device)
        for number in range(visits):
            times = 1e-6 * size * slower * random.lognormal(0, 0.01, 5)
            samples = Samples(times, times, np.zeros(5, dtype=bool))
            moment = 1000.0 * seed + size + 0.1 * number
            entries.append((point, Visit(point.key, number, environment, moment, "ok", samples=samples)))
    with RunFolder(path).store() as store:
        store.add_environment(environment, manifest)
        store.note("config", {"name": path.name, "seed": seed, "backends": {device: "torch"}, **(config or {})})
        store.note("sheets", {device: {"peak_gflops": 100 + seed}})
        store.note("dtypes", dtypes or {})
        store.record(entries)
    return path


def merged(tmp_path: Path, *paths: Path, **options: Any) -> Any:
    return merge_runs(paths, RunFolder(tmp_path / "out"), **options)


def counts(path: Path) -> dict[str, int]:
    """The visits to each point, by device and size."""
    with RunFolder(path).store(must_exist=True) as store:
        return {
            f"{each.point.device} {each.point.layer.values['in_features']}": len(each.visits)
            for each in store.measurements()
        }


def content(path: Path) -> str:
    return hashlib.sha256((path / JOURNAL_NAME).read_bytes()).hexdigest()


def test_points_of_both_are_there_and_common_ones_have_the_visits_of_both(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", (64, 128)), write(tmp_path / "b", (128, 256), seed=1)
    outcome = merged(tmp_path, first, second)
    assert counts(tmp_path / "out") == {"desk 64": 4, "desk 128": 8, "desk 256": 4}
    assert (outcome.points, outcome.visits, outcome.added, outcome.shared) == (3, 16, 16, 0)


def test_blocks_of_models_come_along_once_under_the_names_of_their_devices(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", (64, 128)), write(tmp_path / "b", (128, 256), manifest=LATER_TORCH, seed=1)
    for number, path in enumerate((first, second)):
        samples = Samples(np.ones(2), np.ones(2), np.zeros(2, dtype=bool))
        with RunFolder(path).store() as store:
            store.record_blocks([(MeasuredBlock("desk", {"name": "layer1"}), BlockVisit(float(number), samples))])
    for _ in range(2):
        merged(tmp_path, first, second, keep_apart=True)
        with RunFolder(tmp_path / "out").store(must_exist=True) as store:
            held = [(block.device, block.content["name"], len(visits)) for block, visits in store.blocks()]
        assert len({device for device, _, _ in held}) == 2
        assert [(name, visits) for _, name, visits in held] == [("layer1", 1)] * 2


def test_the_runs_themselves_stay_as_they_are(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", (64, 128)), write(tmp_path / "b", (128, 256), seed=1)
    before = content(first), content(second)
    merged(tmp_path, first, second)
    assert (content(first), content(second)) == before
    assert {path.name for path in first.iterdir()} == {JOURNAL_NAME}


def test_common_points_are_compared_with_the_noise(tmp_path: Path) -> None:
    sizes = tuple(range(64, 96))
    first, second = write(tmp_path / "a", sizes), write(tmp_path / "b", sizes, seed=1)
    third = write(tmp_path / "c", sizes, seed=2, slower=1.2)
    outcome = merged(tmp_path, first, second, third)
    alike, *apart = outcome.overlaps
    assert (alike.runs, alike.points, alike.beyond_noise) == (("a", "b"), 32, False)
    assert alike.noise == pytest.approx(0.005, abs=0.005)
    assert [(each.runs, each.beyond_noise) for each in apart] == [(("a", "c"), True), (("b", "c"), True)]
    assert apart[0].ratio == pytest.approx(1.2, rel=0.02)


def test_noise_that_is_not_known_makes_no_disagreement(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", (64,), visits=1), write(tmp_path / "b", (64,), visits=1, slower=2, seed=1)
    (overlap,) = merged(tmp_path, first, second).overlaps
    assert (overlap.noise, overlap.beyond_noise) == (None, False)


def test_strict_merges_nothing_that_disagrees(tmp_path: Path) -> None:
    sizes = tuple(range(64, 96))
    first, second = write(tmp_path / "a", sizes), write(tmp_path / "b", sizes, seed=1, slower=1.2)
    with pytest.raises(TooNoisy, match=r"linear on desk differs by 18.* between a and b"):
        merged(tmp_path, first, second, strict=True)
    assert not (tmp_path / "out").exists()


def test_a_visit_that_stands_in_a_run_and_its_copy_is_taken_once(tmp_path: Path) -> None:
    first = write(tmp_path / "a", (64, 128))
    second = shutil.copytree(first, tmp_path / "b")
    write(second, (256,), seed=1)
    outcome = merged(tmp_path, first, second)
    assert counts(tmp_path / "out") == {"desk 64": 4, "desk 128": 4, "desk 256": 4}
    assert (outcome.shared, outcome.overlaps) == (8, ())


def test_the_same_again_adds_what_came_since(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", (64,)), write(tmp_path / "b", (64,), seed=1)
    merged(tmp_path, first, second)
    assert merged(tmp_path, first, second).added == 0
    write(second, (512,), seed=2)
    assert merged(tmp_path, first, second).added == 4
    assert counts(tmp_path / "out") == {"desk 64": 8, "desk 512": 4}


def test_the_target_is_chosen_for_all_and_the_run_can_be_learned_from(tmp_path: Path) -> None:
    first = write(tmp_path / "a", (64, 128), config={"drop": ["bias"]})
    second = write(tmp_path / "b", (128,), seed=1, config={"drop": ["rows"]})
    outcome = merged(tmp_path, first, second)
    assert outcome.notes == ("the runs differ in drop; that of the first is kept: ['bias']",)
    with RunFolder(tmp_path / "out").store(must_exist=True) as store:
        _, target = read_measured(store)
        assert store.read_note("target") == target.as_json()
    source = read_source(tmp_path / "out")
    assert len(source.rows["linear"]) == 2
    assert source.choice.drop == ("bias",)
    assert source.sheets == {"desk": {"peak_gflops": 100}}


def test_machines_that_differ_are_refused_with_what_differs(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", (64,)), write(tmp_path / "b", (64,), manifest=LATER_TORCH)
    with pytest.raises(StoreError, match=r"desk is not the same device in a and b \(torch: 2.13.0 in a, 2.14.0 in b\)"):
        merged(tmp_path, first, second)
    assert not (tmp_path / "out").exists()


def test_machines_that_differ_can_be_kept_apart(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", (64,)), write(tmp_path / "b", (64,), manifest=LATER_TORCH, seed=1)
    third = write(tmp_path / "c", (64,), manifest=LATER_TORCH, seed=2)
    outcome = merged(tmp_path, first, second, third, keep_apart=True)
    assert counts(tmp_path / "out") == {"desk@a 64": 4, "desk@b 64": 8}
    assert outcome.renamed == (("a", "desk", "desk@a"), ("b", "desk", "desk@b"), ("c", "desk", "desk@b"))
    with RunFolder(tmp_path / "out").store(must_exist=True) as store:
        assert store.read_note("config")["backends"] == {"desk@a": "torch", "desk@b": "torch"}
        assert store.read_note("sheets") == {"desk@a": {"peak_gflops": 100}, "desk@b": {"peak_gflops": 101}}


def test_machines_that_look_alike_and_disagree_are_kept_apart_too(tmp_path: Path) -> None:
    sizes = tuple(range(64, 96))
    first, second = write(tmp_path / "a", sizes), write(tmp_path / "b", sizes, seed=1, slower=1.2)
    merged(tmp_path, first, second, keep_apart=True)
    assert {name.split()[0] for name in counts(tmp_path / "out")} == {"desk@a", "desk@b"}


def test_machines_that_differ_can_share_a_name_with_every_visit_marked(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", (64,)), write(tmp_path / "b", (64,), manifest=LATER_TORCH, seed=1)
    merged(tmp_path, first, second, mix_environments=True)
    (row,) = read_source(tmp_path / "out").rows["linear"]
    assert set(str(row["environment_id"]).split("+")) == {environment_id(TORCH), environment_id(LATER_TORCH)}


def test_runs_whose_folders_have_one_name_are_told_apart_by_more_of_their_paths(tmp_path: Path) -> None:
    first = write(tmp_path / "x" / "run", (64,))
    second = write(tmp_path / "y" / "run", (64,), manifest=LATER_TORCH, seed=1)
    merged(tmp_path, first, second, keep_apart=True)
    assert set(counts(tmp_path / "out")) == {"desk@x/run 64", "desk@y/run 64"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"keep_apart": True}, "which now would be 'desk@a'"), ({}, "not the same device")],
)
def test_a_merge_goes_on_only_as_it_was_begun(tmp_path: Path, options: dict[str, bool], sentence: str) -> None:
    first, second = write(tmp_path / "a", (64,)), write(tmp_path / "b", (64,), manifest=LATER_TORCH, seed=1)
    merged(tmp_path, first, second, mix_environments=True)
    with pytest.raises(StoreError, match=sentence):
        merged(tmp_path, first, second, **options)


def test_a_run_that_no_merge_made_is_not_added_to(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", (64,)), write(tmp_path / "b", (64,), seed=1)
    write(tmp_path / "out", (32,))
    before = counts(tmp_path / "out")
    with pytest.raises(StoreError, match="holds measurements that no merge brought there"):
        merged(tmp_path, first, second)
    assert counts(tmp_path / "out") == before


def test_a_merge_of_more_runs_must_name_the_former_ones(tmp_path: Path) -> None:
    first, second, third = (write(tmp_path / name, (64,), seed=seed) for seed, name in enumerate("abc"))
    merged(tmp_path, first, second)
    with pytest.raises(StoreError, match=r"was merged from .*/b too"):
        merged(tmp_path, first, third)
    assert merged(tmp_path, first, second, third).added == 4


def test_what_cannot_be_merged_is_said(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", (64,)), write(tmp_path / "b", (64,), seed=1)
    with pytest.raises(UsageError, match="is one of the runs"):
        merge_runs([first, second], RunFolder(first))
    with pytest.raises(UsageError, match="named twice"):
        merged(tmp_path, first, tmp_path / "b" / ".." / "a")
    with pytest.raises(UsageError, match="at least two"):
        merged(tmp_path, first)
    with pytest.raises(StoreError, match="nowhere is no run"):
        merged(tmp_path, first, tmp_path / "nowhere")
    with RunFolder(tmp_path / "empty").store():
        pass
    with pytest.raises(NothingMeasured, match="nothing to merge"):
        merged(tmp_path, first, tmp_path / "empty")
    assert not (tmp_path / "out").exists()


def test_data_types_that_contradict_are_refused_and_nothing_is_left_behind(tmp_path: Path) -> None:
    first = write(tmp_path / "a", (64,), dtypes={"nvfp4": 0.5})
    second = write(tmp_path / "b", (64,), seed=1, dtypes={"nvfp4": 0.5625})
    with pytest.raises(UsageError, match="nvfp4"):
        merged(tmp_path, first, second)
    assert not (tmp_path / "out").exists()


def test_tables_alone_cannot_be_merged(tmp_path: Path) -> None:
    first = write(tmp_path / "a", (64,))
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "linear.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="holds tables and no journal"):
        merged(tmp_path, first, tmp_path / "tables")


def import_table(path: Path, run: Path, text: str, **options: str) -> Path:
    from medn.importing.declaration import Declaration, declare
    from medn.importing.import_table import import_table as bring_in
    from medn.importing.table_file import open_table

    path.write_text(text)
    table = open_table(path)
    declared = declare(table, Declaration("gemm", "us", "us", **options))
    bring_in(table, declared.mapping, RunFolder(run), declared=declared.kind)
    return run


ROWS = "device,m,n,us\nphone,64,64,5\nphone,64,64,5\nphone,128,64,9\n"


def test_a_table_imported_twice_is_taken_once_and_its_equal_rows_stay_two(tmp_path: Path) -> None:
    first = import_table(tmp_path / "t.csv", tmp_path / "a", ROWS)
    os.utime(tmp_path / "t.csv", (1, 1))
    (tmp_path / "t.csv").rename(tmp_path / "copy.csv")
    second = import_table(tmp_path / "copy.csv", tmp_path / "b", ROWS)
    outcome = merged(tmp_path, first, second)
    assert (outcome.points, outcome.visits, outcome.shared) == (2, 3, 3)
    assert set(read_source(tmp_path / "out").imported.declared) == {"gemm"}


def test_tables_of_one_device_from_different_sources_are_refused(tmp_path: Path) -> None:
    first = import_table(tmp_path / "t.csv", tmp_path / "a", ROWS)
    second = import_table(tmp_path / "u.csv", tmp_path / "b", ROWS + "phone,256,64,20\n")
    with pytest.raises(StoreError, match=r"imported from t.csv in a, imported from u.csv in b"):
        merged(tmp_path, first, second)
    merged(tmp_path, first, second, mix_environments=True)
    assert len(read_source(tmp_path / "out").rows["gemm"]) == 3


def test_kinds_declared_in_two_ways_are_refused(tmp_path: Path) -> None:
    first = import_table(tmp_path / "t.csv", tmp_path / "a", ROWS)
    second = import_table(tmp_path / "u.csv", tmp_path / "b", ROWS.replace("phone", "board").replace("n,", "k,"))
    with pytest.raises(MednError, match="gemm is declared in two ways"):
        merged(tmp_path, first, second)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("version", ["first", "second"])
def test_runs_of_earlier_versions_are_merged(version: str, tmp_path: Path, write_run: Callable[..., Path]) -> None:
    old = shutil.copytree(ROOT / "tests" / "formats" / version / "run", tmp_path / "old")
    before = content(old)
    new = write_run(tmp_path / "new", seed=7, devices=("other",))
    merged(tmp_path, old, new)
    with RunFolder(old).store(must_exist=True) as there, RunFolder(tmp_path / "out").store(must_exist=True) as here:
        kept = {each.point.key: each for each in here.measurements() if each.point.device != "other"}
        for each in there.measurements():
            visits = kept.pop(each.point.key).visits
            assert [visit.quantities for visit in visits] == [visit.quantities for visit in each.visits]
            assert [list(visit.samples.wall_s) for visit in visits] == [list(v.samples.wall_s) for v in each.visits]
    assert kept == {}
    assert content(old) == before


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_merge_that_is_killed_is_made_by_the_same_command(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, tuple(range(64, 364)), seed=seed) for seed, name in enumerate("ab")]
    command = [sys.executable, "-m", "medn", "merge", *map(str, paths), "--out", str(tmp_path / "out"), "--json"]
    for wait_s in (0.0, 0.03, 0.1):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 60
        while not (tmp_path / "out" / JOURNAL_NAME).exists() and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.001)
        time.sleep(wait_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with RunFolder(tmp_path / "out").store() as store:
            assert len(store.visited()) in (0, 300)
    subprocess.run(command, check=True, capture_output=True)
    assert set(counts(tmp_path / "out").values()) == {8}
