"""The part of medn that is copied to a device, as one archive named by its content."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import medn
import medn.layer_generators
from medn.core.errors import UsageError
from medn.core.plugins import PLUGINS

PARTS = ("core", "devices", "program", "remote")
"""Folders of medn that the agent and its programs are made of, beside `layer_generators`."""
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""Times of files would make another archive of the same content."""


@cache
def agent_code(plugins: str) -> tuple[str, bytes]:
    """The name and the content of the archive, with the user's own modules that MEDN_PLUGINS names."""
    files = dict(sorted((*_medn_files(), *_plugin_files(plugins))))
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _FIRST_DATE), content, zipfile.ZIP_DEFLATED)
    return digest.hexdigest()[:20], packed.getvalue()


def own_plugins() -> str:
    """The names of the user's own modules, as they stand in the environment."""
    return os.environ.get(PLUGINS, "")


def _medn_files() -> Iterator[tuple[str, bytes]]:
    root = Path(medn.__file__).parent
    yield "medn/__init__.py", (root / "__init__.py").read_bytes()
    for part in PARTS:
        yield from _folder(root / part, f"medn/{part}")
    yield from _folder(Path(medn.layer_generators.__file__).parent, "medn/layer_generators")


def _plugin_files(plugins: str) -> Iterator[tuple[str, bytes]]:
    for name in filter(None, (written.strip() for written in plugins.split(","))):
        top = name.partition(".")[0]
        found = importlib.util.find_spec(top)
        if found is None or found.origin is None:
            raise UsageError(f"{PLUGINS} names {name!r}, which cannot be found to copy it to a device")
        file = Path(found.origin)
        if found.submodule_search_locations:
            yield from _folder(file.parent, top)
        else:
            yield file.name, file.read_bytes()


def _folder(folder: Path, name: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in (".py", ".json") and "__pycache__" not in path.parts:
            yield f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes()
