"""MEDN with a decoder for each device and masked targets, trained further with rows of the new and of known devices."""

from __future__ import annotations

from medn.regressors.further_trained import FurtherTrained
from medn.regressors.regressor import regressors


@regressors.register
class MednJoint(FurtherTrained):
    name = "medn_joint"
    description = "the network of known devices, trained further with theirs and the new device's rows"
    defaults = {"learning_rate": 1e-3, "with_known": True, "moment_weight": 0.0}
