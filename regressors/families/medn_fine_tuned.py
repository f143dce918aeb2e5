"""MEDN of known devices, fine-tuned: it goes on with the rows of the new device alone."""

from __future__ import annotations

from medn.regressors.further_trained import FurtherTrained
from medn.regressors.regressor import regressors


@regressors.register
class MednFineTuned(FurtherTrained):
    name = "medn_fine_tuned"
    description = "the network of known devices, fine-tuned with rows of the new one"
    defaults = {"learning_rate": 1e-3, "with_known": False, "moment_weight": 0.0}
