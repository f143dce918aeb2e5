"""Selecting from the candidates of a run within a budget: a matter of seconds once costs are measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medn.choosing.bundling import Sizes
from medn.choosing.costs import COSTS_FILE, OnProgress, TimedForm, measured_costs
from medn.choosing.ensembling import with_ensembles
from medn.choosing.evaluation import STALE, Evaluated, Evaluation, Lost, evaluate_places, predictions
from medn.choosing.leaderboard import Leaderboard, candidate_rows, failed_rows, front_row, scheme_row
from medn.choosing.refitting import OnFit, Refits
from medn.choosing.trained_tables import learned_from
from medn.core.atomic import atomic_path
from medn.core.errors import MednError, StoreError, UsageError
from medn.core.metrics import relative_errors
from medn.core.registry import known_name
from medn.core.splits import Split
from medn.core.values import plain
from medn.deployed.candidate import Candidate, costs_of, deployed_of
from medn.deployed.facts import FormCosts
from medn.deployed.packing import Json
from medn.runs.folder import RunFolder
from medn.selection.budget import Budget
from medn.selection.choice import Shares, by_place, choose, overall_error, shares, whole_front
from medn.selection.gain import Judged, bootstrap
from medn.selection.option import Cost, Option, Selection
from medn.selection.pareto import front
from medn.selection.schemes import CHOSEN, Scheme, schemes, single
from medn.training.candidate_store import candidates_root, load_candidates, save_candidate

CHOSEN_FOLDER = "chosen"
BASELINE = "medn"
"""What selecting is compared with, where every place has it."""

PlaceCosts = Mapping[tuple[str, str], FormCosts]
"""By place and candidate."""


@dataclass(frozen=True)
class SelectOutcome:
    chosen: tuple[Candidate, ...]
    """One per device and kind, with its form and costs."""
    leaderboard: Leaderboard
    elapsed_s: float
    lost: tuple[Lost, ...] = ()
    """What was trained, and asked for, and has nothing that can be chosen."""
    kept: tuple[str, ...] = ()
    """The kinds among the chosen that were not asked for and stay as they were."""
    grown: str | None = None
    """A sentence where the run holds other measurements by now than were trained on."""

    def check_all_chosen(self) -> None:
        """Refuse to pass over what was asked for and has nothing that can be chosen."""
        if self.lost:
            raise MednError(f"nothing could be chosen for {'; for '.join(each.sentence for each in self.lost)}")


def select_run(
    folder: Path,
    budget: Budget,
    *,
    kinds: Sequence[str] = (),
    split: Split | None = None,
    measure_again: bool = False,
    refit_all: bool = False,
    on_progress: OnProgress | None = None,
    on_fit: OnFit | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SelectOutcome:
    """Choose, and write RUN/chosen and the leaderboard. What was chosen before for other kinds than these is kept.

    With `refit_all`, what ships is fitted once more on every row; RUN/chosen has what the errors are of.
    """
    began = clock()
    root = candidates_root(folder, split or Split())
    evaluation = evaluate_places(folder, split=split)
    kinds = _known_kinds(kinds, evaluation)
    with RunFolder(root.parent).locked():
        before = _chosen_before(root.parent / CHOSEN_FOLDER, kinds)
        places = [each for each in evaluation.found if not kinds or each.kind in kinds or _is_current(each, before)]
        places = [_with_kept(with_ensembles(each), before.get(each.place)) for each in places]
        carried = _carried(before, places)
        share = _shares(places, budget)
        sizes = Sizes(root.parent, [*(next(iter(each.candidates.values())) for each in places), *carried])
        fixed = sizes.fixed + sum(sizes.added(each, costs_of(each)) for each in carried)
        costs = _costs(places, sizes, root / COSTS_FILE, measure_again, on_progress)
        options = [option for each in places for option in _options(each, costs, budget.rows)]
        free = [each for each in options if each.place not in before or each.name == before[each.place].regressor]
        selection = choose(free, budget, share, fixed=Cost(0.0, fixed, 0.0))
        board = _leaderboard(folder, places, options, selection, costs, budget, share)
        rows = [*board.rows, *_rows_beside(evaluation.lost, carried)]
        board = replace(board, rows=rows, fixed_bytes=sizes.fixed, refit_all=refit_all)
        chosen = (*(_chosen(each, selection[each.place].name, costs) for each in places), *carried)
        shipped = chosen
        if refit_all:
            refits = Refits(root.parent, places, on_fit)
            fitted = [refits.of(place, own) for place, own in zip(places, chosen, strict=False)]
            shipped = (*_with_costs(places, fitted, sizes, root / COSTS_FILE), *carried)
            _check_size(sizes.fixed + sum(costs_of(each).bytes for each in shipped), budget)
        _write_chosen(root.parent / CHOSEN_FOLDER, chosen)
        board.write(root.parent)
    kept = tuple(sorted({each.kind for each in before.values()}))
    lost = () if kinds else tuple(evaluation.lost)
    return SelectOutcome(shipped, board, clock() - began, lost, kept, evaluation.grown)


def _known_kinds(written: Sequence[str], evaluation: Evaluation) -> list[str]:
    """Kinds that were asked for must be there, and have something to choose from: nothing is changed otherwise."""
    known = {each.kind for each in evaluation.found} | {each.kind for each in evaluation.lost}
    kinds = [known_name("trained layer kind", kind, known) for kind in written]
    if lost := [each.sentence for each in evaluation.lost if each.kind in kinds]:
        raise StoreError(f"nothing can be chosen for {'; for '.join(lost)}")
    return kinds


def _chosen_before(folder: Path, kinds: Sequence[str]) -> dict[str, Candidate]:
    """By place, what stays because only other kinds are chosen now; nothing where all are."""
    if not kinds:
        return {}
    return {f"{each.device}/{each.kind}": each for each in load_candidates(folder) if each.kind not in kinds}


def _is_current(evaluated: Evaluated, before: Mapping[str, Candidate]) -> bool:
    """Whether what was chosen before can still be judged on the rows that there are."""
    kept = before.get(evaluated.place)
    return kept is not None and learned_from(kept, evaluated.prepared)


def _carried(before: Mapping[str, Candidate], places: Sequence[Evaluated]) -> list[Candidate]:
    """What stays in the bundle without being judged again."""
    judged = {each.place for each in places}
    return [kept for place, kept in before.items() if place not in judged]


def _rows_beside(lost: Sequence[Lost], carried: Sequence[Candidate]) -> list[Json]:
    """The rows of kinds that nothing could be chosen for, or that stay as they were."""
    rows = [row for each in lost for row in failed_rows(each.device, each.kind, each.reasons)]
    for each in carried:
        (row,) = failed_rows(each.device, each.kind, {each.regressor: f"kept as chosen before, but {STALE}"})
        rows.append({**row, "chosen": True})
    return rows


def _with_kept(evaluated: Evaluated, kept: Candidate | None) -> Evaluated:
    """The same place with what was chosen before among its candidates: an ensemble may be made otherwise by now."""
    if kept is None:
        return evaluated
    own = {kept.regressor: kept}
    return replace(
        evaluated,
        candidates={**evaluated.candidates, **own},
        predicted_s={**evaluated.predicted_s, **predictions(own, evaluated.prepared)},
    )


def _shares(places: Sequence[Evaluated], budget: Budget) -> Shares:
    known = {each.kind for each in places}
    weights = {known_name("trained layer kind", kind, known): weight for kind, weight in budget.weights.items()}
    return shares({each.place: weights.get(each.kind, 1.0) for each in places})


def _costs(
    places: Sequence[Evaluated], sizes: Sizes, file: Path, measure_again: bool, on_progress: OnProgress | None
) -> PlaceCosts:
    """What every candidate takes; its bytes are those that it adds to the bundle."""
    names = [(each, name) for each in places for name in each.candidates]
    forms = {
        f"{each.place}/{name}": TimedForm(deployed_of(each.candidates[name]).form, each.prepared.test.inputs)
        for each, name in names
    }
    found = measured_costs(forms, file, again=measure_again, on_progress=on_progress)
    measured = {(each.place, name): found[f"{each.place}/{name}"] for each, name in names}
    return {
        (each.place, name): replace(cost, bytes=sizes.added(each.candidates[name], cost))
        for each, name in names
        for cost in (measured[each.place, name],)
    }


def _with_costs(
    places: Sequence[Evaluated], fitted: Sequence[Candidate], sizes: Sizes, file: Path
) -> tuple[Candidate, ...]:
    """Candidates of places with what they take."""
    own = [replace(place, candidates={each.regressor: each}) for place, each in zip(places, fitted, strict=True)]
    costs = _costs(own, sizes, file, measure_again=False, on_progress=None)
    return tuple(_chosen(place, each.regressor, costs) for place, each in zip(own, fitted, strict=True))


def _check_size(size: int, budget: Budget) -> None:
    """A fit on more rows may be larger than the one that was chosen."""
    if budget.max_kb is not None and size > 1e3 * budget.max_kb:
        raise UsageError(
            f"--refit-all: fitted on every row, what was chosen takes {size / 1e3:.1f} kB, more than --max-kb "
            f"{budget.max_kb:g}. Allow as much, or choose without --refit-all"
        )


def _options(evaluated: Evaluated, costs: PlaceCosts, rows: int) -> list[Option]:
    validation = evaluated.prepared.validation
    found = []
    for name in evaluated.candidates:
        cost = costs[evaluated.place, name]
        found.append(
            Option(
                evaluated.place,
                name,
                relative_errors(evaluated.predicted_s[name]["validation"], validation.target),
                validation.groups,
                Cost(cost.us(rows), cost.bytes, cost.load_ms),
                evaluated.ensembles.get(name, {}),
            )
        )
    return found


def _leaderboard(
    folder: Path,
    places: Sequence[Evaluated],
    options: Sequence[Option],
    selection: Selection,
    costs: PlaceCosts,
    budget: Budget,
    share: Shares,
) -> Leaderboard:
    compared = schemes(options, selection, budget, share)
    judged = bootstrap([_judged(each, compared, share) for each in places])
    over = _baseline(compared, share)
    worth = {place: {option.name for option in front(found)} for place, found in by_place(options).items()}
    test_errors = {
        (each.place, name): float(relative_errors(predicted["test"], each.prepared.test.target).mean())
        for each in places
        for name, predicted in each.predicted_s.items()
    }
    rows: list[Json] = []
    for each in places:
        own = {name: costs[each.place, name] for name in each.candidates}
        rows += candidate_rows(each, own, worth[each.place], selection[each.place].name)
    first = next(iter(places[0].candidates.values()))
    return Leaderboard(
        run=folder.resolve().name,
        split=first.facts.split,
        seed=first.facts.seed,
        budget=budget.as_json(),
        rows=rows,
        schemes=[scheme_row(scheme, judged, costs, share) for scheme in compared],
        front=[
            front_row(resource, each, share, test_errors)
            for resource in ("us", "bytes")
            for each in whole_front(options, share, resource)
        ],
        gain={
            "over": over,
            "accuracy": plain(judged.accuracy_gain(CHOSEN, over).as_json()),
            "r2": plain(judged.r2_gain(CHOSEN, over).as_json()),
        },
    )


def _judged(evaluated: Evaluated, compared: Sequence[Scheme], share: Shares) -> Judged:
    """The test rows of a place with what every scheme predicts there."""
    predicted = {
        scheme.name: evaluated.predicted_s[scheme.selection[evaluated.place].name]["test"] for scheme in compared
    }
    test = evaluated.prepared.test
    return Judged(test.target, test.groups, predicted, share[evaluated.place])


def _baseline(compared: Sequence[Scheme], share: Shares) -> str:
    """MEDN for everything; without it the regressor whose validation error is least, or the best of each place."""
    names = [scheme.name for scheme in compared]
    if single(BASELINE) in names:
        return single(BASELINE)
    alone = [scheme for scheme in compared if scheme.is_single] or [compared[-1]]
    return min(alone, key=lambda scheme: overall_error(scheme.selection, share)).name


def _chosen(evaluated: Evaluated, name: str, costs: PlaceCosts) -> Candidate:
    return replace(evaluated.candidates[name], costs=costs[evaluated.place, name])


def _write_chosen(folder: Path, chosen: Sequence[Candidate]) -> None:
    with atomic_path(folder) as beside:
        for candidate in chosen:
            save_candidate(beside, candidate)
