"""What the site has beside the pages of this folder: notebooks, the help of every verb, CONTRIBUTING and CHANGELOG.

A hook of MkDocs (see mkdocs.yml). Links are written so that they work where the repository is browsed; here they are
turned into those of the site.
"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md")
"""Documents of the top folder that are pages of the site too."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Pages that the navigation does not name stand at its end, so that a new page can be found at once."""
    named = set(re.findall(r"[\w/.-]+\.md", json.dumps(config.nav)))
    pages = [path.relative_to(config.docs_dir).as_posix() for path in sorted(Path(config.docs_dir).rglob("*.md"))]
    further = [page for page in pages if page not in named]
    config.nav = [*(config.nav or []), *([{"More": further}] if further else [])]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text.replace("](docs/", "](")))
    files.append(File.generated(config, "commands.md", content=commands_page()))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        name = str(PurePosixPath(notebook.src_uri).with_suffix(".md"))
        files.append(File.generated(config, name, content=notebook_page(Path(str(notebook.abs_src_path)))))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    if page.file.src_uri == "reference.md":
        markdown += further_names(markdown)
    up = "../" * page.file.src_uri.count("/")
    beside = "|".join(map(re.escape, BESIDE))
    markdown = re.sub(rf"\]\({re.escape(up)}\.\./({beside})", rf"]({up}\1", markdown)
    # Other files of the repository are no part of the site: their paths are told instead.
    markdown = re.sub(rf"\[([^\]]*)\]\({re.escape(up)}\.\./([^)]*)\)", r"\1 (`\2`)", markdown)
    return re.sub(r"\]\((?!\w+:)([^)#]*)\.ipynb", r"](\1.md", markdown)


def further_names(reference: str) -> str:
    """What `import medn` shows and the reference does not name yet, for its end."""
    import medn

    named = re.findall(r"^::: medn\.(?:.*\.)?(\w+)$", reference, re.M)
    further = [name for name in medn.__all__ if name not in (*named, "integrations", "sklearn")]
    return "\n".join(["\n## More\n", *(f"::: medn.{name}" for name in further)]) if further else ""


def notebook_page(path: Path) -> str:
    """A notebook as Markdown: its text, its code, and what it printed where that was kept.

    The page ends with the notebook itself, to be taken along.
    """
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
        for output in cell.get("outputs", ()):
            shown = output.get("text") or output.get("data", {}).get("text/plain", ())
            parts.append(f"```text\n{''.join(shown)}\n```")
    parts.append(f'<a href="{path.name}" download>Download the notebook</a>')
    return "\n\n".join(parts)


def commands_page() -> str:
    """The help of every verb, as the command prints it."""
    from typer.main import get_command
    from typer.testing import CliRunner

    from medn.cli.main import app

    def said(*arguments: str) -> str:
        shown = CliRunner().invoke(app, [*arguments, "--help"], prog_name="medn", terminal_width=100).output
        return f"```text\n{shown.strip()}\n```"

    parts = ["# Commands", "What `medn --help` and `medn VERB --help` say.", said()]
    verbs: Any = get_command(app)
    for verb, command in verbs.commands.items():
        if not command.hidden:
            parts += [f"## medn {verb}", said(verb)]
            parts += [
                part
                for name in getattr(command, "commands", ())
                for part in (f"### medn {verb} {name}", said(verb, name))
            ]
    return "\n\n".join(parts)
