"""What a sweep config says: which layers, under which conditions, on which devices, and how much of it.

Everything is checked while it is read, and all mistakes come at once, each with its path.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator, model_validator

from medn.core.conditions import CONDITIONS
from medn.core.config import Mistake, Section, parse_yaml, raise_mistakes, read_text, seconds, validate
from medn.core.domains import Domain
from medn.core.dtypes import ELEMENT_BYTES, stated_dtypes
from medn.core.errors import did_you_mean, unknown
from medn.core.registry import spelled
from medn.core.table import name_of_today
from medn.layer_generators.conditions_config import (
    Conditions,
    conditions_schema,
    own_schema,
    read_conditions,
    read_own,
)
from medn.layer_generators.data_sheet_config import DataSheet
from medn.layer_generators.declared_kind import reserved_names
from medn.layer_generators.features import analytic_features
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.listed_config import LISTED, read_listed
from medn.layer_generators.sampler import Drawing, samplers, seeded
from medn.layer_generators.schema import DOMAIN_FORMS, POSITIVE, Schema, layers_schema
from medn.layer_generators.space import Space, read_space

Duration = Annotated[
    float,
    BeforeValidator(seconds),
    WithJsonSchema({"type": ["number", "string"], "examples": [90, "90s", "10m", "2h"]}),
]
"""Seconds, written as a number or as a string with its unit."""


InputGroup = Literal["raw", "analytic", "hardware", "probes"]
INPUT_GROUPS: tuple[InputGroup, ...] = ("raw", "analytic", "hardware", "probes")


def _usual_inputs(devices: Sequence[DeviceChoice]) -> list[InputGroup]:
    """What data sheets tell is an input where the config states one; a measured one has to be asked for."""
    stated = any(device.sheet.numbers for device in devices)
    return [group for group in INPUT_GROUPS if stated or group != "hardware"]


def _check_known(what: str, name: str, known: Sequence[str] | None) -> None:
    if known is not None and name not in known:
        raise ValueError(unknown(what, name, known))


class DeviceChoice(Section):
    """A device and the backend that drives it; a plain name means both."""

    name: str = Field(min_length=1)
    backend: str = Field(min_length=1)
    sheet: DataSheet = Field(default_factory=DataSheet)
    over: list[str] = Field(
        default=[], description="commands that lead to it, such as ssh NAME; several where equal machines share points"
    )
    python: str = Field(default="python3", min_length=1, description="how Python is called there")

    @field_validator("over", mode="before")
    @classmethod
    def _one_or_several(cls, written: object) -> object:
        return [written] if isinstance(written, str) else written

    @field_validator("over")
    @classmethod
    def _commands(cls, commands: list[str]) -> list[str]:
        for command in commands:
            try:
                words = shlex.split(command)
            except ValueError as error:
                raise ValueError(f"{command!r} cannot be read as a command: {error}") from None
            if not words:
                raise ValueError("must be a command that leads to the device, such as ssh NAME (got an empty one)")
        if len(set(commands)) < len(commands):
            raise ValueError("names a command twice")
        return commands

    @model_validator(mode="before")
    @classmethod
    def _spelled(cls, written: Any, info: ValidationInfo) -> Any:
        """The backend as it is registered; a device with no name of its own has the backend's."""
        backend = written.get("backend") if isinstance(written, Mapping) else None
        if not isinstance(backend, str):
            return written
        meant = spelled(backend, (info.context or {}).get("devices") or ())
        return {name: meant if name != "sheet" and value == backend else value for name, value in written.items()}

    @model_validator(mode="after")
    def _known(self, info: ValidationInfo) -> Self:
        _check_known("device", self.backend, (info.context or {}).get("devices"))
        return self


class SweepBudget(Section):
    """How much a sweep measures; without points, all of a grid or a default number."""

    points: int | None = Field(default=None, ge=1, description="points over all devices")
    time_s: Duration | None = Field(default=None, alias="time", description="how long measuring may take")


class SweepLimits(Section):
    """Per call, the batch included; layers beyond are not drawn."""

    flops: float | None = Field(default=None, gt=0)
    memory_bytes: float | None = Field(default=None, gt=0, description="bytes of inputs, outputs and weights")


