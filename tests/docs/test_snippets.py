"""What the documents show is true: code runs page by page, commands are ones that the command line takes.

A page is read from its top, so its blocks of Python run in order, with the names of those before. A block that cannot
run has its reason in the line above: `<!-- not run: REASON -->`. A new page is found by itself.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from typer.main import get_command

from medn.cli.main import app
from medn.core.errors import MednError

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LANGUAGES = {"python", "sh", "yaml", "json", "csv", "toml", "cpp", "dockerfile", "text", ""}
TRIED_ELSEWHERE = {ROOT / "CONTRIBUTING.md"}
"""Its classes are plug-ins, which tests/test_contributing.py puts through the suites of their registries."""


class Block(NamedTuple):
    language: str
    code: str
    line: int
    not_run: str | None


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"(?:^<!-- not run: (.*) -->\n)?^```(.*)\n((?:(?!```).*\n)*)```", text, re.M):
        reason, language, code = found.groups()
        yield Block(language, code, text.count("\n", 0, found.start(3)) + 1, reason)


def is_python(code: str) -> bool:
    """Whether it is more than words or a path, which are Python too."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return False
    return any(isinstance(node, (ast.Import, ast.ImportFrom, ast.Call, ast.Assign)) for node in ast.walk(tree))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if any(block.language == language for block in blocks(page))]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_its_language_and_why_it_is_not_run(page: Path) -> None:
    assert [(block.line, block.language) for block in blocks(page) if block.language not in LANGUAGES] == []
    assert [block.line for block in blocks(page) if not block.language and is_python(block.code)] == []
    assert [block.line for block in blocks(page) if block.not_run is not None and len(block.not_run) < 12] == []


@pytest.mark.parametrize("page", sorted(set(pages_with("python")) - TRIED_ELSEWHERE), ids=name_of)
def test_the_python_of_a_page_runs(page: Path, reader_folder: Path) -> None:
    known: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python" and block.not_run is None:
            try:
                exec(compile("\n" * (block.line - 1) + block.code, name_of(page), "exec"), known)
            except MednError as error:
                if "pip install" not in str(error):
                    raise
                pytest.skip(str(error))


def commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    """The calls of medn in blocks of shell code; capital letters stand for what a reader puts there."""
    for block in blocks(page):
        for offset, line in enumerate(
            block.code.replace("\\\n", "  ").splitlines() if block.language in ("sh", "") else ()
        ):
            for part in re.split(r"&&|\|\|?|;", line.partition(" #")[0]):
                words = shlex.split(part) if "medn " in part else []
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words = words[1:]
                if words[:1] == ["medn"]:
                    yield block.line + offset, words[1:]


def parsed(arguments: list[str]) -> None:
    """What the command line makes of it, without running anything."""
    command: Any = get_command(app)
    context = command.make_context("medn", arguments)
    while hasattr(command, "resolve_command"):
        _, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(command.name, rest, parent=context)


@pytest.mark.parametrize("page", pages_with("sh"), ids=name_of)
def test_the_commands_of_a_page_are_ones_that_medn_takes(page: Path, reader_folder: Path) -> None:
    wrong = []
    for line, arguments in commands(page):
        try:
            parsed(arguments)
        except typer.Exit:  # --help and the like
            continue
        except (typer.TyperException, MednError) as error:
            wrong.append(f"line {line}: medn {shlex.join(arguments)}: {error}")
    assert wrong == []


def test_code_without_a_language_is_found() -> None:
    assert all(map(is_python, ("import medn", "medn.load('laptop.medn')", "layer = {}")))
    assert not any(map(is_python, ("kind layers", "runs/laptop", "medn sweep laptop.yaml")))


def test_a_command_that_medn_does_not_take_is_found() -> None:
    with pytest.raises(typer.TyperException, match="No such command"):
        parsed(["sweap", "config.yaml"])
    with pytest.raises(typer.TyperException, match="No such option"):
        parsed(["sweep", "config.yaml", "--tim", "5m"])


@pytest.mark.parametrize("page", sorted(set(PAGES) - TRIED_ELSEWHERE), ids=name_of)
def test_no_page_imports_from_a_deep_module(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"(?:from|import) medn\.(?!integrations\.)\w+\.\w+", text) == []
    assert re.findall(r"`medn\.(?!integrations\.)\w+\.\w+\.\w+\(.*?`", text) == []
