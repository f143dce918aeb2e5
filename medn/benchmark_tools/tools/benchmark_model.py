"""TFLite's `benchmark_model`: its log, and the table of operators that it writes on request."""

from __future__ import annotations

import re
from pathlib import Path

from medn.benchmark_tools.tool import BenchmarkTool, Result, benchmark_tools, shell_script

START = re.compile(r"^.*STARTING!.*$", re.M)
GRAPH = re.compile(r"Graph: \[(.+?)\]|Loaded model (\S+)")
NUMBER = r"([0-9.]+(?:e[+-]?[0-9]+)?)"
COUNTS = re.compile(r"count=(\d+)[^\n]*")
SUMMARY = re.compile(rf"Inference \(avg\): {NUMBER}")
RUN_ORDER = re.compile(r"^=+ Run Order =+$", re.M)
HEADING = "node type"


@benchmark_tools.register
class TfliteBenchmark(BenchmarkTool):
    name = "benchmark-model"
    description = "TFLite's benchmark_model: its log, or the CSV of its operators"
    script_name = "run_benchmark_model.sh"
    script = shell_script(
        "TFLite's benchmark_model for every point. It takes TFLite files: convert each layer first, as with onnx2tf.",
        "BENCHMARK=${BENCHMARK:-./benchmark_model}",
        """  OUT="results/$LABEL.log"
  [ -s "$OUT" ] && continue
  "$BENCHMARK" --graph="tflite/${FILE%.onnx}.tflite" --num_threads="$THREADS" --num_runs=50 --warmup_runs=5 \\
    > "$OUT.part" 2>&1 </dev/null && mv "$OUT.part" "$OUT" """.rstrip(),
    )

    def recognises(self, text: str) -> bool:
        return SUMMARY.search(text) is not None or (RUN_ORDER.search(text) is not None and HEADING in text)

    def read(self, path: Path, text: str) -> list[Result]:
        if not SUMMARY.search(text):
            return [Result(path.name, (_operators_s(text),), "mean")]
        parts = [part for part in START.split(text) if SUMMARY.search(part)]
        # A file of one run is named by the label; one of several can only be told by what was run.
        return [_run(path.name if len(parts) == 1 else "", part) for part in parts]


def _run(name: str, text: str) -> Result:
    graph = GRAPH.search(text)
    if not name and graph is None:
        raise ValueError("one of its runs does not say which graph it is of")
    summary = SUMMARY.search(text)
    assert summary is not None, "only parts with a summary are read"
    counts = list(COUNTS.finditer(text))
    told = dict(re.findall(rf"(\w+)={NUMBER}", counts[-1][0])) if counts else {}
    if "median" in told:
        return Result(name or _graph(graph), (float(told["median"]) * 1e-6,), "median")
    return Result(name or _graph(graph), (float(summary[1]) * 1e-6,), "mean")


def _graph(found: re.Match[str] | None) -> str:
    return (found[1] or found[2]) if found else ""


def _operators_s(text: str) -> float:
    """The sum over the operators of one run; what the interpreter does between them is not in it."""
    regular = text.rpartition("Regular Benchmark Runs")[2]
    rows = RUN_ORDER.split(regular)[-1].strip().splitlines()
    heading = [cell.strip() for cell in rows[0].split(",")]
    if "avg_ms" not in heading:
        raise ValueError("its table of operators has no column avg_ms")
    place = heading.index("avg_ms")
    total_ms = 0.0
    for row in rows[1:]:
        cells = row.split(",")
        if len(cells) <= place:
            break
        total_ms += float(cells[place])
    return total_ms * 1e-3
