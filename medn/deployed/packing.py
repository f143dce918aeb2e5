"""What ships as JSON and plain arrays, and back: the only place where forms and deployed predictors are taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medn.core.checking import check_scalars
from medn.core.intervals import Interval
from medn.core.ranges import MeasuredRange
from medn.core.table import Schema, name_of_today
from medn.core.text import shown
from medn.core.values import plain
from medn.deployed.beyond import HELD, WAYS
from medn.deployed.deployed import Deployed
from medn.regressors.form import Parts, restore

RANGE_ARRAYS = ("shift", "components", "centres")
RANGE_PREFIX = "range."
ROOFLINE_PREFIX = "roofline/"

Arrays = dict[str, NDArray[Any]]
Json = dict[str, Any]


def pack(parts: Parts, prefix: str = "") -> tuple[Json, Arrays]:
    """The parts of a form as JSON, and all its arrays side by side under names that say where they belong."""
    arrays = {f"{prefix}{name}": np.array(array, order="C") for name, array in parts.arrays.items()}
    inner = []
    for index, part in enumerate(parts.inner):
        tree, more = pack(part, f"{prefix}{index}/")
        inner.append(tree)
        arrays |= more
    return {"form": parts.form, "facts": plain(dict(parts.facts)), "arrays": list(parts.arrays), "inner": inner}, arrays


def unpack(tree: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Parts:
    """What `pack` took apart."""
    return Parts(
        tree["form"],
        tree["facts"],
        {name: arrays[f"{prefix}{name}"] for name in tree["arrays"]},
        tuple(unpack(part, arrays, f"{prefix}{index}/") for index, part in enumerate(tree["inner"])),
    )


def pack_deployed(deployed: Deployed) -> tuple[Json, Arrays]:
    """Facts that JSON can hold, and arrays: those of the range too, which are read much faster there."""
    form, arrays = pack(deployed.form.parts())
    known = deployed.range.as_json()
    arrays |= {f"{RANGE_PREFIX}{name}": _shortest(np.array(known.pop(name))) for name in RANGE_ARRAYS}
    roofline = None
    if deployed.roofline:
        roofline, more = pack(deployed.roofline.parts(), ROOFLINE_PREFIX)
        arrays |= more
    facts = {
        "schema": pack_schema(deployed.schema),
        "constants": plain(deployed.constants),
        "form": form,
        "range": plain(known),
        "interval": plain(deployed.interval.as_json()),
        "way": deployed.way,
        "roofline": roofline,
    }
    return facts, arrays


def _shortest(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in half the bytes, where those hold them exactly."""
    single = array.astype(np.float32)
    return single if np.array_equal(single, array) else array.astype(np.float64)


def unpack_deployed(
    facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], schema: Schema | None = None
) -> Deployed:
    """What `pack_deployed` took apart, the schema where somebody has read it already; fails in many ways if damaged.

    An earlier version kept all of a range among the facts, the roofline elsewhere, and knew one way beyond the range.
    """
    if not all(facts.get(name) for name in ("schema", "form", "range", "interval")):
        raise ValueError("it lacks its form, inputs, range or interval")
    schema, constants = schema or unpack_schema(facts["schema"]), facts["constants"]
    check_scalars("a constant", constants)
    way = facts.get("way", HELD)
    if way not in WAYS:
        raise ValueError(f"what it does beyond its range must be one of {', '.join(WAYS)} (got {shown(way)})")
    moved = {name: arrays[f"{RANGE_PREFIX}{name}"] for name in RANGE_ARRAYS if f"{RANGE_PREFIX}{name}" in arrays}
    roofline = facts.get("roofline")
    return Deployed(
        form=restore(unpack(facts["form"], arrays), len(schema.names)),
        range=MeasuredRange.from_json({**facts["range"], **moved}, schema),
        interval=Interval.from_json(facts["interval"]),
        constants=dict(constants),
        way=way,
        roofline=restore(unpack(roofline, arrays, ROOFLINE_PREFIX), len(schema.names)) if roofline else None,
    )


def pack_schema(schema: Schema) -> Json:
    packed: Json = plain(asdict(schema))
    return packed


def unpack_schema(written: Mapping[str, Any]) -> Schema:
    names = tuple(name_of_today(name) for name in written["names"])
    found = Schema(names, {name: tuple(known) for name, known in written["categories"].items()})
    found.check()
    return found
