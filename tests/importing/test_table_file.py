"""Tables as other people write them: each simply works, or is one clear sentence."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest

from medn.core.errors import NothingMeasured, UsageError
from medn.core.values import Measurement
from medn.importing.import_table import ImportOutcome, import_table
from medn.importing.mapping import ImportMapping
from medn.importing.table_file import open_table
from medn.runs.folder import RunFolder

PLAIN = "phone,n,m,ms\npixel,16,32,0.5\npixel,16,64,1.5\n"


def mapping(**changes: Any) -> ImportMapping:
    written: dict[str, Any] = {
        "kind": "linear",
        "device": {"column": "phone"},
        "latency_s": {"column": "ms", "scale": 0.001},
        "columns": {"in_features": "n", "out_features": "m"},
    }
    return ImportMapping.model_validate({**written, **changes})


def imported(folder: Path, content: bytes, name: str = "table.csv", **changes: Any) -> ImportOutcome:
    path = folder / name
    path.write_bytes(content)
    return import_table(path, mapping(**changes), RunFolder(folder / "run"))


def measured(folder: Path) -> list[Measurement]:
    with RunFolder(folder / "run").store(must_exist=True) as store:
        return sorted(store.measurements(), key=lambda each: each.point.layer.parameters)


def latencies_ms(folder: Path) -> list[float]:
    return [round(1e3 * each.visits[0].samples.wall_s[0], 6) for each in measured(folder)]


def zstd(content: bytes) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "write",
    [
        str.encode,
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-16-le"),
        lambda text: text.encode("utf-16-be"),
        lambda text: text.encode("utf-32"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: text.replace(",", ";").encode(),
        lambda text: text.replace(",", "\t").encode(),
        lambda text: text.replace(",", "|").encode(),
        lambda text: text.replace(",", " , ").encode(),
        lambda text: text.replace(",", ";").replace(".", ",").encode(),
        lambda text: text.replace("0.5", '"0,5"').replace("1.5", '"1,5"').encode(),
        lambda text: "\n\n".join(text.splitlines()).encode(),
        lambda text: gzip.compress(text.encode(), mtime=0),
        lambda text: bz2.compress(text.encode()),
        lambda text: lzma.compress(text.encode()),
        lambda text: zstd(text.encode()),
        lambda text: "".join(f",{line}\n" for line in text.splitlines()).encode(),
    ],
)
def test_the_same_table_comes_in_however_it_is_written(write: Callable[[str], bytes], tmp_path: Path) -> None:
    assert imported(tmp_path, write(PLAIN)).imported == 2
    assert latencies_ms(tmp_path) == [0.5, 1.5]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8", "utf-16"])
def test_names_beyond_ascii_are_read_in_their_encoding(encoding: str, tmp_path: Path) -> None:
    imported(tmp_path, PLAIN.replace("pixel", "Gerät").encode(encoding))
    assert {each.point.device for each in measured(tmp_path)} == {"Gerät"}


def test_a_guessed_encoding_and_separator_are_told(tmp_path: Path) -> None:
    told = imported(tmp_path, PLAIN.replace("pixel", "Gerät").replace(",", ";").encode("latin-1"))
    assert told.notes == ("read as latin-1", "columns are separated by ;")


def test_a_text_among_numbers_leaves_out_its_row_only(tmp_path: Path) -> None:
    rows = "".join(f"pixel,16,{size},{size / 10}\n" for size in range(1, 600))
    told = imported(tmp_path, (PLAIN[:14] + rows + "pixel,many,7,1\npixel,16,7,broken\n").encode())
    assert (told.rows, told.imported) == (601, 599)
    assert sorted(told.refused) == [
        ("in_features: must be a whole number (got 'many')", 1),
        ("latency_s: must be a number above 0 (got 'broken')", 1),
    ]


@pytest.mark.parametrize(
    "cell", ["", "nan", "NaN", "NA", "n/a", "inf", "-inf", "1e999", "0", "-1", "1,024", "1_0", "0x1"]
)
def test_a_cell_that_is_no_latency_leaves_out_its_row_only(cell: str, tmp_path: Path) -> None:
    told = imported(tmp_path, (PLAIN + f'pixel,16,128,"{cell}"\n').encode())
    assert (told.rows, told.imported) == (3, 2)


def test_a_line_with_other_cells_than_the_heading_is_counted(tmp_path: Path) -> None:
    told = imported(tmp_path, (PLAIN + "pixel,16,128\npixel,16,128,1,2\n").encode())
    assert (told.rows, told.imported) == (4, 2)
    assert sorted(told.refused) == [
        ("it has 3 cells, the heading has 4", 1),
        ("it has 5 cells, the heading has 4", 1),
    ]


def test_a_column_of_numbers_that_may_be_thousands_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="got '1,024'"):
        imported(tmp_path, PLAIN.replace(",", ";").replace("0.5", "1,024").replace("1.5", "2,048").encode())


def test_a_column_that_is_there_twice_may_be_the_same_twice(tmp_path: Path) -> None:
    assert imported(tmp_path, b"phone,n,m,ms,n\npixel,16,32,0.5,16\n").imported == 1


def test_two_columns_of_one_name_that_differ_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2 columns are named 'n', and they differ"):
        imported(tmp_path, b"phone,n,m,ms,n\npixel,16,32,0.5,17\n")


def test_two_columns_of_one_name_do_not_matter_where_nobody_asks(tmp_path: Path) -> None:
    assert imported(tmp_path, b"phone,n,m,ms,note,note\npixel,16,32,0.5,a,b\n").imported == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "cannot be read as a table: it is empty"),
        (b"\n\n  \n", "cannot be read as a table: it is empty"),
        (b"phone,n,m,ms\n", "has a heading and no rows"),
        (b'{"n": 1}\n', "it is JSON"),
        (b"PK\x03\x04rest", "zip archive or a workbook"),
        (b"PAR1 and nothing else", "cannot be read as a table"),
        (gzip.compress(PLAIN.encode(), mtime=0)[:-12], "cannot be read as a table"),
        (zstd(PLAIN.encode())[:-4], "cannot be read as a table"),
        (lzma.compress(PLAIN.encode())[:-4], "cannot be read as a table"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00", "neither text nor Parquet"),
        (b'phone,n,m,ms\npixel,16,32,0.5\n"pixel,16,32,0.5\npixel,1,2,3\n', "is never closed"),
    ],
)
def test_what_is_no_table_is_one_sentence_and_leaves_no_run(content: bytes, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        imported(tmp_path, content)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; a table is one file"):
        open_table(tmp_path)


def test_a_pipe_is_no_table(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no ordinary file"):
        open_table(tmp_path / "pipe")


def test_a_missing_table_names_its_near_miss(tmp_path: Path) -> None:
    (tmp_path / "layers.csv").write_text(PLAIN)
    with pytest.raises(UsageError, match=r"no table at .* Did you mean 'layers.csv'\?"):
        open_table(tmp_path / "layer.csv")


def test_parquet_with_odd_types_comes_in(tmp_path: Path) -> None:
    columns = {
        "phone": pyarrow.array(["pixel", "pixel"]).dictionary_encode(),
        "n": pyarrow.array(["16", "16"], pyarrow.large_string()),
        "m": pyarrow.array([32, 64], pyarrow.uint8()),
        "ms": pyarrow.array([Decimal("0.50"), Decimal("1.50")]),
        "half": pyarrow.array([0.5, 1.5], pyarrow.float16()),
        "day": pyarrow.array([0, 1], pyarrow.date32()),
        "raw": pyarrow.array([b"a", b"b"]),
        "list": pyarrow.array([[1], [2]]),
        "none": pyarrow.nulls(2),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "table.parquet")
    extra = {name: name for name in ("half", "day", "raw", "list", "none")}
    told = import_table(tmp_path / "table.parquet", mapping(extra=extra), RunFolder(tmp_path / "run"))
    assert told.imported == 2
    assert latencies_ms(tmp_path) == [0.5, 1.5]
    kept = {"half": 0.5, "day": "1970-01-01", "raw": "a", "list": "[1]"}
    assert measured(tmp_path)[0].point.condition.own == kept


def test_a_duration_is_no_number_and_its_row_says_so(tmp_path: Path) -> None:
    columns = {"phone": ["a"], "n": [1], "m": [2], "ms": [timedelta(milliseconds=5)]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "table.parquet")
    with pytest.raises(NothingMeasured, match="must be a number above 0"):
        import_table(tmp_path / "table.parquet", mapping(), RunFolder(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_feather_comes_in_too(tmp_path: Path) -> None:
    pyarrow.feather.write_feather(pyarrow.table({"n": [1], "x": ["a"]}), str(tmp_path / "table.feather"))
    assert open_table(tmp_path / "table.feather").cells("x") == ["a"]


def test_a_file_is_known_by_what_it_holds_and_not_by_its_name(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"n": [1, None]}), tmp_path / "table.csv")
    assert open_table(tmp_path / "table.csv").cells("n") == [1, None]


def test_where_takes_a_list(tmp_path: Path) -> None:
    assert imported(tmp_path, PLAIN.encode(), where={"m": [32, 128], "phone": ["pixel", "other"]}).imported == 1


def test_where_meets_a_number_that_the_table_has_as_a_text(tmp_path: Path) -> None:
    content = b"phone,n,m,ms,os\np,16,32,0.5,14\np,16,64,0.5,beta\np,16,128,0.5,alpha\n"
    assert imported(tmp_path, content, where={"os": 14}).imported == 1


def test_where_that_no_row_meets_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match=r"where. asks for \(phone: iphone; there are pixel\)"):
        imported(tmp_path, PLAIN.encode(), where={"phone": "iphone"})


TWO_KINDS = "op,phone,n,m,ms\ndense,p,16,32,0.5\nrelu,p,64,1,0.1\n"


def test_two_kinds_of_one_table_go_into_one_run(tmp_path: Path) -> None:
    imported(tmp_path, TWO_KINDS.encode(), where={"op": "dense"})
    columns = {"elements": "n", "function": {"value": "relu"}}
    imported(tmp_path, TWO_KINDS.encode(), kind="activation", where={"op": "relu"}, columns=columns)
    assert sorted(each.point.layer.kind for each in measured(tmp_path)) == ["activation", "linear"]


def test_rows_of_one_table_do_not_come_in_twice_under_another_mapping(tmp_path: Path) -> None:
    imported(tmp_path, TWO_KINDS.encode(), where={"op": "dense"})
    with pytest.raises(UsageError, match="from the same table under another mapping"):
        imported(tmp_path, TWO_KINDS.encode(), where={"op": "dense"}, latency_s={"column": "ms", "scale": 0.1})
    assert [len(each.visits) for each in measured(tmp_path)] == [1]


def test_a_failed_import_takes_back_only_what_it_made(tmp_path: Path) -> None:
    kept = tmp_path / "run" / "notes.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    with pytest.raises(NothingMeasured):
        imported(tmp_path, PLAIN.replace("16", "0").encode())
    assert list(kept.parent.iterdir()) == [kept]


def test_an_extra_without_end_leaves_out_its_row(tmp_path: Path) -> None:
    told = imported(tmp_path, b"phone,n,m,ms,x\np,16,32,0.5,1\np,16,64,0.5,inf\n", extra={"x": "x"})
    assert told.refused == (("x: must be a finite number (got inf)", 1),)


def test_inf_beside_words_is_a_word(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("mode,n\ninf,1\ninf,2\ntrain,3\n")
    assert open_table(tmp_path / "table.csv").cells("mode") == ["inf", "inf", "train"]
