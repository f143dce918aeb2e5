"""ONNX Runtime's `onnxruntime_perf_test`: the file of all runs, or what it prints."""

from __future__ import annotations

import re
from pathlib import Path

from medn.benchmark_tools.tool import BenchmarkTool, Result, benchmark_tools, shell_script

ROW = re.compile(r"^([^,\n]*),([0-9.eE+-]+),(\d+),(-?\d+),(\d+)\s*$", re.M)
"""Model, seconds, peak memory of the process, its CPU usage, number of the run."""
MEAN = re.compile(r"Average inference time cost(?: total)?:\s*([0-9.eE+-]+)\s*ms")
MEDIAN = re.compile(r"P50 Latency(?: is|:)\s*([0-9.eE+-]+)\s*s")


@benchmark_tools.register
class OnnxRuntimePerfTest(BenchmarkTool):
    name = "onnxruntime-perf-test"
    description = "onnxruntime_perf_test: its result file with every run, or what it prints"
    script_name = "run_onnxruntime_perf_test.sh"
    script = shell_script(
        "onnxruntime_perf_test for every point; its result file holds every run.",
        "BENCHMARK=${BENCHMARK:-./onnxruntime_perf_test}",
        """  OUT="results/$LABEL.csv"
  [ -s "$OUT" ] && continue
  rm -f "$OUT.part"
  "$BENCHMARK" -e cpu -I -m times -r 50 -x "$THREADS" "layers/$FILE" "$OUT.part" </dev/null \\
    && mv "$OUT.part" "$OUT" """.rstrip(),
    )

    def recognises(self, text: str) -> bool:
        return ROW.match(text.lstrip()) is not None or MEAN.search(text) is not None

    def read(self, path: Path, text: str) -> list[Result]:
        if rows := ROW.findall(text):
            # The model is called as the folder that its file is in, which is the same for all layers.
            return [Result(path.name, tuple(float(seconds) for _, seconds, *_ in rows))]
        if median := MEDIAN.search(text):
            return [Result(path.name, (float(median[1]),), "median")]
        mean = MEAN.search(text)
        assert mean is not None, "only what is recognised is read"
        return [Result(path.name, (float(mean[1]) * 1e-3,), "mean")]
