"""What is copied to a device: all that it imports, and nothing that an older Python there does not understand."""

from __future__ import annotations

import ast
import io
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from medn.remote.agent_code import agent_code
from medn.remote.link import LEAST_PYTHON

LATER = {
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"StrEnum", "verify"},
    "hashlib": {"file_digest"},
    "itertools": {"batched"},
    "typing": {"Self", "Never", "LiteralString", "assert_never", "assert_type", "reveal_type", "override"},
}
"""What the standard library got after the oldest Python that is let in."""
PROGRAMS = ("medn.remote.agent", "medn.devices.machine", "medn.devices.worker", "medn.devices.backends.onnxruntime")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As it is unpacked on a device."""
    found = tmp_path_factory.mktemp("code")
    zipfile.ZipFile(io.BytesIO(agent_code("")[1])).extractall(found)
    return found


def at_import(statements: list[ast.stmt]) -> Iterator[ast.ImportFrom]:
    """The imports that a module makes when it is imported, but for those that only a type checker sees."""
    for statement in statements:
        if isinstance(statement, ast.ImportFrom):
            yield statement
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) != "TYPE_CHECKING":
            yield from at_import([*statement.body, *statement.orelse])


def test_an_old_python_understands_it(folder: Path) -> None:
    for path in folder.rglob("*.py"):
        module = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=LEAST_PYTHON)
        imports = list(at_import(module.body))
        if any(found.module == "pydantic" for found in imports):
            continue  # reads configs, which nobody does on a device
        for found in imports:
            assert not {each.name for each in found.names} & LATER.get(found.module or "", set()), path


def test_nothing_is_imported_on_a_device_that_is_not_copied_there(folder: Path) -> None:
    imports = "; ".join(f"import {name}" for name in PROGRAMS)
    isolated = f"import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in f.__module__]; {imports}"
    subprocess.run([sys.executable, "-c", isolated], cwd=folder, check=True, timeout=100)


def test_the_oldest_python_runs_it(folder: Path) -> None:
    old = shutil.which("python{}.{}".format(*LEAST_PYTHON))
    if not old or subprocess.run([old, "-c", "import numpy"], capture_output=True).returncode:
        pytest.skip("no python{}.{} with numpy here".format(*LEAST_PYTHON))
    subprocess.run([old, "-c", "; ".join(f"import {name}" for name in PROGRAMS)], cwd=folder, check=True, timeout=100)
