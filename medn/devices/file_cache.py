"""A bounded cache of files on disk, for what takes long to make."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from medn.core.atomic import atomic_write

LARGEST_CACHED_BYTES = 128 * 2**20
CACHE_BYTES = 2 * 2**30
CACHE_FILES = 4096
"""The cache holds no single file above the first bound, and in all no more bytes and files than the others say."""


def cached(cache: Path | None, name: str, make: Callable[[], bytes]) -> bytes:
    """The file of this name in the cache; made first, and kept if there is a cache, where it is not there."""
    if cache is None:
        return make()
    file = cache / name
    with suppress(FileNotFoundError):
        return file.read_bytes()
    content = make()
    if len(content) <= LARGEST_CACHED_BYTES:
        keep(cache, name, content)
    return content


def keep(cache: Path, name: str, content: bytes) -> Path:
    """Write a file into the cache, at the cost of the oldest where there are too many."""
    cache.mkdir(parents=True, exist_ok=True)
    atomic_write(cache / name, content)
    _prune(cache)
    return cache / name


def _prune(folder: Path) -> None:
    """Remove the oldest files until the cache is within its bounds."""
    files = []
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):  # another process prunes the same folder
            status = entry.stat()
            files.append((status.st_mtime_ns, status.st_size, entry.path))
    files.sort(reverse=True)
    total = 0
    for count, (_, size, path) in enumerate(files, start=1):
        total += size
        if count > CACHE_FILES or total > CACHE_BYTES:
            Path(path).unlink(missing_ok=True)
