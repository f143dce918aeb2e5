"""A virtual environment for each peer, so that none of them is ever a dependency of medn."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from medn.core.errors import MednError
from medn.core.text import last_line

PINS = Path(__file__).with_name("pins")


class PeerFailed(MednError):
    """A peer cannot be had or trained on this machine."""


def interpreter(peer: str, requirements: Sequence[str], folder: Path) -> Path:
    """The interpreter that has a peer, which is installed if it is not there yet; this one if it needs nothing."""
    if not requirements:
        return Path(sys.executable)
    python = folder / peer / "bin" / "python"
    marker = folder / peer / "requirements.txt"
    wanted = "\n".join(requirements)
    if python.is_file() and marker.is_file() and marker.read_text() == wanted:
        return python
    venv.create(folder / peer, symlinks=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
    ]  # this one's pip: an environment is made faster without
    command = [*pip, "install", "-q", "-c", str(PINS / f"{peer}.txt"), *requirements]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise PeerFailed(f"cannot be installed: {last_line(done.stderr)}")
    marker.write_text(wanted)
    return python
