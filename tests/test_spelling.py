"""Code says `utilization`, as its users type it; prose says utilisation."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("medn", "layer_generators", "regressors", "selection", "experiments", "tests")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]

CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)
"""What of a document is code: blocks, names in backticks, the targets of links."""


def names(path: Path) -> set[str]:
    if "utilisation" not in path.read_text(encoding="utf-8").lower():
        return set()
    with tokenize.open(path) as file:
        return {token.string for token in tokenize.generate_tokens(file.readline) if token.type == tokenize.NAME}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_in_code_has_the_spelling_of_prose(folder: str) -> None:
    files = list((ROOT / folder).rglob("*.py"))
    assert [path for path in files if "utilisation" in path.name.lower()] == []
    assert [(path, name) for path in files for name in names(path) if "utilisation" in name.lower()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_prose_keeps_to_its_own_spelling(path: Path) -> None:
    prose = CODE.sub("", path.read_text(encoding="utf-8"))
    assert re.findall(r".*utilization.*", prose, re.IGNORECASE) == []
