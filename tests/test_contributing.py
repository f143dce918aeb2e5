"""The examples of CONTRIBUTING.md and of the example package pass the suites that medn's own entries pass."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

import medn
from medn.exporting.layer_list import listed_model
from medn.layer_generators.kind import layer_kinds

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = {
    "pixel_shuffle": ("medn.layer_generators.kind_conformance", 15),
    "corners": ("medn.layer_generators.sampler_conformance", 25),
    "torch-script": ("medn.devices.conformance", 25),
    "uptime": ("medn.devices.conformance", 1),
    "huber": ("medn.regressors.conformance", 12),
    "layer-times": ("medn.exporting.conformance", 4),
    "leaky_relu": ("medn.layer_generators.kind_conformance", 15),
    "bayesian_ridge": ("medn.regressors.conformance", 12),
    "time-profile": ("medn.benchmark_tools.conformance", 11),
    "markdown": ("medn.exporting.conformance", 4),
}
"""By name, the suite it belongs to and how many tests there are at least."""


def with_examples(folder: Path) -> dict[str, str]:
    """The environment in which the examples, written into a folder, are plug-ins."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.S | re.M)
    modules = {f"example_{place}": code for place, code in enumerate(blocks) if ".register" in code}
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
    plugins, paths = [*modules, "medn_example.entries"], [folder, ROOT / "tests" / "example_package", ROOT]
    return {**os.environ, "MEDN_PLUGINS": ",".join(plugins), "PYTHONPATH": os.pathsep.join(map(str, paths))}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], list[str]]:
    """By suite and example, what became of each test."""
    folder = tmp_path_factory.mktemp("contributed")
    environment = with_examples(folder)
    suites = sorted({suite for suite, _ in EXAMPLES.values()})
    options = ["-q", "-p", "no:cacheprovider", "-k", " or ".join(EXAMPLES), f"--junitxml={folder / 'found.xml'}"]
    command = [sys.executable, "-m", "pytest", "--pyargs", *suites, *options]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert (folder / "found.xml").exists(), done.stdout + done.stderr
    found: dict[tuple[str, str], list[str]] = {}
    for case in ElementTree.parse(folder / "found.xml").iter("testcase"):
        said = next((f"{child.tag}: {child.get('message')}" for child in case if child.tag != "properties"), "passed")
        for name in EXAMPLES:
            if name in case.attrib["name"]:
                suite = next(each for each in suites if case.attrib["classname"].startswith(suffix(each)))
                found.setdefault((suite, name), []).append(f"{case.attrib['name']} {said}")
    return found


def suffix(suite: str) -> str:
    """How pytest names a module in a checkout, where some folders of medn lie beside it."""
    plain = suite.removeprefix("medn.")
    return plain if (ROOT / plain.split(".")[0]).is_dir() else suite


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_passes_the_suite_of_its_registry(name: str, outcome: Mapping[tuple[str, str], list[str]]) -> None:
    suite, least = EXAMPLES[name]
    said = outcome[suite, name]
    assert [each for each in said if not each.endswith(" passed")] == []
    assert Counter(each.endswith(" passed") for each in said)[True] >= least


def test_the_example_kind_runs_on_every_device(outcome: Mapping[tuple[str, str], list[str]]) -> None:
    said = outcome["medn.devices.conformance", "pixel_shuffle"]
    assert [each for each in said if "failure" in each or "error" in each] == []


def test_the_example_format_is_written(convolution_bundle: Path, tmp_path: Path) -> None:
    linear = layer_kinds["linear"].layer(in_features=64, out_features=10)
    listed_model([linear]).save(tmp_path / "net.json")
    command = ["medn", "tables", str(convolution_bundle), "--format", "layer_times", "--model", "net.json"]
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, env=with_examples(tmp_path), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    expected = medn.load(convolution_bundle).layer("linear", **linear.values).latency_s
    assert json.loads((tmp_path / "layer_times.json").read_text()) == {"linear": pytest.approx(1e3 * expected)}
