from __future__ import annotations

import sys

import pytest

from medn.core.errors import MednError
from medn.core.packages import is_installed, need


def test_a_part_of_an_absent_package_is_not_installed() -> None:
    assert not is_installed("no_such_package.part")


def test_a_blocked_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "json", None)
    assert not is_installed("json")


def test_all_absent_packages_are_named_at_once() -> None:
    with pytest.raises(MednError, match=r"^serving needs no_one and no_other: pip install 'medn\[serve\]'$"):
        need("serving", "json", "no_one", "no_other", extra="serve")


def test_nothing_is_said_where_everything_is_installed() -> None:
    need("reading", "json")
