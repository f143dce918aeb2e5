"""ncnn's `benchncnn`: a line for every model, with the shortest, the longest and the mean time."""

from __future__ import annotations

import re
from pathlib import Path

from medn.benchmark_tools.tool import BenchmarkTool, Result, benchmark_tools, shell_script

LINE = re.compile(
    r"^\s*(\S+)(?:\s+(?:cpu|gpu))?\s+min =\s*([0-9.]+)\s+max =\s*([0-9.]+)\s+avg =\s*([0-9.]+)",
    re.M,
)


@benchmark_tools.register
class Benchncnn(BenchmarkTool):
    name = "benchncnn"
    description = "ncnn's benchncnn: lines with min, max and avg in ms"
    script_name = "run_benchncnn.sh"
    script = shell_script(
        "benchncnn for every point. It takes ncnn's own files: convert each layer first, as with pnnx.",
        "BENCHMARK=${BENCHMARK:-./benchncnn}",
        """  OUT="results/$LABEL.log"
  [ -s "$OUT" ] && continue
  # ncnn's shapes are the other way round and without the batch: width, height, channels.
  SHAPE=$(echo "${SHAPES%% *}" | tr x '\\n' | tail -n +2 | tac | paste -sd,)
  "$BENCHMARK" 50 "$THREADS" 0 -1 0 param="ncnn/${FILE%.onnx}.param" shape="[$SHAPE]" \\
    > "$OUT.part" 2>&1 </dev/null && mv "$OUT.part" "$OUT" """.rstrip(),
    )

    def recognises(self, text: str) -> bool:
        return LINE.search(text) is not None

    def read(self, path: Path, text: str) -> list[Result]:
        found = LINE.findall(text)
        named = path.name if len(found) == 1 else ""
        # Two decimals of a millisecond: what takes less is told as nothing, and not imported.
        return [Result(named or model, (float(mean_ms) * 1e-3,), "mean") for model, _, _, mean_ms in found]
