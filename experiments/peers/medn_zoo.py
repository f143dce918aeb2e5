"""medn itself: boosted trees on the roofline, the network with the time that they leave, and both together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from experiments.peers.model import Array, Model, Rows
from medn.core.metrics import score
from medn.core.table import Schema, Table
from medn.pipeline.candidates import Candidate, save_candidate
from medn.regressors.form import Form
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import Effort, Settings, regressors
from medn.selection.ensembles import choose_weights, ensemble_name

TITLE = "medn"
REQUIREMENTS = ()
PLAN: Mapping[str, tuple[float, Settings]] = {
    # Twice the usual step, so that the trees are done within their time.
    "lightgbm_on_roofline": (0.5, {"learning_rate": 0.1}),
    "medn": (1.0, {}),
}
"""By regressor: the share of the time that is left which it may take, and what differs from its defaults."""


def load_libraries() -> None:
    import lightgbm  # noqa: F401
    import torch  # noqa: F401


def fit(rows: Rows, seconds: float, seed: int, folder: Path) -> list[Model]:
    schema = Schema(tuple(rows.names))
    table = Table(schema, rows.inputs, np.exp(rows.log_latency), np.arange(len(rows.inputs)).astype(str))
    is_held_out = np.arange(len(table)) >= len(table) - rows.held_out
    train, validation = table.take(~is_held_out), table.take(is_held_out)
    whole = Effort(seconds, seed)
    forms: dict[str, Form] = {}
    for name, (share, settings) in PLAN.items():
        effort = Effort(share * whole.seconds_left, seed)
        forms[name] = (
            regressors[name].fit(train, validation, {**regressors[name].defaults, **settings}, effort).export()
        )
    weights = choose_weights(
        {name: form.log_latency(validation.inputs) for name, form in forms.items()}, validation.latency_s
    )
    if len(weights) > 1:
        forms[ensemble_name(weights)] = WeightedSum([forms[name] for name in weights], list(weights.values()))
    return [_model(name, form, validation, folder, seconds, seed) for name, form in forms.items()]


def _model(name: str, form: Form, validation: Table, folder: Path, seconds: float, seed: int) -> Model:
    """The form by itself is asked, as the inputs are ready; a bundle would work them out from a layer first."""
    candidate = Candidate("any", "any", name, "", seconds, seed, "random", schema=validation.schema, form=form)
    error = score(form.predict(validation.inputs), validation.latency_s).mape
    saved = save_candidate(folder / "trained", candidate)
    return Model(
        f"{TITLE}: {name}",
        prepare=_as_they_are,
        predict=form.log_latency,
        saved=(saved,),
        validation_error=error,
        prepare_one=_first,
        predict_one=form.one,
    )


def _as_they_are(inputs: Array) -> Array:
    return inputs


def _first(inputs: Array) -> Array:
    return inputs[0]
