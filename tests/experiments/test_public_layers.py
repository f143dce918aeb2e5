"""The table over public data: loaders on small files of the same columns, and the script from start to end."""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments import public_layers
from experiments.public import cde, miopen, neusight, vidur
from experiments.public.hardware import product_features
from experiments.public.task import build_table, joined
from medn.core.splits import Parts

ROWS = 240


def write(path: Path, rows: list[dict[str, object]]) -> None:
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def miopen_data(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    for _ in range(ROWS):
        batch, channels, filters, size = (
            int(random.integers(low, high)) for low, high in ((1, 65), (1, 257), (1, 257), (7, 57))
        )
        same = dict.fromkeys(("stride_h", "stride_w", "dil_h", "dil_w", "groups"), 1) | {"pad_h": 0, "pad_w": 0}
        shape = {"batch": batch, "in_c": channels, "in_h": size, "in_w": size, "out_c": filters, "kh": 1, "kw": 1}
        latency = 0.01 + 2e-10 * batch * channels * filters * size**2
        about = {"device": miopen.DEVICE, "dtype": "fp32", "layout": "NCHW", "solver": "any", "workspace_bytes": batch}
        rows.append(about | shape | same | {"latency_ms": latency})
    rows.append(rows[0] | {"device": "another"})
    write(tmp_path / "miopen_conv_fwd.csv.gz", rows)
    return tmp_path


@pytest.fixture
def neusight_data(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    operations = {"bmm": "mnk", "linear": "mnk", "add": "h", "softmax": "h", "ln": "h"}
    for operation, names in operations.items():
        for device, split in (
            ("seen", "train"),
            ("seen", "test"),
            ("unseen", "test"),
            ("Tesla P4", "train"),
            ("Tesla P4", "test"),
        ):
            for _ in range(30):
                sizes = {name: int(random.integers(8, 512)) if name in names else "" for name in "mnkh"}
                kernel = {"tile": "128x128", "grid_x": 7}
                about = {"device": device, "op": operation, "split": split, "b": int(random.integers(1, 64))}
                rows.append(about | sizes | kernel | {"latency_ms": float(random.uniform(0.1, 1))})
    write(tmp_path / "neusight_ops.csv.gz", rows)
    head = "device,dev_mem,mem_bw,num_sm,core_per_sm,freq,singleflops,l2cache,singleflopsmm,singleflopsvec\n"
    lines = "seen,32,900,80,64,1370,14029.0,6,,\nTesla P4,8,192,40,64,1113,,2,5699.0,\n"
    (tmp_path / "neusight_devices.csv").write_text(head + lines)
    return tmp_path


@pytest.fixture
def vidur_data(tmp_path: Path) -> Path:
    rows: list[dict[str, object]] = []
    for operation in (*vidur.TABLES["projections"], *vidur.TABLES["token ops"]):
        for tokens in (64, 512, 1024, 1536, 1900, 2048, 3000, 4096, 8192):
            for parallel in (1, 2):
                shape = {"n_head": 32, "n_kv_head": 8, "n_embd": 4096, "n_expanded_embd": 14336, "use_gated_mlp": True}
                about = {"device": "A100", "op": operation, "model": "m", "tp": parallel, "num_tokens": tokens}
                rows += [about | shape | {"latency_ms": 0.002 + tokens * 1e-4 / parallel}] * 2
    write(tmp_path / "vidur_llm_ops.csv.gz", rows)
    return tmp_path


@pytest.fixture
def cde_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cde, "SIZES", (8, 2))
    shape = {"in_c": 3, "out_c": 8, "in_hw": 10, "kernel": 3, "stride": 2, "padding_same": 1, "bias": 1}
    words = {"device": "V100", "op": "conv2d", "activation": "relu"}
    trained = {"pass": "forward+backward+update", "optimizer": "sgd"}
    applied = {"pass": "forward", "optimizer": "none"}
    rows = [
        words
        | shape
        | (trained if batch % 2 else applied)
        | {"batch": batch, "padding_same": batch % 3 % 2, "latency_ms": 1.0}
        for batch in range(1, 41)
    ]
    write(tmp_path / "cde_layers.csv.gz", rows)
    return tmp_path


def test_a_task_has_only_rows_of_the_device_it_names(miopen_data: Path) -> None:
    (task,) = miopen.load(miopen_data, 0)
    assert len(task.table) == ROWS


def test_what_is_known_only_after_measuring_is_no_input(miopen_data: Path, neusight_data: Path) -> None:
    tasks = [*miopen.load(miopen_data, 0), *neusight.load(neusight_data, 0)]
    after = ("solver", "workspace", "tile_", "grid", "block", "warps")
    assert not [name for task in tasks for name in task.table.schema.names if name.startswith(after)]


def test_parts_of_a_task_share_no_group(miopen_data: Path, vidur_data: Path) -> None:
    for task in (*miopen.load(miopen_data, 0), *vidur.load(vidur_data, 0)):
        parts = [set(task.table.groups[getattr(task.parts, name)]) for name in ("train", "validation", "test")]
        assert sum(map(len, parts)) == len(set.union(*parts))


def test_a_failed_fit_is_a_row_with_the_reason_and_is_tried_again(miopen_data: Path, tmp_path: Path) -> None:
    (task,) = miopen.load(miopen_data, 0)
    without = replace(task, table=build_table({"size": np.arange(ROWS)}, {}, task.table.latency_s, task.table.groups))
    options = argparse.Namespace(out=tmp_path, seconds=1.0, seed=0)
    *_, row = public_layers.task_rows(without, ["roofline"], options)
    assert "flops" in row["note"]
    assert not list(tmp_path.rglob("roofline.*"))


def test_a_gpu_without_training_rows_is_not_tested(neusight_data: Path) -> None:
    for task in neusight.load(neusight_data, 0):
        assert "unseen" not in task.table.schema.categories["device"]


def test_the_throttled_run_is_left_out(neusight_data: Path) -> None:
    devices = {task.name: task.table.schema.categories["device"] for task in neusight.load(neusight_data, 0)}
    assert "Tesla P4" in devices["neusight bmm"]
    assert "Tesla P4" not in devices["neusight linear"]


def test_choosing_is_done_beyond_what_is_learned_from(neusight_data: Path) -> None:
    for task in neusight.load(neusight_data, 0):
        work = task.table.column("flops")
        assert work[task.parts.validation].min() > work[task.parts.train].max()


def test_outside_means_more_tokens_than_were_learned_from(vidur_data: Path) -> None:
    task = next(task for task in vidur.load(vidur_data, 0) if task.name.endswith("outside"))
    tokens = task.table.column("batch_size")
    assert (
        tokens[np.concatenate([task.parts.train, task.parts.validation])].max() <= 2048 < tokens[task.parts.test].min()
    )


def test_same_padding_gives_one_output_per_step(cde_data: Path) -> None:
    (task,) = cde.load(cde_data, 0)
    padded = task.table.column("padding_h") > 0
    assert set(task.table.column("out_h")[padded]) == {5.0}
    assert set(task.table.column("out_h")[~padded]) == {4.0}


def test_training_counts_three_times_the_work(cde_data: Path) -> None:
    (task,) = cde.load(cde_data, 0)
    trained = task.table.column("pass") == task.table.schema.categories["pass"].index("forward+backward+update")
    per_row = task.table.column("flops") / task.table.column("matrix_rows")
    assert np.allclose(per_row[trained].mean(), 3 * per_row[~trained].mean())


def test_batches_above_the_authors_limit_are_left_out(cde_data: Path) -> None:
    (task,) = cde.load(cde_data, 0)
    assert task.parts.sizes == {"train": 8, "validation": 2, "calibration": 0, "test": 22}


def test_a_full_tile_wastes_nothing() -> None:
    one = np.array([128.0])
    features = product_features(1.0, one, one, one, np.array([1.0]))
    assert features["tiles_128x128_filled"] == 1.0
    assert features["tiles_256x128_filled"] == 0.5


def test_columns_that_never_change_are_no_inputs() -> None:
    numbers = {"same": np.ones(3), "flops": np.arange(3.0)}
    table = build_table(numbers, {}, np.ones(3), joined(np.arange(3)))
    assert table.schema.names == ("flops",)


def test_rows_are_kept_so_that_a_second_run_fits_nothing(
    miopen_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", str(miopen_data), "--out", str(tmp_path / "out"), "--sets", "miopen", "--quick"]
    arguments += ["--regressors", "median,linear,roofline"]
    assert public_layers.main(arguments) == 0
    assert "miopen conv2d: median" in capsys.readouterr().err
    assert public_layers.main(arguments) == 0
    assert "miopen conv2d: median" not in capsys.readouterr().err


def test_the_table_has_published_rows_every_regressor_and_the_ensemble(miopen_data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["--data", str(miopen_data), "--out", str(out), "--sets", "miopen", "--quick"]
    public_layers.main([*arguments, "--regressors", "median,linear,medn-shared"])
    rows = json.loads((out / "public_layers.json").read_text())["rows"]
    assert [row["regressor"] for row in rows][4:] == ["median", "linear", "medn-shared", public_layers.ENSEMBLE]
    assert rows[0]["MAPE %"] == pytest.approx(6.62)
    assert rows[-2]["MAPE %"] is None
    assert "kind" in rows[-2]["note"]


def test_multiples_of_the_peak_are_turned_back_into_seconds(neusight_data: Path) -> None:
    task = neusight.load(neusight_data, 0)[0]
    from medn.regressors.regressor import Effort

    row, logs, form = public_layers.fit_one(task, "xgboost" + public_layers.OF_PEAK, Effort(2.0))
    assert row["note"] == ""
    assert form is not None
    assert 1e-5 < np.exp(np.median(logs["test"])) < 1e-1


@pytest.mark.parametrize(("option", "value", "said"), [("--sets", "cdee", "cde"), ("--regressors", "medm", "medn")])
def test_an_unknown_name_is_one_sentence_with_the_near_miss(
    option: str, value: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert public_layers.main(["--data", str(tmp_path), option, value]) == 2
    assert f"Did you mean {said!r}" in capsys.readouterr().err


def test_missing_data_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert public_layers.main(["--data", str(tmp_path), "--sets", "cde"]) == 2
    assert "cde_layers.csv.gz" in capsys.readouterr().err


def test_quick_thins_every_part(miopen_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_layers, "QUICK_ROWS", 5)
    (task,) = miopen.load(miopen_data, 0)
    parts: Parts = public_layers._quick(task).parts
    assert parts.sizes == {"train": 5, "validation": 5, "calibration": 0, "test": 5}
