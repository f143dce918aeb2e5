"""Which chains a backend runs as one, as they were read from its own graphs of many models."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from medn.core.errors import MednError, reason_of
from medn.devices.backend import backends
from medn.fusion.chains import Chain


@dataclass(frozen=True, order=True)
class ChainCount:
    """How often a chain was run as one, and how often its last layer was left apart from those before it."""

    chain: Chain
    fused: int
    apart: int


@dataclass(frozen=True)
class FusionRules:
    """What one backend fuses."""

    backend: str
    version: str
    """That of the library which the rules were read from."""
    models: tuple[str, ...]
    """The models whose graphs were read."""
    folded: tuple[ChainCount, ...]
    """Chains whose last layer is already folded into the first one when the model is exported."""
    counts: tuple[ChainCount, ...]
    """Chains that were run as one more often than not, each with its beginnings."""

    @property
    def chains(self) -> frozenset[Chain]:
        return frozenset(count.chain for count in self.counts)


def rules_for(backend: str) -> FusionRules | None:
    """The rules that a backend brings; None where it brings none, as one that runs every layer by itself.

    >>> rules_for("torch") is None
    True
    """
    file = backends[backend].fusion_rules if backend in backends else None
    return None if file is None else read_rules(backend, file)


@cache
def read_rules(backend: str, file: Path) -> FusionRules:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        folded, counts = (
            tuple(ChainCount(tuple(row["chain"]), row["fused"], row["apart"]) for row in content[part])
            for part in ("folded", "rules")
        )
        return FusionRules(backend, content["version"], tuple(content["models"]), folded, counts)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise MednError(f"the fusion rules of {backend} cannot be read from {file}: {reason_of(error)}") from None


def usual(counts: Iterable[ChainCount]) -> tuple[ChainCount, ...]:
    """Those that are fused more often than not and whose beginnings are too, in order."""
    kept: dict[Chain, ChainCount] = {}
    for count in sorted(counts):  # a chain comes after its beginnings
        if count.fused > count.apart and (len(count.chain) == 2 or count.chain[:-1] in kept):
            kept[count.chain] = count
    return tuple(kept.values())


def write_rules(rules: FusionRules, file: Path) -> None:
    """One line per chain, so that a change of a library shows as a change of lines."""
    parts = {"folded": rules.folded, "rules": rules.counts}
    lines = [f' "version": {json.dumps(rules.version)}', f' "models": {json.dumps(rules.models)}']
    for name, counts in parts.items():
        rows = ",\n".join(
            "  " + json.dumps({"chain": each.chain, "fused": each.fused, "apart": each.apart}) for each in counts
        )
        lines.append(f' "{name}": [\n{rows}\n ]' if rows else f' "{name}": []')
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
