"""What every benchmark tool writes is read as it is, and taken for that of no other tool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medn.benchmark_tools.conformance import *  # noqa: F403
from medn.benchmark_tools.tool import Result, benchmark_tools

TFLITE_LOG = """INFO: STARTING!
INFO: Num threads: [4]
INFO: Graph: [/data/local/tmp/linear-1.tflite]
INFO: Initialized session in 5.579ms.
INFO: Running benchmark for at least 1 iterations and at least 0.5 seconds but terminate if exceeding 150 seconds.
INFO: count=9 first=87112 curr=51629 min=51629 max=87112 avg=58147.4 std=11478{first}

INFO: Running benchmark for at least 50 iterations and at least 1 seconds but terminate if exceeding 150 seconds.
INFO: count=50 first=1300 curr=1240 min=1238 max=1252 avg=1.25e+03 std=2{second}

INFO: Inference timings in us: Init: 5579, First inference: 87112, Warmup (avg): 58147.4, Inference (avg): 1.25e+03
INFO: Memory footprint delta from the start of the tool (MB): init=6.36328 overall=109.832
"""
WITH_MEDIANS = TFLITE_LOG.format(first=" p5=1 median=51962 p95=2", second=" p5=1238 median=1239 p95=1247")
WITHOUT_MEDIANS = TFLITE_LOG.format(first="", second="")

TFLITE_CSV = """Profiling Info for Benchmark Initialization:
============================== Run Order ==============================
node type, first, avg_ms, %, cdf%, mem KB, times called, name
AllocateTensors,5.000,5.000,100%,100%,0,1,AllocateTensors/0

Operator-wise Profiling Info for Regular Benchmark Runs:
============================== Run Order ==============================
node type, first, avg_ms, %, cdf%, mem KB, times called, name
CONV_2D,0.100,0.250,62.5%,62.5%,0,1,[a]:0
ADD,0.100,0.150,37.5%,100%,0,1,[b]:1

"""

PERF_TEST_CSV = "layers,0.00125,91336704,62,0\nlayers,0.00130,91336704,62,1\n"
PERF_TEST_LOG = """Session creation time cost: 0.169475 s
First inference time cost: 109 ms
Total inference time cost: 0.0727021 s
Average inference time cost total: 7.270205 ms
Number of inferences per second: 137.435
"""
PERF_TEST_STATISTICS = PERF_TEST_LOG + "Min Latency: 0.0072 s\nP50 Latency: 0.00727787 s\nP90 Latency: 0.0073 s\n"
OLD_PERF_TEST_LOG = "Average inference time cost: 2.5 ms\n"

NCNN = "loop_count = 50\nnum_threads = 1\n           linear-1.param  min =    1.10  max =    1.90  avg =    1.25\n"
NCNN_TWO = NCNN + "                conv-2  min =    2.10  max =    2.90  avg =    2.50\n"
NCNN_BOTH = "  linear-1 gpu min =    1.10  max =    1.90  avg =    1.25  user =    0.10  sys =    0.10\n"


def run(start_ms: float, compute_ms: float) -> dict[str, float]:
    return {"startComputeMs": start_ms, "computeMs": compute_ms, "latencyMs": compute_ms + 1, "h2dMs": 0.5}


TRTEXEC = json.dumps([run(0.5, 9.0), run(150.0, 2.0), run(201.0, 1.25), run(203.0, 1.5)])
TRTEXEC_SHORT = json.dumps([run(0.5, 9.0)])

CSV = "label,latency_us\nlinear-1,1250\nlinear-1,1300\nconv-2,2500\n"
CSV_MEANS = "file;mean_ms\nlinear-1.onnx;1,25\n"


@pytest.mark.parametrize(
    ("tool", "text", "results"),
    [
        ("benchmark-model", WITH_MEDIANS, [Result("x.out", (1239e-6,), "median")]),
        ("benchmark-model", WITHOUT_MEDIANS, [Result("x.out", (1250e-6,), "mean")]),
        (
            "benchmark-model",
            WITH_MEDIANS + WITHOUT_MEDIANS.replace("linear-1", "conv-2"),
            [
                Result("/data/local/tmp/linear-1.tflite", (1239e-6,), "median"),
                Result("/data/local/tmp/conv-2.tflite", (1250e-6,), "mean"),
            ],
        ),
        ("benchmark-model", TFLITE_CSV, [Result("x.out", (0.4e-3,), "mean")]),
        ("onnxruntime-perf-test", PERF_TEST_CSV, [Result("x.out", (0.00125, 0.0013))]),
        ("onnxruntime-perf-test", PERF_TEST_LOG, [Result("x.out", (7.270205e-3,), "mean")]),
        ("onnxruntime-perf-test", PERF_TEST_STATISTICS, [Result("x.out", (0.00727787,), "median")]),
        ("onnxruntime-perf-test", OLD_PERF_TEST_LOG, [Result("x.out", (2.5e-3,), "mean")]),
        ("benchncnn", NCNN, [Result("x.out", (1.25e-3,), "mean")]),
        ("benchncnn", NCNN_TWO, [Result("linear-1.param", (1.25e-3,), "mean"), Result("conv-2", (2.5e-3,), "mean")]),
        ("benchncnn", NCNN_BOTH, [Result("x.out", (1.25e-3,), "mean")]),
        ("trtexec", TRTEXEC, [Result("x.out", (1.25e-3, 1.5e-3))]),
        ("trtexec", TRTEXEC_SHORT, [Result("x.out", (9e-3,))]),
        ("csv", CSV, [Result("linear-1", (1.25e-3, 1.3e-3)), Result("conv-2", (2.5e-3,))]),
        ("csv", CSV_MEANS, [Result("linear-1.onnx", (1.25e-3,), "mean")]),
    ],
)
def test_output_is_read_and_known_from_that_of_others(
    tool: str, text: str, results: list[Result], tmp_path: Path
) -> None:
    path = tmp_path / "x.out"
    path.write_text(text)
    assert [each.name for each in benchmark_tools.values() if each.recognises(text)] == [tool]
    found = benchmark_tools[tool].read(path, text)
    assert [(each.name, each.statistic) for each in found] == [(each.name, each.statistic) for each in results]
    for got, wanted in zip(found, results, strict=True):
        assert got.seconds == pytest.approx(wanted.seconds)


@pytest.mark.parametrize(
    ("tool", "text", "sentence"),
    [
        ("trtexec", '[{"latencyMs": 1}]', "no list of runs with computeMs"),
        ("csv", "label,latency_ms,mean_ms\na,1,2\n", "several columns of times"),
        ("csv", "label,latency_ms\na,soon\n", "must be a number"),
        ("benchmark-model", TFLITE_CSV.replace("avg_ms", "total"), "no column avg_ms"),
    ],
)
def test_output_that_is_damaged_says_so(tool: str, text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "x.out").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        benchmark_tools[tool].read(tmp_path / "x.out", text)
