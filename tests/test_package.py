"""What the installed package is: light to import, typed, and with its folders in the right place."""

from __future__ import annotations

import email
import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import medn
from experiments.installed_wheel import build_wheel, new_environment, readme_commands, tracked_copy

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
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel and a source distribution, built without network from links, so that nothing is written here."""
    folder = tmp_path_factory.mktemp("built")
    source = tracked_copy(folder / "source")
    code = f"from setuptools import build_meta; print(build_meta.build_sdist({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=source)
    (distribution,) = folder.glob("medn-*.tar.gz")
    return build_wheel(source, folder), distribution


@pytest.fixture(scope="module")
def wheel_names(built: tuple[Path, Path]) -> list[str]:
    return zipfile.ZipFile(built[0]).namelist()


@pytest.fixture(scope="module")
def unpacked(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(built[1]) as archive:
        archive.extractall(folder, filter="data")
    (found,) = folder.iterdir()
    return found


def tracked() -> set[str]:
    """The files of the checkout that belong to it, hidden ones left out."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no checkout of git, which would tell the files that belong to it")
    return {name for name in listed.stdout.splitlines() if not name.startswith(".") and (ROOT / name).exists()}


def test_the_source_distribution_holds_every_file_of_the_checkout(unpacked: Path) -> None:
    held = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert tracked() - held == set()
    made = {name for name in held - tracked() if not name.startswith("medn.egg-info/")}
    assert made == {"PKG-INFO"}


def test_a_wheel_of_the_source_distribution_is_that_of_the_checkout(
    unpacked: Path, wheel_names: list[str], tmp_path: Path
) -> None:
    assert sorted(zipfile.ZipFile(build_wheel(unpacked, tmp_path)).namelist()) == sorted(wheel_names)


def test_the_wheel_holds_whatever_the_package_reads(wheel_names: list[str]) -> None:
    folders = {
        "experiments/configs": "configs",
        "experiments/imports": "imports",
        "medn": "",
        "regressors": "regressors",
    }
    for folder, inside in folders.items():
        read = [name for name in tracked() if name.startswith(f"{folder}/") and not name.endswith(".py")]
        expected = {str(Path("medn", inside, Path(name).relative_to(folder))) for name in read}
        assert expected - set(wheel_names) == set()


def test_the_wheel_says_what_it_is(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
    assert metadata["License"] == "Apache-2.0 AND ISC"
    assert metadata["Summary"]
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert all("://" in url for url in metadata.get_all("Project-URL", []))
    assert len(metadata.get_all("Project-URL", [])) >= 2
    versions = {each for each in metadata.get_all("Classifier", []) if "Python :: 3.1" in each}
    assert versions >= {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)}


def test_the_citation_is_of_this_version_and_names_the_papers() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == medn.__version__
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert all(
        paper["title"] and paper["authors"] and (paper.get("doi") or paper["url"]) for paper in cited["references"]
    )
    assert "Theodoropoulos" in str(cited["references"][0]["authors"])


@pytest.fixture(scope="module")
def programs(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with the wheel; `make wheel` runs every command of the README in such a one."""
    return new_environment(built[0], tmp_path_factory.mktemp("new") / "environment")


def installed(programs: Path, *command: str | Path, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given = [str(programs / command[0]), *map(str, command[1:])]
    done = subprocess.run(given, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_wheel_is_the_medn_that_runs(programs: Path, tmp_path: Path) -> None:
    where = installed(programs, "python", "-c", "import medn; print(medn.__file__)", folder=tmp_path)
    assert Path(where.strip()).is_relative_to(programs.parent)


def test_an_installed_wheel_brings_its_configs(programs: Path, tmp_path: Path) -> None:
    listed = json.loads(installed(programs, "medn", "list", "configs", "--json", folder=tmp_path))
    assert "cpu-layers" in [row["name"] for row in listed]
    assert installed(programs, "medn", "init", "--to", "laptop.yaml", folder=tmp_path) == "laptop.yaml\n"
    for config in ("laptop.yaml", "quickstart"):
        options = ["--dry-run", "--points", "9", "--json"]
        planned = json.loads(installed(programs, "medn", "sweep", config, *options, folder=tmp_path))
        assert planned["kinds"]


def test_an_installed_wheel_predicts_and_sums_up(programs: Path, bundle_path: Path, tmp_path: Path) -> None:
    layer = ["linear", "in_features=64", "out_features=64", "--json"]
    predicted = json.loads(installed(programs, "medn", "predict", bundle_path, *layer, folder=tmp_path))
    assert predicted["latency_s"] > 0
    assert "noise, idle" in installed(programs, "medn", "summary", bundle_path.parent, folder=tmp_path)


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


def test_every_verb_of_the_readme_is_there() -> None:
    from medn.cli.main import VERBS

    verbs = [command[1] for command in readme_commands()]
    assert len(verbs) > 12
    assert set(verbs) <= {*VERBS, "bench"}
