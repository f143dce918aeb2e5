"""Damaged programs for the C engine: each is refused while it is read, or runs without reading anything outside.

    python -m experiments.fuzz.programs BUNDLE... [--seconds 60] [--seed 0] [--sanitize]

Every input is a program of a bundle (from queries to inputs, from inputs to answers) with some of its steps or arrays
exchanged. Inputs run in processes of their own, a few thousand each, so that a crash or a hang is found; with
--sanitize the engine is built once more with the address sanitizer, which sees every access outside. The time is that
of the processor. The exit code is 1 if there is any finding.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pickle
import resource
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from experiments.script import end_with
from medn.core.errors import UsageError

ENGINE = Path(__file__).parents[2] / "medn" / "program" / "engine.c"
AT_ONCE = 2_000
PATIENCE_S = 600
"""Of the processor, for each process."""
INTERESTING = (-1, 0, 1, 2, 3, 7, 31, 32, 33, 255, 256, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**31), -(2**63))

Parts = tuple[int, int, Any, Any, tuple[Any, ...], Any]
"""What a machine is made of: inputs, slots, code, constants, tables and outputs."""


def programs(path: Path) -> list[Parts]:
    """The programs of all kinds of a bundle, as the engine gets them."""
    from medn.predictor.predictor import load
    from medn.program.c_engine import Packing

    found = []
    predictor = load(path)
    for kind in predictor.kinds:
        answering = predictor.estimator(kind).answering
        asked = answering.programs.program(answering.programs.query.parameters.keys())
        for program in (asked, answering.quantities.program(tuple(answering.quantities.further))):
            packed = Packing(program)
            outputs = packed.outputs
            code, constants = np.array(packed.code, dtype=np.int64), np.array(packed.constants)
            found.append((program.inputs, packed.memory.size, code, constants, tuple(packed.tables), outputs))
    return found


def damaged(parts: Parts, random: np.random.Generator) -> Parts:
    inputs, slots, code, constants, tables, outputs = parts
    code, outputs, tables = code.copy(), outputs.copy(), list(tables)
    for _ in range(random.integers(1, 4)):
        what = random.integers(10)
        if what < 5:
            step, field = random.integers(len(code)), random.integers(code.shape[1])
            near = code[random.integers(len(code)), field] + random.integers(-2, 3)
            code[step, field] = random.choice(INTERESTING) if random.random() < 0.3 else near
        elif what < 8 and tables:
            place = random.integers(len(tables))
            table = np.ascontiguousarray(tables[place]).copy()
            if random.random() < 0.3:
                table = table.ravel()[: random.integers(0, table.size + 1)]
            elif table.size:
                raw = table.reshape(-1).view(np.uint8)
                raw[random.integers(len(raw))] = random.integers(256)
            tables[place] = table
        elif what == 8:
            inputs, slots = inputs + int(random.integers(-1, 2)), int(max(0, slots + random.integers(-3, 2)))
        elif len(outputs):
            outputs[random.integers(len(outputs))] = random.integers(-2, slots + 2)
    if random.random() < 0.05:
        code = code[: random.integers(0, len(code) + 1)]
    return inputs, slots, code, constants, tuple(tables), outputs


def loaded(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("medn.program._engine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def attempt(engine: Any, parts: Parts, random: np.random.Generator) -> bool:
    """Whether a program is accepted; it is run then."""
    try:
        machine = engine.Machine(*parts)
    except (ValueError, TypeError, OverflowError, MemoryError):
        return False
    for rows in (1, 3, 40):
        columns = random.choice([0.0, 1.0, -1.0, 7.0, 1e300, np.nan, np.inf, -np.inf, -5.0], (max(parts[0], 0), rows))
        machine.run(np.ascontiguousarray(columns), np.empty((len(parts[5]), rows)))
    return True


def child(engine: str, source: str, seed: int, count: int) -> None:
    # A hang computes; a machine that is busy with something else is none.
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE_S, PATIENCE_S))
    known: list[Parts] = pickle.loads(Path(source).read_bytes())
    module, accepted = loaded(engine), 0
    for turn in range(count):
        random = np.random.default_rng([seed, turn])
        accepted += attempt(module, damaged(known[random.integers(len(known))], random), random)
    print(accepted)


def built(folder: Path) -> Path:
    """The engine with the address sanitizer."""
    target = folder / f"_engine{sysconfig.get_config_var('EXT_SUFFIX')}"
    options = ["-O1", "-g", "-std=gnu11", "-fPIC", "-shared", "-fsanitize=address", "-fno-omit-frame-pointer"]
    command = ["gcc", *options, f"-I{sysconfig.get_path('include')}", str(ENGINE), "-o", str(target)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"the engine cannot be built here: {getattr(error, 'stderr', '') or error}") from None
    return target


def environment(sanitize: bool) -> dict[str, str]:
    if not sanitize:
        return dict(os.environ)
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    told = {"LD_PRELOAD": library.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"}
    return {**os.environ, **told}


def processor_time() -> float:
    """The seconds that child processes have computed for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fuzz(
    bundles: list[Path], seconds: float, seed: int, sanitize: bool, at_once: int = AT_ONCE, told: bool = False
) -> tuple[int, int, list[str]]:
    """How many programs were tried and accepted, and what went wrong; `told` on the way, a line for each process."""
    findings: list[str] = []
    tried = accepted = 0
    with tempfile.TemporaryDirectory(prefix="medn-fuzz-") as folder:
        source = Path(folder) / "programs.pickle"
        source.write_bytes(pickle.dumps([parts for path in bundles for parts in programs(path)]))
        installed = importlib.util.find_spec("medn.program._engine")
        if not sanitize and (installed is None or installed.origin is None):
            raise UsageError("the C engine was not built here")
        engine = built(Path(folder)) if sanitize else Path(str(installed and installed.origin))
        began = processor_time()
        while not tried or processor_time() - began < seconds:
            arguments = ["--child", str(engine), str(source), str(seed), str(at_once)]
            command = [sys.executable, "-m", "experiments.fuzz.programs", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, env=environment(sanitize), check=False)
            if done.returncode:
                findings.append(f"seed {seed}: exit code {done.returncode}\n{done.stderr[-4000:]}")
            else:
                accepted += int(done.stdout.split()[-1])
            tried, seed = tried + at_once, seed + 1
            if told:
                spent = processor_time() - began
                print(f"{spent:.0f} s, {tried:,} programs, {len(findings)} findings", *findings[-1:], flush=True)
    return tried, accepted, findings


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sanitize", action="store_true")
    given = parser.parse_args()
    tried, accepted, findings = fuzz(given.bundles, given.seconds, given.seed, given.sanitize, told=True)
    print(f"{tried:,} programs, {accepted:,} of them accepted and run, {len(findings)} findings", *findings, sep="\n")
    return 1 if findings else 0


if __name__ == "__main__":
    end_with(main)
