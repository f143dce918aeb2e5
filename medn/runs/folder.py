"""A run is a folder: where its parts lie, and a lock so that two sweeps do not disturb each other in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medn.core.errors import StoreError
from medn.core.store import JOURNAL_NAME, Store

DEFAULT_ROOT = Path("runs")


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @property
    def onnx_cache(self) -> Path:
        return self.path / "cache" / "onnx"

    @property
    def dataset(self) -> Path:
        return self.path / "dataset"

    def store(self, *, must_exist: bool = False) -> Store:
        return Store(self.path / JOURNAL_NAME, must_exist=must_exist)

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Take back a run that did not exist before where what should fill it fails: an empty one says nothing."""
        if (self.path / JOURNAL_NAME).exists():
            yield
            return
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        before = set() if made else set(self.path.iterdir())
        try:
            yield
        except BaseException:
            for file in [] if not self.path.is_dir() else set(self.path.iterdir()) - before:
                file.unlink(missing_ok=True)
            for folder in made:
                folder.rmdir()
            raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one writer; the lock goes with the process, however that ends."""
        from filelock import FileLock, Timeout

        holder = self.path / "lock.holder"  # beside the lock: where Windows locks a file, nobody else can read it
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / "lock").acquire(timeout=0)
            holder.write_text(str(os.getpid()))
        except Timeout:
            process = holder.read_text() if holder.exists() else "unknown"
            raise StoreError(
                f"{self.path} is in use by process {process}. Wait for it, or choose another folder with --run"
            ) from None
        except OSError as error:
            raise StoreError(f"cannot write to the run folder {self.path}: {error.strerror or error}") from None
        with lock:
            yield
