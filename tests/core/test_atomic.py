from __future__ import annotations

import threading
from pathlib import Path

import pytest

from medn.core.atomic import atomic_path, atomic_write
from medn.core.errors import StoreError


def test_a_file_is_replaced(tmp_path: Path) -> None:
    atomic_write(tmp_path / "file", b"old")
    atomic_write(tmp_path / "file", b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"new")]


def test_a_folder_is_replaced(tmp_path: Path) -> None:
    for name in ("old", "new"):
        with atomic_path(tmp_path / "folder") as beside:
            beside.mkdir()
            (beside / name).touch()
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")] == ["folder", "folder/new"]


@pytest.mark.parametrize("failure", [ValueError("wrong"), KeyboardInterrupt()])
def test_a_writer_that_fails_leaves_what_was_there(tmp_path: Path, failure: BaseException) -> None:
    def write_half() -> None:
        with atomic_path(tmp_path / "file") as beside:
            beside.write_bytes(b"half")
            raise failure

    atomic_write(tmp_path / "file", b"old")
    with pytest.raises(type(failure)):
        write_half()
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"old")]


def test_a_file_does_not_take_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"cannot write .*folder: "):
        atomic_write(tmp_path / "folder", b"content")
    assert [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")] == ["folder", "folder/inner"]


@pytest.mark.parametrize("place", ["absent/file", "file/below"])
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=f"cannot write .*{place}: "):
        atomic_write(tmp_path / place, b"content")


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "file") as beside:
        beside.write_bytes(b"first")
        other = threading.Thread(target=atomic_write, args=(tmp_path / "file", b"second"))
        other.start()
        other.join()
        assert (tmp_path / "file").read_bytes() == b"second"
    assert (tmp_path / "file").read_bytes() == b"first"
