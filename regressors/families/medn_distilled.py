"""A small MEDN, taught by several larger ones: nearly as accurate as they are, and a fraction of their cost."""

from __future__ import annotations

from medn.core.table import Table
from medn.regressors.distillation import taught
from medn.regressors.networks import NetworkRegressor, fit_networks
from medn.regressors.regressor import Effort, Fitted, Settings, regressors

TEACHING_SHARE = 0.6
"""Of the time, for the teachers to learn."""

LABELLING_SHARE = 0.15
"""Of the time, for the teachers to tell what they know."""


@regressors.register
class DistilledMedn(NetworkRegressor):
    name = "medn_distilled"
    description = "small encoder-decoder network taught by three larger ones"
    is_late = True
    share = 4.0
    defaults = {"teachers": 3, "extra": 1.0, "width": 64, "hidden": 32}

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        small = {**self.defaults, **settings}
        count, extra = small.pop("teachers"), small.pop("extra")
        large = {name: value for name, value in small.items() if name not in ("width", "hidden")}
        teachers: list[Fitted] = []
        for place in range(count):
            seconds = (effort.seconds_left - (1 - TEACHING_SHARE) * effort.seconds) / (count - place)
            if teachers and seconds <= 0:
                break  # a large table may have taken one teacher all of the time: the rest belongs to the student
            own = Effort(max(seconds, 0.0), effort.seed + place, effort.threads, clock=effort.clock)
            teachers.append(fit_networks({"kind": (train, validation)}, large, own)["kind"])
        lessons = taught(train, teachers, extra, effort.part(LABELLING_SHARE * effort.seconds))
        return fit_networks({"kind": (lessons, validation)}, small, effort)["kind"]
