"""Data types: how many bytes an element has, how they are spelt elsewhere, and how near outputs in them must come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medn.core.checking import check_name, check_numbers
from medn.core.text import shown

ELEMENT_BYTES: Mapping[str, float] = {
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "fp64": 8,
    "int8": 1,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}
"""The bytes of one element of every data type that needs no statement. A run may state further ones."""

SPELLINGS = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2",
}
"""What torch and numpy call them."""

NO_DTYPES: Mapping[str, float] = {}
"""No further ones are stated."""

LARGEST_ELEMENT = 64
SMALLEST_ELEMENT = 1 / 64

FURTHER = "Others need the bytes of one element stated where they are measured, as in dtypes: {nvfp4: 0.5625}"
"""What a data type that is not known is answered with: the nearest name would be another type."""

OUTPUT_TOLERANCE = {"fp64": 0.02, "fp32": 0.02, "fp16": 0.05, "bf16": 0.05}
"""By dtype, how far outputs may be from torch's, relative to the largest output: rounding and faster algorithms stay
well below, a layer that computes something else does not."""

NARROW_TOLERANCE = 0.1
"""The same for every other data type: they are of 8 bits or fewer."""


def output_tolerance(dtype: str) -> float:
    return OUTPUT_TOLERANCE.get(dtype, NARROW_TOLERANCE)


def stated_dtypes(written: Any) -> dict[str, float]:
    """Data types beside medn's own with the bytes of one element, checked. Raises a ValueError with a sentence.

    >>> stated_dtypes({"nvfp4": 0.5625, "fp16": 2})
    {'nvfp4': 0.5625}
    """
    if not isinstance(written, Mapping):
        raise ValueError(
            f"must be data types with the bytes of one element, as in {{nvfp4: 0.5625}} (got {shown(written)})"
        )
    for name, size in written.items():
        check_name("the name of a data type", name)
        check_numbers(f"the bytes of one element of {name}", [size], SMALLEST_ELEMENT, LARGEST_ELEMENT)
        if name in SPELLINGS:
            raise ValueError(f"{name} is another name of {SPELLINGS[name]}")
        if size != ELEMENT_BYTES.get(name, size):
            raise ValueError(f"an element of {name} has {ELEMENT_BYTES[name]} bytes (got {shown(size)})")
    return {name: float(size) for name, size in written.items() if name not in ELEMENT_BYTES}


def joined_dtypes(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """What two places state together. Raises a ValueError where they contradict each other."""
    for name in first.keys() & second.keys():
        if first[name] != second[name]:
            raise ValueError(f"an element of {name} has {first[name]:g} bytes here and {second[name]:g} there")
    return {**first, **second}
