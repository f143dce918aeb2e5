"""What the documents show is true: configs parse, examples of plug-ins work, links lead somewhere.

Code and commands are tried in tests/docs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.file_walk import documented_walk
from medn.layer_generators.sweep import parse_sweep
from medn.training.config import read_train_config

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(language: str, *documents: Path) -> list[str]:
    return [
        block
        for document in documents
        for block in re.findall(rf"^```{language}\n(.*?)^```", document.read_text(encoding="utf-8"), re.S | re.M)
    ]


def run(code: str, folder: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


OTHER_CONFIGS = ("importing.md", "training.md")


@pytest.mark.parametrize("config", blocks("yaml", *(path for path in DOCUMENTS if path.name not in OTHER_CONFIGS)))
def test_a_config_that_is_shown_parses(config: str) -> None:
    assert parse_sweep(config).layers


@pytest.mark.parametrize("config", blocks("yaml", ROOT / "docs" / "training.md"))
def test_a_training_config_that_is_shown_parses(config: str, tmp_path: Path) -> None:
    (tmp_path / "training.yaml").write_text(config)
    assert read_train_config(tmp_path / "training.yaml").settings


@pytest.fixture(scope="module")
def contributed() -> dict[str, str]:
    """The example classes of CONTRIBUTING.md by the word that follows `class`."""
    examples = blocks("python", ROOT / "CONTRIBUTING.md")
    return {name: code for code in examples for name in re.findall(r"^class (\w+)", code, re.M)}


def test_the_example_kind_builds_what_it_says_and_knows_itself(contributed: dict[str, str]) -> None:
    check = """
import torch
from types import SimpleNamespace
from medn.layer_generators.operation import operation_of
kind = layer_kinds["pixel_shuffle"]
layer = kind.layer(channels=3, in_size=8, factor=2)
values = SimpleNamespace(**layer.values)
given = torch.zeros(kind.inputs(values, 5)[0].shape)
output = kind.build(values)(given)
assert tuple(output.shape) == kind.output_shape(values, 5)
assert kind.costs(values, 5, 4).input_bytes == given.nbytes
operation = operation_of(torch.ops.aten.pixel_shuffle.default, (given, 2), {}, output)
assert kind.recognise(operation) == Recognised(layer.values, batch_size=5)
"""
    run(contributed["PixelShuffle"] + check)


def test_the_example_benchmark_tool_reads_what_it_is_for(contributed: dict[str, str]) -> None:
    check = """
(result,) = benchmark_tools["time-profile"].read(Path("linear-1.log"), "total time : 1.25 ms")
assert (result.stem, result.seconds, result.statistic) == ("linear-1", (0.00125,), "mean")
"""
    run(contributed["TimeProfile"] + check)


def test_the_example_sampler_draws(contributed: dict[str, str]) -> None:
    check = """
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import parse_sweep
from medn.training.config import read_train_config
config = parse_sweep("{name: x, devices: [torch], sampler: corners, layers: {linear: {rows: 1, bias: true}}}")
assert len(plan_points(config).points) == 4
"""
    run(contributed["Corners"] + check)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_walk_of_a_point_passes_at_most_45_files_and_all_of_them_are_there() -> None:
    walk = documented_walk()
    assert 30 <= len(set(walk)) == len(walk) <= 45
    assert [file for file in walk if not (ROOT / file).is_file()] == []
