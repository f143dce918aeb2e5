"""Layers written for benchmark tools, and what these tell, joined to the points they are of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from medn.benchmark_tools.import_results import import_results
from medn.benchmark_tools.layer_plan import read_plan
from medn.benchmark_tools.write_plan import write_plan
from medn.core.errors import MednError, NothingMeasured, StoreError, UsageError
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import SweepConfig, parse_sweep
from medn.runs.folder import RunFolder
from medn.runs.tables import read_source

CONFIG = """
name: desk
devices: [{name: pixel, backend: onnxruntime}]
sampler: grid
layers:
  linear: {in_features: [16, 32], out_features: 8, rows: 1, bias: true}
  embedding: {vocabulary: 50, features: 8, tokens: 4}
conditions: {threads: [1, 2]}
"""


def config(text: str = CONFIG, **changes: str) -> SweepConfig:
    for old, new in changes.items():
        text = text.replace(old, new)
    return parse_sweep(text, ["onnxruntime", "torch"], [])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans") / "phone"
    write_plan(config(), folder)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "phone")


def labels(folder: Path) -> list[str]:
    return [each.label for each in read_plan(folder).points]


def bring(folder: Path, tmp_path: Path, *paths: Path, **options: Any) -> Any:
    return import_results(read_plan(folder), paths or [folder / "results"], RunFolder(tmp_path / "run"), **options)


def test_points_are_those_of_the_sweep_and_layers_are_files_once(written: Path) -> None:
    plan = read_plan(written)
    assert {each.point.key for each in plan.points} == {point.key for point in plan_points(config()).points}
    assert len(plan.points) == 6
    assert sorted(path.name for path in (written / "layers").iterdir()) == sorted(plan.inputs)
    assert len(plan.inputs) == 3


def test_files_run_and_have_the_inputs_that_the_manifest_tells(written: Path) -> None:
    import onnxruntime

    types = {"tensor(float)": "float32", "tensor(int64)": "int64"}
    for file, inputs in read_plan(written).inputs.items():
        session = onnxruntime.InferenceSession(written / "layers" / file, providers=["CPUExecutionProvider"])
        found = [(each.name, tuple(each.shape), types[each.type]) for each in session.get_inputs()]
        assert found == [(each.name, tuple(each.shape), each.dtype) for each in inputs]


def test_what_is_there_is_not_exported_again_and_an_edited_script_stays(folder: Path) -> None:
    (folder / "run_trtexec.sh").write_text("mine")
    next((folder / "layers").iterdir()).unlink()
    outcome = write_plan(config(), folder)
    assert outcome.written == 1
    assert (folder / "run_trtexec.sh").read_text() == "mine"


def test_what_no_tool_brings_about_is_left_out_and_told(tmp_path: Path) -> None:
    loaded = config(**{"threads: [1, 2]": "utilization: [0, 0.5], cache: [hot, cold]"})
    outcome = write_plan(loaded, tmp_path / "plan")
    assert len(outcome.plan.points) == 3
    assert [(reason.partition(":")[0], count) for reason, count in outcome.left_out] == [
        ("utilization above 0", 6),
        ("cache cold", 3),
    ]
    with pytest.raises(NothingMeasured, match="no point of desk can be planned"):
        write_plan(config(**{"threads: [1, 2]": "cache: cold"}), tmp_path / "none")


def test_a_plan_is_for_one_device(tmp_path: Path) -> None:
    two = config(**{"[{name: pixel, backend: onnxruntime}]": "[torch, onnxruntime]"})
    with pytest.raises(UsageError, match="say --as NAME"):
        write_plan(two, tmp_path / "plan")
    assert write_plan(two, tmp_path / "plan", "phone").plan.device == "phone"


def test_the_plain_loop_runs_and_its_results_are_imported(folder: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the second time there is nothing left to do
        subprocess.run([sys.executable, folder / "run_loop.py"], check=True, timeout=120)
    outcome = bring(folder, tmp_path)
    assert (outcome.imported, outcome.points, outcome.planned, outcome.missing) == (6, 6, 6, ())
    assert (outcome.statistics, outcome.refused) == ({}, ())
    rows = read_source(tmp_path / "run").rows
    assert {row["device"] for row in rows["linear"]} == {"pixel"}
    assert [row["samples"] for row in rows["linear"]] == [50] * 4


def ncnn(path: Path, mean_ms: float) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"  x  min = {mean_ms:7.2f}  max = {mean_ms:7.2f}  avg = {mean_ms:7.2f}\n")


def test_missing_unknown_and_repeated_results_are_told(folder: Path, tmp_path: Path) -> None:
    first, second, *rest = labels(folder)
    results = folder / "results"
    ncnn(results / f"{first}.log", 1.0)
    ncnn(results / "again" / f"{first}.log", 1.2)
    shutil.copy(results / f"{first}.log", results / "again" / f"{first}.txt")
    ncnn(results / f"{second}.log", 0.0)
    ncnn(results / "stranger.log", 1.0)
    (results / "notes.txt").write_text("it was a warm day")
    (results / f"{second}.log.part").write_text("half")
    outcome = bring(folder, tmp_path)
    assert (outcome.files, outcome.imported, outcome.known, outcome.several) == (6, 2, 1, 1)
    assert set(outcome.missing) == {second, *rest}
    assert outcome.statistics == {"mean": 5}
    reasons = " ".join(reason for reason, _ in outcome.refused)
    assert "of no point of the plan" in reasons
    assert "rounded to nothing" in reasons
    assert "no output of" in reasons


def test_the_same_results_again_change_nothing_and_more_are_added(folder: Path, tmp_path: Path) -> None:
    first, second, *_ = labels(folder)
    ncnn(folder / "results" / f"{first}.log", 1.0)
    bring(folder, tmp_path)
    assert (bring(folder, tmp_path).imported, bring(folder, tmp_path).known) == (0, 1)
    ncnn(folder / "results" / f"{second}.log", 1.0)
    assert bring(folder, tmp_path).imported == 1


def test_a_file_of_one_point_is_enough_and_one_of_several_is_not(tmp_path: Path) -> None:
    plan = write_plan(config(**{"conditions: {threads: [1, 2]}": ""}), tmp_path / "plan").plan
    ncnn(tmp_path / "plan" / "results" / f"{plan.points[0].file}.log", 1.0)
    assert bring(tmp_path / "plan", tmp_path).imported == 1


def test_a_file_of_several_points_needs_a_label(folder: Path, tmp_path: Path) -> None:
    ncnn(folder / "results" / f"{read_plan(folder).points[0].file}.log", 1.0)
    with pytest.raises(NothingMeasured, match="file of 2 points that differ in their conditions"):
        bring(folder, tmp_path)
    assert not (tmp_path / "run").exists()


def test_another_device_has_points_of_its_own(folder: Path, tmp_path: Path) -> None:
    ncnn(folder / "results" / f"{labels(folder)[0]}.log", 1.0)
    bring(folder, tmp_path)
    with pytest.raises(UsageError, match="holds measurements from elsewhere"):
        bring(folder, tmp_path, device="board")
    bring(folder, tmp_path, device="board", mix_environments=True)
    assert read_source(tmp_path / "run").devices == ["board", "pixel"]


def test_a_named_tool_reads_nothing_else(folder: Path, tmp_path: Path) -> None:
    ncnn(folder / "results" / f"{labels(folder)[0]}.log", 1.0)
    with pytest.raises(NothingMeasured, match="no output of trtexec"):
        bring(folder, tmp_path, tool="trtexec")
    with pytest.raises(MednError, match="no benchmark tool named 'trtexc'"):
        bring(folder, tmp_path, tool="trtexc")
    with pytest.raises(UsageError, match="nowhere does not exist"):
        bring(folder, tmp_path, tmp_path / "nowhere")


def test_what_is_no_plan_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is no layer plan"):
        read_plan(tmp_path)
    (tmp_path / "plan.json").write_text("[]")
    with pytest.raises(StoreError, match="cannot be read as a layer plan"):
        read_plan(tmp_path)
    changed = json.loads((folder / "plan.json").read_text())
    changed["points"][0]["condition"]["threads"] = 7
    (folder / "plan.json").write_text(json.dumps(changed))
    with pytest.raises(StoreError, match="was changed"):
        read_plan(folder)


STUBS = {
    "run_onnxruntime_perf_test.sh": """for OUT; do :; done
