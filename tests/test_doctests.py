"""Every example in a docstring is true."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = [
    ".".join(["medn", *path.relative_to(ROOT).with_suffix("").parts]).replace("medn.medn.", "medn.")
    for folder in ("medn", "layer_generators", "regressors", "selection")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if ">>>" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_hold_in(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
