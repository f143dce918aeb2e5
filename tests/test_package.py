"""What the installed package is: light to import, typed, and with its folders in the right place."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import medn

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "pandas", "sklearn", "scipy", "pyarrow", "onnxruntime", "matplotlib")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def least_processor_s(code: str, runs: int = 5) -> float:
    """The processor time of the cheapest of several starts, because other work only ever makes one dearer."""
    times = []
    for _ in range(runs):
        before = os.times()
        python(code)
        after = os.times()
        times.append(sum(after[2:4]) - sum(before[2:4]))
    return min(times)


def test_importing_medn_takes_less_than_importing_numpy() -> None:
    assert least_processor_s("import medn") < least_processor_s("import numpy")


def test_the_command_starts_in_twice_what_its_libraries_take() -> None:
    started = least_processor_s("from medn.cli.main import run; run(['--version'])")
    assert started < 2 * least_processor_s("import numpy, pydantic, typer")


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


def test_the_checkout_shows_the_packages_and_modules_that_the_wheel_holds(wheel_names: list[str]) -> None:
    listed = {found.name for found in pkgutil.iter_modules(medn.__path__)}
    held = {Path(name.split("/")[1]).stem for name in wheel_names if name.startswith("medn/") and name.endswith(".py")}
    assert listed == held - {"__init__"}


@pytest.mark.parametrize("name", ["medn.experiments", "medn.medn", "medn.tests", "medn.selection.experiments"])
def test_what_stands_beside_the_package_is_not_imported_from_it(name: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)


def test_a_checkout_that_is_not_installed_finds_its_folders(tmp_path: Path) -> None:
    code = (
        "import medn.selection, medn.regressors.families, medn.layer_generators.kinds as found; print(found.__file__)"
    )
    alone = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"]
    done = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()) == ROOT / "layer_generators" / "kinds" / "__init__.py"


@pytest.mark.skipif(importlib.util.find_spec("timm") is None, reason="timm is not installed")
def test_timm_can_be_imported_in_this_environment_without_medn() -> None:
    assert python("import sys, timm; print('medn' in sys.modules)") == "False\n"


def test_every_module_of_the_checkout_is_in_the_wheel(wheel_names: list[str]) -> None:
    folders = ("medn", "layer_generators", "regressors", "selection")
    files = [path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    expected = {name if name.startswith("medn/") else f"medn/{name}" for name in files}
    assert expected - set(wheel_names) == set()
