"""Modules of the user's own, good and broken ones, and libraries that are not there."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from medn.cli.main import TRAIN_LIBRARIES, run

ROOT = Path(__file__).resolve().parents[2]

Medn = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def medn(tmp_path: Path) -> Medn:
    """The command in a process of its own, with the modules of a folder within its reach."""

    def call(*arguments: str, plugins: str = "", prelude: str = "") -> subprocess.CompletedProcess[str]:
        program = f"import sys\nfrom medn.cli.main import run\nsys.exit(run({list(arguments)!r}))"
        # Imported by the processes that it starts, too.
        (tmp_path / "sitecustomize.py").write_text(f"import sys\n{prelude}")
        environment = {**os.environ, "MEDN_PLUGINS": plugins, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
        )

    return call


KIND = """
from medn.core.domains import Range
from medn.layer_generators.kind import Costs, LayerKind, Parameter, TensorSpec, layer_kinds

@layer_kinds.register
class Scaling(LayerKind):
    name = "scaling"
    description = "a product with one number"
    parameters = (Parameter("factor", "what with", float, low=0.0, high=1.0), Parameter("note", "any", str))
    sweep = {"factor": Range((0.0, 1.0))}
    def build(self, values): raise NotImplementedError
    def inputs(self, values, batch_size): return (TensorSpec((batch_size, 1)),)
    def output_shape(self, values, batch_size): return (batch_size, 1)
    def costs(self, values, batch_size, element_bytes): return Costs(batch_size, batch_size, batch_size)
"""


def test_a_kind_with_a_fraction_is_listed(medn: Medn, tmp_path: Path) -> None:
    (tmp_path / "own_kind.py").write_text(KIND)
    told = medn("list", "kinds", "scaling", "--json", plugins="own_kind")
    assert told.returncode == 0, told.stderr
    assert [row["type"] for row in json.loads(told.stdout)] == ["number", "string"]


def test_a_kind_with_a_fraction_is_in_the_schema(medn: Medn, tmp_path: Path) -> None:
    (tmp_path / "own_kind.py").write_text(KIND)
    told = medn("schema", plugins="own_kind")
    assert told.returncode == 0, told.stderr
    properties = json.loads(told.stdout)["properties"]["layers"]["properties"]["scaling"]["properties"]
    assert properties["factor"]["anyOf"][0] == {"type": "number", "minimum": 0.0, "maximum": 1.0}
    assert properties["note"]["anyOf"][0] == {"type": "string"}


@pytest.mark.parametrize("plugins", ["own_kind, other", " own_kind ,,other,", "other,\nown_kind"])
def test_spaces_and_empty_names_in_the_list_of_plugins_do_no_harm(plugins: str, medn: Medn, tmp_path: Path) -> None:
    (tmp_path / "own_kind.py").write_text(KIND)
    (tmp_path / "other.py").write_text("")
    assert medn("list", "kinds", "scaling", plugins=plugins).returncode == 0


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise SystemExit(5)", "SystemExit: 5"),
        (KIND + KIND, "two layer kinds are named 'scaling', in own_kind and in own_kind"),
        (KIND.replace('"scaling"', '"linear"'), "'linear', in medn.layer_generators.kinds.linear and in own_kind"),
    ],
)
def test_a_broken_plugin_is_one_sentence_that_names_it(module: str, said: str, medn: Medn, tmp_path: Path) -> None:
    (tmp_path / "own_kind.py").write_text(module)
    told = medn("list", "kinds", plugins="own_kind")
    assert told.returncode == 2
    assert told.stderr.startswith("medn: MEDN_PLUGINS names 'own_kind', which cannot be imported: ")
    assert said in told.stderr
    assert len(told.stderr.splitlines()) == 1


PROBE = """
from medn.devices.probe import Probe, probes

@probes.register
class Shaky(Probe):
    name = "shaky"
    description = "always fails"
    def read(self):
        raise OSError("no such sensor")
