"""Two runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medn.report.compare import Comparison, compare, comparison_page, comparison_sentences, signed

KINDS = {"conv2d": (0.10, 20.0, 1000), "linear": (0.04, 10.0, 500)}


def write_board(folder: Path, kinds: dict[str, tuple[float, float, int]], devices: tuple[str, ...] = ("cpu",)) -> Path:
    folder.mkdir()
    rows: list[dict[str, Any]] = []
    for device in devices:
        for kind, (mape, us, size) in kinds.items():
            row = {"device": device, "kind": kind, "candidate": "ridge", "mape": mape, "us_1": us, "bytes": size}
            rows.append({**row, "pareto": True, "chosen": True, "note": ""})
            rows.append(
                {**row, "candidate": "broken", "mape": None, "pareto": False, "chosen": False, "note": "failed"}
            )
    board = {"version": 1, "run": folder.name, "split": "random", "seed": 0, "budget": {}, "rows": rows}
    (folder / "leaderboard.json").write_text(json.dumps({**board, "schemes": [], "front": [], "gain": {}}))
    return folder


@pytest.fixture
def found(tmp_path: Path) -> Comparison:
    second = {"conv2d": (0.08, 30.0, 250), "softmax": (0.02, 5.0, 100)}
    return compare(write_board(tmp_path / "before", KINDS), write_board(tmp_path / "after", second))


def test_kinds_are_paired_and_the_lonely_ones_kept(found: Comparison) -> None:
    assert [pair.name for pair in found.pairs] == ["conv2d", "linear", "softmax"]
    assert [pair.name for pair in found.common] == ["conv2d"]
    assert [pair.name for pair in found.unmatched] == ["linear", "softmax"]


def test_differences_are_second_less_first(found: Comparison) -> None:
    pair = found.pairs[0]
    assert pair.difference("mape") == pytest.approx(-0.02)
    assert pair.difference("us_1") == pytest.approx(0.5)
    assert pair.difference("bytes") == pytest.approx(-0.75)
    assert found.pairs[1].difference("mape") is None


def test_differences_have_a_sign() -> None:
    assert signed("mape", -0.02) == "-2.0 points"
    assert signed("us_1", 0.5) == "+50 %"
    assert signed("bytes", None) is None


def test_what_is_many_times_as_much_is_told_as_a_factor() -> None:
    assert signed("us_1", 1.5) == "x 2.5"
    assert signed("us_1", 1221.4) == "x 1,222"
    assert signed("bytes", -0.75) == "/ 4"
    assert signed("bytes", -1.0) == "-100 %"
    assert signed("mape", 1.5) == "+150.0 points"


def test_words_say_what_changed_and_what_only_one_has(found: Comparison) -> None:
    first, *rest = comparison_sentences(found)
    assert "error 10.0 % and 8.0 % (20 % smaller)" in first
    assert "prediction 20 us and 30 us (50 % slower)" in first
    assert "size 1 kB and 250 B (smaller by a factor of 4)" in first
    assert rest == ["Only before has linear.", "Only after has softmax."]


def test_runs_without_a_common_kind_say_so(tmp_path: Path) -> None:
    first = write_board(tmp_path / "a", {"conv2d": KINDS["conv2d"]})
    found = compare(first, write_board(tmp_path / "b", {"linear": KINDS["linear"]}))
    assert comparison_sentences(found)[0] == "a and b have no layer kind in common."
    assert "<figure>" not in comparison_page(found)


def test_different_devices_are_compared_kind_by_kind_where_each_run_has_one(tmp_path: Path) -> None:
    first = write_board(tmp_path / "a", KINDS, ("torch",))
    assert len(compare(first, write_board(tmp_path / "b", KINDS, ("openvino",))).common) == 2
    several = compare(first, write_board(tmp_path / "c", KINDS, ("torch", "openvino")))
    assert [pair.name for pair in several.common] == ["conv2d on torch", "linear on torch"]


def test_runs_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    first, second = (write_board(tmp_path / folder / "run", KINDS) for folder in ("a", "b"))
    assert compare(first, second).names == (str(first), str(second))


def test_the_page_shows_both(found: Comparison) -> None:
    page = comparison_page(found)
    assert page.count("<figure>") == 3
    assert "before and after compared" in page
    assert "-2.0 points" in page
    assert "failed" in page
