"""A real Slurm on this machine: munged, slurmctld and slurmd of its own, on free ports, with one small node."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from experiments.loopback_ssh import free_port

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
START_S = 30.0

CONFIG = """
ClusterName=loopback
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
NodeName=localhost NodeAddr=127.0.0.1 CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=8000 State=UNKNOWN
PartitionName=cpu Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why there can be no Slurm here; empty if there can."""
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        return f"{' and '.join(absent)} not installed (slurm-wlm, munge)"
    return "" if os.geteuid() == 0 else "a Slurm of one's own needs root"


class LoopbackSlurm:
    """For as long as the `with` block lasts, in which this process and its children know it by `SLURM_CONF`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> LoopbackSlurm:
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        config = self.folder / "slurm.conf"
        config.write_text(CONFIG.format(folder=self.folder, controller=free_port(), node=free_port()))
        self._before = os.environ.get("SLURM_CONF")
        os.environ["SLURM_CONF"] = str(config)
        own = {name: f"{self.folder}/munge.{name}" for name in ("socket", "pid", "seed", "log")}
        self._start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={own['socket']}",
                    f"--pid-file={own['pid']}", f"--seed-file={own['seed']}", f"--log-file={own['log']}")  # fmt: skip
        self._wait(lambda: Path(own["socket"]).exists())
        self._start("slurmctld", "-D", "-f", str(config))
        self._start("slurmd", "-D", "-f", str(config), "-N", "localhost")
        self._wait(lambda: "idle" in self.asked("sinfo", "--noheader", "--format=%t"))
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._started):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._before is None:
            os.environ.pop("SLURM_CONF", None)
        else:
            os.environ["SLURM_CONF"] = self._before

    def asked(self, *command: str) -> str:
        """What a program of Slurm prints."""
        return subprocess.run(command, capture_output=True, text=True, timeout=START_S).stdout

    def jobs(self) -> list[str]:
        """The numbers of those that run."""
        return self.asked("squeue", "--noheader", "--states=R", "--format=%i").split()

    def _start(self, *command: str) -> None:
        with (self.folder / f"{command[0]}.out").open("ab") as log:
            self._started.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))

    def _wait(self, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_S
        while not is_there():
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._started):
                self.__exit__()
                raise RuntimeError(f"Slurm did not start within {START_S:.0f} s: see {self.folder}")
            time.sleep(0.1)
