"""Which files of medn work on a point on its way from YAML to an answer.

    python -m experiments.file_walk --out results

Sweeps, trains, selects and loads a tiny run, with every process of it traced, and lists the files that have a function
called outside of imports, in order. Says which of them docs/design.md has in its walk, and fails if one of the walk is
never called. Writes file_walk.{md,json}.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.tables import markdown_table, write_tables

ROOT = Path(__file__).resolve().parents[1]
DESIGN = ROOT / "docs" / "design.md"
CONFIG = """
name: walk
devices: [torch]
budget: {points: 60}
layers: {linear: {}}
measure: {visits: 2, visit_time: 0.002}
"""

TRACER = """
import os, sys, threading

LOG, ROOT = os.environ.get("MEDN_WALK_LOG"), os.environ.get("MEDN_WALK_ROOT")
FOLDERS = tuple(f"{ROOT}/{name}/" for name in ("medn", "layer_generators", "regressors", "selection"))
called = set()

def trace(frame, event, argument):
    file = frame.f_code.co_filename
    is_function = frame.f_code.co_flags & 1
    if event != "call" or file in called or not is_function or not file.startswith(FOLDERS):
        return
    caller = frame
    while caller is not None:
        if caller.f_code.co_name == "<module>" and caller.f_globals.get("__name__") != "__main__":
            return  # called by an import
        caller = caller.f_back
    called.add(file)
    with open(LOG, "a") as log:
        log.write(f"{os.environ.get('MEDN_WALK_STAGE')} {file[len(ROOT) + 1:]}\\n")

if LOG:
    sys.setprofile(trace)
    threading.setprofile(trace)
"""
"""Goes into `sitecustomize`, so that the processes of devices and fits are traced too."""


def walk(folder: Path) -> None:
    """The whole way of a point, as the verbs go it."""
    import medn
    from medn.choosing.bundling import bundle_run
    from medn.choosing.select_run import select_run
    from medn.devices.backend import backends
    from medn.layer_generators.sweep import load_sweep
    from medn.measuring.sweep import run_sweep
    from medn.runs.folder import RunFolder
    from medn.selection.budget import Budget
    from medn.training.train_run import train_run

    run = folder / "run"
    (folder / "walk.yaml").write_text(CONFIG)
    _enter("sweep")
    run_sweep(load_sweep(folder / "walk.yaml", list(backends), []), RunFolder(run))
    _enter("train")
    train_run(run, seconds=60.0, families=["linear"])
    _enter("select")
    bundle = bundle_run(run, select_run(run, Budget()).chosen)
    _enter("answer")
    medn.load(bundle).layer("linear", in_features=64, out_features=64)


def _enter(stage: str) -> None:
    os.environ["MEDN_WALK_STAGE"] = stage


def called_files() -> dict[str, str]:
    """The stage in which each file has a function called first, in order; fronts of packages are left out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sitecustomize.py").write_text(TRACER)
        log = folder / "log"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([name, str(ROOT)])}
        environment |= {"MEDN_WALK_LOG": str(log), "MEDN_WALK_ROOT": str(ROOT)}
        subprocess.run([sys.executable, "-m", "experiments.file_walk", "--trace", name], env=environment, check=True)
        files: dict[str, str] = {}
        for line in log.read_text().splitlines():
            stage, file = line.split(maxsplit=1)
            if not file.endswith("__init__.py"):
                files.setdefault(file, stage)
    return files


def documented_walk(document: Path = DESIGN) -> list[str]:
    """The files of the walk in the design document."""
    section = document.read_text(encoding="utf-8").partition("## The walk of one point")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([\w/]+\.py)` \|", section, re.M)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.trace:
        walk(options.trace)
        return 0
    files, walked = called_files(), documented_walk()
    rows: list[dict[str, Any]] = [
        {"stage": stage, "file": file, "in the walk": file in walked} for file, stage in files.items()
    ]
    write_tables(options.out, "file_walk", rows, {"files": len(files), "walk": len(walked)})
    print(markdown_table(rows))
    missing = [file for file in walked if file not in files]
    print(
        f"\n{len(files)} files are called, {len(walked)} are in the walk; never called: {', '.join(missing) or 'none'}"
    )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
