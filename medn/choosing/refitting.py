"""What was chosen, fitted once more on every row that was measured, test rows too, to be shipped.

Nothing is left then to tell errors or calibrate intervals by: both stay those of before. Every fit is kept in
RUN/refitted, by the candidate that it is a fit of, so that choosing again fits nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from medn.choosing.ensembling import folded
from medn.choosing.evaluation import Evaluated
from medn.core.errors import MednError, StoreError, reason_of
from medn.core.splits import FOLDS
from medn.core.table import Table, joined
from medn.deployed.candidate import Candidate, deployed_of, scores_of
from medn.deployed.facts import ALL, TrainingFacts
from medn.regressors.form import Form
from medn.regressors.regressor import Effort, Fitted, Regressor, regressors
from medn.sources.run_sources import KnownDevices
from medn.training.candidate_store import candidate_folder, load_candidate, save_candidate
from medn.training.extrapolation import fitted_roofline
from medn.training.learning import learn, refit
from medn.training.prepared import Prepared
from medn.training.shipped_form import check_refitted, exported

REFITTED_FOLDER = "refitted"

TIMES_AS_LONG = 3.0
LEAST_S = 5.0
"""What a fit may take, in fits of the training by the rows that it has, and at least."""

STEPS_S = 3600.0
"""What one may take whose steps are known: it ends by itself, and must not end before."""

OnFit = Callable[[str], None]
"""Told what is fitted next."""


class Refits:
    """Fits on every row of the places of a run."""

    def __init__(self, run: Path, places: Sequence[Evaluated], on_fit: OnFit | None = None) -> None:
        self.root = run / REFITTED_FOLDER
        self.places = places
        self.on_fit = on_fit

    def of(self, place: Evaluated, chosen: Candidate) -> Candidate:
        """What ships of a chosen candidate; an ensemble is made of its members again."""
        weights = chosen.facts.settings["weights"] if "+" in chosen.regressor else {chosen.regressor: 1.0}
        forms = {self._form(place, member): weight for member, weight in weights.items()}
        form = folded(forms) if len(forms) > 1 else next(iter(forms))
        return _shipping(place, chosen, form)

    def _form(self, place: Evaluated, name: str) -> Form:
        member = place.candidates.get(name)
        if member is None:
            raise StoreError(f"{name} for {place.kind} on {place.device} is not among the candidates: medn train RUN")
        if known := self._known(place, member):
            return known
        together = self._learned_together(place, name)
        for kind, own in self._fit(name, together).items():
            save_candidate(self.root, _shipping(together[kind], together[kind].candidates[name], own))
        found = self._known(place, member)
        assert found is not None, "it was saved a moment ago"
        return found

    def _known(self, place: Evaluated, member: Candidate) -> Form | None:
        """The form that an earlier selection has fitted with the same settings on the same rows."""
        try:
            known = load_candidate(candidate_folder(self.root, member.device, member.kind, member.regressor))
        except StoreError:
            return None
        is_same = known.facts.as_json() == _facts(place, member).as_json()
        return deployed_of(known).form if is_same else None

    def _learned_together(self, place: Evaluated, name: str) -> dict[str, Evaluated]:
        """By kind, the places that the family has learned at once, as the key of its candidates tells."""
        key = place.candidates[name].facts.key
        alike = [each for each in self.places if name in each.candidates and each.device == place.device]
        return {each.kind: each for each in alike if each.candidates[name].facts.key == key}

    def _fit(self, name: str, places: Mapping[str, Evaluated]) -> dict[str, Form]:
        regressor, about = regressors[name], f"{name} for {' and '.join(places)}"
        if problem := regressor.missing():
            raise MednError(f"{about} cannot be fitted on every row: {problem}")
        if self.on_fit:
            self.on_fit(about)
        regressor.prepare()
        if regressor.needs_sources:
            places = {kind: self._with_sources(each) for kind, each in places.items()}
        try:
            fitted = _fitted(regressor, {kind: (each, each.candidates[name]) for kind, each in places.items()})
            for kind, each in places.items():
                check_refitted(fitted[kind], scores_of(each.candidates[name]).validation.mape, each.prepared)
            return {kind: exported(fitted[kind], each.prepared) for kind, each in places.items()}
        except Exception as failure:  # a family may fail in any way its library does
            raise MednError(f"{about} could not be fitted on every row: {reason_of(failure)}") from failure

    def _with_sources(self, place: Evaluated) -> Evaluated:
        """The same place with what its rows take on the devices that the run leans on."""
        table = place.prepared.table
        beside = replace(table, source=KnownDevices.of_run(self.root.parent).beside(table.source))
        return replace(place, prepared=Prepared.of(beside))


def _fitted(regressor: Regressor, places: Mapping[str, tuple[Evaluated, Candidate]]) -> Mapping[str, Fitted]:
    _, first = next(iter(places.values()))
    every = {kind: _every_row(each) for kind, (each, _) in places.items()}
    steps = [candidate.facts.steps for _, candidate in places.values()]
    seconds = max(TIMES_AS_LONG * _one_fit_s(places), LEAST_S)
    if not first.facts.learned_from:  # an earlier version did not tell after how many steps it had stopped
        tables = {kind: each.prepared for kind, (each, _) in places.items()}
        effort = Effort(seconds * FOLDS, first.facts.seed)
        steps = [own.steps for own in learn(regressor, tables, first.facts.settings, effort).values()]
    effort = Effort(seconds if None in steps else STEPS_S, first.facts.seed)
    return refit(regressor, every, first.facts.settings, steps, effort)


def _one_fit_s(places: Mapping[str, tuple[Evaluated, Candidate]]) -> float:
    """About what one fit on every row takes, by what one of the training took."""
    prepared = [place.prepared for place, _ in places.values()]
    _, first = next(iter(places.values()))
    fits = FOLDS if prepared[0].folds is not None else 1
    more = sum(len(each.source.table) for each in prepared) / sum(len(each.train) for each in prepared)
    return first.facts.fit_seconds / fits * more


def _every_row(place: Evaluated) -> Table:
    return joined([place.prepared.learned, place.prepared.test])


def _shipping(place: Evaluated, candidate: Candidate, form: Form) -> Candidate:
    """The same with another form. Its scores, its interval and what it does beyond the range are those of before."""
    deployed = replace(deployed_of(candidate), form=form, range=place.prepared.ranges.everything)
    if deployed.roofline is not None:
        deployed = replace(deployed, roofline=fitted_roofline(_every_row(place), candidate.facts.seed))
    size_bytes = form.parts().size_bytes
    return replace(candidate, facts=_facts(place, candidate), deployed=deployed, size_bytes=size_bytes, costs=None)


def _facts(place: Evaluated, candidate: Candidate) -> TrainingFacts:
    return replace(candidate.facts, learned_from=ALL, learned_rows=len(_every_row(place)))
