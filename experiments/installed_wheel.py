"""What a pip user gets equals what the README shows: its commands and code, by a wheel in a new environment.

    make wheel                                # or: python -m experiments.installed_wheel

A wheel is built without network and installed into an environment of its own, which borrows the libraries of this one
but not its medn. There every command of the README's section on the command line runs, with short times and a small
network in place of the names that stand for one's own, and then the README's Python code.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import shlex
import site
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from experiments.script import end_with
from medn.core.errors import MednError

ROOT = Path(__file__).resolve().parents[1]
SECTION = "## On the command line"
NAME = "laptop"
SHORTER = {
    "medn sweep CONFIG": "medn sweep own.yaml --time 40",
    "medn sweep --for MODEL": "medn sweep --for python:my_nets:make --time 15",
    "--time 10m": "--time 40 --regressors ridge,roofline,median",
    "--max-us 20 --max-kb 500": "--max-us 5000 --max-kb 50000",
    " --open": "",
    "timm:resnet18 timm:vit_tiny_patch16_224 python:my_nets:make": (
        "python:my_nets:make python:my_nets:wide python:my_nets:deep"
    ),
    "medn bench predict runs/NAME/NAME.medn": "medn bench predict runs/NAME/NAME.medn --time 2",
}
"""What the commands of the README become, so that all of them end within minutes."""
OWN_NETS = """
import torch

def net(*sizes):
    layers = [layer for pair in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(*pair), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers).eval(), torch.zeros(1, sizes[0])

def make(): return net(64, 128, 64)
def wide(): return net(128, 512, 128)
def deep(): return net(*[96] * 6)
"""


OWN_CONFIG = f"""
name: {NAME}
devices: [torch]
budget: {{points: 160}}
layers: {{linear: {{}}, activation: {{}}}}
limits: {{flops: 1.0e+8}}
"""


def build_wheel(source: Path, to: Path) -> Path:
    """A wheel of a checkout or an unpacked source distribution, built without network."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", to, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MednError(f"the wheel cannot be built: {done.stderr.strip().splitlines()[-1]}")
    (wheel,) = to.glob("medn-*.whl")
    return wheel


def tracked_copy(to: Path) -> Path:
    """The checkout as links in a folder of its own, so that nothing is written into it."""
    to.mkdir()
    for name in os.listdir(ROOT):
        if not name.startswith(".") and name not in ("build", "dist", "runs") and not name.endswith(".egg-info"):
            (to / name).symlink_to(ROOT / name)
    return to


def new_environment(wheel: Path, folder: Path) -> Path:
    """The folder of programs of an environment with this wheel, and the libraries of the environment that runs this."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python"]
    install = [*pip, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True)
    # A path in a .pth file lends packages; the .pth files beside these, such as that of this medn, are not read.
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "borrowed.pth").write_text("\n".join(site.getsitepackages()))
    return folder / "bin"


def readme_commands() -> Iterator[list[str]]:
    """The commands as they run here."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"{SECTION}\n+```sh\n(.*?)```", text, re.S)
    for line in block.splitlines():
        command = line.partition("#")[0].strip()
        for shown, shorter in SHORTER.items():
            command = command.replace(shown, shorter)
        yield shlex.split(command.replace("NAME", NAME))


def run_all(programs: Path, folder: Path) -> None:
    """Run what the README shows in a folder."""
    (folder / "my_nets.py").write_text(OWN_NETS)
    (folder / "own.yaml").write_text(OWN_CONFIG)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    export = "import my_nets, torch; net, x = my_nets.make(); torch.onnx.export(net, (x,), 'model.onnx', dynamo=False)"
    _checked([str(programs / "python"), "-c", export], folder, environment)
    for command in readme_commands():
        print(shlex.join(command), flush=True)
        began = time.monotonic()
        if command[:2] == ["medn", "serve"]:
            _served([*command, "--port", "0"], folder, environment)
        else:
            _checked([str(programs / command[0]), *command[1:]], folder, environment)
        print(f"    {time.monotonic() - began:.0f} s", flush=True)
    for code in re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S | re.M):
        print(textwrap.indent(code, "    "), flush=True)
        _checked([str(programs / "python"), "-c", code], folder, environment)


def _checked(command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MednError(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")


def _served(command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        connection = http.client.HTTPConnection(urlsplit(process.stdout.readline().strip()).netloc, timeout=30)
        connection.request("GET", "/healthz")
        if connection.getresponse().status != 200:
            raise MednError(f"{shlex.join(command)} does not answer")
        connection.close()
    finally:
        process.terminate()
        process.wait(60)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="medn-wheel-") as name:
        folder = Path(name)
        wheel = build_wheel(tracked_copy(folder / "source"), folder)
        programs = new_environment(wheel, folder / "environment")
        (folder / "work").mkdir()
        run_all(programs, folder / "work")
    print("every command of the README runs")
    return 0


if __name__ == "__main__":
    end_with(main)
