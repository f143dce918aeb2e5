"""From tables to trained networks: what the families of networks share."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from medn.core.table import Array, Table
from medn.network.design import SCALED_ROWS, SETTINGS
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form
from medn.regressors.forms.network import NetworkForm, bounds
from medn.regressors.regressor import Effort, Fitted, Regressor, Settings

if TYPE_CHECKING:
    from torch import nn

    from medn.network.design import Design
    from medn.network.modules import CommonColumns, KindShape
    from medn.network.training import Examples


class NetworkRegressor(Regressor):
    """A family of networks."""

    packages: ClassVar[tuple[str, ...]] = ("torch",)
    fills_time: ClassVar[bool] = True
    extrapolates: ClassVar[bool] = True
    fixable: ClassVar[Settings] = SETTINGS

    def prepare(self) -> None:
        super().prepare()
        from medn.network.training import warm_up

        warm_up()


class FittedNetwork(Fitted):
    """The path of a network from the inputs of one kind to its latency."""

    def __init__(self, encoding: Encoding, path: nn.Sequential, bounds: tuple[float, float]) -> None:
        self.encoding = encoding
        self.path = path
        self.bounds = bounds

    def predict(self, inputs: Array) -> Array:
        import torch

        encoded = torch.tensor(self.encoding.transform(inputs), dtype=torch.float32)
        with torch.no_grad():
            logs: Array = self.path(encoded)[:, 0].numpy().astype(np.float64)
        return np.exp(np.clip(logs, *self.bounds))

    def export(self) -> Form:
        from medn.network.modules import steps_of

        return NetworkForm(self.encoding, steps_of(self.path), self.bounds)


def fit_networks(
    tables: Mapping[str, tuple[Table, Table]], settings: Settings, effort: Effort
) -> dict[str, FittedNetwork]:
    """One network for the tables of some kinds, each to learn from and to stop by. The blocks are shared by all."""
    import torch

    from medn.network.design import from_settings
    from medn.network.modules import Network, within_limit
    from medn.network.training import train

    design, schedule = from_settings(settings)
    encodings = {kind: Encoding.fit(table.schema, table.inputs) for kind, (table, _) in tables.items()}
    shapes, examples = _prepared(tables, encodings, design)
    design = within_limit(design, shapes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(effort.seed)
        network = Network(design, shapes)
    best = train(
        network,
        examples,
        schedule,
        seed=effort.seed,
        threads=effort.threads,
        seconds_left=lambda: effort.seconds_left,
        report=effort.report,
    )
    fitted = {}
    for kind, (table, _) in tables.items():
        path = copy.deepcopy(network.path(kind))
        path.load_state_dict(best[kind].weights)
        fitted[kind] = FittedNetwork(encodings[kind], path, bounds(table))
    return fitted


def _prepared(
    tables: Mapping[str, tuple[Table, Table]], encodings: Mapping[str, Encoding], design: Design
) -> tuple[dict[str, KindShape], dict[str, Examples]]:
    """What the network must know of each kind, and the rows it learns from."""
    from medn.network.modules import KindShape
    from medn.network.tasks import task_targets
    from medn.network.training import Examples

    common = common_columns(encodings)
    shapes, examples = {}, {}
    for kind, (table, validation) in tables.items():
        encoding = encodings[kind]
        encoded = encoding.transform(table.inputs)
        targets = task_targets(design.tasks, table, encoded)
        scales = {task: _centre_and_spread(values) for task, values in targets.items()}
        has_scale = design.input_scale and len(table) >= SCALED_ROWS
        shapes[kind] = KindShape(encoding.width, len(encoding.numeric), scales, common.get(kind), has_scale)
        checked = encoding.transform(validation.inputs)
        examples[kind] = Examples.of(encoded, targets, checked, np.log(validation.target))
    return shapes, examples


def _centre_and_spread(values: Array) -> tuple[Array, Array]:
    """Per column of targets, by what is known; a constant one has the spread 1."""
    spread = np.nanstd(values, axis=0)
    return np.nanmean(values, axis=0), np.where(spread > 1e-9, spread, 1.0)


def common_columns(encodings: Mapping[str, Encoding]) -> dict[str, CommonColumns]:
    """Columns that every kind takes as logarithms in one unit and that vary in each, on a scale that all share."""
    from medn.network.modules import CommonColumns

    if len(encodings) < 2:
        return {}
    columns = {kind: _logged_columns(encoding) for kind, encoding in encodings.items()}
    first, *others = columns.values()
    names = [name for name in first if all(name in other for other in others)]
    if not names:
        return {}
    centres = {kind: encodings[kind].centre[[own[name] for name in names]] for kind, own in columns.items()}
    spreads = {kind: 1.0 / encodings[kind].factor[[own[name] for name in names]] for kind, own in columns.items()}
    centre, spread = np.mean(list(centres.values()), axis=0), np.mean(list(spreads.values()), axis=0)
    return {
        kind: CommonColumns(
            tuple(own[name] for name in names), spreads[kind] / spread, (centres[kind] - centre) / spread
        )
        for kind, own in columns.items()
    }


def _logged_columns(encoding: Encoding) -> dict[tuple[str, float], int]:
    """Columns that are logarithms and vary, by name and unit: those of two kinds that agree in both mean the same."""
    return {
        (encoding.names[place], float(unit)): place
        for place, unit in enumerate(encoding.unit)
        if encoding.factor[place] > 0
    }
