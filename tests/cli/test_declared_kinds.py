"""Any table as a layer kind of its own, from the import to what a bundle answers on another machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medn
from medn.cli.main import run

HEADING = "device,algorithm,heads,tokens,scale,causal,batch_size,work,moved,constant,empty,took_us\n"


def table_text(rows: int = 160) -> str:
    random = np.random.default_rng(0)
    lines = [HEADING]
    for _ in range(rows):
        algorithm = str(random.choice(["flash", "plain"]))
        heads, tokens, batch = (
            int(random.integers(1, 33)),
            int(random.integers(16, 2048)),
            int(2 ** random.integers(0, 4)),
        )
        scale, causal = float(random.uniform(0.1, 2.0)), bool(random.integers(0, 2))
        work = heads * tokens * batch * (1 if causal else 2)
        took_us = (5 + work / (2000 if algorithm == "flash" else 900)) * (1 + 0.1 * scale)
        lines.append(
            f"a100,{algorithm},{heads},{tokens},{scale:.3f},{causal},{batch},{work},{work * 4},7,,{took_us:.4f}\n"
        )
    return "".join(lines)


def imported(folder: Path, *options: str, text: str | None = None, name: str = "ops.csv") -> int:
    table = folder / name
    table.write_text(text or table_text())
    return run(
        ["import", str(table), "--kind", "my_op", "--latency", "took_us", "--run", str(folder / "run"), *options]
    )


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a declared kind that went all the way."""
    folder = tmp_path_factory.mktemp("declared")
    assert imported(folder, "--work", "work", "--bytes", "moved", "--layer", "heads,tokens") == 0
    assert run(["train", str(folder / "run"), "--time", "2", "--regressors", "median,ridge,roofline"]) == 0
    assert run(["select", str(folder / "run")]) == 0
    return folder / "run"


ASKED = ["algorithm=flash", "heads=8", "tokens=512", "scale=0.5", "causal=true", "work=8192", "moved=32768"]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_import_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert imported(tmp_path, "--layer", "heads,tokens") == 0
    told = capsys.readouterr().err
    assert "algorithm (text), heads (whole number), tokens (whole number), scale (number), causal (flag)" in told
    assert "rows with the same heads, tokens are one layer" in told
    assert "no inputs, because too many cells are empty: empty" in told
    assert "160 rows read, 160 imported" in told


def test_a_table_without_any_work_is_learned_from_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert imported(tmp_path, "--drop", "work,moved") == 0
    assert run(["train", str(tmp_path / "run"), "--time", "2", "--regressors", "ridge,roofline"]) == 0
    assert "a roofline needs the inputs 'flops' or 'moved_bytes'" in capsys.readouterr().out
    assert run(["select", str(tmp_path / "run")]) == 0


def test_a_declared_kind_is_predicted(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "predict", str(shipped / "run.medn"), "my_op", *ASKED)
    assert found["in_range"] is True
    assert found["latency_s"] == pytest.approx(9.5e-6, rel=0.5)


def test_one_layer_and_a_table_of_it_have_one_answer(shipped: Path) -> None:
    predictor = medn.load(shipped / "run.medn")
    asked = {
        "algorithm": "flash",
        "heads": 8,
        "tokens": 512,
        "scale": 0.5,
        "causal": True,
        "work": 8192,
        "moved": 32768,
    }
    first, again = predictor.layer("my_op", **asked), predictor.estimator("my_op").layer(asked)
    assert first[:5] == pytest.approx(again[:5])
    assert predictor.predict({name: [value] for name, value in asked.items()}).latency_s[0] == first.latency_s


