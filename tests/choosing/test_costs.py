"""What a form costs: timed with a clock of our own, kept in a file, and never believed for another machine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from medn.choosing import costs as module
from medn.choosing.costs import TimedForm, form_key, measure, measured_costs
from medn.core.table import Array
from medn.regressors.form import Form, Parts, forms
from medn.regressors.forms.constant import Constant

INPUTS = np.ones((20, 3))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()
ROW_S, CALL_S, REFERENCE_S = 1e-6, 1e-5, 1e-4


@forms.register
class Ticking(Form):
    """Takes time on our clock: a fixed part for each call and one for each row."""

    name = "test-ticking"

    def __init__(self, weights: Array) -> None:
        self.weights = weights

    def log_value(self, inputs: Array) -> Array:
        CLOCK.now += CALL_S + ROW_S * len(inputs)
        return np.zeros(len(inputs))

    def check(self, width: int) -> None:
        """Takes no time, as looking at arrays does not."""

    def parts(self) -> Parts:
        return Parts(self.name, {}, {"weights": self.weights})

    @classmethod
    def from_parts(cls, parts: Parts, inner: tuple[Form, ...]) -> Ticking:
        CLOCK.now += 2e-3
        return cls(parts.arrays["weights"])


@pytest.fixture(autouse=True)
def reference(monkeypatch: pytest.MonkeyPatch) -> None:
    def tick() -> None:
        CLOCK.now += REFERENCE_S

    monkeypatch.setattr(module, "reference", tick)


def ticking(size: int = 1000) -> TimedForm:
    return TimedForm(Ticking(np.zeros(size)), INPUTS)


def test_times_are_microseconds_a_row() -> None:
    found = measure({"a": ticking()}, clock=CLOCK)["a"]
    assert found.us_1 == pytest.approx(11)
    assert found.us_100 == pytest.approx(1.1)
    assert found.us_10000 == pytest.approx(1.001)
    assert found.us(100) == found.us_100


def test_ratios_are_shares_of_the_reference() -> None:
    found = measure({"a": ticking()}, clock=CLOCK)["a"]
    assert found.ratio_1 == pytest.approx(0.11)
    assert found.ratio_10000 == pytest.approx(0.01001)


def test_loading_ends_with_the_first_prediction() -> None:
    assert measure({"a": ticking()}, clock=CLOCK)["a"].load_ms == pytest.approx(2.011)


def test_bytes_and_memory_grow_with_the_arrays() -> None:
    found = measure({"small": ticking(10), "large": ticking(100_000)}, clock=CLOCK)
    assert 800_000 < found["large"].bytes < 801_000
    assert found["small"].bytes < 1000
    assert found["large"].resident_bytes >= 800_000


def test_every_round_has_every_form_and_progress_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUNDS", 3)
    seen: list[tuple[int, int]] = []
    measure({"a": ticking(), "b": ticking(5)}, clock=CLOCK, on_progress=lambda *place: seen.append(place))
    assert seen == [(done, 6) for done in range(1, 7)]


def test_what_is_known_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "costs.json"
    first = measured_costs({"mine": ticking()}, file, clock=CLOCK)
    calls: list[object] = []
    monkeypatch.setattr(module, "measure", lambda *given, **more: calls.append(given))
    assert measured_costs({"another name": ticking()}, file, clock=CLOCK) == {"another name": first["mine"]}
    assert calls == []


def test_only_what_is_new_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    measured_costs({"a": ticking(10)}, file, clock=CLOCK)
    seen: list[int] = []
    measured_costs(
        {"a": ticking(10), "b": ticking(11)}, file, clock=CLOCK, on_progress=lambda _, all_: seen.append(all_)
    )
    assert set(seen) == {module.ROUNDS}
    assert len(json.loads(file.read_text())["costs"]) == 2


def test_measuring_again_can_be_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    measured_costs({"a": ticking()}, file, clock=CLOCK)
    seen: list[int] = []
    measured_costs({"a": ticking()}, file, clock=CLOCK, again=True, on_progress=lambda done, _: seen.append(done))
    assert seen


@pytest.mark.parametrize("change", [{"machine": "another"}, {"version": 0}, {"costs": {"x": {}}}])
def test_a_file_of_another_machine_or_sort_is_not_believed(tmp_path: Path, change: dict[str, object]) -> None:
    file = tmp_path / "costs.json"
    measured_costs({"a": ticking()}, file, clock=CLOCK)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    seen: list[int] = []
    measured_costs({"a": ticking()}, file, clock=CLOCK, on_progress=lambda done, _: seen.append(done))
    assert seen


def test_a_key_changes_with_what_a_form_is_made_of() -> None:
    keys = [form_key(form) for form in (Constant(1.0), Constant(2.0), Ticking(np.zeros(2)), Ticking(np.ones(2)))]
    assert len(set(keys)) == 4
    assert form_key(Constant(1.0)) == keys[0]


def test_real_forms_are_timed_by_the_processor() -> None:
    found = measure({"a": TimedForm(Constant(1.0), INPUTS)})["a"]
    assert 0 < found.us_10000 < found.us_1
