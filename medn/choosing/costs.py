"""What the deployed form of a candidate takes: time for few and many rows, bytes, load time, memory.

All forms are timed in rounds, each round in a new order, each time next to a fixed reference computation: how many
times as long a form takes compares between machines where microseconds do not. Forms run on one thread, and it is the
processor time of that thread that counts, so that other programs take nothing from it. What was measured is kept in a
file, by the content of the form and by the machine, so that choosing again measures nothing.
"""

from __future__ import annotations

import gc
import hashlib
import json
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from medn import __version__
from medn.core.atomic import atomic_write
from medn.core.environment import environment_id, environment_manifest
from medn.core.processor_time import Clock, one_thread, processor_seconds, reference
from medn.core.table import Array
from medn.deployed.facts import FormCosts
from medn.deployed.packing import pack, unpack
from medn.regressors.form import Form, restore

COSTS_FILE = "costs.json"
VERSION = 1

ROUNDS = 5
LONG_ENOUGH_S = 0.03
"""What has taken this long is left out of further rounds: the processor time of a call that long is known by then."""


@dataclass(frozen=True, eq=False)
class TimedForm:
    """A form and rows like those that it will be asked for."""

    form: Form
    inputs: Array


def form_key(form: Form) -> str:
    """Changes with anything that a form is made of."""
    tree, arrays = pack(form.parts())
    hashed = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for name in sorted(arrays):
        hashed.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        hashed.update(arrays[name].tobytes())
    return hashed.hexdigest()[:20]


OnProgress = Callable[[int, int], None]
"""Called with the measurements done and those planned."""


def measured_costs(
    forms: Mapping[str, TimedForm],
    file: Path,
    *,
    seed: int = 0,
    again: bool = False,
    on_progress: OnProgress | None = None,
    clock: Clock = time.thread_time,
) -> dict[str, FormCosts]:
    """The costs of every form, read from the file where it knows them; the names are the caller's own."""
    machine = environment_id(environment_manifest({"numpy": np.__version__, "medn": __version__}))
    known = {} if again else _read(file, machine)
    keys = {name: form_key(timed.form) for name, timed in forms.items()}
    missing = {keys[name]: timed for name, timed in forms.items() if keys[name] not in known}
    if missing:
        known |= measure(missing, seed=seed, on_progress=on_progress, clock=clock)
        _write(file, machine, known)
    return {name: known[key] for name, key in keys.items()}


def measure(
    forms: Mapping[str, TimedForm],
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    clock: Clock = time.thread_time,
) -> dict[str, FormCosts]:
    """The costs of every form, all timed side by side on one thread."""
    random = np.random.default_rng(seed)
    names = list(forms)
    timings = {name: _Timing(timed, clock) for name, timed in forms.items()}
    with one_thread():
        for round_number in range(ROUNDS):
            for place, index in enumerate(random.permutation(len(names))):
                timings[names[index]].one_round()
                if on_progress:
                    on_progress(round_number * len(names) + place + 1, ROUNDS * len(names))
        gc.collect()
        return {name: timing.costs() for name, timing in timings.items()}


class _Timing:
    """The rounds of one form."""

    def __init__(self, timed: TimedForm, clock: Clock) -> None:
        import safetensors.numpy

        self.clock = clock
        self.form = timed.form
        inputs = timed.inputs
        self.row = np.ascontiguousarray(inputs[0])
        self.some, self.many = (np.resize(inputs, (rows, inputs.shape[1])) for rows in (100, 10_000))
        self.tree, arrays = pack(timed.form.parts())
        self.written = safetensors.numpy.save(arrays)
        self.loaded: Form | None = None
        self.grown = 0
        """Bytes by which the process has grown when the form was loaded once more."""
        self.seconds: dict[str, list[float]] = {"1": [], "100": [], "10000": [], "load": []}
        self.ratios: dict[str, list[float]] = {name: [] for name in self.seconds}
        self.form.one(self.row)  # what happens once, such as starting a runtime, belongs to loading
        self.form.predict(self.some)

    def one_round(self) -> None:
        self._time("1", lambda: self.form.one(self.row))
        self._time("100", lambda: self.form.predict(self.some))
        self._time("10000", lambda: self.form.predict(self.many))
        if self.seconds["load"]:
            self._time("load", self._load)
        else:
            self._load_first()
        self.loaded = None

    def _load_first(self) -> None:
        import psutil

        process = psutil.Process()
        gc.collect(1)  # what the form before left; going through the whole process takes longer than all else here
        before = process.memory_info().rss
        self._time("load", self._load)
        self.grown = process.memory_info().rss - before

    def _time(self, name: str, call: Callable[[], object]) -> None:
        found = self.seconds[name]
        if sum(found) > LONG_ENOUGH_S:
            return
        # The reference stands right beside it: the machine may be slower by the time the next form comes.
        reference_s = processor_seconds(reference, self.clock)
        found.append(processor_seconds(call, self.clock))
        self.ratios[name].append(found[-1] / reference_s)

    def _load(self) -> None:
        import safetensors.numpy

        self.loaded = restore(unpack(self.tree, safetensors.numpy.load(self.written)), len(self.row))
        self.loaded.one(self.row)

    def costs(self) -> FormCosts:
        seconds = {name: statistics.median(found) for name, found in self.seconds.items()}
        ratios = {name: statistics.median(found) for name, found in self.ratios.items()}
        return FormCosts(
            us_1=1e6 * seconds["1"],
            us_100=1e6 * seconds["100"] / 100,
            us_10000=1e6 * seconds["10000"] / 10_000,
            ratio_1=ratios["1"],
            ratio_100=ratios["100"] / 100,
            ratio_10000=ratios["10000"] / 10_000,
            bytes=len(self.written) + len(json.dumps(self.tree)),
            load_ms=1e3 * seconds["load"],
            resident_bytes=self._resident_bytes(),
        )

    def _resident_bytes(self) -> int:
        tracemalloc.start()
        try:
            self._load()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        self.loaded = None
        return max(held, self.grown)


def _read(file: Path, machine: str) -> dict[str, FormCosts]:
    """What was measured on this machine; a file that cannot be read is as good as none."""
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        if (written["version"], written["machine"]) != (VERSION, machine):
            return {}
        return {key: FormCosts.from_json(found) for key, found in written["costs"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write(file: Path, machine: str, known: Mapping[str, FormCosts]) -> None:
    costs = {key: found.as_json() for key, found in known.items()}
    atomic_write(file, json.dumps({"version": VERSION, "machine": machine, "costs": costs}, indent=1).encode())
