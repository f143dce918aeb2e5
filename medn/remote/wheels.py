"""Libraries for a device, laid out from here: wheels for its Python and its architecture, as one archive."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from medn.core.errors import DeviceUnavailable, UsageError
from medn.core.text import last_line
from medn.remote.link import Greeting

DOWNLOAD_S = 1800.0
OLDEST_GLIBC = 17
"""Of version 2; wheels for older ones are not made any more."""


def platforms(greeting: Greeting) -> list[str]:
    """What wheels may be made for to run on a device, the newest first.

    >>> there = Greeting("3.11.2", "python3", "aarch64", "Linux", ["glibc", "2.19"], True, True, True, "")
    >>> platforms(there)
    ['manylinux_2_19_aarch64', 'manylinux_2_18_aarch64', 'manylinux_2_17_aarch64', 'manylinux2014_aarch64']
    """
    name, version = greeting.libc or ("", "")
    if greeting.system != "Linux":
        raise DeviceUnavailable(f"libraries are laid out on Linux only, not on {greeting.system}: install them there")
    if name != "glibc" or not re.fullmatch(r"2\.\d+", version):
        return [f"musllinux_1_{minor}_{greeting.machine}" for minor in (2, 1)]
    newest = int(version.partition(".")[2])
    found = [f"manylinux_2_{minor}_{greeting.machine}" for minor in range(newest, OLDEST_GLIBC - 1, -1)]
    return [*found, f"manylinux2014_{greeting.machine}"]


def libraries_for(greeting: Greeting, packages: Sequence[str]) -> bytes:
    """An archive of what these packages install, with what they need."""
    for package in packages:
        if not re.fullmatch(r"[A-Za-z0-9][\w.\[\]<>=!~,-]*", package):
            raise UsageError(f"--install: {package!r} is no package as pip takes it")
    version = ".".join(map(str, greeting.python_version))
    with tempfile.TemporaryDirectory(prefix="medn-wheels-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
        command += ["--only-binary=:all:", "--dest", folder, "--implementation", "cp", "--python-version", version]
        command += [word for platform in platforms(greeting) for word in ("--platform", platform)]
        try:
            done = subprocess.run([*command, *packages], capture_output=True, text=True, timeout=DOWNLOAD_S)
        except subprocess.TimeoutExpired:
            raise DeviceUnavailable(f"pip took longer than {DOWNLOAD_S:g} s to download {' '.join(packages)}") from None
        if done.returncode:
            what = f"{' '.join(packages)} for Python {version} on {greeting.machine}"
            raise DeviceUnavailable(f"pip finds no wheels of {what}: {last_line(done.stderr)}")
        return _joined(sorted(Path(folder).glob("*.whl")))


def _joined(wheels: Sequence[Path]) -> bytes:
    """The files of all wheels in one archive; those are laid out as they are imported."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        known: set[str] = set()
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as source:
                for name in source.namelist():
                    if name not in known and not name.endswith("/"):
                        known.add(name)
                        archive.writestr(name, source.read(name))
    return packed.getvalue()
