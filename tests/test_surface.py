"""What `import medn` shows: a small surface, imported when it is used."""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

import medn
from medn.capture.captured_model import CapturedModel
from medn.core.errors import NothingMeasured, UsageError

HEAVY = ("torch", "sklearn", "onnx", "scipy", "optuna", "pandas", "lightgbm", "pyarrow", "filelock", "matplotlib")


def test_only_the_surface_is_listed() -> None:
    assert {name for name in dir(medn) if not name.startswith("_")} == set(medn.__all__)


@pytest.mark.parametrize("name", medn.__all__)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(getattr(medn, name))


SHOWN_ELSEWHERE = ("MednError", "integrations", "programs", "sklearn")
"""Errors are raised, not used, and packages show what is in them."""


@pytest.mark.parametrize("name", [name for name in medn.__all__ if name not in SHOWN_ELSEWHERE])
def test_every_name_has_an_example(name: str) -> None:
    shown = getattr(medn, name)
    assert ">>>" in (inspect.getdoc(shown.__call__ if inspect.ismodule(shown) else shown) or "")


def members(shown: Any) -> dict[str, Any]:
    """What a class of the surface has beside its fields, and so do the classes of medn that it is made from."""
    parts = [vars(each) for each in shown.__mro__ if each.__module__.startswith("medn.")]
    properties = (property, cached_property)
    return {
        name: member
        for part in reversed(parts)
        for name, member in part.items()
        if name[0] != "_" and (inspect.isroutine(member) or isinstance(member, properties))
    }


@pytest.mark.parametrize("name", [name for name in medn.__all__ if inspect.isclass(getattr(medn, name))])
def test_every_method_and_property_says_what_it_is(name: str) -> None:
    assert [each for each, member in members(getattr(medn, name)).items() if not inspect.getdoc(member)] == []


def test_the_description_names_all_of_them() -> None:
    words = re.findall(r"\w+", medn.__doc__ or "")
    assert [name for name in medn.__all__ if name not in words] == []


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(medn.__file__).read_text(encoding="utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {
        alias.name: each.module for each in checked.body if isinstance(each, ast.ImportFrom) for alias in each.names
    }
    assert {*seen, "integrations", "programs", "sklearn"} == set(medn.__all__)
    for name in set(seen) - {"capture"}:
        assert getattr(importlib.import_module(str(seen[name])), name) is getattr(medn, name)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        medn.__getattr__("lod")


def test_help_works_where_only_the_libraries_that_asking_needs_are_installed() -> None:
    code = f"""
import sys
for name in {HEAVY!r}:
    sys.modules[name] = None
import medn, pydoc
print(pydoc.render_doc(medn, renderer=pydoc.plaintext))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "split_between(" in done.stdout


def test_help_shows_the_verbs_with_their_examples() -> None:
    said = pydoc.render_doc(medn.select, renderer=pydoc.plaintext)
    assert "max_kb" in said
    assert ">>> select(" in said


def test_capture_is_called_by_the_name_of_its_package() -> None:
    torch = pytest.importorskip("torch")
    captured = medn.capture(torch.nn.Linear(8, 4), torch.zeros(2, 8))
    assert isinstance(captured, CapturedModel)
    assert [each.layer.kind for each in captured.layers if each.layer] == ["linear"]
    assert next(iter(inspect.signature(medn.capture).parameters)) == "model"


CONFIG: dict[str, Any] = {
    "name": "desk",
    "devices": ["torch"],
    "sampler": "grid",
    "layers": {"linear": {"in_features": (16, 32), "out_features": 16, "rows": 1, "bias": True}},
    "measure": {"visits": 1, "max_visits": 1},
}


def test_a_sweep_of_a_dict_gives_the_run(tmp_path: Path) -> None:
    run = medn.sweep(CONFIG, tmp_path / "desk", time="5m")
    assert run == tmp_path / "desk"
    from medn.runs.tables import read_source

    assert len(read_source(run).rows["linear"]) == 2


def test_a_config_for_a_network_of_ones_own_plans_its_very_layers() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.ReLU())
    config = medn.config_for(net, torch.zeros(1, 16), batch_sizes=[1, 4], points=50)
    from medn.layer_generators.plan import plan_points
    from medn.layer_generators.sweep import parse_sweep

    plan = plan_points(parse_sweep(yaml.safe_dump(config), ["torch"]))
    linear = {"in_features": 16, "out_features": 24, "rows": 1, "bias": True}
    assert config["name"] == "for-Sequential"
    assert len(plan.points) == 50
    assert {point.condition.batch_size for point in plan.points if point.layer.values == linear} == {1, 4}


def test_more_time_is_a_larger_config() -> None:
    torch = pytest.importorskip("torch")
    captured = medn.capture(torch.nn.Linear(16, 24), torch.zeros(1, 16))
    few, more = (medn.config_for(captured, time=time)["budget"]["points"] for time in (10, "5m"))
    assert few < more


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"devices": ["toarch"]}, "no device named 'toarch'. Did you mean 'torch'"),
        ({"batch_sizes": [0]}, "batch_sizes"),
    ],
)
def test_a_config_for_what_cannot_be_is_one_sentence(wanted: dict[str, Any], sentence: str) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UsageError, match=sentence):
        medn.config_for(torch.nn.Linear(16, 24), torch.zeros(1, 16), **wanted)


def test_a_sweep_whose_time_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="time: must be a duration"):
        medn.sweep(CONFIG, time="soon")


def test_a_config_that_is_wrong_says_all_its_mistakes() -> None:
    with pytest.raises(medn.MednError, match="2 mistakes"):
        medn.sweep({**CONFIG, "devices": ["toarch"], "layers": {"linaer": {}}})


def test_what_was_never_trained_cannot_be_chosen_from(tmp_path: Path) -> None:
    with pytest.raises(medn.MednError, match="no run named 'nowhere'"):
        medn.select(tmp_path / "nowhere")


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured):
        medn.train(tmp_path)
