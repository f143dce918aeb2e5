"""Examples in docstrings as blocks of code, where the reference is made from them (see mkdocs.yml)."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.M)
"""From a prompt to the next empty line."""


class DocstringExamples(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring and ">>>" in obj.docstring.value:
            obj.docstring.value = EXAMPLE.sub(r"\n```pycon\n\g<0>\n```\n", obj.docstring.value)
