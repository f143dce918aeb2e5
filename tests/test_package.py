"""What the installed package is: light to import, typed, and with its folders in the right place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "pandas", "sklearn", "scipy", "pyarrow", "onnxruntime", "matplotlib")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def fastest_start_s(code: str, runs: int = 7) -> float:
    """The fastest of several starts, because other work only ever makes one slower."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        python(code)
        times.append(time.perf_counter() - began)
    return min(times)


def test_importing_medn_takes_less_than_150_ms() -> None:
    assert fastest_start_s("import medn") - fastest_start_s("pass") < 0.15


def test_the_command_starts_in_half_a_second() -> None:
    assert fastest_start_s("from medn.cli.main import run; run(['--version'])") < 0.5


@pytest.mark.parametrize(
    "code",
    [
        "import medn",
        "from medn.cli.main import run; run(['--help'])",
        "from medn.cli.main import run; run(['list', 'kinds'])",
    ],
)
def test_heavy_libraries_are_not_imported_by(code: str) -> None:
    loaded = python(f"{code}\nimport sys, json; print(); print(json.dumps(sorted(sys.modules)))").splitlines()[-1]
    assert [name for name in json.loads(loaded) if name in HEAVY] == []


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The files of a wheel built from a copy of the tracked tree, so that nothing is written into the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in os.listdir(ROOT):
        if not name.startswith(".") and name not in ("build", "dist", "runs") and not name.endswith(".egg-info"):
            (source / name).symlink_to(ROOT / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        folder,
        source,
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("medn-*.whl")
    return zipfile.ZipFile(wheel).namelist()


@pytest.mark.parametrize(
    "name", ["medn/layer_generators/kinds/linear.py", "medn/py.typed", "medn/cli/main.py", "medn/core/environment.py"]
)
def test_the_wheel_holds(name: str, wheel_names: list[str]) -> None:
    assert name in wheel_names


def test_the_wheel_puts_nothing_beside_medn(wheel_names: list[str]) -> None:
    assert {name.split("/")[0].split("-")[0] for name in wheel_names} == {"medn"}


def test_every_module_of_the_checkout_is_in_the_wheel(wheel_names: list[str]) -> None:
    folders = ("medn", "layer_generators", "regressors", "selection")
    files = [path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    expected = {name if name.startswith("medn/") else f"medn/{name}" for name in files}
    assert expected - set(wheel_names) == set()
