"""Atomic writes: whoever reads a file finds the old content or the new, never half of it, whenever the writer ends."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from medn.core.errors import StoreError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A free path in the same folder; the file or folder that is written to it takes the place of `path` at the end.

    After an error what was at `path` is still there, and nothing lies beside it.
    """
    # Of its own for every writer, so that two of them do not write into one file.
    beside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        _remove(beside)
        yield beside
        if beside.is_dir() and path.is_dir():  # a folder that is not empty cannot be replaced in one step
            shutil.rmtree(path)
        os.replace(beside, path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        _remove(beside)


def atomic_write(path: Path, content: bytes) -> None:
    with atomic_path(path) as beside:
        beside.write_bytes(content)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
