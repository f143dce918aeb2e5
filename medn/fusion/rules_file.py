"""Which chains a backend runs as one, as they were read from its own graphs of many models."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from medn.fusion.chains import Chain

FOLDER = Path(__file__).parent / "rules"


@dataclass(frozen=True, order=True)
class Count:
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
    folded: tuple[Count, ...]
    """Chains whose last layer is already folded into the first one when the model is exported."""
    counts: tuple[Count, ...]
    """Chains that were run as one more often than not, each with its beginnings."""

    @property
    def chains(self) -> frozenset[Chain]:
        return frozenset(count.chain for count in self.counts)


@cache
def rules_for(backend: str) -> FusionRules | None:
    """The rules of a backend; None where none are known, as of one that runs every layer by itself.

    >>> rules_for("torch") is None
    True
    """
    file = FOLDER / f"{backend}.json"
    if not file.is_file():
        return None
    content = json.loads(file.read_text(encoding="utf-8"))
    return FusionRules(
        backend,
        content["version"],
        tuple(content["models"]),
        *(
            tuple(Count(tuple(each["chain"]), each["fused"], each["apart"]) for each in content[part])
            for part in ("folded", "rules")
        ),
    )


def usual(counts: Iterable[Count]) -> tuple[Count, ...]:
    """Those that are fused more often than not and whose beginnings are too, in order."""
    kept: dict[Chain, Count] = {}
    for count in sorted(counts):  # a chain comes after its beginnings
        if count.fused > count.apart and (len(count.chain) == 2 or count.chain[:-1] in kept):
            kept[count.chain] = count
    return tuple(kept.values())


def write_rules(rules: FusionRules, folder: Path = FOLDER) -> None:
    """One line per chain, so that a change of a library shows as a change of lines."""
    parts = {"folded": rules.folded, "rules": rules.counts}
    lines = [f' "version": {json.dumps(rules.version)}', f' "models": {json.dumps(rules.models)}']
    for name, counts in parts.items():
        rows = ",\n".join(
            "  " + json.dumps({"chain": each.chain, "fused": each.fused, "apart": each.apart}) for each in counts
        )
        lines.append(f' "{name}": [\n{rows}\n ]' if rows else f' "{name}": []')
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{rules.backend}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
