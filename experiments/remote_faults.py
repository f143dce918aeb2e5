"""A hundred faults in sweeps on a device over ssh: worker, agent, client and server killed, links cut and stalled.

    python -m experiments.remote_faults --faults 100 --out results

The device is this machine, behind a real sshd on the loopback and a proxy. After every few visits something between
host and layer is killed with signal 9 or broken; afterwards every planned visit must be there once.
Writes remote_faults.{md,json}.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil

from experiments.loopback_ssh import LoopbackSsh, Proxy, kill, missing
from experiments.tables import markdown_table, write_tables
from medn.core.values import Point, Visit
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import parse_sweep
from medn.measuring import side_by_side
from medn.measuring.sweep import run_sweep
from medn.remote import link
from medn.runs.folder import RunFolder

CONFIG = """
name: remote-faults
seed: 5
devices: [{{name: device, backend: onnxruntime, over: "{over}", python: {python}}}]
budget: {{points: 24}}
layers: {{conv2d: {{in_size: [7, 14]}}, linear: {{}}, activation: {{}}}}
limits: {{flops: 1.0e+7}}
measure: {{visits: {visits}, max_visits: {visits}, visit_time: 0.02}}
"""

VISITS_BETWEEN = 4
STALL_S = 4.0
SILENCE_S = 2.5
"""Instead of 15 s on the host's side, so that stalls are noticed in less of an experiment's time."""


class Faults:
    """What can break, each by a name."""

    def __init__(self, server: LoopbackSsh, proxy: Proxy) -> None:
        self.server = server
        self.proxy = proxy
        self.made: Counter[str] = Counter()
        self.kinds: dict[str, Callable[[], object]] = {
            "worker killed": lambda: self._kill("medn.devices.worker"),
            "machine's program killed": lambda: self._kill("medn.devices.machine"),
            "agent killed": lambda: self._kill("medn-agent"),
            "ssh client killed": self._kill_client,
            "sshd session killed": self._kill_session,
            "link cut": proxy.cut,
            "link stalled": self._stall,
        }

    def make(self, name: str) -> None:
        self.kinds[name]()
        self.made[name] += 1

    def _kill(self, word: str) -> None:
        for process in self.server.processes(word):
            kill(process)

    def _kill_client(self) -> None:
        for child in psutil.Process().children():
            if child.name() == "ssh":
                kill(child.pid)

    def _kill_session(self) -> None:
        for session in psutil.Process(self.server.server.pid).children():
            kill(session.pid)

    def _stall(self) -> None:
        self.proxy.is_stalled = True
        threading.Timer(STALL_S, setattr, (self.proxy, "is_stalled", False)).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    if reason := missing():
        sys.exit(reason)
    link.SILENCE_S = SILENCE_S
    side_by_side.SILENCE_S = 0.5
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        LoopbackSsh(Path(folder) / "sshd") as server,
        Proxy(server.port) as proxy,
    ):
        faults = Faults(server, proxy)
        rows, about = swept(faults, options.faults, RunFolder(Path(folder) / "run"))
        end = time.monotonic() + 30
        while server.processes("") and time.monotonic() < end:
            time.sleep(0.2)
        about["processes left on the device"] = len(server.processes(""))
    about["minutes"] = round((time.monotonic() - began) / 60, 1)
    write_tables(options.out, "remote_faults", rows, about)
    print("\n".join(f"{name}: {value}" for name, value in about.items()))
    print(markdown_table(rows))


def swept(faults: Faults, count: int, folder: RunFolder) -> tuple[list[dict[str, object]], dict[str, object]]:
    """One sweep with all the faults, and the same call again."""
    visits = 2 + -(-count * VISITS_BETWEEN // 24)
    over = faults.server.over(faults.proxy.port)
    config = parse_sweep(CONFIG.format(over=over, python=sys.executable, visits=visits))
    names = itertools.islice(itertools.cycle(faults.kinds), count)
    told: list[str] = []

    def after(pass_number: int, done: int, planned: int, point: Point, visit: Visit) -> None:
        if done % VISITS_BETWEEN == 0 and (name := next(names, None)):
            faults.make(name)

    outcome = run_sweep(config, folder, on_visit=after, on_link=lambda _, sentence: told.append(sentence))
    again = run_sweep(config, folder)
    planned = {(point.key, number) for point in plan_points(config).points for number in range(visits)}
    with folder.store() as store:
        statuses = Counter(visit.status for each in store.measurements() for visit in each.visits)
        made = {(key, number) for key, passes in store.visited().items() for number in passes}
        given_up = {
            point.key
            for point in plan_points(config).points
            if sum(status != "ok" for status in store.statuses(point.key).values()) > 1
        }
    missing_visits = {(key, number) for key, number in planned - made if key not in given_up}
    about: dict[str, object] = {
        "faults": faults.made.total(),
        "points": f"{len({key for key, _ in made})} of {len({key for key, _ in planned})} planned",
        "visits": f"{len(made)} of {len(planned)} planned, {len(missing_visits)} missing without a reason",
        "rows by status": dict(statuses),
        "finished": outcome.finished,
        "visits of the same call again": again.visits,
        "links lost": sum("trying again" in sentence for sentence in told),
        "links there again": sum("answers again" in sentence for sentence in told),
    }
    return [{"fault": name, "times": times} for name, times in faults.made.items()], about


if __name__ == "__main__":
    main()
