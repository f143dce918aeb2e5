"""A package with entries of its own, installed for real: medn and all its processes know them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tests" / "example_package"

# Sizes far apart: what they tell of the latency stands out on the busiest machine.
CONFIG = """
{name: leaky, devices: [torch], budget: {points: 40}, measure: {visits: 2, visit_time: 1ms},
 layers: {leaky_relu: {elements: {log_range: [1000, 4000000]}}}}
"""

Medn = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is installed."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(PACKAGE, folder / "source")  # building leaves files beside what it builds
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", folder / "site", source]
    subprocess.run([sys.executable, "-m", "pip", "install", *options], check=True, capture_output=True, text=True)
    return folder / "site"


def medn(folder: Path, site: Path | None, *commands: list[str]) -> subprocess.CompletedProcess[str]:
    """Commands one after another in a process that sees what is installed; it ends with the first that fails."""
    program = f"import sys\nfrom medn.cli.main import run\nsys.exit(next(filter(None, map(run, {commands!r})), 0))"
    paths = [str(path) for path in (site, ROOT) if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MEDN_PLUGINS": ""}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )


@pytest.mark.parametrize(
    ("listing", "name"), [("kinds", "leaky_relu"), ("regressors", "bayesian-ridge"), ("formats", "markdown")]
)
def test_its_entries_are_listed(listing: str, name: str, site: Path, tmp_path: Path) -> None:
    done = medn(tmp_path, site, ["list", listing, name, "--json"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_the_package_is_listed(site: Path, tmp_path: Path) -> None:
    (row,) = json.loads(medn(tmp_path, site, ["list", "plugins", "--json"]).stdout)
    assert row == {"name": "example", "package": "medn-example 0.1", "module": "medn_example.entries", "missing": None}


@pytest.fixture(scope="module")
def run(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of its layer kind, measured, learned by its regressor and shipped, each in processes of their own."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "leaky.yaml").write_text(CONFIG)
    run = str(folder / "run")
    commands = [
        ["sweep", "leaky.yaml", "--run", run],
        ["train", run, "--regressors", "bayesian_ridge,median", "--time", "20"],
        ["select", run],
    ]
    done = medn(folder, site, *commands)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_its_kind_is_measured_and_learned_by_its_regressor(run: Path) -> None:
    (facts,) = run.glob("candidates/torch/leaky_relu/bayesian_ridge/candidate.json")
    assert json.loads(facts.read_text())["reason"] == ""


def test_its_kind_is_predicted_and_its_format_is_written(run: Path, site: Path, tmp_path: Path) -> None:
    code = (
        "from medn.exporting.layer_list import listed_model\nfrom medn.layer_generators.kind import layer_kinds\n"
        "listed_model([layer_kinds['leaky_relu'].layer(elements=1000)]).save('net.json')"
    )
    paths = os.pathsep.join([str(site), str(ROOT)])
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths})
    bundle = str(run / "run.medn")
    done = medn(
        tmp_path,
        site,
        ["predict", bundle, "leaky-relu", "elements=1000", "negative_slope=0.25", "--json"],
        ["tables", bundle, "--format", "markdown", "--model", "net.json", "digits=6"],
    )
    assert done.returncode == 0, done.stderr
    assert '"latency_s"' in done.stdout
    assert (tmp_path / "layers.md").read_text().startswith("| layer | ms |\n|---|---|\n| leaky_relu | ")


@pytest.mark.parametrize("verb", [["predict", "BUNDLE", "leaky_relu", "elements=1000"], ["train", "RUN"]], ids=str)
def test_without_the_package_its_kind_is_named_and_both_ways_to_bring_it(
    verb: list[str], run: Path, tmp_path: Path
) -> None:
    places = {"BUNDLE": str(run / "run.medn"), "RUN": str(run)}
    done = medn(tmp_path, None, [places.get(each, each) for each in verb])
    assert done.returncode in (1, 2, 3)
    assert "this medn knows no layer kind named 'leaky_relu'." in done.stderr
    assert "install the package here; if a module of yours does, name the module in MEDN_PLUGINS" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.fixture(scope="module")
def broken_site(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same beside a package whose module registers something and then cannot be imported."""
    folder = shutil.copytree(site, tmp_path_factory.mktemp("broken") / "site")
    (folder / "broken_entries.py").write_text(
        "from medn.devices.probe import Probe, probes\n\n\n@probes.register\nclass Late(Probe):\n"
        "    name = 'late'\n    description = 'never there'\n    def read(self): return 1.0\n\n\n"
        "import no_such_library\n"
    )
    facts = folder / "broken_package-2.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-package\nVersion: 2.0\n")
    (facts / "entry_points.txt").write_text("[medn.plugins]\nbroken = broken_entries\n")
    return folder


def test_a_package_that_cannot_be_imported_is_named_and_the_rest_goes_on(broken_site: Path, tmp_path: Path) -> None:
    done = medn(tmp_path, broken_site, ["list", "kinds", "leaky_relu"], ["list", "probes", "--json"])
    assert done.returncode == 0, done.stderr
    sentence = "medn: the plug-in 'broken' of broken-package 2.0 cannot be imported: ModuleNotFoundError: No module"
    assert [line.startswith(sentence) for line in done.stderr.strip().splitlines()] == [True, True], done.stderr
    assert "never there" not in done.stdout


def test_a_missing_name_is_told_with_the_package_that_failed(broken_site: Path, tmp_path: Path) -> None:
    done = medn(tmp_path, broken_site, ["list", "kinds", "leaky_reluu"])
    assert done.returncode == 2
    assert "Did you mean 'leaky_relu'?" in done.stderr
    assert "the plug-in 'broken' of broken-package 2.0 cannot be imported" in done.stderr


def test_predicting_with_medns_own_kinds_looks_for_no_package(bundle_path: Path, site: Path, tmp_path: Path) -> None:
    code = (
        "import sys, medn\n"
        f"medn.load({str(bundle_path)!r}).layer('linear', in_features=64, out_features=64)\n"
        "sys.exit('medn_example.entries' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]), "MEDN_PLUGINS": ""}
    assert subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=False).returncode == 0
