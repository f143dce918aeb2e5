"""The tables over public data: the shipped mappings on small files of the same columns, and the script end to end."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from experiments import public_layers
from experiments.public.prepare import tensorflow_padding
from experiments.public.tables import MAPPINGS, TABLES, Task, find_table, tasks_of
from medn.importing.mapping import load_mapping

DEVICES = {
    "neusight": ("NVIDIA A100-PCIE-40GB", "Tesla P100-PCIE-16GB", "Tesla P4", "Tesla T4", "Tesla V100-PCIE-32GB"),
    "vidur": ("A40", "A100", "H100"),
    "cde": ("K40", "K80", "M60", "GTX1080Ti", "P100", "V100"),
}


def write(path: Path, rows: list[dict[str, object]]) -> None:
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def miopen_rows(random: np.random.Generator) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for _ in range(120):
        batch, channels, filters, size = (int(random.integers(low, 58)) for low in (1, 1, 1, 7))
        same = dict.fromkeys(("stride_h", "stride_w", "dil_h", "dil_w", "groups"), 1) | {"pad_h": 0, "pad_w": 0}
        shape = {"batch": batch, "in_c": channels, "in_h": size, "in_w": size, "out_c": filters, "kh": 1, "kw": 1}
        about = {"device": "gfx908_120cu", "dtype": "fp32", "layout": "NCHW", "solver": "any", "workspace_bytes": batch}
        rows.append(about | shape | same | {"latency_ms": 0.01 + 2e-10 * batch * channels * filters * size**2})
    return [*rows, rows[0] | {"device": "another"}, rows[0] | {"dtype": "fp16"}]


def neusight_rows(random: np.random.Generator) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for operation, names in {"bmm": "mnk", "linear": "mnk", "add": "h", "relu": "h", "softmax": "h", "ln": "h"}.items():
        for device in (*DEVICES["neusight"], "unseen"):
            for number in range(15):
                sizes = {name: int(random.integers(8, 512)) if name in names else "" for name in "mnkh"}
                about = {"device": device, "op": operation, "split": "test" if number % 5 == 0 else "train"}
                batch = {"b": int(random.integers(1, 64)), "tile": "128x128", "grid_x": 7}
                rows.append(about | batch | sizes | {"latency_ms": float(random.uniform(0.1, 1))})
    return rows


def vidur_rows() -> list[dict[str, object]]:
    shape = {"n_head": 32, "n_kv_head": 8, "n_embd": 4096, "n_expanded_embd": 14336, "use_gated_mlp": True}
    operations = (
        "attn_pre_proj",
        "attn_post_proj",
        "mlp_up_proj",
        "mlp_down_proj",
        "input_layernorm",
        "add",
        "mlp_act",
    )
    return [
        {"device": device, "op": operation, "model": "m", "tp": parallel, "num_tokens": tokens}
        | shape
        | {"latency_ms": 0.002 + tokens * 1e-4 / parallel}
        for device in DEVICES["vidur"]
        for operation in operations
        for tokens in (64, 128, 256, 384, 512, 1024, 1536, 1900, 2048, 3000, 4096, 8192)
        for parallel in (1, 2)
    ]


def cde_rows() -> list[dict[str, object]]:
    shape = {"in_c": 3, "in_hw": 10, "kernel": 3, "stride": 2, "bias": 1, "op": "conv2d", "activation": "relu"}
    trained, applied = ({"pass": name, "optimizer": name[:3]} for name in ("forward+backward+update", "forward"))
    return [
        {"device": device, "batch": batch, "out_c": 8 + batch % 16, "padding_same": batch % 3 % 2}
        | shape
        | (trained if batch % 2 else applied)
        | {"latency_ms": 1.0 + batch}
        for device in DEVICES["cde"]
        for batch in range(1, 41)
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, random = tmp_path_factory.mktemp("public"), np.random.default_rng(0)
    write(folder / "miopen_conv_fwd.csv.gz", miopen_rows(random))
    write(folder / "neusight_ops.csv.gz", neusight_rows(random))
    write(folder / "vidur_llm_ops.csv.gz", vidur_rows())
    write(folder / "cde_layers.csv.gz", cde_rows())
    return folder


@pytest.fixture(scope="module")
def tasks(data: Path) -> dict[str, Task]:
    return {task.name: task for table in TABLES.values() for task in tasks_of(table, data, data / "runs")}


@pytest.mark.parametrize("name", [name for table in TABLES.values() for name in table.mappings])
def test_the_mapping_of_every_table_states_data_sheets(name: str) -> None:
    assert load_mapping(MAPPINGS / name).sheets


def test_every_table_becomes_tasks(tasks: dict[str, Task]) -> None:
    assert len(tasks) == 13
    assert tasks["miopen conv2d"].table.schema.categories == {}
    assert len(tasks["miopen conv2d"].table) == 120
    assert len(tasks["cde conv2d"].table) == 6 * 32


def test_data_sheets_are_inputs_of_every_task(tasks: dict[str, Task]) -> None:
    assert all("peak_us" in task.table.schema.names for task in tasks.values())
    assert "tiles_128x128_waves" in tasks["vidur linear"].table.schema.names


def test_what_is_known_only_after_measuring_is_no_input(tasks: dict[str, Task]) -> None:
    after = ("solver", "workspace", "tile_", "grid", "block", "warps")
    assert not [name for task in tasks.values() for name in task.table.schema.names if name.startswith(after)]


def test_the_split_of_the_authors_is_kept(tasks: dict[str, Task]) -> None:
    task = tasks["neusight-bmm matmul"]
    assert "unseen" not in task.table.schema.categories["device"]
    assert len(task.parts.test) == 3 * 5


def test_the_throttled_run_is_left_out(tasks: dict[str, Task]) -> None:
    assert "Tesla P4" in tasks["neusight-bmm matmul"].table.schema.categories["device"]
    assert "Tesla P4" not in tasks["neusight-linear linear"].table.schema.categories["device"]


def test_outside_means_more_tokens_than_were_learned_from(tasks: dict[str, Task]) -> None:
    task = tasks["vidur-outside linear"]
    tokens = task.table.column("rows")
    learned = np.concatenate([task.parts.train, task.parts.validation, task.parts.calibration])
    assert tokens[learned].max() <= 2048 < tokens[task.parts.test].min()
    assert tokens.max() <= 4096


@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [(8, 3, 1), (8, 2, 1), (8, 3, 2), (9, 3, 2), (7, 5, 3), (4, 1, 4)]
)
def test_same_padding_gives_an_output_per_step_or_says_that_it_is_uneven(size: int, kernel: int, stride: int) -> None:
    row = {"op": "conv2d", "in_hw": size, "kernel": kernel, "stride": stride, "padding_same": 1}
    found = tensorflow_padding(row)
    outputs = (size + 2 * found["padding"] - kernel) // stride + 1
    assert outputs - -(-size // stride) == (stride == 1 and found["uneven"])


def test_the_script_imports_trains_selects_and_goes_on_where_it_was(data: Path, tmp_path: Path) -> None:
    arguments = ["--data", str(data), "--out", str(tmp_path), "--sets", "miopen", "--time", "3s"]
    arguments += ["--regressors", "median,ridge"]
    assert public_layers.main(arguments) == 0
    trained = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("candidate.json") if "chosen" not in path.parts}
    assert public_layers.main(arguments) == 0
    rows = json.loads((tmp_path / "public_layers.json").read_text())["rows"]
    assert {"AutoGluon", "median", "ridge"} <= {row["who"] for row in rows}
    assert sum(row["chosen"] for row in rows) == 1
    assert trained == {path: path.stat().st_mtime_ns for path in trained}


@pytest.mark.parametrize(("name", "words"), [("cdee", "Did you mean 'cde'?"), ("cde", "no file")])
def test_what_is_not_there_is_one_sentence(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert public_layers.main(["--data", str(tmp_path), "--out", str(tmp_path), "--sets", name]) == 2
    assert words in capsys.readouterr().err


def test_a_table_is_found_by_its_name() -> None:
    assert find_table("miopen").pool is False