def test_a_bundle_brings_its_kind_along_without_the_run(
    shipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = shutil.copy(shipped / "run.medn", tmp_path / "elsewhere.medn")
    assert said(capsys, "predict", str(moved), "my_op", *ASKED)["latency_s"] > 0


def test_a_column_that_never_changed_need_not_be_said_and_may_not_differ(
    shipped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "predict", str(shipped / "run.medn"), "my_op", *ASKED, "constant=8")["in_range"] is False


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (["heads=many"], "heads: must be a whole number (got 'many')"),
        (["token=5"], "no column named 'token'. Did you mean 'tokens'?"),
        (["heads=8"], "algorithm, tokens, scale, causal, work, moved: missing"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    shipped: Path, asked: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["predict", str(shipped / "run.medn"), "my_op", *asked]) == 2
    assert sentence in capsys.readouterr().err


def test_a_table_of_layers_is_predicted(shipped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "asked.csv").write_text(
        "algorithm,heads,tokens,scale,causal,work,moved\nflash,8,512,0.5,true,8192,32768\n"
    )
    (row,) = said(capsys, "predict", str(shipped / "run.medn"), "my_op", "--table", str(tmp_path / "asked.csv"))
    assert row["latency_s"] > 0


def test_a_staircase_is_tabled(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [each for each in ASKED if not each.startswith("tokens")]
    assert run(["table", str(shipped / "run.medn"), "my_op", *asked, "tokens=64:1024:64"]) == 0


@pytest.mark.parametrize("verb", [["summary"], ["leaderboard"], ["export"], ["report"]])
def test_every_verb_on_the_run_knows_the_kind(
    shipped: Path, verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(shipped, tmp_path / "run")
    assert run([*verb, str(folder)]) == 0


def test_inspect_shows_the_inputs(shipped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = said(capsys, "inspect", str(shipped / "run.medn"), "my_op")["entries"][0]["inputs"]
    assert {"algorithm", "tokens", "flops"} <= {each["input"] for each in inputs}


def test_the_server_describes_and_answers_the_kind(shipped: Path) -> None:
    from medn.serving.answers import Answers
    from medn.serving.schema import openapi

    answers = Answers(shipped / "run.medn")
    properties = openapi(answers)["components"]["schemas"]["my_op_layer"]["properties"]
    assert (properties["heads"]["type"], properties["scale"]["type"]) == ("integer", "number")


def test_exported_tables_are_trained_from_alone(shipped: Path, tmp_path: Path) -> None:
    assert run(["export", str(shipped), "--to", str(tmp_path / "tables")]) == 0
    assert run(["train", str(tmp_path / "tables"), "--time", "1", "--regressors", "ridge"]) == 0
    assert run(["select", str(tmp_path / "tables")]) == 0
    assert medn.load(tmp_path / "tables" / "tables.medn").kinds == ("my_op",)


def test_rows_of_one_layer_stay_on_one_side_of_a_split(tmp_path: Path) -> None:
    from medn.runs.tables import kind_table, read_source

    imported(tmp_path, "--layer", "heads")
    groups = kind_table(read_source(tmp_path / "run"), "my_op").table.groups
    assert len(set(groups)) <= 32 < len(groups)


def test_an_extra_of_a_shipped_kind_can_be_part_of_its_layers(tmp_path: Path) -> None:
    from medn.runs.tables import kind_table, read_source

    (tmp_path / "table.csv").write_text(
        "n,m,window,ms\n" + "".join(f"16,{m},{w},1\n" for m in (8, 9) for w in (1, 2, 3))
    )
    written = {"kind": "linear", "device": "d", "latency_s": {"column": "ms", "scale": 0.001}, "layer": ["window"]}
    columns = {"columns": {"in_features": "n", "out_features": "m"}, "extra": {"window": "window"}}
    (tmp_path / "map.yaml").write_text(json.dumps({**written, **columns}))
    assert (
        run(
            ["import", str(tmp_path / "table.csv"), "--map", str(tmp_path / "map.yaml"), "--run", str(tmp_path / "run")]
        )
        == 0
    )
    assert len(set(kind_table(read_source(tmp_path / "run"), "linear").table.groups)) == 6


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--kind", "linear"], "linear is a layer kind of medn: say what the columns mean with --map"),
        (["--kind", "My Op"], "a name must be of small letters, digits and _"),
        (["--kind", "../up"], "a name must be of small letters, digits and _"),
        (["--latency", "took"], "--latency: no column named 'took'. Did you mean 'took_us'?"),
        (["--latency", "heads"], "--unit: say the unit of heads as one of s, ms, us, ns"),
        (["--unit", "minutes"], "say the unit of took_us as one of s, ms, us, ns (got 'minutes')"),
        (["--layer", "head"], "--layer: no column named 'head'. Did you mean 'heads'?"),
        (["--layer", "took_us"], "--layer: took_us is no input here"),
        (["--work", "algorithm"], "work: no column of numbers named 'algorithm'"),
        (["--work", "2*head"], "work: no column of numbers named 'head'. Did you mean 'heads'?"),
        (["--bytes", "2*3"], "bytes: '2*3' names no column"),
        (["--bytes", "heads+"], "bytes: no column of numbers named ''"),
        (["--work", "0*heads"], "multiplies it with nothing"),
        (["--work", "__import__('os')"], "work: no column of numbers named"),
        (["--drop", "nothing"], "--drop: no column named 'nothing'"),
        (["--device", "mine"], "--device: the table has a column device"),
        (["--rename", "heads"], "must be written as NAME=VALUE"),
        (["--rename", "heads=tokens"], "--rename: two columns would have one name"),
        (["--rename", "heads=status"], "status: this name has a meaning of its own"),
        (["--rename", "algorithm=dtype"], "dtype is a condition and must be one of"),
        (["--map", "mapping.yaml"], "--map MAPPING, --kind NAME with --latency COLUMN, or --plan DIR"),
        (["--latency", ""], "--kind needs --latency COLUMN"),
    ],
)
def test_what_cannot_be_declared_is_one_sentence_and_leaves_no_run(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(tmp_path, *options) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_name_that_means_something_else_is_renamed(tmp_path: Path) -> None:
    text = "dtype,n,ms\n" + "".join(f"fp8,{n},{n}\n" for n in range(1, 20))
    (tmp_path / "ops.csv").write_text(text)
    options = ["--kind", "my_op", "--latency", "ms", "--unit", "ms", "--rename", "dtype=format"]
    assert run(["import", str(tmp_path / "ops.csv"), *options, "--run", str(tmp_path / "run")]) == 0


def test_a_second_table_of_the_kind_joins_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from medn.runs.tables import read_source

    assert imported(tmp_path) == 0
    more = table_text(40).replace(",7,,", ",7.5,,")
    assert imported(tmp_path, "--mix-environments", text=more, name="more.csv") == 0
    (constant,) = (p for p in read_source(tmp_path / "run").layer_kind("my_op").parameters if p.name == "constant")
    assert (constant.type, constant.default) == (float, None)


def test_another_meaning_of_the_same_name_in_one_run_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(tmp_path) == 0
    text = "heads,took_us\n" + "".join(f"{heads},{heads}\n" for heads in range(1, 20))
    assert imported(tmp_path, "--mix-environments", text=text, name="other.csv") == 2
    assert "my_op is declared in two ways that differ in algorithm" in capsys.readouterr().err


def test_two_runs_may_mean_different_things_by_one_name(tmp_path: Path) -> None:
    from medn.layer_generators.kind import layer_kinds
    from medn.runs.tables import read_source

    for name, text in (("one", "a,took_us\n1,1\n"), ("two", "b,took_us\n1,1\n")):
        (tmp_path / name).mkdir()
        assert imported(tmp_path / name, text=text) == 0
    found = [read_source(tmp_path / name / "run").layer_kind("my_op").names for name in ("one", "two")]
    assert found == [("a",), ("b",)]
    assert "my_op" not in layer_kinds


def test_a_column_that_may_be_the_latency_again_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "n,mean_us,took_us\n" + "".join(f"{n % 7},{n * 1.01},{n}\n" for n in range(1, 50))
    assert imported(tmp_path, text=text) == 0
    assert "--drop mean_us" in capsys.readouterr().err


@pytest.mark.usefixtures("plain_regressors")
def test_odd_names_of_columns_do_no_harm(tmp_path: Path) -> None:
    names = ["self", "size (MB)", "größe", "class", "flops", "values", "rows"]
    random = np.random.default_rng(0)
    rows = [",".join(str(int(each)) for each in random.integers(1, 99, len(names))) for _ in range(60)]
    text = ",".join(names) + ",took_us\n" + "".join(f"{row},{int(row.split(',')[4]) ** 2}\n" for row in rows)
    assert imported(tmp_path, text=text) == 0
    folder = str(tmp_path / "run")
    assert run(["train", folder, "--time", "1", "--regressors", "ridge,test-law"]) == 0
    assert run(["select", folder]) == 0
    predictor = medn.load(tmp_path / "run" / "run.medn")
    asked = dict.fromkeys(names, 50)
    assert predictor.layer("my_op", **asked)[:5] == pytest.approx(predictor.estimator("my_op").layer(asked)[:5])


@pytest.mark.parametrize(
    "change",
    [
        {"name": "linear"},
        {"name": "other_op"},
        {"name": 5},
        {"parameters": []},
        {"parameters": [{"name": "heads", "type": "text", "default": None}]},
        {"parameters": [{"name": "algorithm", "type": "integer", "default": None}]},
        {"parameters": [{"name": "heads", "type": "code", "default": None}]},
        {"parameters": [{"name": "heads", "type": "integer", "default": "many"}]},
        {"parameters": [{"name": "device", "type": "integer", "default": None}]},
        {"parameters": [{"name": "__class__", "type": "integer", "default": None}]},
        {"parameters": "heads"},
        {"layer": ["nothing"]},
        {"layer": [5]},
        {"work": "nothing"},
        {"bytes": {}},
        {"work": "9**9**9"},
        {"work": "heads*" * 200 + "heads"},
    ],
)
def test_a_strange_declaration_in_a_bundle_is_one_sentence(
    shipped: Path, change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from medn.bundle.archive import LIMITS, read_archive, write_archive

    manifest, parts = read_archive(shipped / "run.medn", LIMITS)
    manifest["entries"][0]["declared"] |= change
    write_archive(tmp_path / "strange.medn", manifest, parts)
    assert run(["predict", str(tmp_path / "strange.medn"), "my_op", *ASKED]) == 2
    told = capsys.readouterr().err
    assert "unexpected" not in told


def test_a_declared_kind_is_benched(shipped: Path) -> None:
    assert run(["bench", "predict", str(shipped / "run.medn"), "--time", "0.1"]) == 0


def test_the_work_may_be_products_of_columns(tmp_path: Path) -> None:
    from medn.runs.tables import kind_table, read_source

    options = ["--drop", "work,moved", "--work", "2*heads*tokens*batch_size", "--bytes", "4*heads + 8*tokens"]
    assert imported(tmp_path, *options) == 0
    table = kind_table(read_source(tmp_path / "run"), "my_op").table
    heads, tokens, batch = (table.column(name) for name in ("heads", "tokens", "batch_size"))
    assert (table.column("flops") == 2 * heads * tokens * batch).all()
    assert (table.column("moved_bytes") == 4 * heads + 8 * tokens).all()


def test_a_number_that_no_input_can_hold_leaves_out_its_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert imported(tmp_path, text=f"n,took_us\n1,1\n2,2\n{'9' * 40},3\n") == 0
    out, err = capsys.readouterr()
    assert "n: must be at most 1e+30" in out
    assert "3 rows read, 2 imported" in err
