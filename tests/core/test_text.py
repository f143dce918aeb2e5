from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from medn.core.errors import UsageError, reason_of
from medn.core.text import LONGEST_LINE, first_line, last_line, one_line


@pytest.mark.parametrize("shorten", [first_line, last_line, one_line, reason_of])
@given(said=some.text())
def test_whatever_a_library_says_becomes_one_short_line(shorten: Callable[[Exception], str], said: str) -> None:
    line = shorten(RuntimeError(said))
    assert line.isprintable()
    assert 0 < len(line) <= LONGEST_LINE + len("RuntimeError: ")


def test_an_error_without_a_message_is_told_by_its_type() -> None:
    assert first_line(ValueError(" \n")) == "ValueError"
    assert last_line(KeyError()) == one_line(KeyError()) == reason_of(KeyError()) == "KeyError"


def test_a_sentence_for_people_is_kept_whole() -> None:
    assert reason_of(UsageError("run: 2 mistakes\n  a\n  b")) == "run: 2 mistakes;   a;   b"
