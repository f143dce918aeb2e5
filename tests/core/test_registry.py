"""Registries: whom they know, whom they refuse, and when they look for plug-ins."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from medn.core import plugins
from medn.core.errors import UsageError
from medn.core.registry import Named, Registry, spelled

ENTRY = """
from {package}_registry import shapes

@shapes.register
class {title}:
    name = "{name}"
"""

Write = Callable[..., str]


@pytest.fixture
def shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Registry[Named]:
    """A registry of one own entry, `round_one`, in a package made for this test."""
    package = f"shapes_{abs(hash(request.node.name))}"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(plugins, "_installed", [])
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / f"{package}_registry.py").write_text(
        f"from medn.core.registry import Registry\nshapes = Registry('shape', package='{package}')\n"
    )
    (tmp_path / package / "own.py").write_text(ENTRY.format(package=package, title="Own", name="round_one"))
    found: Registry[Named] = importlib.import_module(f"{package}_registry").shapes
    return found


@pytest.fixture
def write(shapes: Registry[Named], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a module that registers a shape; MEDN_PLUGINS names it if it is told to."""

    def module(name: str, more: str = "", named: bool = False) -> str:
        text = ENTRY.format(package=shapes.package, title="Other", name=name)
        unique = f"{shapes.package}_stranger"
        (tmp_path / f"{unique}.py").write_text(text + more)
        importlib.invalidate_caches()
        if named:
            monkeypatch.setenv("MEDN_PLUGINS", unique)
        return unique

    return module


@pytest.mark.parametrize("name", ["round_one", "round-one"])
def test_an_entry_is_found_with_either_spelling(name: str, shapes: Registry[Named]) -> None:
    assert shapes[name].name == "round_one"
    assert name in shapes
    assert shapes.spelled(name) == "round_one"


def test_a_name_that_nobody_has_stays_as_it_is(shapes: Registry[Named]) -> None:
    assert shapes.spelled("square-one") == "square-one"


def test_an_unknown_name_gets_its_near_miss(shapes: Registry[Named]) -> None:
    with pytest.raises(UsageError, match=r"no shape named 'round_on'\. Did you mean 'round_one'\? Known: round_one"):
        shapes["round_on"]


@pytest.mark.parametrize("name", ["round_one", "round-one"])
def test_a_duplicate_is_refused_with_both_modules(name: str, shapes: Registry[Named], write: Write) -> None:
    module = write(name)
    sentence = f"two shapes are named '{name}', in {shapes.package}.own and in {module}"
    with pytest.raises(UsageError, match=sentence):
        importlib.import_module(module)
    assert type(shapes["round_one"]).__module__ == f"{shapes.package}.own"


@pytest.mark.parametrize("name", ["", "a/b", "a+b", "../up", "two words", ".hidden"])
def test_a_name_that_is_none_is_refused(name: str, shapes: Registry[Named]) -> None:
    with pytest.raises(UsageError, match="is named with letters, digits"):
        shapes.register(type("Odd", (), {"name": name}))


def test_what_a_failed_module_registered_is_gone_with_it(shapes: Registry[Named], write: Write) -> None:
    module = write("square", more="1 / 0")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            importlib.import_module(module)
    assert list(shapes) == ["round_one"]


def test_a_named_module_that_fails_is_told_at_every_look_up(shapes: Registry[Named], write: Write) -> None:
    write("square", more="1 / 0", named=True)
    for _ in range(2):
        with pytest.raises(UsageError, match=r"MEDN_PLUGINS names '\w+', which cannot be imported: ZeroDivisionError"):
            shapes["round_one"]


def test_a_module_that_looks_something_up_while_it_is_imported_is_known(shapes: Registry[Named], write: Write) -> None:
    write("square", more="assert list(shapes) == ['round_one', 'square']", named=True)
    assert list(shapes) == ["round_one", "square"]


def point(name: str, module: str) -> metadata.EntryPoint:
    return metadata.EntryPoint(name=name, value=module, group=plugins.GROUP)


@pytest.fixture
def looked(shapes: Registry[Named], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups of entry points that were looked for; there is one, of a module that does not exist."""
    groups: list[str] = []

    def entry_points(group: str) -> list[metadata.EntryPoint]:
        groups.append(group)
        return [point("broken", "no_such_module")]

    monkeypatch.setattr(plugins, "_installed", None)
    monkeypatch.setattr(metadata, "entry_points", entry_points)
    return groups


def test_who_asks_for_an_own_entry_waits_for_no_package(shapes: Registry[Named], looked: list[str]) -> None:
    assert shapes["round-one"].name == "round_one"
    assert "round_one" in shapes
    assert looked == []


def test_packages_are_looked_for_once(shapes: Registry[Named], looked: list[str]) -> None:
    assert "square" not in shapes
    assert list(shapes) == ["round_one"]
    assert looked == ["medn.plugins"]


def test_a_package_that_fails_takes_no_entry_with_it_and_is_told_where_a_name_is_missing(
    shapes: Registry[Named], looked: list[str]
) -> None:
    with pytest.raises(
        UsageError, match=r"no shape named 'square'.*; the plug-in 'broken' of .* cannot be imported: Mod"
    ):
        shapes["square"]
    assert "no shape named 'square'. If a package brings it, install the package here; if a mod" in shapes.absence(
        "square"
    )
    assert "round_one" in shapes


def test_spelling_is_that_of_the_known_name() -> None:
    assert spelled("torch_cuda", ["torch-cuda"]) == "torch-cuda"


def test_importing_medn_looks_for_no_plugin() -> None:
    code = "import medn, sys; sys.exit('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
