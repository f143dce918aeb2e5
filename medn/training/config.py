"""What a training is told: the options of `medn train` in a file, and settings of regressors that are not searched."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from medn.core.config import Mistake, Section, parse_value, parse_yaml, raise_mistakes, read_text, validate
from medn.core.errors import ConfigError, did_you_mean, unknown
from medn.core.text import shown
from medn.layer_generators.sweep import Duration
from medn.regressors.regressor import Regressor, Settings, regressors
from medn.training.tuning import suggested

FamilySettings = Mapping[str, Settings]
"""By regressor, what is fixed."""


class TrainConfig(Section):
    """The same names as on the command line, which goes before it."""

    time_s: Duration = Field(default=300.0, alias="time")
    kinds: list[str] = Field(default_factory=list)
    regressors: list[str] = Field(default_factory=list)
    jobs: int = Field(default=1, ge=1)
    seed: int = Field(default=0, ge=0)
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @field_validator("regressors")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        raise_mistakes([((place,), unknown("regressor", name, regressors)) for place, name in _unknown(names)])
        return [regressors.spelled(name) for name in names]

    @field_validator("settings")
    @classmethod
    def _fixable(cls, written: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        raise_mistakes(list(_mistakes(written)))
        return _by_family(written)


def _unknown(names: Sequence[str]) -> Iterator[tuple[int, str]]:
    return ((place, name) for place, name in enumerate(names) if name not in regressors)


def read_train_config(path: Path) -> TrainConfig:
    return validate(TrainConfig, parse_yaml(read_text(path), str(path)), str(path))


def parse_settings(written: Sequence[str], option: str = "--set") -> dict[str, dict[str, Any]]:
    """`medn.memory=off` and the like, all mistakes at once."""
    found: dict[str, dict[str, Any]] = {}
    mistakes = []
    for each in written:
        name, equals, value = each.partition("=")
        family, dot, setting = name.strip().partition(".")
        if not (equals and dot and family and setting):
            mistakes.append(f"must look like medn.memory=off (got {shown(each)})")
            continue
        try:
            found.setdefault(family, {})[setting.strip()] = parse_value(value)
        except ValueError:
            mistakes.append(f"{name}: must be a number, a string, on or off (got {shown(value)})")
    return checked_settings(found, option, mistakes)


def checked_settings(written: FamilySettings, source: str, mistakes: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Settings by the names of families, all mistakes at once; `source` says where they were written."""
    told = [f"{'.'.join(map(str, path))}: {sentence}" for path, sentence in _mistakes(written)]
    if mistakes or told:
        raise ConfigError(source, [*mistakes, *told])
    return _by_family(written)


def _by_family(written: FamilySettings) -> dict[str, dict[str, Any]]:
    """By the name of each family, however it was spelled."""
    found: dict[str, dict[str, Any]] = {}
    for name, settings in written.items():
        found.setdefault(regressors.spelled(name), {}).update(settings)
    return found


def both(first: FamilySettings, second: FamilySettings) -> dict[str, dict[str, Any]]:
    """The second goes before the first, setting by setting."""
    return {family: {**first.get(family, {}), **second.get(family, {})} for family in {**first, **second}}


def _mistakes(written: Mapping[str, Mapping[str, Any]]) -> Iterator[Mistake]:
    for family, settings in written.items():
        if family not in regressors:
            yield (family,), unknown("regressor", family, regressors)
            continue
        regressor = regressors[family]
        known = {**regressor.fixable, **regressor.defaults}
        choices = _Choices.of(regressor)
        for name, value in settings.items():
            if name not in known:
                yield (family, name), unknown(f"setting of {family}", name, known)
            elif wrong := _wrong(value, known[name], choices.get(name)):
                near = did_you_mean(value, choices.get(name, ())) if isinstance(value, str) else ""
                yield (family, name), f"{wrong} (got {value!r}){'.' if near else ''}{near}"


def _wrong(value: Any, default: Any, choices: Sequence[str] | None) -> str:
    """What a value must be like, where it is not like its default."""
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else "must be on or off"
    if isinstance(default, str):
        allowed = " or ".join(choices or ()) or "a string"
        return "" if isinstance(value, str) and (not choices or value in choices) else f"must be {allowed}"
    if isinstance(value, bool) or not isinstance(value, int if isinstance(default, int) else (int, float)):
        return "must be a whole number" if isinstance(default, int) else "must be a number"
    return "" if math.isfinite(value) and value >= 0 else "must be a finite number of 0 or more"


class _Choices(dict[str, Sequence[str]]):
    """Stands in for a trial, to learn which strings a family chooses from."""

    @classmethod
    def of(cls, regressor: Regressor) -> _Choices:
        found = cls()
        suggested(regressor, found, {})
        return found

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False) -> Any:
        return low

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> Any:
        return low

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        if all(isinstance(choice, str) for choice in choices):
            self[name] = tuple(choices)
        return choices[0]
