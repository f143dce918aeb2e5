"""Regressors that take their time, so that something can happen to whoever fits them."""

from __future__ import annotations

import time
from typing import Any

from plain_regressors import Law

from medn.regressors.regressor import regressors

SECONDS = 0.3


class Slow(Law):
    def fit(self, *given: Any) -> Any:
        time.sleep(SECONDS)
        return super().fit(*given)


@regressors.register
class SlowOne(Slow):
    name = "test-slow-one"


@regressors.register
class SlowTwo(Slow):
    name = "test-slow-two"


@regressors.register
class SlowThree(Slow):
    name = "test-slow-three"
