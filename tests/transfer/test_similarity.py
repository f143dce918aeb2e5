"""Which devices behave alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medn.core.errors import UsageError
from medn.transfer.similarity import likenesses


def test_devices_that_differ_by_a_factor_are_alike(known: Path) -> None:
    found, apart = likenesses([known])
    assert apart == []
    assert {(each.first, each.second) for each in found} == {
        ("slow", "slower"),
        ("slow", "slowest"),
        ("slower", "slowest"),
    }
    by_name = {(each.first, each.second): each for each in found}
    assert by_name["slow", "slower"].ratio == pytest.approx(2.0, rel=0.1)
    assert by_name["slow", "slowest"].ratio == pytest.approx(3.0, rel=0.1)
    assert all(each.rank > 0.98 and each.spread < 1.1 for each in found)
    assert all(each.layers >= 40 and set(each.kinds) == {"linear", "activation"} for each in found)


def test_a_bundle_without_its_run_is_compared_on_drawn_layers(known: Path, tmp_path: Path) -> None:
    copied = shutil.copy(known / "desk.medn", tmp_path / "alone.medn")
    found, apart = likenesses([Path(copied)])
    assert len(found) + len(apart) == 3


def test_devices_of_one_name_are_told_apart_by_their_bundles(known: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(known, tmp_path / "other")
    (copied / "desk.medn").rename(copied / "other.medn")
    found, _ = likenesses([known, copied])
    assert len(found) == 15


def test_one_device_has_nothing_to_compare_with(bundle_path: Path) -> None:
    with pytest.raises(UsageError, match="there is nothing to compare with"):
        likenesses([bundle_path])
