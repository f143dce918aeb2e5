"""How scripts end: what a person can mend is one sentence on stderr, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from medn.core.errors import MednError


def end_with(main: Callable[[], int]) -> NoReturn:
    """Run a script and end this process as it did."""
    try:
        sys.exit(main())
    except MednError as error:
        sys.exit(f"error: {error}")
