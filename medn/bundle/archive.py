"""The container of a bundle: a zip of parts that are stored as they are, with a manifest that vouches for each.

Nothing in it is compressed, so a small file cannot unpack to a large one; nothing is ever written to a path that it
names. Whatever does not match the manifest exactly is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from medn.core.atomic import atomic_path
from medn.core.errors import UsageError
from medn.core.mistaken import told_instead
from medn.core.text import LONGEST_LINE, one_line, shown

MANIFEST = "manifest.json"
FORMAT = "medn bundle"
END_SIGNATURE, END_BYTES = b"PK\x05\x06", 22
LOCATOR_SIGNATURE, LOCATOR_BYTES = b"PK\x06\x07", 20
"""How a zip ends: with a record of its list of parts, before which archives of gigabytes have another."""
LOCAL_BYTES = 30
"""Before each part, its name and what else is said of it; the last four bytes are the lengths of these."""
LONGEST_LISTED = 512
"""Bytes of a part in that list, its name included."""
LONGEST_AGO = (1980, 1, 1, 0, 0, 0)
"""The time of every part: equal content makes equal files."""

Json = dict[str, Any]


class BadBundle(UsageError):
    """The file is no bundle, or a damaged or hostile one."""


@dataclass(frozen=True)
class Limits:
    """What a bundle may hold at most."""

    total_bytes: int = 512 << 20
    manifest_bytes: int = 8 << 20
    manifest_containers: int = 400_000
    """Lists and objects. Each takes some twenty times as much memory as in the file."""
    parts: int = 4096


LIMITS = Limits()


def archive_bytes(manifest: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    """The whole file."""
    vouched = {name: {"bytes": len(part), "sha256": _hash(part)} for name, part in parts.items()}
    stated = {"format": FORMAT, **manifest, "parts": vouched}
    content = {MANIFEST: json.dumps(stated, separators=(",", ":"), allow_nan=False).encode(), **parts}
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for name, part in content.items():
            archive.writestr(zipfile.ZipInfo(name, LONGEST_AGO), part)
    return written.getvalue()


def write_archive(path: Path, manifest: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
    """Write a bundle, whole or not at all."""
    content = archive_bytes(manifest, parts)
    with atomic_path(path) as beside:
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)


def read_archive(path: Path, limits: Limits = LIMITS) -> tuple[Json, dict[str, bytes]]:
    """The manifest and every part that it names, each checked against it."""
    try:
        with _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > limits.total_bytes:
                most = f"{limits.total_bytes:,}"
                raise BadBundle(f"{path} has {size:,} bytes, more than the {most} that a bundle may have")
            _check_directory(file, size, limits)
            with zipfile.ZipFile(file) as archive:
                return _read(archive, size, limits)
    except FileNotFoundError:
        raise UsageError(f"there is no bundle {path}. Make one with: medn select RUN") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except UsageError:
        raise
    except Exception as error:  # a damaged zip breaks its reader in many ways
        instead = "" if path.suffix == ".medn" else told_instead(path)
        raise BadBundle(f"{path} is no bundle or a damaged one: {one_line(error, LONGEST_LINE)}{instead}") from None


def _opened(path: Path) -> BinaryIO:
    """A regular file, opened for reading. Others have no end, or wait for somebody to write into them."""
    found = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(found).st_mode
    if not stat.S_ISREG(mode):
        os.close(found)
        reason = "is no bundle" if stat.S_ISDIR(mode) else "cannot be read: it is no regular file"
        raise UsageError(f"{path} {reason}{told_instead(path)}")
    return os.fdopen(found, "rb")


def _check_directory(file: BinaryIO, size: int, limits: Limits) -> None:
    """That the list of parts, which is read in one go, is as short as that of a bundle."""
    file.seek(max(0, size - END_BYTES - LOCATOR_BYTES))
    tail = file.read(END_BYTES + LOCATOR_BYTES)
    end = tail[-END_BYTES:]
    if len(end) < END_BYTES or not end.startswith(END_SIGNATURE) or not end.endswith(b"\0\0"):
        raise ValueError("it does not end as a bundle does")
    (listed,) = struct.unpack("<L", end[12:16])
    if LOCATOR_SIGNATURE in tail or listed > limits.parts * LONGEST_LISTED:
        raise ValueError(f"it lists more than the {limits.parts} parts that a bundle may have")


def _read(archive: zipfile.ZipFile, size: int, limits: Limits) -> tuple[Json, dict[str, bytes]]:
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
    written = archive.read(MANIFEST)
    if written.count(b"[") + written.count(b"{") > limits.manifest_containers:
        raise ValueError(
            f"{MANIFEST} has more than the {limits.manifest_containers:,} lists and objects that it may have"
        )
    manifest = _manifest(written)
    vouched = manifest.pop("parts", None)
    if not isinstance(vouched, dict) or {*vouched, MANIFEST} != set(names):
        raise ValueError("its parts are not those that its manifest names")
    return manifest, {name: _part(archive, name, stated) for name, stated in vouched.items()}


def _manifest(written: bytes) -> Json:
    try:
        manifest = json.loads(written, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{MANIFEST} cannot be read ({one_line(error, LONGEST_LINE)})") from None
    if not isinstance(manifest, dict) or manifest.pop("format", None) != FORMAT:
        raise ValueError(f"{MANIFEST} does not describe a bundle")
    return manifest


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _part(archive: zipfile.ZipFile, name: str, stated: Any) -> bytes:
    if not isinstance(stated, dict) or archive.getinfo(name).file_size != stated.get("bytes"):
        raise ValueError(f"{shown(name)} has not the size that the manifest says")
    part = _stored(archive, archive.getinfo(name))
    if _hash(part) != stated.get("sha256"):
        raise ValueError(f"{shown(name)} is not the one it was made with (its sha256 differs)")
    return part


def _stored(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """What is stored of a part, in one go: its hash says more than the sum that a zip compares, and costs enough."""
    file = archive.fp
    assert file is not None
    file.seek(member.header_offset)
    named, more = struct.unpack("<HH", file.read(LOCAL_BYTES)[-4:])
    file.seek(named + more, os.SEEK_CUR)
    return file.read(member.file_size)


def _hash(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()
