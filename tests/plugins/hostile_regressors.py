"""Regressors that do to their process what a library in native code can do, and worse."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from medn.core.metrics import best_constant
from medn.core.table import Table
from medn.regressors.fitted import Learned
from medn.regressors.forms.constant import Constant
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings, regressors


def fitted(train: Table) -> Fitted:
    return Learned.from_form(Constant(float(np.log(best_constant(train.target)))))


@regressors.register
class Segfault(Regressor):
    name = "hostile-segfault"
    description = "reads where nothing is"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        ctypes.string_at(0)
        raise AssertionError("not reached")


@regressors.register
class Abort(Regressor):
    name = "hostile-abort"
    description = "aborts with words"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        sys.stderr.write("terminate called after a failed assertion\n")
        sys.stderr.flush()
        os.abort()


@regressors.register
class Exits(Regressor):
    name = "hostile-exit"
    description = "leaves"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        sys.exit(3)


@regressors.register
class Sleeps(Regressor):
    name = "hostile-sleep"
    description = "never ends, and cannot be asked to"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        while True:
            time.sleep(60)


@regressors.register
class Greedy(Regressor):
    name = "hostile-memory"
    description = "wants more memory than there is"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        np.ones(1 << 56)
        raise AssertionError("not reached")


@regressors.register
class Prints(Regressor):
    name = "hostile-print"
    description = "writes where answers are written, and reads where requests are"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        sys.stdout.write("noise\n" * 1000)
        sys.stdout.flush()
        os.write(1, b"more noise")
        sys.stdin.read()
        return fitted(train)


@regressors.register
class Forks(Regressor):
    name = "hostile-fork"
    description = "goes on as two processes"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        os.fork()
        return fitted(train)


@regressors.register
class SecondTrial(Regressor):
    """The first settings are good, all others end the process."""

    name = "hostile-second"
    description = "dies with all settings but the first"
    defaults = {"place": 0.5}

    def suggest(self, trial: Any) -> Settings:
        return {"place": trial.suggest_float("place", 0.0, 1.0)}

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        if settings["place"] != 0.5:
            log = Path(os.environ["MEDN_TEST_LOG"])
            with log.open("a") as file:
                file.write(f"{settings['place']}\n")
            os.kill(os.getpid(), signal.SIGSEGV)
        return fitted(train)


@regressors.register
class SlowToLoad(Regressor):
    name = "hostile-slow"
    description = "takes as long to load as it has time, and tells the time it had left"
    packages = ("slow_library",)

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        import slow_library

        assert slow_library
        if effort.seconds_left < 0.5 * effort.seconds:
            raise RuntimeError("the library took the time")
        return fitted(train)


@regressors.register
class Computes(Regressor):
    name = "hostile-busy"
    description = "computes for a second, however long that takes"

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        if effort.seconds > 0.7:  # not again for what follows the fit
            until = time.process_time() + 1.0
            while time.process_time() < until:
                pass
        return fitted(train)
