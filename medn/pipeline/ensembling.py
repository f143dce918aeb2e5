"""Ensembles of the candidates of one kind, each a candidate itself: one form, one interval, one set of scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from medn.core.values import content_key
from medn.pipeline.candidates import Candidate
from medn.pipeline.costs import form_key
from medn.pipeline.evaluation import PARTS, Evaluated, form_of
from medn.pipeline.training import judge_form
from medn.regressors.form import Form
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.selection.ensembles import Weights, ensemble_name, mixed, offered


def with_ensembles(evaluated: Evaluated) -> Evaluated:
    """The same place with the ensembles that are worth measuring among its candidates."""
    logs = {name: {part: np.log(own[part]) for part in PARTS} for name, own in evaluated.predicted_s.items()}
    ensembles = {
        ensemble_name(weights): weights
        for weights in offered(
            {name: own["validation"] for name, own in logs.items()},
            evaluated.prepared.validation.latency_s,
            {name: candidate.row_us for name, candidate in evaluated.candidates.items()},
        )
    }
    # Beyond the range every member grows by the same factor, so a mean of held predictions is the held mean.
    predicted = {
        name: {part: np.exp(mixed({each: logs[each][part] for each in weights}, weights)) for part in PARTS}
        for name, weights in ensembles.items()
    }
    made = {name: _ensemble(evaluated, name, weights) for name, weights in ensembles.items()}
    return replace(
        evaluated,
        candidates={**evaluated.candidates, **made},
        predicted_s={**evaluated.predicted_s, **predicted},
        ensembles=ensembles,
    )


def _ensemble(evaluated: Evaluated, name: str, weights: Weights) -> Candidate:
    members = [evaluated.candidates[member] for member in weights]
    blank = replace(
        members[0].without_form(),
        regressor=name,
        key=content_key([[member.key for member in members], list(weights.values())]),
        settings={"weights": dict(weights)},
        trials={},
        extrapolation={},
        fit_seconds=sum(member.fit_seconds for member in members),
    )
    return judge_form(blank, evaluated.prepared, folded({form_of(each): weights[each.regressor] for each in members}))


def folded(weights: Mapping[Form, float]) -> WeightedSum:
    """One sum of forms: sums inside are taken apart, and what several members share is computed once."""
    shares: dict[str, float] = {}
    forms: dict[str, Form] = {}
    for form, weight in weights.items():
        for inner, own in _terms(form, weight):
            key = form_key(inner)
            forms.setdefault(key, inner)
            shares[key] = shares.get(key, 0.0) + own
    return WeightedSum(list(forms.values()), list(shares.values()))


def _terms(form: Form, weight: float) -> list[tuple[Form, float]]:
    if not isinstance(form, WeightedSum):
        return [(form, weight)]
    return [term for inner, own in zip(form.forms, form.weights, strict=True) for term in _terms(inner, weight * own)]
