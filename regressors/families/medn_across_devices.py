"""MEDN for all known devices at once, with a new decoder: the encoder stays as it is."""

from __future__ import annotations

from medn.core.table import Table
from medn.regressors.fitted import Learned
from medn.regressors.regressor import Effort, Regressor, Settings, regressors
from medn.regressors.shared_encoder import alone, shared_of


@regressors.register
class MednAcrossDevices(Regressor):
    name = "medn_across_devices"
    description = "a decoder for the new device on an encoder that known devices share"
    extrapolates = True
    needs_sources = True
    needs_source_rows = True
    share = 0.2

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        shared = shared_of(train)
        return Learned.from_form(alone(shared.view, shared.network(train, *shared.decoder(train))))