[ -f "layers/$(basename "$(echo "$@" | grep -o '[^ ]*[.]onnx')")" ] || exit 1
echo "layers,0.00125,1,1,0" > "$OUT" """,
    "run_trtexec.sh": """for EACH; do
  case $EACH in --exportTimes=*) OUT=${EACH#*=};; --onnx=*) [ -f "${EACH#*=}" ] || exit 1;; esac
done
echo '[{"startComputeMs": 250, "computeMs": 1.25, "latencyMs": 2}]' > "$OUT" """,
    "run_benchncnn.sh": """case "$*" in *"shape=[32]"*|*"shape=[16]"*|*"shape=[4]"*) ;; *) exit 1;; esac
echo "  x  min = 1.0  max = 2.0  avg = 1.25" >&2""",
    "run_benchmark_model.sh": 'echo "Inference timings in us: Init: 1, First inference: 1, Inference (avg): 1250"',
}
"""What stands in for the tools, which are not here: each checks what it is called with and writes as the tool does."""


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")
@pytest.mark.parametrize("script", STUBS)
def test_a_script_calls_its_tool_for_every_point(script: str, folder: Path, tmp_path: Path) -> None:
    stub = tmp_path / "stub"
    stub.write_text(f"#!/bin/sh\n{STUBS[script]}\n")
    stub.chmod(0o755)
    subprocess.run([folder / script], check=True, env={**os.environ, "BENCHMARK": str(stub)}, timeout=60)
    outcome = bring(folder, tmp_path)
    assert (outcome.imported, outcome.points, outcome.refused) == (6, 6, ())
    latencies = [row["latency_s"] for rows in read_source(tmp_path / "run").rows.values() for row in rows]
    assert latencies == pytest.approx([1.25e-3] * 6)
