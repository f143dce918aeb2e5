"""A name means one thing: no two modules of the package define classes of the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("layer_generators", "medn", "regressors", "selection")
ENTRIES = ("families", "kinds")
"""Entries of registries are named as users name them, and a layer and a regressor may both be linear."""


def class_names(source: str) -> list[str]:
    """The public classes at the top level of a module.

    >>> class_names("class A: pass\\nclass _B: pass\\ndef f():\\n    class C: pass")
    ['A']
    """
    top = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    return [node.name for node in top if not node.name.startswith("_")]


def test_no_class_name_is_defined_twice() -> None:
    modules = defaultdict(list)
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if path.parent.name not in ENTRIES:
            for name in class_names(path.read_text(encoding="utf-8")):
                modules[name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}
