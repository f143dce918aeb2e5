"""Files that come with medn, named without a path: sweep configs and mappings of public tables."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from medn.core.errors import UsageError, unknown
from medn.core.registry import spelled

CONFIGS, MAPPINGS = "medn.configs", "medn.imports"
"""The packages that hold them, in a wheel as in a checkout."""


def shipped(package: str) -> dict[str, Path]:
    """The YAML files of a package, by name."""
    return {path.stem: path for path in sorted(Path(str(files(package))).glob("*.yaml"))}


def found_file(package: str, written: str | Path) -> Path:
    """A file of one's own or, where there is none of that name, the one that comes with medn.

    >>> found_file(CONFIGS, "quickstart").name, str(found_file(CONFIGS, "my/own.yaml"))
    ('quickstart.yaml', 'my/own.yaml')
    """
    path = Path(written)
    if path.suffix or path.name != str(written) or path.exists():
        return path
    known = shipped(package)
    meant = spelled(path.name, known)
    if meant not in known:
        what = "config" if package == CONFIGS else "mapping"
        raise UsageError(f"there is no file {path}, and with medn comes {unknown(what, path.name, known)}")
    return known[meant]


def first_comment(path: Path) -> str:
    """What a file says about itself: the first sentence of the comment it begins with."""
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# ") or line.startswith("#   "):
            break
        lines.append(line.removeprefix("# "))
    return " ".join(lines).partition(". ")[0].rstrip(".")
