"""Configurations: what is read from YAML, and that every mistake is told at once in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from medn.core.config import Section, parse_yaml, raise_mistakes, read_text, seconds, validate
from medn.core.errors import ConfigError


class Engine(Section):
    power: float = Field(default=1.0, gt=0)
    cylinders: int = Field(default=4, ge=1)


class Car(Section):
    name: str
    engine: Engine = Field(default_factory=Engine)
    wheels: list[int] = []
    electric: bool = False


def mistakes_of(written: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        validate(Car, written, "car.yaml")
    return list(caught.value.mistakes)


def test_a_right_configuration_becomes_its_model() -> None:
    car = validate(Car, {"name": "beetle", "engine": {"power": 40}, "wheels": [1, 2]}, "car.yaml")
    assert (car.name, car.engine.power, car.wheels) == ("beetle", 40.0, [1, 2])


def test_a_heading_with_nothing_below_it_means_the_defaults() -> None:
    assert validate(Car, {"name": "beetle", "engine": None}, "car.yaml").engine == Engine()


def test_all_mistakes_come_at_once_each_with_its_path() -> None:
    assert mistakes_of(
        {"engin": {}, "engine": {"power": 0, "cylinders": 1.5}, "wheels": [1, "x"], "electric": "yes"}
    ) == [
        "name: missing",
        "engine.power: must be above 0 (got 0)",
        "engine.cylinders: must be a whole number (got 1.5)",
        "wheels.1: must be a whole number (got 'x')",
        "electric: must be true or false (got 'yes')",
        "engin: unknown key. Did you mean 'engine'? Known: name, engine, wheels, electric",
    ]


def test_an_unknown_key_names_the_keys_of_its_own_section() -> None:
    assert mistakes_of({"name": "x", "engine": {"powr": 1}}) == [
        "engine.powr: unknown key. Did you mean 'power'? Known: power, cylinders"
    ]


def test_a_section_that_is_no_mapping_is_told() -> None:
    assert mistakes_of({"name": "x", "engine": 3}) == ["engine: must be a mapping of names to values (got 3)"]


def test_a_number_written_as_a_text_is_not_taken_for_a_number() -> None:
    assert mistakes_of({"name": "x", "wheels": ["4"]}) == ["wheels.0: must be a whole number (got '4')"]


def test_the_error_names_its_source_and_counts_its_mistakes() -> None:
    with pytest.raises(ConfigError, match=r"^car.yaml: 1 mistake\n  name: missing$"):
        validate(Car, {}, "car.yaml")


def test_no_mistakes_raise_nothing() -> None:
    raise_mistakes([])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' stands twice, first on line 1"),
        ("x:\n  a: 1\n  a: 2", "line 3, column 3: the key 'a' stands twice, first on line 2"),
        ("a: [1\nb: 2", "line 2, column 2: expected ',' or ']', but got ':'"),
        ("a: !!python/object:os.system x", "line 1, column 4: could not determine a constructor"),
        ("- 1", "must hold names with values, as in 'name: quickstart' (got a list)"),
        ("", "must hold names with values, as in 'name: quickstart' (got nothing)"),
        ("a: \x00", "this is not YAML"),
    ],
)
def test_wrong_yaml_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "x.yaml")
    assert len(caught.value.mistakes) == 1
    assert sentence in caught.value.mistakes[0]


@pytest.mark.parametrize("number", ["5e9", "5.0e9", "5.0e+9", "5E9", "-.5", "+.5", ".5e3", "5.", "-5.e-3", "+5e9"])
def test_a_number_of_yaml_1_2_is_a_number(number: str) -> None:
    assert parse_yaml(f"flops: {number}", "x.yaml") == {"flops": float(number)}


@pytest.mark.parametrize("text", [".", "e5", ".e5", "5e", "1.2.3", "5e9s", "-."])
def test_what_only_looks_like_a_number_stays_text(text: str) -> None:
    assert parse_yaml(f"{{name: [{text} ]}}", "x.yaml") == {"name": [text]}


def test_merged_anchors_are_not_taken_for_keys_that_stand_twice() -> None:
    text = "base: &base {a: 1, b: 2}\nother: {<<: *base, a: 3}"
    assert parse_yaml(text, "x.yaml")["other"] == {"a": 3, "b": 2}


def test_a_file_that_is_not_there_names_the_near_miss(tmp_path: Path) -> None:
    (tmp_path / "quickstart.yaml").write_text("name: x")
    with pytest.raises(ConfigError, match=r"there is no such file. Did you mean 'quickstart.yaml'\?"):
        read_text(tmp_path / "quikstart.yaml")


def test_a_folder_is_not_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this is a folder, not a file"):
        read_text(tmp_path)


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"name: \xff")
    with pytest.raises(ConfigError, match=r"this is not UTF-8 text \(byte 6\)"):
        read_text(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    ("written", "expected"),
    [(90, 90), (0.5, 0.5), ("90", 90), ("90s", 90), ("1.5 m", 90), ("2h", 7200), ("20ms", 0.02)],
)
def test_a_duration_is_read_in_seconds(written: object, expected: float) -> None:
    assert seconds(written) == pytest.approx(expected)


@pytest.mark.parametrize("written", [0, -1, "5y", "", "s", True, None, [1], "nan"])
def test_what_is_no_duration_is_told(written: object) -> None:
    with pytest.raises(ValueError, match="must be a duration above 0"):
        seconds(written)
