"""How the work of a layer fits a device, told from the numbers of its data sheet: times at the peaks, tiles, waves.

Plain arithmetic, like the costs of a kind: the same for numbers, for columns, and for what traces or differentiates
formulas. A number that the sheet does not have takes only the features along that need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from medn.core.data_sheet import Sheet
from medn.layer_generators.kind import Column, Product

OUTPUT_TILES = ((32, 32), (64, 64), (128, 64), (128, 128), (256, 128))
"""Blocks of a product that one multiprocessor computes at a time in the common libraries."""

REMAINDERS = (4, 128)
"""What the sides of a product are divided by: the width of a vector load, and the side of a common tile."""


def hardware_features(features: Mapping[str, Column], product: Product | None, sheet: Sheet) -> dict[str, Column]:
    """What a data sheet adds to the analytic features of a layer; nothing where there is no sheet.

    >>> sheet = {"peak_gflops": 1000, "bandwidth_gb_s": 100, "multiprocessors": 8}
    >>> found = hardware_features({"flops": 4_000_000, "moved_bytes": 800_000}, Product(1, 64, 32, 640), sheet)
    >>> found["peak_us"], found["compute_share"], found["tiles_64x64_waves"]
    (8.0, 0.3333333333333333, 1.25)
    """
    if not sheet:
        return {}
    found: dict[str, Column] = dict(sheet)
    found |= _at_the_peaks(features, sheet)
    if product is not None:
        found |= _sides(product)
        for high, wide in OUTPUT_TILES:
            found |= dict(_tiled(product, high, wide, sheet.get("multiprocessors")))
    return found


def hardware_remainders() -> tuple[str, ...]:
    """The features that any size of layer has some value of: a range says nothing about them."""
    tiles = (f"tiles_{high}x{wide}_{about}" for high, wide in OUTPUT_TILES for about in ("filled", "last_wave"))
    return (*tiles, *(f"product_{side}_mod_{by}" for side in ("rows", "inner", "columns") for by in REMAINDERS))


AT_A_PEAK = {
    "peak_compute_us": ("flops", "peak_gflops", 1e3),
    "peak_memory_us": ("moved_bytes", "bandwidth_gb_s", 1e3),
    "cache_fill": ("moved_bytes", "cache_mb", 1e6),
}
"""Features that are a column over so many units of a number of the sheet."""


class Derived(NamedTuple):
    """A feature as what becomes of one or two others, each times a factor."""

    operation: str
    """`scaled`, the first alone; `larger`; `share`, of the first in both; or `filled`, the last of so many waves."""
    first: str
    first_factor: float
    second: str = ""
    second_factor: float = 0.0


def on_another_device(name: str, sheet: Sheet, other: Sheet) -> Derived | None:
    """How a feature with the sheet of another device follows from the features with one's own; None if it does not.

    >>> on_another_device("tiles_64x64_waves", {"multiprocessors": 80}, {"multiprocessors": 40})
    Derived(operation='scaled', first='tiles_64x64_waves', first_factor=2.0, second='', second_factor=0.0)
    """
    base, _, about = name.rpartition("_")
    if (base.startswith("tiles_") and about == "waves") or name.endswith("_last_wave"):
        if "multiprocessors" not in sheet or "multiprocessors" not in other:
            return None
        fewer = sheet["multiprocessors"] / other["multiprocessors"]
        waves = name.replace("_last_wave", "_waves")
        return Derived("filled" if name.endswith("_last_wave") else "scaled", waves, fewer)
    if name in AT_A_PEAK:
        column, number, unit = AT_A_PEAK[name]
        return Derived("scaled", column, 1.0 / (other[number] * unit)) if number in other else None
    if name in ("peak_us", "compute_share"):
        compute, memory = (on_another_device(each, sheet, other) for each in ("peak_compute_us", "peak_memory_us"))
        if compute is None or memory is None:
            return None
        operation = "larger" if name == "peak_us" else "share"
        return Derived(operation, compute.first, compute.first_factor, memory.first, memory.first_factor)
    return Derived("scaled", name, 1.0)


def _at_the_peaks(features: Mapping[str, Column], sheet: Sheet) -> dict[str, Column]:
    """The microseconds that the arithmetic and the traffic take at least, and which of the two is more."""
    found = {
        name: features[column] / (sheet[number] * unit)
        for name, (column, number, unit) in AT_A_PEAK.items()
        if column in features and number in sheet  # a kind that a table declared may say neither FLOPs nor bytes
    }
    if "peak_compute_us" in found and "peak_memory_us" in found:
        compute, memory = found["peak_compute_us"], found["peak_memory_us"]
        found["peak_us"] = _larger(compute, memory)
        found["compute_share"] = compute / (compute + memory)
    if "cache_fill" in found:
        found["cache_fill"] = found.pop("cache_fill")  # last, as tables that were written before have it
    return found


def _sides(product: Product) -> dict[str, Column]:
    rows, inner, columns = product.rows, product.inner, product.columns
    found: dict[str, Column] = {}
    for name, side in (("rows", rows), ("inner", inner), ("columns", columns)):
        found |= {f"product_{name}_mod_{by}": side % by for by in REMAINDERS}
    larger = _larger(rows, columns)
    return found | {
        "product_larger_side": larger,
        "product_smaller_side": rows + columns - larger,
        "product_inner_share": inner / (rows * columns) ** 0.5,
    }


def _tiled(product: Product, high: int, wide: int, multiprocessors: Column | None) -> Iterator[tuple[str, Column]]:
    """How full the tiles of the output are, how many there are for each multiprocessor, and how full the last wave."""
    tiles = _divided_up(product.rows, high) * _divided_up(product.columns, wide)
    name = f"tiles_{high}x{wide}"
    yield f"{name}_filled", product.rows * product.columns / (tiles * (high * wide))
    if multiprocessors is not None:
        waves = product.pairs * tiles / multiprocessors
        yield f"{name}_waves", waves
        yield f"{name}_last_wave", waves / _divided_up(product.pairs * tiles, multiprocessors)


def _divided_up(number: Column, by: Column) -> Column:
    return -(-number // by)


def _larger(left: Column, right: Column) -> Column:
    """Without a branch, so that one formula traced holds for all layers."""
    return (left >= right) * left + (left < right) * right
