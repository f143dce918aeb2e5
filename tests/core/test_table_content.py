"""The bytes of a table: bounded, unpacked, and read from pipes only by those who ask for it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from medn.core import table_content as module
from medn.core.errors import UsageError
from medn.core.table_content import STANDARD, table_content
from medn.estimator.table_files import read_table
from medn.importing.table_file import open_table

CSV = b"kind,rows\nlinear,1\n"
Packed = Callable[[bytes], bytes]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_BYTES", 1000)


@pytest.mark.parametrize("read", [read_table, open_table])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_no_table_is_larger_than_the_bound_once_unpacked(
    read: Callable[[Path], object], pack: Packed, tmp_path: Path, small: None
) -> None:
    (tmp_path / "table.csv").write_bytes(pack(CSV * 100))
    with pytest.raises(UsageError, match="cannot be read as a table: it is larger than"):
        read(tmp_path / "table.csv")


def test_an_endless_device_is_not_read_to_its_end(small: None) -> None:
    with pytest.raises(UsageError, match="it is larger than"):
        read_table(Path("/dev/zero"))


def test_standard_input_is_bounded_too(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(CSV * 100)))
    with pytest.raises(UsageError, match="it is larger than"):
        read_table(STANDARD)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_query_is_read_however_it_is_packed_and_separated(
    pack: Packed, encoding: str, separator: str, tmp_path: Path
) -> None:
    text = CSV.decode().replace(",", separator)
    (tmp_path / "query").write_bytes(pack(text.encode(encoding)))
    assert read_table(tmp_path / "query") == [{"kind": "linear", "rows": 1}]


def test_a_query_may_come_through_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(CSV,))
    writer.start()
    assert table_content(tmp_path / "pipe", pipes=True) == CSV
    writer.join()


def test_a_missing_query_names_its_near_miss(tmp_path: Path) -> None:
    (tmp_path / "layers.csv").write_bytes(CSV)
    with pytest.raises(UsageError, match=r"there is no table at .* Did you mean 'layers.csv'\?"):
        read_table(tmp_path / "layer.csv")


@pytest.mark.parametrize("content", [b"", b"  \n", b"PK\x03\x04", b"\x89PNG\x00\x00", gzip.compress(CSV, mtime=0)[:-9]])
def test_a_query_that_is_no_table_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read as a table") as caught:
        read_table(tmp_path / "table")
    assert "\n" not in str(caught.value)


def test_a_cell_may_hold_a_line_break(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text('kind,name\nlinear,"two\nlines"\n')
    assert read_table(tmp_path / "table.csv") == [{"kind": "linear", "name": "two\nlines"}]