"""


def test_a_probe_that_fails_is_listed_with_the_reason(medn: Medn, tmp_path: Path) -> None:
    (tmp_path / "own_probe.py").write_text(PROBE)
    told = medn("list", "probes", "shaky", "--json", plugins="own_probe")
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["missing"] == "OSError: no such sensor"


WITHOUT = f"""
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {TRAIN_LIBRARIES!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""

VERBS = [
    ["quickstart", "--run", "new"],
    ["sweep", str(ROOT / "experiments" / "configs" / "quickstart.yaml"), "--run", "new"],
    ["train", "run"],
    ["select", "run"],
    ["report", "run"],
    ["export", "run"],
    ["compare", "run", "run"],
    ["import", "table.csv", "--kind", "op", "--latency", "ms", "--unit", "ms", "--run", "new"],
    ["predict", "none.medn", "net.onnx"],
    ["compose", "none.medn", "timm:resnet18"],
    ["tables", "none.medn", "--model", "timm:resnet18"],
    ["bench", "measure"],
]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_a_verb_without_its_libraries_is_one_sentence(
    verb: list[str], medn: Medn, write_run: Callable[..., Path], tmp_path: Path
) -> None:
    write_run(tmp_path / "run", layers=12, activations=8)
    (tmp_path / "table.csv").write_text("n,ms\n1,1\n")
    (tmp_path / "net.onnx").write_bytes(b"")
    told = medn(*verb, prelude=WITHOUT)
    assert told.returncode in (1, 2, 3), told.stderr
    assert "unexpected" not in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("verb", [["export", "run"], VERBS[7], ["train", "run"], ["report", "run"]], ids=str)
def test_a_verb_that_needs_the_extra_names_it(
    verb: list[str], medn: Medn, write_run: Callable[..., Path], tmp_path: Path
) -> None:
    write_run(tmp_path / "run", layers=12, activations=8)
    (tmp_path / "table.csv").write_text("n,ms\n1,1\n")
    assert "pip install 'medn[train]'" in medn(*verb, prelude=WITHOUT).stderr


def test_the_libraries_of_the_extra_are_those_that_it_installs() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    written = setup["options.extras_require"]["train"].lower().replace("scikit-learn", "sklearn").splitlines()
    named = {line.partition(">")[0].removesuffix("-cpu") for line in written if line and not line.startswith("#")}
    assert named == set(TRAIN_LIBRARIES)


@pytest.fixture
def lost(selected_run: Path, tmp_path: Path) -> Path:
    """A run of a layer kind and a regressor that no module brings any more."""
    return shutil.copytree(selected_run, tmp_path / "lost")


def test_a_kind_that_no_module_brings_is_named(lost: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect(lost / "measurements.sqlite")) as journal, journal:
        journal.execute("UPDATE points SET kind = 'my_kind' WHERE kind = 'linear'")
    for facts in lost.glob("c*/*/linear/*/candidate.json"):
        facts.write_text(facts.read_text().replace('"kind": "linear"', '"kind": "my_kind"'))
    for folder in lost.glob("c*/*/linear"):
        folder.rename(folder.with_name("my_kind"))
    (lost / "leaderboard.json").write_text((lost / "leaderboard.json").read_text().replace('"linear"', '"my_kind"'))
    for verb in ("report", "select"):
        assert run([verb, str(lost)]) == 1
        assert "no layer kind named 'my_kind'. If a package brings it, install" in capsys.readouterr().err


def test_a_regressor_that_no_module_brings_is_named(lost: Path, medn: Medn) -> None:
    told = medn("report", str(lost))
    assert told.returncode == 1
    assert re.search(
        r"test-law\S* of [a-z]+ cannot be used: this medn knows no deployed form named 'test-power-law'", told.stderr
    )
    assert "name the module in MEDN_PLUGINS" in told.stderr
