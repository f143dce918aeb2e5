"""MEDN of known devices, trained further with a term for the central moment discrepancy between both."""

from __future__ import annotations

from medn.regressors.further_trained import FurtherTrained
from medn.regressors.regressor import regressors


@regressors.register
class MednInvariant(FurtherTrained):
    name = "medn_invariant"
    description = "the network of all devices, with layers of the new one kept alike in their moments"
    defaults = {"learning_rate": 1e-3, "with_known": True, "moment_weight": 0.1}
