"""What devices cost, as a person says it: NAME=PRICE, or a file of such lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from medn.core.errors import UsageError, did_you_mean
from medn.core.text import shown

Prices = Mapping[str, float]
"""By name of a device or of a slice; per hour, or in whatever unit all of them have."""


def read_prices(given: Sequence[str]) -> dict[str, float]:
    """Prices from NAME=PRICE and from files, which are YAML or JSON with a price for each name.

    >>> read_prices(["phone=0.5", "server=2"])
    {'phone': 0.5, 'server': 2.0}
    """
    found: dict[str, float] = {}
    for text in given:
        name, separator, price = text.rpartition("=")
        for key, value in {name: price}.items() if separator and not Path(text).is_file() else _file(text).items():
            if key in found:
                raise UsageError(f"--prices: {key} is given twice")
            found[str(key)] = _price(key, value)
    return found


def _file(path: str) -> Mapping[object, object]:
    try:
        written = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f"--prices {path}: cannot be read: {reason}; write NAME=PRICE, or name a file") from None
    except yaml.YAMLError:
        raise UsageError(f"--prices {path}: must be YAML with lines such as `laptop: 0.2`") from None
    if not isinstance(written, Mapping) or not written:
        raise UsageError(
            f"--prices {path}: must hold a price for each name, as in `laptop: 0.2` (got {shown(written)})"
        )
    return written


def _price(name: object, value: object) -> float:
    try:
        price = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        price = math.nan
    if not 0 <= price < math.inf:
        raise UsageError(f"--prices: {shown(name)}: must be a number from 0 on (got {shown(value)})")
    return price


def check_names(prices: Prices, known: Sequence[str]) -> None:
    """Refuse the price of something that is not there: it would be a mistyped name."""
    for name in prices:
        if name not in known:
            raise UsageError(
                f"--prices: no device is named {name}.{did_you_mean(name, known)} Known: {', '.join(known)}"
            )
