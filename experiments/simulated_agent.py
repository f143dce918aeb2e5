"""A device that is not there: speaks as medn's agent does and answers every visit at once with made-up numbers.

Named as the `python` of a device, as in `python: "python3 -m experiments.simulated_agent --latency 1e-3"`, it takes the
place of the Python there; what it is told to run is not run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
import time
from pathlib import Path

from medn.remote.bootstrap import GREETING
from medn.remote.frames import PROTOCOL, Json, read_frame, write_frame

SAMPLES = 10


def row(visit: Json, latency_s: float) -> tuple[Json, bytes]:
    """A visit whose latency follows from its layer."""
    digest = hashlib.sha256(json.dumps([visit["kind"], visit["layer"]], sort_keys=True).encode()).digest()
    seconds = latency_s * (1 + digest[0] / 256)
    told = {"status": "ok", "reason": "", "elapsed_s": SAMPLES * seconds, "state": {"temperature_c": 40.0}}
    table = [seconds] * SAMPLES + [seconds] * SAMPLES + [0.0] * SAMPLES
    head = {"row": visit["number"], "visit": told, "calls_per_sample": 1, "probe_reasons": {}}
    return head, struct.pack(f"<{3 * SAMPLES}d", *table)


def manifest(model: str) -> Json:
    """An environment, written down rather than read, so that this program starts without any library."""
    unknown = dict.fromkeys(("vector_extensions", "governor", "lowest_hz", "highest_hz", "hypervisor"))
    cpu = {"model": model, "architecture": "none", "logical_cores": 1, "usable_cores": 1, "cache_bytes": {}, **unknown}
    container = {"cpu_quota": None, "limit_bytes": None}
    system = {"name": "none", "release": "none"}
    return {"cpu": cpu, "installed_bytes": 0, "container": container, "os": system, "python": "none", "libraries": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=1e-3)
    parser.add_argument("--visit-time", type=float, default=0.0, help="how long a visit takes")
    parser.add_argument("--model", default="a simulated CPU")
    parser.add_argument("--protocol", type=int, default=PROTOCOL)
    parser.add_argument("--numpy", type=int, default=1, help="whether it has numpy")
    parser.add_argument("--version", default="3.11.2")
    parser.add_argument("--missing", default=None, help="what the backend says that it misses")
    parser.add_argument("--lives", type=Path, help="a file with how many rows each start makes before it dies, by line")
    parser.add_argument("--ends-at", default="", help="a layer in whose text this stands ends the device")
    options, _ = parser.parse_known_args()
    rows_left = next_life(options.lives) if options.lives else None
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    about = {"python": options.version, "executable": sys.executable, "machine": "none", "system": "Linux"}
    about |= {"libc": ["glibc", "2.36"], "numpy": bool(options.numpy), "pip": False, "has_code": True, "libraries": ""}
    answers.write(f"\n{GREETING}{json.dumps(about)}\n".encode())
    answers.flush()
    if rows_left == 0:
        sys.exit("the device ended at once")
    while (frame := read_frame(requests)) is not None:
        head = frame[0]
        if head["do"] == "run":
            write_frame(answers, {"protocol": options.protocol})
        elif head["do"] == "environment":
            told = {"missing": options.missing, "manifest": manifest(options.model)}
            write_frame(answers, {"answer": head["number"], **told})
        elif head["do"] == "sheet":
            write_frame(answers, {"answer": head["number"], "sheet": {"peak_gflops": 1.0}})
        elif head["do"] == "visits":
            for visit in head["visits"]:
                if rows_left == 0 or (options.ends_at and options.ends_at in json.dumps(visit)):
                    sys.exit("the device ended in the middle of a visit")
                time.sleep(options.visit_time)
                write_frame(answers, *row(visit, options.latency))
                rows_left = None if rows_left is None else rows_left - 1
        elif "number" in head:
            write_frame(answers, {"answer": head["number"]})


def next_life(file: Path) -> int | None:
    """The first line of a file, which is taken out; no limit once none is left."""
    lines = file.read_text().split()
    file.write_text("\n".join(lines[1:]))
    return int(lines[0]) if lines else None


if __name__ == "__main__":
    main()
