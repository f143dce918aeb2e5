"""A table of one's own: a row for every run, or for every layer with a mean, a median or a minimum."""

from __future__ import annotations

import re
from pathlib import Path

from medn.benchmark_tools.tool import BenchmarkTool, Result, benchmark_tools
from medn.importing.declaration import UNITS
from medn.importing.table_file import open_table

NAMES = ("label", "point_key", "file")
STATISTICS = ("mean", "median", "min")
COLUMN = re.compile(rf"(latency|{'|'.join(STATISTICS)})_({'|'.join(UNITS)})")

LOOP = '''#!/usr/bin/env python3
"""Every point in a plain loop, with ONNX Runtime alone: a template for any runtime that Python, or you, can call.

It writes results/plain.csv, one row for each run, and goes on with what is missing when it is started again.
Bring it back, and: medn import results --plan . --run runs/NAME
"""

import csv
import pathlib
import time

import numpy as np
import onnxruntime

RUNS, WARM_UP = 50, 5
HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "plain.csv"


def runs(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    numpy_types = {"tensor(float)": "f4", "tensor(float16)": "f2", "tensor(double)": "f8", "tensor(int64)": "i8"}
    feeds = {each.name: np.ones(each.shape, numpy_types[each.type]) for each in session.get_inputs()}
    for number in range(WARM_UP + RUNS):
        began = time.perf_counter()
        session.run(None, feeds)
        if number >= WARM_UP:
            yield time.perf_counter() - began


def main():
    RESULTS.parent.mkdir(exist_ok=True)
    done = {row["label"] for row in csv.DictReader(RESULTS.open())} if RESULTS.exists() else set()
    with (HERE / "points.tsv").open() as points, RESULTS.open("a") as results:
        if not done:
            results.write("label,latency_s\\n")
        for point in csv.DictReader(points, delimiter="\\t"):
            if point["label"] not in done:
                times = runs(HERE / "layers" / point["file"], int(point["threads"]))
                results.write("".join(f"{point['label']},{seconds:.9f}\\n" for seconds in times))
                results.flush()


if __name__ == "__main__":
    main()
'''


@benchmark_tools.register
class PlainCsv(BenchmarkTool):
    name = "csv"
    description = "a table with label, point_key or file, and latency_ms, or mean_ms, median_ms, min_ms"
    script_name = "run_loop.py"
    script = LOOP

    def recognises(self, text: str) -> bool:
        heading = [cell.strip().strip('"') for cell in re.split("[,;\t|]", text.lstrip("\ufeff").partition("\n")[0])]
        return any(name in heading for name in NAMES) and any(COLUMN.fullmatch(name) for name in heading)

    def read(self, path: Path, text: str) -> list[Result]:
        table = open_table(path)
        name = next(each for each in NAMES if each in table.names)
        times = {each: found for each in table.names if (found := COLUMN.fullmatch(each))}
        if len(times) > 1:
            raise ValueError(f"it has several columns of times ({', '.join(times)}); keep one")
        (column, found), *_ = times.items()
        statistic, scale = found[1].removeprefix("latency"), UNITS[found[2]]
        rows: dict[str, list[float]] = {}
        for label, time in zip(table.cells(name), table.cells(column), strict=True):
            if isinstance(time, bool) or not isinstance(time, (int, float)):
                raise ValueError(f"{column} of {label} must be a number (got {time!r})")
            rows.setdefault(str(label), []).append(time * scale)
        if statistic:
            return [Result(label, (time,), statistic) for label, found_s in rows.items() for time in found_s]
        return [Result(label, tuple(found_s)) for label, found_s in rows.items()]
