"""Ensembles of the candidates of one kind, each a candidate itself: one form, one interval, one set of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from medn.choosing.costs import form_key
from medn.choosing.evaluation import Evaluated, predictions
from medn.core.values import content_key
from medn.deployed.candidate import Candidate, deployed_of
from medn.deployed.checked import Checked, mixed
from medn.deployed.facts import TRAIN, Trials
from medn.regressors.form import Form
from medn.regressors.forms.stack import Stack, alike, merged
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.selection.ensembles import Weights, ensemble_name, offered
from medn.training.extrapolation import restored
from medn.training.prepared import RangeEdge
from medn.training.scoring import held_out_of, judged, way_beyond, with_test_certainty


def with_ensembles(evaluated: Evaluated) -> Evaluated:
    """The same place with the ensembles that are worth measuring among its candidates."""
    ensembles = {
        ensemble_name(weights): weights
        for weights in offered(
            {name: np.log(own["validation"]) for name, own in evaluated.predicted_s.items()},
            evaluated.prepared.validation.target,
            {name: candidate.row_us for name, candidate in evaluated.candidates.items()},
            len(np.unique(evaluated.prepared.validation.groups)),
        )
    }
    made = {name: ensemble(evaluated, name, weights) for name, weights in ensembles.items()}
    return replace(
        evaluated,
        candidates={**evaluated.candidates, **made},
        predicted_s={**evaluated.predicted_s, **predictions(made, evaluated.prepared)},
        ensembles=ensembles,
    )


def ensemble(evaluated: Evaluated, name: str, weights: Weights) -> Candidate:
    """The candidate that is the mean of others by their weights."""
    members, prepared = [evaluated.candidates[member] for member in weights], evaluated.prepared
    # Of members that learned from more and from fewer rows, those from fewer say where it ends.
    last = max(members, key=lambda member: member.facts.parts_learned_from == TRAIN)
    facts = replace(
        members[0].facts,
        key=content_key([[member.facts.key for member in members], list(weights.values())]),
        settings={"weights": dict(weights)},
        trials=Trials(),
        fit_seconds=sum(member.facts.fit_seconds for member in members),
        steps=None,
        learned_from=last.facts.parts_learned_from,
    )
    blank = replace(members[0].without_form(), regressor=name, facts=facts)
    form = folded({deployed_of(each).form: weights[each.regressor] for each in members})
    edge = RangeEdge(deployed_of(last).range, deployed_of(last).roofline)
    checked = _checked(evaluated, weights)
    way = way_beyond(prepared, checked, _usual_way(members, weights))
    held_out = np.sum([weights[each.regressor] * held_out_of(each, prepared) for each in members], axis=0)
    return with_test_certainty(judged(blank, prepared, form, edge, way, held_out, checked), prepared)


def _usual_way(members: Sequence[Candidate], weights: Weights) -> str:
    """What most of its members do beyond the range, by their weights."""
    ways: dict[str, float] = {}
    for member in members:
        way = deployed_of(member).way
        ways[way] = ways.get(way, 0.0) + weights[member.regressor]
    return max(ways, key=lambda way: ways[way])


def _checked(evaluated: Evaluated, weights: Weights) -> Checked | None:
    """What it says of larger rows than its members learned from; None unless all of them were checked."""
    known = {name: restored(evaluated.candidates[name].checked, evaluated.prepared) for name in weights}
    checked = {name: found for name, found in known.items() if found}
    return mixed(checked, weights) if checked.keys() == weights.keys() else None


def folded(weights: Mapping[Form, float]) -> Form:
    """One sum of forms: sums inside are taken apart, and what several members share is computed once."""
    shares: dict[str, float] = {}
    forms: dict[str, Form] = {}
    for form, weight in weights.items():
        for inner, own in _terms(form, weight):
            key = form_key(inner)
            forms.setdefault(key, inner)
            shares[key] = shares.get(key, 0.0) + own
    stacks = [(form, shares[key]) for key, form in forms.items() if isinstance(form, Stack)]
    together = alike(stacks)
    one = merged(together) if len(together) > 1 else None
    if one is None:
        return WeightedSum(list(forms.values()), list(shares.values()))
    inside = [form for form, _ in together]
    others = {form: shares[key] for key, form in forms.items() if form not in inside}
    return WeightedSum([one, *others], [1.0, *others.values()])


def _terms(form: Form, weight: float) -> list[tuple[Form, float]]:
    if not isinstance(form, WeightedSum):
        return [(form, weight)]
    return [term for inner, own in zip(form.forms, form.weights, strict=True) for term in _terms(inner, weight * own)]
