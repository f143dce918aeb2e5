"""Configurations: YAML read safely, checked against a model, and every mistake told at once, each with its path."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from medn.core.errors import ConfigError, did_you_mean
from medn.core.mistaken import told_instead
from medn.core.text import first_line

Mistake = tuple[tuple[str | int, ...], str]
"""Where something is wrong, and a sentence that says what."""

Model = TypeVar("Model", bound="Section")

_SENTENCES = {
    "missing": "missing",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
    "model_type": "must be a mapping of names to values",
    "literal_error": "must be one of {expected}",
    "greater_than_equal": "must be at least {ge:g}",
    "greater_than": "must be above {gt:g}",
    "less_than_equal": "must be at most {le:g}",
    "less_than": "must be below {lt:g}",
    "too_short": "must have {min_length} or more entries",
    "string_too_short": "must not be empty",
}


def raise_mistakes(mistakes: Sequence[Mistake]) -> None:
    """For validators that find several mistakes below their own field: raises them all at once, if there are any."""
    details = [
        InitErrorDetails(
            type=PydanticCustomError("mistake", "{sentence}", {"sentence": sentence}), loc=path, input=None
        )
        for path, sentence in mistakes
    ]
    if details:
        raise ValidationError.from_exception_data("configuration", details)


class Section(BaseModel):
    """A part of a configuration: unknown keys are mistakes, values are taken as they are written, nothing changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="wrap")
    @classmethod
    def _tell_in_sentences(cls: type[Model], written: Any, handler: ModelWrapValidatorHandler[Model]) -> Model:
        try:
            # A heading with nothing below it is null in YAML and means the defaults.
            return handler({} if written is None else written)
        except ValidationError as error:
            keys = [field.alias or name for name, field in cls.model_fields.items()]
            # A default that builds on a wrong value is not another mistake.
            found = [each for each in error.errors() if each["type"] != "default_factory_not_called"]
            raise_mistakes([(each["loc"], _sentence(each, keys)) for each in found])
            raise


def _sentence(found: ErrorDetails, keys: list[str]) -> str:
    problem, written, context = found["type"], found["input"], found.get("ctx", {})
    if problem == "mistake":
        return found["msg"]
    if problem == "value_error":
        return str(context["error"])
    if problem == "extra_forbidden":
        name = str(found["loc"][-1])
        return f"unknown key.{did_you_mean(name, keys)} Known: {', '.join(keys)}"
    plain = _SENTENCES.get(problem, found["msg"].replace("Input should be", "must be")).format_map(context)
    near = did_you_mean(written, re.findall(r"'(\w+)'", plain)) if isinstance(written, str) else ""
    return plain if problem == "missing" else f"{plain} (got {written!r}){'.' if near else ''}{near}"


def validate(model: type[Model], written: object, source: str, context: Mapping[str, Any] | None = None) -> Model:
    """The configuration behind what was written, or one `ConfigError` with everything that is wrong with it."""
    try:
        return model.model_validate(written, context=dict(context or {}))
    except ValidationError as error:
        raise ConfigError(source, [_line(found) for found in error.errors()]) from None


def _line(found: ErrorDetails) -> str:
    path = ".".join(str(part) for part in found["loc"] if part != "[key]")
    return f"{path}: {found['msg']}" if path else found["msg"]


class _Loader(yaml.SafeLoader):
    """Plain data only; a key that stands twice is an error, and the numbers of YAML 1.2 are numbers."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first_lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                continue
            line = key.start_mark.line + 1
            if key.value in first_lines:
                problem = f"the key {key.value!r} stands twice, first on line {first_lines[key.value]}"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            first_lines[key.value] = line
        return super().construct_mapping(node, deep)


# YAML 1.1 takes 5e9 and -.5 for strings; nobody who writes them means a string.
_FLOAT = re.compile(r"^[-+]?(?=[0-9]*[.eE])(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


def parse_value(text: str) -> Any:
    """A single value as it would stand in a configuration; a `ValueError` if it is none."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"this is not YAML: {first_line(error)}") from None


def parse_yaml(text: str, source: str) -> dict[Any, Any]:
    """The mapping a YAML text holds; anything else is one sentence with the line it stands on."""
    try:
        written = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(source, [f"{where}{error.problem or 'this is not YAML'}"]) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(source, [f"this is not YAML: {error}"]) from None
    if not isinstance(written, dict):
        got = "nothing" if written is None else f"a {type(written).__name__}"
        raise ConfigError(source, [f"must hold names with values, as in 'name: quickstart' (got {got})"])
    return written


def read_text(path: Path) -> str:
    """A configuration file's text, or one sentence why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = did_you_mean(path.name, [other.name for other in path.parent.glob("*.yaml")])
        raise ConfigError(str(path), [f"there is no such file.{near}"]) from None
    except IsADirectoryError:
        raise ConfigError(str(path), [f"this is a folder, not a file{told_instead(path)}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"this is not UTF-8 text (byte {error.start}){told_instead(path)}"]) from None
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from None


_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds(written: object) -> float:
    """A duration in seconds, from a number or a string with its unit; a `ValueError` with a sentence if it is none.

    >>> seconds("10m"), seconds(90)
    (600.0, 90.0)
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*([a-z]*)", str(written).strip())
    if isinstance(written, bool) or match is None or match[2] not in _UNITS or not float(match[1]) > 0:
        raise ValueError(f"must be a duration above 0, such as 90, '90s', '10m' or '2h' (got {written!r})")
    return float(match[1]) * _UNITS[match[2]]