class Measure(Section):
    """Options of the measuring loop."""

    visits: int = Field(default=8, ge=1, description="short visits to every point, each in a pass of its own")
    visit_time_s: Duration = Field(default=0.05, alias="visit_time", description="how long one visit times its layer")
    max_visits: int = Field(
        default_factory=lambda data: 2 * data.get("visits", 8),
        description="visits to a point that was not calm or does not repeat well; twice `visits` where left out",
    )
    calm_visits: int = Field(
        default_factory=lambda data: min(2, data.get("visits", 2)),
        ge=0,
        description="visits of a point that nothing else slowed, before it needs no more; 2 where left out",
    )
    precision: float = Field(
        default=0.02,
        gt=0,
        lt=1,
        description="relative half width of the confidence interval at which a visit may end early",
    )
    timeout_s: Duration = Field(default=30.0, alias="timeout", description="how long one visit may take at most")
    patience_s: Duration = Field(
        default=3600.0, alias="patience", description="how long to wait for a device elsewhere whose link is lost"
    )
    unstable_above: float = Field(
        default=0.05, gt=0, description="difference between halves that flags a point as unstable"
    )

    @field_validator("max_visits")
    @classmethod
    def _not_fewer(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("visits", value):
            raise ValueError(f"must be at least visits, {info.data['visits']} (got {value})")
        return value

    @field_validator("calm_visits")
    @classmethod
    def _possible(cls, value: int, info: ValidationInfo) -> int:
        if value > info.data.get("max_visits", value):
            raise ValueError(f"must be at most max_visits, {info.data['max_visits']} (got {value})")
        return value


class Programs(Section):
    """Which tensor programs of every layer are measured, on devices that draw schedules."""

    schedules: int = Field(default=0, ge=0, description="schedules drawn for every layer under every condition")


class ProbeChoice(Section):
    """A number recorded with every visit: a built-in probe by its name, or one read from a file."""

    name: str = Field(min_length=1)
    file: str | None = None
    scale: float = 1.0

    @field_validator("name")
    @classmethod
    def _spelled(cls, name: str, info: ValidationInfo) -> str:
        return spelled(name, (info.context or {}).get("probes") or ())

    @model_validator(mode="after")
    def _known(self, info: ValidationInfo) -> Self:
        if self.file is None:
            _check_known("probe", self.name, (info.context or {}).get("probes"))
        return self


@dataclass(frozen=True)
class LayerChoice:
    """What one kind is drawn from, and its share of the points."""

    space: Space
    share: float = 1.0


def _named(*keys: str) -> BeforeValidator:
    """A plain text stands for a mapping with that text under these keys."""
    return BeforeValidator(lambda written: dict.fromkeys(keys, written) if isinstance(written, str) else written)


def _name_or(properties: Schema, required: Sequence[str]) -> WithJsonSchema:
    mapping = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return WithJsonSchema({"anyOf": [{"type": "string"}, mapping]})


_TEXT: Schema = {"type": "string"}
_DEVICE: Schema = {
    "name": _TEXT,
    "backend": _TEXT,
    "sheet": DataSheet.model_json_schema(),
    "over": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    "python": _TEXT,
}


class SweepConfig(Section):
    """A whole sweep."""

    name: str
    seed: int = Field(default=0, ge=0)
    devices: list[
        Annotated[
            DeviceChoice,
            _named("name", "backend"),
            _name_or(_DEVICE, ["name", "backend"]),
        ]
    ] = Field(min_length=1)
    sampler: str = "random"
    budget: SweepBudget = Field(default_factory=SweepBudget)
    dtypes: dict[str, float] = Field(default={}, description="further data types, with the bytes of one element")
    layers: dict[str, LayerChoice]
    conditions: Conditions = Field(default_factory=Conditions)
    limits: SweepLimits = Field(default_factory=SweepLimits)
    measure: Measure = Field(default_factory=Measure)
    programs: Programs = Field(default_factory=Programs)
    columns: dict[str, Domain] = Field(default={}, description="your own conditions: a value each, or a domain")
    probes: list[
        Annotated[
            ProbeChoice, _named("name"), _name_or({"name": _TEXT, "file": _TEXT, "scale": {"type": "number"}}, ["name"])
        ]
    ] = []
    inputs: list[InputGroup] = Field(
        default_factory=lambda data: _usual_inputs(data.get("devices", ())),
        min_length=1,
        description="what regressors learn from: parameters and conditions, analytic features, what follows from the "
        "data sheets of devices, probes",
    )
    drop: list[str] = Field(default=[], description="columns that do not become inputs of the dataset")

    @property
    def element_bytes(self) -> dict[str, float]:
        """The bytes of one element of every data type that the sweep may name."""
        return {**ELEMENT_BYTES, **self.dtypes}

    @field_validator("name")
    @classmethod
    def _fit_for_a_folder(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise ValueError(f"must be letters, digits, '.', '_' or '-', as it names a folder (got {name!r})")
        return name

    @field_validator("devices", "probes")
    @classmethod
    def _named_once(cls, chosen: list[Any]) -> list[Any]:
        counts = Counter(entry.name for entry in chosen)
        wrong: list[Mistake] = [
            ((index,), f"the name {entry.name!r} stands {counts[entry.name]} times; each needs its own")
            for index, entry in enumerate(chosen)
            if counts[entry.name] > 1
        ]
        raise_mistakes(wrong)
        return chosen

    @field_validator("devices")
    @classmethod
    def _ways_apart(cls, devices: list[DeviceChoice]) -> list[DeviceChoice]:
        """Devices behind the same commands take turns; a command in two different lists would be both."""
        ways: dict[str, tuple[str, ...]] = {}
        for index, device in enumerate(devices):
            for command in device.over:
                if ways.setdefault(command, (*device.over, device.python)) != (*device.over, device.python):
                    raise_mistakes([((index, "over"), f"{command!r} serves another device with other commands beside")])
        return devices

    @field_validator("sampler")
    @classmethod
    def _known_sampler(cls, name: str) -> str:
        _check_known("sampler", samplers.spelled(name), list(samplers))
        return samplers.spelled(name)

    @field_validator("budget")
    @classmethod
    def _enough_for_the_devices(cls, budget: SweepBudget, info: ValidationInfo) -> SweepBudget:
        devices = len(info.data.get("devices", ()))
        if budget.points is not None and budget.points < devices:
            raise_mistakes([(("points",), f"must be at least 1 per device, {devices} (got {budget.points})")])
        return budget

    @field_validator("layers", mode="plain")
    @classmethod
    def _read_layers(cls, written: object, info: ValidationInfo) -> dict[str, LayerChoice]:
        if not isinstance(written, Mapping) or not written:
            raise ValueError(f"must name at least one layer kind, as in 'linear: {{}}' (got {written!r})")
        chosen: dict[str, LayerChoice] = {}
        wrong: list[Mistake] = []
        for spelling, domains in written.items():
            name = layer_kinds.spelled(spelling) if isinstance(spelling, str) else spelling
            if name in chosen:
                wrong.append(((name,), f"stands twice, as {name!r} and as {spelling!r}; give one of the two"))
            elif name not in layer_kinds:
                wrong.append(((str(name),), unknown("layer kind", name, layer_kinds)))
            elif not isinstance(domains, Mapping | None):
                wrong.append(((name,), f"must be a mapping of parameters to values (got {domains!r})"))
            else:
                chosen[name], mistakes = _read_choice(name, dict(domains or {}), info.data)
                wrong += [((name, *path), sentence) for path, sentence in mistakes]
        raise_mistakes(wrong)
        return chosen

    @field_validator("dtypes", mode="plain")
    @classmethod
    def _read_dtypes(cls, written: object) -> dict[str, float]:
        return stated_dtypes({} if written is None else written)

    @field_validator("conditions", mode="plain")
    @classmethod
    def _read_conditions(cls, written: object, info: ValidationInfo) -> Conditions:
        conditions, mistakes = read_conditions(_mapping(written), info.data.get("dtypes", ()))
        raise_mistakes(mistakes)
        return conditions

    @field_validator("columns", mode="plain")
    @classmethod
    def _read_columns(cls, written: object, info: ValidationInfo) -> dict[str, Domain]:
        layers = info.data.get("layers", {})
        taken = {*reserved_names(), *_parameter_names(layers), *(_feature_names(layers) if written else ())}
        columns, mistakes = read_own(_mapping(written), taken)
        raise_mistakes(mistakes)
        return columns

    @field_validator("drop")
    @classmethod
    def _existing_columns(cls, names: list[str], info: ValidationInfo) -> list[str]:
        if "layers" not in info.data or "columns" not in info.data:
            return names
        known = {*CONDITIONS, *_parameter_names(info.data["layers"]), *info.data["columns"]}
        known |= {probe.name for probe in info.data.get("probes", ())}
        if not known.issuperset(names):
            known |= _feature_names(info.data["layers"])
        wrong: list[Mistake] = [
            ((index,), f"no column is named {name!r}.{did_you_mean(name, known)}")
            for index, name in enumerate(names)
            if name_of_today(name) not in known
        ]
        raise_mistakes(wrong)
        return names


def _mapping(written: object) -> Mapping[object, object]:
    """A heading with nothing below it means the defaults."""
    if not isinstance(written, Mapping | None):
        raise ValueError(f"must be a mapping of names to values (got {written!r})")
    return written or {}


def _read_choice(
    kind: str, written: dict[object, object], config: Mapping[str, Any]
) -> tuple[LayerChoice, list[Mistake]]:
    """What a config says of one kind; `config` is what was read of it before."""
    share, listed = written.pop("share", 1.0), written.pop(LISTED, None)
    space, mistakes = read_space(layer_kinds[kind], written)
    if listed is not None:
        layers, wrong = read_listed(space, listed, config.get("dtypes", ()))
        space = replace(space, listed=layers)
        mistakes += [((LISTED, *path), sentence) for path, sentence in wrong]
        if config.get("sampler", LISTED) != LISTED:
            mistakes.append(((LISTED,), f"goes with sampler: {LISTED} (got {config['sampler']})"))
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < float("inf"):
        return LayerChoice(space), [*mistakes, (("share",), f"must be a number above 0 (got {share!r})")]
    return LayerChoice(space, float(share)), mistakes


def _parameter_names(layers: Mapping[str, LayerChoice]) -> set[str]:
    return {parameter.name for chosen in layers.values() for parameter in chosen.space.kind.parameters}


def _feature_names(layers: Mapping[str, LayerChoice]) -> set[str]:
    names: set[str] = set()
    for chosen in layers.values():
        kind = chosen.space.kind
        layer = next(iter(Drawing(samplers["random"], Space(kind, {}), seeded(0))))
        names |= analytic_features(kind, kind.values_of(layer), batch_size=1, element_bytes=4).keys()
    return names


def parse_sweep(
    written: str | Path, known_devices: Sequence[str] | None = None, known_probes: Sequence[str] | None = None
) -> SweepConfig:
    """A sweep from YAML text or from a file; one `ConfigError` with all mistakes if it is not right.

    Devices and probes are checked where the names that exist are given.

    >>> parse_sweep("{name: small, devices: [torch], layers: {linear: {bias: true}}}").sampler
    'random'
    """
    text, source = (read_text(written), str(written)) if isinstance(written, Path) else (written, "sweep config")
    context = {"devices": known_devices, "probes": known_probes}
    return validate(SweepConfig, parse_yaml(text, source), source, context)


def load_sweep(
    path: str | Path, known_devices: Sequence[str] | None = None, known_probes: Sequence[str] | None = None
) -> SweepConfig:
    """A sweep from its file."""
    return parse_sweep(Path(path), known_devices, known_probes)


def sweep_json_schema() -> Schema:
    """The JSON Schema of a sweep config, with every layer kind and sampler there is, for editors."""
    schema = SweepConfig.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "medn sweep"
    schema["$defs"] |= DOMAIN_FORMS
    properties = schema["properties"]
    properties["layers"] = layers_schema()
    properties["sampler"] |= {"enum": list(samplers)}
    properties["conditions"] = conditions_schema()
    properties["columns"] |= own_schema()
    properties["dtypes"] |= {"type": ["object", "null"], "additionalProperties": POSITIVE}
    return schema
