"""What imported tables say of the layer kinds of a run: kinds they declare, and columns that belong to a layer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medn.core.errors import StoreError
from medn.layer_generators.declared_kind import DeclaredKind, merged

DECLARED = "declared"
"""Where the manifest of an imported table keeps the kind that it declares."""

IMPORTED_NOTE = "medn.imported"
"""Where a Parquet file of a run keeps the manifests that say something of its kind."""

Manifests = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ImportedKinds:
    declared: Mapping[str, DeclaredKind] = field(default_factory=dict)
    layer_columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By kind, the columns beside its own parameters that tell one layer from another."""

    @classmethod
    def of(cls, environments: Manifests) -> ImportedKinds:
        """`environments` are those of a journal: what was measured here says nothing of kinds."""
        declared: dict[str, DeclaredKind] = {}
        layer_columns: dict[str, tuple[str, ...]] = {}
        for manifest in environments.values():
            if DECLARED in manifest:
                kind = _declared(manifest[DECLARED])
                declared[kind.name] = merged(declared[kind.name], kind) if kind.name in declared else kind
            mapping = manifest.get("mapping", {})
            if mapping.get("layer"):
                both = (*layer_columns.get(mapping["kind"], ()), *mapping["layer"])
                layer_columns[mapping["kind"]] = tuple(dict.fromkeys(both))
        return cls(declared, layer_columns)


def kind_notes(kind: str, environments: Manifests) -> dict[str, str]:
    """What goes with the Parquet file of one kind: the manifests that say something of it, as far as they do."""
    told = {
        key: {name: manifest[name] for name in ("mapping", DECLARED) if name in manifest}
        for key, manifest in environments.items()
        if manifest.get("mapping", {}).get("kind") == kind
    }
    kept = {key: each for key, each in told.items() if DECLARED in each or each["mapping"].get("layer")}
    return {IMPORTED_NOTE: json.dumps(kept)} if kept else {}


def _declared(written: Any) -> DeclaredKind:
    try:
        return DeclaredKind.from_json(written)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"the run declares a layer kind that cannot be read: {type(error).__name__} {error}") from None
