"""The data types that a run states beside medn's own: they stay with it, so that costs are the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping

from medn.core.dtypes import joined_dtypes, stated_dtypes
from medn.core.errors import StoreError, UsageError
from medn.core.store import Store

DTYPES_NOTE = "dtypes"
PARQUET_NOTE = "medn.dtypes"
"""Where a Parquet file of a run keeps them."""


def read_dtypes(store: Store) -> dict[str, float]:
    return _checked(store.read_note(DTYPES_NOTE))


def keep_dtypes(store: Store, stated: Mapping[str, float]) -> None:
    """What a config or a mapping states goes with the run; it must not contradict what was stated before."""
    if not stated:
        return
    try:
        both = joined_dtypes(read_dtypes(store), stated)
    except ValueError as error:
        raise UsageError(f"dtypes: {store.path.parent} says otherwise: {error}") from None
    store.note(DTYPES_NOTE, both)


def dtypes_note(dtypes: Mapping[str, float]) -> dict[str, str]:
    """What goes with a Parquet file."""
    return {PARQUET_NOTE: json.dumps(dict(dtypes))} if dtypes else {}


def dtypes_in(metadata: Mapping[bytes, bytes]) -> dict[str, float]:
    """What went with a Parquet file."""
    return _checked(json.loads(metadata.get(PARQUET_NOTE.encode(), b"{}")))


def _checked(written: object) -> dict[str, float]:
    try:
        return stated_dtypes(written or {})
    except ValueError as error:
        raise StoreError(f"the run states data types that cannot be read: {error}") from None
