"""Tables fit where they are printed, whatever they hold and whichever verb prints them."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from medn.cli.main import VERBS
from medn.cli.main import run as medn
from medn.cli.output import write_rows
from medn.cli.text_table import DROPPED_FIRST, PIPED_WIDTH, write_table

Capture = pytest.CaptureFixture[str]
Printed = Callable[..., tuple[list[str], str]]


@pytest.fixture
def printed(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Printed:
    """The lines of a table printed at a width, and what was said about it."""

    def lines(rows: list[dict[str, object]], columns: str = "80") -> tuple[list[str], str]:
        monkeypatch.setenv("COLUMNS", columns)
        write_rows(rows, as_json=False)
        out, err = capsys.readouterr()
        return out.splitlines(), err

    return lines


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 200),
    st.lists(st.sampled_from([*DROPPED_FIRST, "kind", "a long heading of many words", "層"]), min_size=1, unique=True),
    st.lists(st.text(max_size=40) | st.sampled_from(["-", "1.5 ms", "12,345,678", "x" * 90]), min_size=1, max_size=6),
)
def test_no_line_is_wider_than_the_terminal(width: int, headings: list[str], cells: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        lines: list[str] = []
        patch.setattr("rich.console.Console.print", lambda console, table: lines.extend(_rendered(console, table)))
        write_table(headings, [[cell] * len(headings) for cell in cells])
    assert max(map(cell_len, lines)) <= max(width, 4)


def _rendered(console: object, table: object) -> list[str]:
    return ["".join(part.text for part in line) for line in console.render_lines(table)]  # type: ignore[attr-defined]


def test_the_least_important_columns_go_first_and_are_named(printed: Printed) -> None:
    words = {f"{'heading' * 2} {number}": "word" for number in range(3)}
    lines, said = printed([{"kind": "conv2d", "load ms": 1.0, **words, "MAPE": "3.1 %"}], "64")
    assert "load ms" not in "".join(lines)
    assert "MAPE" in "".join(lines)
    assert said == "left out, for want of width: load ms; a wider terminal or --json shows all\n"


def test_a_column_of_nothing_goes_before_any_other(printed: Printed) -> None:
    lines, said = printed([{"kind": "conv2d", "load ms": 1.0, "new": None, "said": "word" * 3}], "30")
    assert "new" not in "".join(lines)
    assert "left out, for want of width: new;" in said


def test_nothing_is_dropped_where_all_fits(printed: Printed) -> None:
    lines, said = printed([dict.fromkeys(DROPPED_FIRST[:5], 1)])
    assert all(heading in "".join(lines) for heading in DROPPED_FIRST[:5])
    assert said == ""


def test_strings_are_folded_before_columns_are_dropped(printed: Printed) -> None:
    lines, said = printed([{"name": "conv2d", "about": "several words " * 20, "path": "somewhere"}])
    assert "path" in "".join(lines)
    assert said == ""


def test_numbers_stand_on_the_right_and_strings_on_the_left(printed: Printed) -> None:
    lines, _ = printed([{"kind": "a", "latency": "5 us"}, {"kind": "long", "latency": "12.5 ms"}])
    assert [line.rstrip() for line in lines if "us" in line or "ms" in line] == [" a        5 us", " long  12.5 ms"]


def test_numbers_are_never_folded(printed: Printed) -> None:
    lines, _ = printed([{"about": "word " * 30, **{f"n{place}": "1,234,567.8 ms" for place in range(9)}}], "60")
    assert any("1,234,567.8 ms" in line for line in lines)


def test_a_pipe_is_as_wide_as_columns_says(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, object]] = [{"about": "word " * 100}]
    assert max(map(len, printed(rows, "33")[0])) == 33


@pytest.mark.parametrize("columns", ["", "0", "wide"])
def test_columns_that_say_nothing_leave_a_pipe_wide(columns: str, printed: Printed) -> None:
    assert max(map(len, printed([{"about": "word " * 100}], columns)[0])) == PIPED_WIDTH


LISTINGS = ("kinds", "conditions", "quantities", "devices", "samplers", "regressors", "forms", "formats", "configs")
ON_RUNS = [
    ["summary", "RUN"],
    ["summary", "RUN", "--verbose"],
    ["curve", "RUN"],
    ["train", "RUN", "--regressors", "median", "--time", "1"],
    ["select", "RUN"],
    ["leaderboard", "RUN"],
    ["leaderboard", "RUN", "--schemes"],
    ["compare", "RUN", "RUN"],
    ["export", "RUN"],
    ["inspect", "BUNDLE"],
    ["inspect", "BUNDLE", "linear"],
    ["predict", "BUNDLE", "linear", "in_features=64", "out_features=64"],
    ["table", "BUNDLE", "linear", "in_features=64", "out_features=8:65:8"],
    ["tables", "BUNDLE", "--format", "csv", "kind=linear", "in_features=64", "out_features=8", "--to", "long_name.csv"],
    ["bench", "predict", "BUNDLE", "--time", "0.1"],
]
ALONE = [["list"], *(["list", each] for each in LISTINGS), ["list", "kinds", "conv2d"], ["list", "devices", "torch"]]


@pytest.fixture(scope="module")
def run(selected_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(selected_run, tmp_path_factory.mktemp("terminal") / "desk")


@pytest.mark.parametrize("arguments", [*ALONE, ["doctor"], *ON_RUNS], ids=" ".join)
def test_a_verb_prints_tables_of_at_most_80_columns(
    arguments: list[str], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    names = {"RUN": str(run), "BUNDLE": str(run / "desk.medn")}
    assert medn([names.get(argument, argument) for argument in arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 80


ON_FILES = [
    ["sweep", "CONFIG", "--dry-run"],
    ["predict", "BUNDLE", "MODEL"],
    ["import", "TABLE", "--map", "MAP", "--run", "imported"],
    ["recommend", "MODEL", "--bundles", "BUNDLE", "--max-ms", "20"],
]
MEASURING = {"quickstart", "compose", "adapt", "devices", "check", "merge", "plan", "programs"}
"""Verbs that take long, want several runs or print rows only of what fails; their rows are printed without them."""


def test_every_verb_that_prints_tables_is_among_these() -> None:
    sources = {name: Path(str(inspect.getsourcefile(verb))).read_text() for name, verb in VERBS.items()}
    printing = {name for name, source in sources.items() if "write_rows" in source or "write_record" in source}
    tried = {each[0] for each in (*ALONE, *ON_RUNS, *ON_FILES, ["doctor"])}
    assert printing == (MEASURING | tried) - {"bench"}


def test_the_rows_of_verbs_that_measure_fit_too(printed: Printed, run: Path) -> None:
    from medn.cli import compose, merge, quickstart
    from medn.deployed.facts import FormCosts
    from medn.merging.overlap import Overlap
    from medn.training.candidate_store import load_candidates

    costs = FormCosts(120.5, 50.0, 40.0, 3.0, 2.0, 1.0, 12_345, 0.2, 54_321)
    candidates = [replace(each, costs=costs) for each in load_candidates(run / "candidates") if each.is_good]
    assert max(map(len, printed([dict(quickstart._kind_row(each)) for each in candidates])[0])) <= 80
    seconds = {"measured_s": 1.5e-3, "layers_alone_s": 1e-3, "predicted_s": 1.4e-3, "error": -0.07}
    row = {"model": "python:my_networks:a_long_name_of_a_function", "batch_size": 16, **seconds}
    lines, _ = printed([{name: compose._readable(name, value) for name, value in row.items()}])
    assert max(map(len, lines)) <= 80
    overlap = Overlap(
        "onnxruntime", "depthwise_conv2d", True, ("runs/board-monday", "runs/board-tuesday"), 12, 0.1, 1.1, 0.02
    )
    assert max(map(len, printed([dict(merge._row(overlap))])[0])) <= 80


@pytest.mark.parametrize("arguments", ON_FILES, ids=lambda arguments: arguments[0])
def test_a_verb_that_reads_files_prints_tables_of_at_most_80_columns(
    arguments: list[str], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    from medn.exporting.layer_list import listed_model
    from medn.layer_generators.kind import layer_kinds

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    devices = "[torch, onnxruntime, openvino, mnn, torch-compile]"
    (tmp_path / "CONFIG").write_text(
        f"{{name: x, devices: {devices}, budget: {{points: 25}}, layers: {{conv2d: {{}}}}}}"
    )
    listed_model([layer_kinds["linear"].layer(in_features=64, out_features=10)]).save(tmp_path / "model.json")
    (tmp_path / "TABLE").write_text("size,ms\n64,1\nlarge,2\n")
    (tmp_path / "MAP").write_text(
        "{kind: softmax, device: gpu, latency_s: {column: ms, scale: 0.001}, columns: {features: size}}"
    )
    names = {"MODEL": "model.json", "BUNDLE": str(run / "desk.medn")}
    assert medn([names.get(argument, argument) for argument in arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 80
