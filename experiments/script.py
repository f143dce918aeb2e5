"""How scripts begin and end: what a person can mend is one sentence on stderr, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

from medn.core.errors import MednError, UsageError, unknown


def end_with(main: Callable[[], int]) -> NoReturn:
    """Run a script and end this process as it did."""
    try:
        sys.exit(main())
    except MednError as error:
        sys.exit(f"error: {error}")


def named(what: str, names: str, allowed: Mapping[str, object]) -> list[str]:
    """Names as one writes them, separated by commas; an unknown one is refused with the nearest."""
    for name in (chosen := [name for name in names.split(",") if name]):
        if name not in allowed:
            raise UsageError(unknown(what, name, allowed))
    return chosen
