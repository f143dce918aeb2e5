"""What is the matter with a kind: runs that have exactly one fault each, measured, trained and chosen from."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medn.adaptive.run_curve import keep_curve, run_curve
from medn.choosing.select_run import select_run
from medn.core.bootstrap import Estimate
from medn.core.splits import Split
from medn.deployed.candidate import Candidate
from medn.report.content import Content, KindContent, gather
from medn.report.diagnosis import (
    CHOICE,
    DISTURBED,
    LAYERS,
    NOISE,
    TUNING,
    UNEXPLAINED,
    UNTESTED,
    better_candidate,
    causes,
)
from medn.report.history import Search
from medn.report.kind_plots import few_rows_note, kind_plots
from medn.report.next_steps import Step, next_steps
from medn.report.verdicts import verdict
from medn.selection.budget import Budget
from medn.training.candidate_store import candidates_root, load_candidates, save_candidate
from medn.training.train_run import train_run

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"
LAW = ("median", "test-law")
MakeRun = Callable[..., Path]


@pytest.fixture(scope="module")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeRun]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDN_PLUGINS", "plain_regressors")
        patch.setenv("PYTHONPATH", str(PLUGINS))
        patch.syspath_prepend(str(PLUGINS))
        importlib.import_module("plain_regressors")
        write_run = importlib.import_module("made_up_run").write_run

        def make(families: tuple[str, ...] = LAW, **faults: Any) -> Path:
            run: Path = write_run(tmp_path_factory.mktemp("runs") / "faulty", **{"activations": 40, **faults})
            train_run(run, seconds=2.0, families=families)
            select_run(run, Budget())
            return run

        yield make


def linear(content: Content) -> KindContent:
    return next(kind for kind in content.kinds if kind.kind == "linear")


def steps_for(content: Content, cause: str) -> list[Step]:
    return [step for step in next_steps(content) if step.cause == cause]


def test_a_run_without_a_fault_has_nothing_to_mend(content: Content) -> None:
    faultless = replace(content, kinds=(linear(content),))
    assert verdict(linear(content)) == "good"
    assert causes(faultless, linear(content)) == ()
    assert not any(step.cause for step in next_steps(faultless))
    assert any(step.command.endswith("desk.medn timm:resnet18") for step in next_steps(faultless))


def test_where_visits_do_not_repeat_measuring_was_the_fault(make_run: MakeRun) -> None:
    content = gather(make_run(noise=0.2))
    assert causes(content, linear(content)) == (NOISE,)
    (step,) = steps_for(content, NOISE)
    assert step.sentence.startswith("Measure activation and linear again, on a quieter machine")
    assert step.command.startswith("medn sweep CONFIG.yaml --run ")


def test_where_something_slowed_every_visit_measuring_was_the_fault(make_run: MakeRun) -> None:
    content = gather(make_run(disturbed=0.25, layers=80))
    kind = linear(content)
    assert kind.row["calm_mape"] < 0.05 < kind.row["never_calm_mape"]
    assert causes(content, kind) == (DISTURBED,)
    assert "again while nothing else runs" in steps_for(content, DISTURBED)[0].sentence


def test_what_no_visit_repeats_and_no_layer_tells_is_left_unexplained(make_run: MakeRun) -> None:
    run = make_run(scatter=0.3, layers=400)
    keep_curve(run, run_curve(run))
    content = gather(run)
    assert causes(content, linear(content)) == (UNEXPLAINED,)
    assert steps_for(content, UNEXPLAINED)[0].command == ""
    assert not any("again" in step.sentence for step in next_steps(content))


def test_where_the_learning_curve_still_falls_layers_are_missing(make_run: MakeRun) -> None:
    run = make_run(families=("median", "nearest"), layers=60)
    keep_curve(run, run_curve(run))
    content = gather(run)
    assert causes(content, linear(content)) == (LAYERS,)
    (step,) = steps_for(content, LAYERS)
    assert "twice as many: " in step.sentence
    assert "the error still falls" in step.sentence
    assert f"--points {2 * sum(kind.points for kind in content.kinds)}" in step.command


def test_where_no_curve_was_kept_few_layers_are_few(content: Content) -> None:
    poor = replace(linear(content), rows=tuple({**row, "mape": 0.4} for row in linear(content).rows), excess={})
    assert content.curve is None
    assert causes(content, poor) == (LAYERS,)
    assert causes(content, many_layers(poor)) == (UNEXPLAINED,)
    (step,) = steps_for(replace(content, kinds=(poor,)), LAYERS)
    assert step.sentence == "Measure more layers of linear (39): so many are few to learn from."


def many_layers(kind: KindContent) -> KindContent:
    """The same rows several times over, each of a layer of its own."""
    repeated = kind.source.table.take(np.tile(np.arange(kind.points), 5))
    named = replace(repeated, groups=np.array([f"{row}" for row in range(len(repeated))]))
    return replace(kind, source=replace(kind.source, table=named))


def test_a_regressor_trained_after_the_choice_that_errs_less_asks_for_another(make_run: MakeRun) -> None:
    run = make_run(families=("median",), layers=60)
    train_run(run, seconds=2.0, families=LAW)
    content = gather(run)
    assert causes(content, linear(content)) == (CHOICE,)
    step = next(each for each in steps_for(content, CHOICE) if "linear" in each.sentence)
    assert "test-law errs by" in step.sentence
    assert step.sentence.endswith("It was trained after the choice.")
    commands = [each.command for each in steps_for(content, CHOICE)]
    assert commands == [f"medn select {run}", *[""] * (len(commands) - 1)]


def test_a_candidate_that_only_looked_good_on_validation_layers_was_the_wrong_choice(make_run: MakeRun) -> None:
    run = make_run(layers=60)
    root = candidates_root(run, Split())
    for candidate in load_candidates(root):
        if candidate.regressor == "median":
            save_candidate(root, _flattered(candidate, gather(run)))
    select_run(run, Budget())
    content = gather(run)
    assert linear(content).candidate.regressor == "median"
    assert better_candidate(linear(content)) == "test-law"
    assert causes(content, linear(content)) == (CHOICE,)
    step = next(each for each in steps_for(content, CHOICE) if "linear" in each.sentence)
    assert "By validation layers it looked otherwise" in step.sentence


def _flattered(candidate: Candidate, content: Content) -> Candidate:
    """The same, as if it had predicted the layers that are chosen by without an error."""
    kind = next(kind for kind in content.kinds if kind.kind == candidate.kind)
    rows = np.isin(kind.source.table.groups, kind.test.groups, invert=True)
    return replace(candidate, held_out=np.log(kind.source.table.target[rows]))


def test_noise_is_no_excuse_for_a_candidate_that_another_beats(content: Content) -> None:
    kind = linear(content)
    noisy = replace(kind, rows=tuple({**row, "mape": 0.2, "noise_mean": 0.15} for row in kind.rows), excess={})
    assert causes(content, noisy) == (NOISE,)
    assert causes(content, replace(noisy, excess={"test-law": Estimate(0.1, 0.08, 0.12)})) == (CHOICE,)
    assert causes(content, replace(noisy, excess={"test-law": Estimate(0.1, -0.01, 0.2)})) == (NOISE,)


def test_luck_on_a_few_test_layers_is_no_wrong_choice(content: Content) -> None:
    for kind in content.kinds:
        worst = replace(kind, rows=tuple({**row, "mape": 0.3} for row in kind.rows))
        assert better_candidate(worst) is None


def test_a_regressor_that_was_hardly_tuned_is_to_be_trained_longer(content: Content) -> None:
    kinds = []
    for kind in content.kinds:
        members = kind.candidate.regressor.split("+")
        rows = tuple({**row, "mape": 0.4} for row in kind.rows)
        searches = dict.fromkeys(members, Search((0.4, 0.3)))
        kinds.append(replace(kind, rows=rows, searches=searches, excess={}, source=many_layers(kind).source))
    hardly = replace(content, kinds=tuple(kinds))
    assert causes(hardly, hardly.kinds[1]) == (TUNING,)
    assert steps_for(hardly, TUNING)[0].command == f"medn train {content.folder} --time 30m"


def test_a_kind_with_a_handful_of_test_layers_is_not_judged_nor_drawn_in_bars(make_run: MakeRun) -> None:
    content = gather(make_run(activations=12))
    few = content.kinds[0]
    assert (few.kind, verdict(few), causes(content, few)) == ("activation", "unclear", (UNTESTED,))
    assert "are too few to say" in steps_for(content, UNTESTED)[0].sentence
    titles = [plot.title for plot in kind_plots(few)]
    assert "Predicted against measured" in titles
    assert not {"Error against batch size", "Interval coverage", "Importance of inputs"} & set(titles)
    assert few_rows_note(few).startswith(f"Only {len(few.test)} test points of {few.tested_layers} layers")
    assert few_rows_note(linear(content)) == ""


def test_a_kind_that_nothing_was_trained_for_is_told(make_run: MakeRun) -> None:
    content = gather(make_run(activations=5))
    assert content.untrained == (("made-up", "activation"),)
    assert any("nothing was trained: activation on made-up" in step.sentence for step in next_steps(content))
