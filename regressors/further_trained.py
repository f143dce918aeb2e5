"""The network of known devices trained further with rows of a new one: what the families that do so share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from medn.core.table import Array, Table
from medn.regressors.fitted import Learned, Progress
from medn.regressors.networks import NetworkRegressor
from medn.regressors.regressor import Effort, Settings
from medn.regressors.shared_encoder import SharedEncoder, alone, shared_of

ROUND_STEPS = 10
"""Between two looks at the validation error."""
MOST_ROUNDS = 60
PATIENCE = 20
BATCH_ROWS = 64


class FurtherTrained(NetworkRegressor):
    """A family that begins with the network of known devices and their decoders, mixed for the new device."""

    needs_sources = True
    needs_source_rows = True
    only_by_name = True
    fixable = {}

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        from medn.network.training import torch_threads

        with torch_threads(effort.threads):
            return _trained_further(shared_of(train), train, validation, settings, effort)


def _trained_further(
    shared: SharedEncoder, train: Table, validation: Table, settings: Settings, effort: Effort
) -> Learned:
    """The best state on validation rows; without any, that after as many rounds as were best before."""
    from medn.network.across_devices import Batch, GoingOn, restored

    weight, constant = shared.decoder(train)
    (encoded, logs), (checked, _) = (_seen(shared, table) for table in (train, validation))
    growth = np.log(validation.target) - _seen(shared, validation)[1]
    count = len(shared.bias)
    network = restored(shared.steps, np.column_stack([shared.weight, weight]), np.append(shared.bias, constant))
    rows = shared.rows
    known = Batch.of(shared.encoding.transform(rows.inputs.astype(np.float64)), rows.logs, rows.device)
    training = GoingOn(
        network,
        Batch.of(encoded, logs, np.full(len(logs), count)),
        known if settings["with_known"] else None,
        learning_rate=settings["learning_rate"],
        moment_weight=settings["moment_weight"],
        batch_rows=BATCH_ROWS,
        planned=MOST_ROUNDS * ROUND_STEPS,
        seed=effort.seed,
    )
    progress = Progress(validation, effort, PATIENCE)
    best = shared, (weight, constant)
    while not progress.is_over and progress.steps < MOST_ROUNDS:
        training.steps(ROUND_STEPS)
        progress.step(training.predict(checked) + growth)
        if progress.best_step == progress.steps:
            best = replace(shared, steps=tuple(network.steps())), training.decoder()
    further, decoder = best
    form = alone(shared.view, further.network(train, *decoder))
    return Learned(form.log_value, lambda: form, tuple(progress.errors))


def _seen(shared: SharedEncoder, table: Table) -> tuple[Array, Array]:
    """Encoded inputs, and the logarithms that a decoder has to say of them."""
    inputs, growth = shared.view.nearest(shared.view.inputs(table.inputs))
    return np.asarray(shared.encoding.transform(inputs)), np.asarray(np.log(table.target) - growth)
