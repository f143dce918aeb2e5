"""TensorRT's `trtexec --exportTimes`: JSON with every run."""

from __future__ import annotations

import json
from pathlib import Path

from medn.benchmark_tools.tool import BenchmarkTool, Result, benchmark_tools, shell_script

WARM_UP_MS = 200.0
"""What trtexec takes to warm up if nobody says otherwise; the runs of that time are in the file too."""


@benchmark_tools.register
class Trtexec(BenchmarkTool):
    name = "trtexec"
    description = "TensorRT's trtexec --exportTimes: JSON with every run; the time to compute, without copies"
    script_name = "run_trtexec.sh"
    script = shell_script(
        "trtexec for every point; --exportTimes holds every run.",
        "BENCHMARK=${BENCHMARK:-trtexec}\nmkdir -p logs",
        f"""  OUT="results/$LABEL.json"
  [ -s "$OUT" ] && continue
  "$BENCHMARK" --onnx="layers/$FILE" --warmUp={WARM_UP_MS:.0f} --duration=1 --exportTimes="$OUT.part" \\
    > "logs/$LABEL.txt" 2>&1 </dev/null && mv "$OUT.part" "$OUT" """.rstrip(),
    )

    def recognises(self, text: str) -> bool:
        return text.lstrip().startswith("[") and '"latencyMs"' in text

    def read(self, path: Path, text: str) -> list[Result]:
        try:
            runs = json.loads(text)
            times = [(float(run.get("startComputeMs", WARM_UP_MS)), float(run["computeMs"])) for run in runs]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it is no list of runs with computeMs ({type(error).__name__}: {error})") from None
        warm = [time_ms for start_ms, time_ms in times if start_ms >= WARM_UP_MS]
        return [Result(path.name, tuple(1e-3 * time_ms for time_ms in warm or [each for _, each in times]))]
