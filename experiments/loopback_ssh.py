"""A device on this machine that is reached as one elsewhere: a real sshd on a free port, and a proxy that fails."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

SSHD = shutil.which("sshd") or ("/usr/sbin/sshd" if Path("/usr/sbin/sshd").exists() else None)
NEEDED = ("ssh", "ssh-keygen")

SERVER = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile {folder}/sshd.pid
SetEnv XDG_CACHE_HOME={folder}/cache OMP_NUM_THREADS=1
"""

CLIENT = """
Host device
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking yes
  BatchMode yes
  LogLevel ERROR
"""


def missing() -> str:
    """Why there can be no such device here; empty if there can."""
    absent = [name for name in NEEDED if shutil.which(name) is None] + ([] if SSHD else ["sshd"])
    return f"{' and '.join(absent)} not installed (openssh-server, openssh-client)" if absent else ""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class LoopbackSsh:
    """An sshd of its own, with keys of its own, for as long as the `with` block lasts. `over` leads to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()

    def __enter__(self) -> LoopbackSsh:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("host_key", "user_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(command, check=True)
        self.trust("host_key")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        with suppress(OSError):
            Path("/run/sshd").mkdir(exist_ok=True)  # where sshd, run by root, puts those who have not logged in yet
        written = self.folder / "sshd_config"
        written.write_text(SERVER.format(port=self.port, folder=self.folder))
        log = (self.folder / "sshd.log").open("ab")
        self.server = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(written)], stderr=log, start_new_session=True)
        for _ in range(200):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        raise RuntimeError(f"sshd does not start: {(self.folder / 'sshd.log').read_text()[-500:]}")

    def stop(self) -> None:
        self.server.kill()
        self.server.wait()

    def trust(self, key: str) -> None:
        """Have the client expect this key of the server."""
        public = (self.folder / f"{key}.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"* {public[0]} {public[1]}\n")

    def over(self, port: int | None = None) -> str:
        """The command that leads there, through another port if one is given."""
        written = self.folder / f"ssh_config_{port or self.port}"
        written.write_text(CLIENT.format(port=port or self.port, folder=self.folder))
        return f"ssh -F {written} device"

    def processes(self, word: str) -> list[int]:
        """Processes that this device has started, whose command holds a word."""
        return [process for process in _processes_of(self.folder) if word in _command(process)]


def _processes_of(folder: Path) -> list[int]:
    """All that have the device's cache folder in their environment."""
    marked = f"XDG_CACHE_HOME={folder}/cache".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and marked in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Proxy:
    """Passes connections on to a port, and delays, stalls or cuts them when it is told to."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.delay_s = 0.0
        self.is_stalled = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End all connections, as if a cable was pulled and the other side noticed."""
        sockets, self._sockets = self._sockets, []
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
                    far.settimeout(None)
                except OSError:
                    near.close()
                    continue
                self._sockets += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while block := source.recv(1 << 16):
                while self.is_stalled:
                    time.sleep(0.05)
                if self.delay_s:
                    time.sleep(self.delay_s)
                sink.sendall(block)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, 9)
