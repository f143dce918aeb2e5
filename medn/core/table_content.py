"""What a table file holds: read within a bound, unpacked and decoded, whoever wrote it.

Compression is known by the first bytes and not by the name; encoding and separator are found from the text.
"""

from __future__ import annotations

import codecs
import csv
import io
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from medn.core.errors import UsageError, unknown
from medn.core.packages import need
from medn.core.text import first_line
from medn.core.units import format_bytes

if TYPE_CHECKING:
    import pyarrow

STANDARD = Path("-")
"""Stands for standard input or output."""

LARGEST_BYTES = 2 * 2**30
"""No table may be larger once it is unpacked: a small file must not fill the memory."""

PARQUET, ARROW, ZIP, ZSTANDARD = b"PAR1", b"ARROW1", b"PK\x03\x04", b"\x28\xb5\x2f\xfd"
GZIP, BZIP, XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"

BINARY = (PARQUET, ARROW)
"""How tables begin that are no text."""

SEPARATORS = (",", ";", "\t", "|")

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

HEAD = 1_000_000
"""So many characters hold the first two lines."""


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def table_content(path: Path, *, pipes: bool = False) -> bytes:
    """The unpacked bytes of a table; one sentence if there is none. `pipes` may be read too, and standard input."""
    if not (pipes and path == STANDARD):
        _check_path(path, pipes)
    try:
        if pipes and path == STANDARD:
            content = _bounded(sys.stdin.buffer)
        else:
            with path.open("rb") as file:
                content = _bounded(file)
        content = _unpacked(content)
        if not content.strip():
            raise ValueError("it is empty")
        if content.startswith(ZIP):
            raise ValueError("it is a zip archive or a workbook; unpack it, or save it as CSV")
        return content
    except (OSError, EOFError, ValueError, zlib.error) as error:
        said = getattr(error, "strerror", None) or first_line(error)
        raise UsageError(f"{path} cannot be read as a table: {said}") from None


def arrow_table(content: bytes) -> pyarrow.Table:
    """The table that Parquet or Arrow (Feather) holds. Raises what pyarrow does."""
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet

    read = pyarrow.parquet.read_table if content.startswith(PARQUET) else pyarrow.feather.read_table
    return read(pyarrow.BufferReader(content))


def _check_path(path: Path, pipes: bool) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; a table is one file")
    if not path.exists():
        near = [other.name for other in path.parent.glob("*") if other.is_file()] if path.parent.is_dir() else []
        raise UsageError(f"there is no table at {path}. {unknown('file', path.name, near[:20])}")
    if not path.is_file() and not pipes:
        raise UsageError(f"{path} is no ordinary file, so it cannot be read as a table")


def _bounded(file: Readable) -> bytes:
    content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        raise ValueError(f"it is larger than {format_bytes(LARGEST_BYTES)}; read it in parts")
    return content


def _unpacked(content: bytes) -> bytes:
    """What a compressed file holds."""
    packed = io.BytesIO(content)
    if content.startswith(GZIP):
        import gzip

        return _bounded(gzip.GzipFile(fileobj=packed))
    if content.startswith(BZIP):
        import bz2

        return _bounded(bz2.BZ2File(packed))
    if content.startswith(XZ):
        import lzma

        try:
            return _bounded(lzma.LZMAFile(packed))
        except lzma.LZMAError as error:
            raise ValueError(str(error)) from None
    if content.startswith(ZSTANDARD):
        need("reading Zstandard", "pyarrow")
        import pyarrow

        with pyarrow.input_stream(pyarrow.BufferReader(content), compression="zstd") as stream:
            return _bounded(stream)
    return content


def decoded(content: bytes) -> tuple[str, str]:
    """The text, and the encoding it was found to have."""
    marked = next((name for mark, name in MARKS if content.startswith(mark)), None)
    for order, start in (("utf-16-le", 1), ("utf-16-be", 0)):
        # Latin letters have a zero in every other byte of UTF-16: which one tells the order.
        every_other = content[start:1000:2]
        if marked is None and every_other.count(0) > len(every_other) * 0.9:
            marked = order
    for encoding in [marked] if marked else ["utf-8", "cp1252", "latin-1"]:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\x00" in text:
            break
        return text, {"cp1252": "latin-1"}.get(encoding, encoding)
    raise ValueError("it is neither text nor Parquet")


def first_line_cells(text: str) -> tuple[str, list[str]]:
    """The separator that cuts the first two lines into most cells alike, and the names in the first."""
    found: list[tuple[bool, int, str, list[str]]] = []
    for separator in SEPARATORS:
        lines = (line for line in csv.reader(io.StringIO(text[:HEAD], newline=None), delimiter=separator) if line)
        first = next(lines)
        second = next(lines, first)
        found.append((len(first) == len(second), len(first), separator, first))
    several = [each for each in found if each[1] > 1] or found[:1]
    _, _, separator, names = max(several, key=lambda each: each[:2])
    return separator, [name.strip() for name in names]
