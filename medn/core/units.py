"""Numbers as people read them; inside medn they stay plain seconds and shares."""

from __future__ import annotations


def format_latency(seconds: float) -> str:
    """Three digits and the unit that fits.

    >>> format_latency(0.001234), format_latency(2.5e-5)
    ('1.23 ms', '25 us')
    """
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= 0.9995 * scale:  # what rounds up to 1000 belongs to the larger unit
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def format_duration(seconds: float) -> str:
    """How long something takes, no finer than one cares to know.

    >>> format_duration(42.3), format_duration(600), format_duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def percent(share: float | None) -> str | None:
    """A share with as many digits as matter; nothing where it is not known.

    >>> percent(0.0173)
    '1.7 %'
    """
    return None if share is None else f"{share:.1%}".replace("%", " %")


def percent_between(share: float | None, low: float | None, high: float | None) -> str | None:
    """A share with its bounds, where these are known.

    >>> percent_between(0.061, 0.049, 0.08)
    '6.1 % (4.9 to 8.0)'
    """
    if share is None or low is None or high is None:
        return percent(share)
    return f"{percent(share)} ({100 * low:.1f} to {100 * high:.1f})"


def format_bytes(size: float) -> str:
    """Three digits and the unit that fits, by thousands.

    >>> format_bytes(512), format_bytes(154_461), format_bytes(12e6)
    ('512 B', '154 kB', '12 MB')
    """
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= 0.9995 * scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"


def format_number(value: float) -> str:
    """Three digits, thousands and millions by their letter.

    >>> format_number(56), format_number(1024), format_number(292_000), format_number(1.55e6)
    ('56', '1024', '292k', '1.55M')
    """
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= max(scale, 1e4):
            return f"{value / scale:.3g}{letter}"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
