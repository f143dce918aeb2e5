"""MEDN with one encoder for all kinds of layers of a device, and a decoder for each."""

from __future__ import annotations

from collections.abc import Mapping

from medn.core.table import Table
from medn.regressors.networks import NetworkRegressor, fit_networks
from medn.regressors.regressor import Effort, Fitted, Settings, regressors


@regressors.register
class MednShared(NetworkRegressor):
    name = "medn_shared"
    description = "multi-task encoder-decoder network whose encoder all kinds of a device share"
    is_late = True
    share = 4.0
    shares_kinds = True

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Fitted:
        return self.fit_together({"kind": (train, validation)}, settings, effort)["kind"]

    def fit_together(
        self, tables: Mapping[str, tuple[Table, Table]], settings: Settings, effort: Effort
    ) -> Mapping[str, Fitted]:
        return fit_networks(tables, settings, effort)
