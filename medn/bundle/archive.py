"""The container of a bundle: a zip of parts that are stored as they are, with a manifest that vouches for each.

Nothing in it is compressed, so a small file cannot unpack to a large one; nothing is ever written to a path that it
names. Whatever does not match the manifest exactly is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medn.core.errors import StoreError, UsageError

MANIFEST = "manifest.json"
FORMAT = "medn bundle"
LONGEST_AGO = (1980, 1, 1, 0, 0, 0)
"""The time of every part: equal content makes equal files."""

Json = dict[str, Any]


class BadBundle(UsageError):
    """The file is no bundle, or a damaged or hostile one."""


@dataclass(frozen=True)
class Limits:
    """What a bundle may hold at most."""

    total_bytes: int = 512 << 20
    manifest_bytes: int = 32 << 20
    parts: int = 4096


LIMITS = Limits()


def write_archive(path: Path, manifest: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
    """Write a bundle, whole or not at all."""
    vouched = {name: {"bytes": len(part), "sha256": _hash(part)} for name, part in parts.items()}
    stated = {"format": FORMAT, **manifest, "parts": vouched}
    beside = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_STORED) as archive:
            content = {MANIFEST: json.dumps(stated, separators=(",", ":"), allow_nan=False).encode(), **parts}
            for name, part in content.items():
                archive.writestr(zipfile.ZipInfo(name, LONGEST_AGO), part)
        os.replace(beside, path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from None


def read_archive(path: Path, limits: Limits = LIMITS) -> tuple[Json, dict[str, bytes]]:
    """The manifest and every part that it names, each checked against it."""
    try:
        size = path.stat().st_size
        if size > limits.total_bytes:
            raise BadBundle(f"{path} has {size:,} bytes, more than the {limits.total_bytes:,} that a bundle may have")
        with zipfile.ZipFile(path) as archive:
            return _read(archive, path, size, limits)
    except FileNotFoundError:
        raise UsageError(f"there is no bundle {path}. Make one with: medn select RUN") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except BadBundle:
        raise
    except Exception as error:  # a damaged zip breaks its reader in many ways
        raise BadBundle(f"{path} is no bundle or a damaged one: {one_line(error)}") from None


def one_line(error: BaseException) -> str:
    """What went wrong, in one line of bounded length: a damaged file may hold anything."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= 200 else f"{said[:197]}..."


def _read(archive: zipfile.ZipFile, path: Path, size: int, limits: Limits) -> tuple[Json, dict[str, bytes]]:
    members = archive.infolist()
    names = [member.filename for member in members]
    if len(members) > limits.parts:
        raise ValueError(f"it has {len(members)} parts, more than the {limits.parts} that a bundle may have")
    if len(set(names)) < len(names):
        raise ValueError("it has two parts of the same name")
    if any(member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1 for member in members):
        raise ValueError("its parts are compressed or encrypted, those of a bundle are stored as they are")
    if sum(member.file_size for member in members) > size:
        raise ValueError("its parts claim to be larger than the file")
    if MANIFEST not in names:
        raise ValueError(f"it has no {MANIFEST}")
    if archive.getinfo(MANIFEST).file_size > limits.manifest_bytes:
        raise ValueError(f"{MANIFEST} is larger than the {limits.manifest_bytes:,} bytes that it may have")
    manifest = _manifest(archive.read(MANIFEST))
    vouched = manifest.pop("parts", None)
    if not isinstance(vouched, dict) or {*vouched, MANIFEST} != set(names):
        raise ValueError("its parts are not those that its manifest names")
    return manifest, {name: _part(archive, name, stated) for name, stated in vouched.items()}


def _manifest(written: bytes) -> Json:
    try:
        manifest = json.loads(written, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{MANIFEST} cannot be read ({one_line(error)})") from None
    if not isinstance(manifest, dict) or manifest.pop("format", None) != FORMAT:
        raise ValueError(f"{MANIFEST} does not describe a bundle")
    return manifest


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _part(archive: zipfile.ZipFile, name: str, stated: Any) -> bytes:
    if not isinstance(stated, dict) or archive.getinfo(name).file_size != stated.get("bytes"):
        raise ValueError(f"{name} has not the size that the manifest says")
    part = archive.read(name)
    if _hash(part) != stated.get("sha256"):
        raise ValueError(f"{name} is not the one it was made with (its sha256 differs)")
    return part


def _hash(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()
