"""The container: what is written is read, and whatever else lies in the file is refused in one sentence."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medn.bundle.archive import MANIFEST, BadBundle, Limits, read_archive, write_archive
from medn.core.errors import MednError, UsageError

PARTS = {"a": b"first", "b/c": bytes(range(256))}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write_archive(tmp_path / "x.medn", {"version": 1}, PARTS)
    return tmp_path / "x.medn"


def forged(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as file:
        warnings.simplefilter("ignore")
        for name, content in members.items():
            file.writestr(name.removesuffix("#"), content)
    return path


def manifest(archive: Path) -> dict[str, Any]:
    with zipfile.ZipFile(archive) as file:
        found: dict[str, Any] = json.loads(file.read(MANIFEST))
        return found


def refused(path: Path, words: str, limits: Limits | None = None) -> None:
    with pytest.raises(BadBundle, match=words) as caught:
        read_archive(path, limits or Limits())
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_what_is_written_is_read(archive: Path) -> None:
    assert read_archive(archive) == ({"version": 1}, PARTS)


def test_equal_content_makes_equal_files(archive: Path, tmp_path: Path) -> None:
    write_archive(tmp_path / "y.medn", {"version": 1}, PARTS)
    assert (tmp_path / "y.medn").read_bytes() == archive.read_bytes()


def test_nothing_is_left_beside_the_file(archive: Path) -> None:
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no bundle .*none.medn. Make one with: medn select RUN"):
        read_archive(tmp_path / "none.medn")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is no bundle\. It is a folder"):
        read_archive(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip at all" * 100])
def test_what_is_no_zip_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    refused(tmp_path / "x", "is no bundle or a damaged one")


def test_compressed_parts_are_refused(archive: Path) -> None:
    forged(archive, {MANIFEST: b"{}", "a": bytes(10_000_000)}, zipfile.ZIP_DEFLATED)
    refused(archive, "compressed")


def test_two_parts_of_one_name_are_refused(archive: Path) -> None:
    refused(forged(archive, {MANIFEST: b"{}", "a": b"1", "a#": b"2"}), "two parts of the same name")


@pytest.mark.parametrize("extra", ["x", "../../outside", "/etc/passwd"])
def test_a_part_that_the_manifest_does_not_name_is_refused(extra: str, archive: Path) -> None:
    content = {MANIFEST: json.dumps(manifest(archive)).encode(), **PARTS, extra: b"?"}
    refused(forged(archive, content), "parts are not those that its manifest names")


def test_a_part_that_is_missing_is_refused(archive: Path) -> None:
    content = {MANIFEST: json.dumps(manifest(archive)).encode(), "a": b"first"}
    refused(forged(archive, content), "parts are not those that its manifest names")


@pytest.mark.parametrize(("part", "words"), [(b"other", "sha256 differs"), (b"longer than before", "not the size")])
def test_a_part_that_was_exchanged_is_refused(part: bytes, words: str, archive: Path) -> None:
    refused(forged(archive, {MANIFEST: json.dumps(manifest(archive)).encode(), **PARTS, "a": part}), words)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (b"{", "manifest.json cannot be read"),
        (b"[" * 100_000, "manifest.json cannot be read"),
        (b'{"format": NaN}', "NaN is no number"),
        (b"[]", "does not describe a bundle"),
        (b'{"format": "other"}', "does not describe a bundle"),
        (b'{"format": "medn bundle"}', "not those that its manifest names"),
        (b'{"format": "medn bundle", "parts": {"a": 1, "b/c": 2}}', "not the size"),
        (b"\xff\xfe", "manifest.json cannot be read"),
    ],
)
def test_a_broken_manifest_is_refused(written: bytes, words: str, archive: Path) -> None:
    refused(forged(archive, {MANIFEST: written, **PARTS}), words)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(total_bytes=100), "more than the 100 that a bundle may have"),
        (Limits(manifest_bytes=10), "larger than the 10 bytes"),
        (Limits(parts=2), "3 parts, more than the 2"),
    ],
)
def test_more_than_the_limits_is_refused(limits: Limits, words: str, archive: Path) -> None:
    refused(archive, words, limits)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_unharmed_or_refused(data: st.DataObject, archive: Path) -> None:
    whole = archive.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        damaged = whole[:place]
    else:
        damaged = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    path = archive.with_name("damaged.medn")
    path.write_bytes(damaged)
    try:
        found = read_archive(path)
    except MednError:
        return
    assert found[1] == PARTS
