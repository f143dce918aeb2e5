"""Tables of anything: each is answered or refused in one sentence.

python -m experiments.fuzz.tables BUNDLE [SECONDS]
"""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from experiments.fuzz.harness import Draw, instrumented, run

with instrumented():
    from medn.core.errors import MednError
    from medn.estimator.table_files import parse_table
    from medn.predictor.predictor import Predictor, load

CELLS: list[Any] = [
    *(None, True, False, 0, 1, 8, 64, 1000, -1, 2**40, 2**70, 0.5, 64.0, 1e308, float("nan"), float("inf")),
    *("", "x", "64", "relu", "fp32", "hot", [], {}, b"x", (1, 2), 10**400, 10**5000, -0.0, 3j, {1}, object()),
    *(Decimal(8), Decimal("1e999999"), Decimal("sNaN"), Fraction(64), Fraction(1, 3), np.int8(8), np.longdouble(8)),
    *(np.bool_(True), np.array(8), np.array([8]), np.array([]), np.ma.masked, np.datetime64("NaT"), range(3)),
]


def table(draw: Draw, predictor: Predictor) -> Any:
    kinds = predictor.kinds
    query = predictor.estimator(kinds[draw.between(0, len(kinds) - 1)]).query
    names = [*query.names, "kind", "x", ""]
    rows = draw.between(0, 3)
    cells = [*CELLS, *kinds]

    def cell() -> Any:
        return cells[draw.between(0, len(cells) - 1)]

    chosen = [names[draw.between(0, len(names) - 1)] for _ in range(draw.between(0, 8))]
    if draw.between(0, 1):
        return [{name: cell() for name in chosen} for _ in range(rows)]
    return {name: cell() if draw.between(0, 3) == 0 else [cell() for _ in range(rows)] for name in chosen}


def main() -> None:
    predictor = load(Path(sys.argv[1]))
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0

    def once(data: bytes) -> None:
        draw = Draw(data)
        kind = None if draw.between(0, 1) else predictor.kinds[0]
        try:
            given = parse_table(draw.rest()) if draw.between(0, 2) == 0 else table(draw, predictor)
            predictor.predict(given, kind)
        except MednError as error:
            if "\n" in str(error):
                raise

    run(once, seconds)


if __name__ == "__main__":
    main()
