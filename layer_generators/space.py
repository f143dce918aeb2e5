"""The layers of one kind that a sweep may draw: what its config names, and the kind's own domains for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace

from medn.core.config import Mistake
from medn.core.domains import Domain, parse_domain, wrong_parts
from medn.core.errors import did_you_mean
from medn.core.values import Layer, Scalar
from medn.layer_generators.kind import LayerKind


@dataclass(frozen=True)
class ListedLayer:
    """A layer that a config names itself."""

    layer: Layer
    conditions: Mapping[str, Domain] = field(default_factory=dict, hash=False)
    """What it says of its own conditions, in place of what the config says of all."""


@dataclass(frozen=True)
class Space:
    """One kind with the domains that a config names for it."""

    kind: LayerKind
    named: Mapping[str, Domain]
    listed: tuple[ListedLayer, ...] = ()
    """Layers that are wanted before all others."""

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """Every domain a layer is drawn from, sorted by name so that the same space draws the same layers."""
        taken = {target for name in self.named for target in targets(self.kind, name)}
        domains = dict(self.named)
        for name, domain in self.kind.sweep.items():
            free = [target for target in targets(self.kind, name) if target not in taken]
            whole = len(free) == len(targets(self.kind, name))
            domains |= {name: domain} if whole else dict.fromkeys(free, domain)
        return dict(sorted(domains.items()))

    def layer(self, candidate: Mapping[str, Scalar]) -> tuple[Layer | None, str]:
        """The layer that drawn values describe, or None and the reason why there is none."""
        values, reason = self._resolve(candidate)
        if reason:
            # What the config names wins over conveniences that only the kind's own sweep brings in.
            unasked = self.kind.conveniences.keys() - self.named.keys()
            values, still = self._resolve({name: candidate[name] for name in candidate if name not in unasked})
            if still:
                return None, reason
        return self.kind.made(values), ""

    def _resolve(self, candidate: Mapping[str, Scalar]) -> tuple[dict[str, Scalar], str]:
        values, mistakes = self.kind.resolve(candidate)
        if not mistakes:
            mistakes = [*self.kind.rules(SimpleNamespace(**values)), *self._outside(values)]
        return values, next(iter(mistakes), "")

    def _outside(self, values: Mapping[str, Scalar]) -> Iterator[str]:
        """A convenience may change a parameter, but not to a value that the config does not want."""
        for name, domain in self.named.items():
            for target in targets(self.kind, name):
                if target in values and domain.nearest(values[target]) != values[target]:
                    yield f"{target}: would be {values[target]!r}, which {name} does not allow"


def targets(kind: LayerKind, name: str) -> tuple[str, ...]:
    """The parameters that a name sets: itself, or those a shorthand stands for."""
    return tuple(parameter.name for parameter in kind.meaning(name))


def read_space(kind: LayerKind, written: Mapping[object, object]) -> tuple[Space, list[Mistake]]:
    """The space that a config describes, and everything that is wrong with it, by path below the kind."""
    named: dict[str, Domain] = {}
    mistakes: list[Mistake] = []
    for name, value in written.items():
        if not isinstance(name, str) or name not in kind.names:
            near = did_you_mean(str(name), kind.names)
            mistakes.append(((str(name),), f"unknown parameter.{near} Known: {', '.join(kind.names)}"))
        elif value is not None:
            try:
                named[name] = parse_domain(value)
            except ValueError as error:
                mistakes.append(((name,), str(error)))
    for name, domain in named.items():
        # The parameters of one shorthand find the same wrong; the mapping keeps it once.
        wrong = dict(found for known in kind.meaning(name) for found in wrong_parts(domain, known.mistake))
        mistakes += [((name, *part), sentence) for part, sentence in wrong.items()]
        twice = [target for target in kind.shorthands.get(name, ()) if target in named]
        mistakes += [((name,), f"already says {target}; give one of the two") for target in twice]
    return Space(kind, named), mistakes
