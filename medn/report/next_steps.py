"""What to do next: sentences with the commands that do it, the most useful first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from medn.choosing.bundling import SUFFIX
from medn.core.shipped import CONFIGS, shipped
from medn.core.units import percent
from medn.report.content import Content, KindContent
from medn.report.diagnosis import (
    CHOICE,
    DISTURBED,
    FEW_TRIALS,
    LAYERS,
    NOISE,
    TUNING,
    UNEXPLAINED,
    UNTESTED,
    better_candidate,
    causes,
    twice_the_layers,
)
from medn.report.reasons import reason
from medn.report.summary_text import joined, misses, name_of, names_of, some_of

MOST_FAILED = 0.01
"""The share of points that may be unusable without a word about it."""


@dataclass(frozen=True)
class Step:
    sentence: str
    command: str = ""
    """To copy; none where no command does it."""
    cause: str = ""


def next_steps(content: Content) -> list[Step]:
    """What mends something, then what is lost without anybody having failed, then how to use what there is."""
    by_cause: dict[str, list[KindContent]] = {}
    for kind in content.kinds:
        for cause in causes(content, kind):
            by_cause.setdefault(cause, []).append(kind)
    steps = [*_stale(content), *_mending(content, by_cause), *_warnings(content), *_using(content)]
    commands = [step.command for step in steps]
    # What one command does for several reasons is asked for once.
    return [replace(step, command="") if step.command in commands[:place] else step for place, step in enumerate(steps)]


def _stale(content: Content) -> Iterator[Step]:
    if content.grown:
        command = f"medn train {_run(content)} && medn select {_run(content)}"
        yield Step("The run holds other measurements by now than were learned from.", command, "grown")


def _mending(content: Content, by_cause: dict[str, list[KindContent]]) -> Iterator[Step]:
    if kinds := by_cause.get(NOISE):
        yield Step(
            f"Measure {names_of(content, kinds)} again, on a quieter machine or with more visits (measure: visits): "
            f"their noise, {_percents(kind.noise for kind in kinds)}, explains the error.",
            _sweep(content),
            NOISE,
        )
    if kinds := by_cause.get(DISTURBED):
        yield Step(
            f"Measure {names_of(content, kinds)} again while nothing else runs: something slowed every visit to "
            f"{_percents(kind.row['never_calm'] for kind in kinds)} of the test points, and these make the error.",
            _sweep(content),
            DISTURBED,
        )
    for kind in by_cause.get(CHOICE, ()):
        yield _choose_again(content, kind)
    if kinds := by_cause.get(UNTESTED):
        counts = sorted({kind.tested_layers for kind in kinds})
        few = f"{' to '.join(map(str, dict.fromkeys([counts[0], counts[-1]])))} test layers are"
        few = few if counts[-1] > 1 else "1 test layer is"
        each = " for each" if kinds[1:] else ""
        yield Step(
            f"Measure more layers of {names_of(content, kinds)}: {few} too few to say how good predictions are{each}.",
            _sweep(content, twice_the_points=True),
            UNTESTED,
        )
    if kinds := by_cause.get(LAYERS):
        yield Step(_more_layers(content, kinds), _sweep(content, twice_the_points=True), LAYERS)
    if kinds := by_cause.get(TUNING):
        only = "" if len(kinds) == len(content.kinds) else f" --kinds {','.join(sorted({kind.kind for kind in kinds}))}"
        yield Step(
            f"Train longer: the chosen regressor of {names_of(content, kinds)} was tried with fewer than {FEW_TRIALS} "
            "settings.",
            f"medn train {_run(content)} --time 30m{only}",
            TUNING,
        )
    if kinds := by_cause.get(UNEXPLAINED):
        yield Step(
            f"Look at the worst layers of {names_of(content, kinds)}: noise, choice, number of layers and tuning do "
            "not explain the error, so an input may be missing, or some sizes need more layers.",
            cause=UNEXPLAINED,
        )


def _choose_again(content: Content, kind: KindContent) -> Step:
    better = better_candidate(kind)
    excess = kind.excess[better or ""]
    own, other = percent(kind.row["mape"]), percent(kind.row["mape"] - excess.value)
    told = (
        f"Choose again for {name_of(content, kind)}: on the same test layers {better} errs by {other} and the chosen "
        f"{kind.candidate.regressor} by {own}, which is not luck"
    )
    row = next((row for row in kind.rows if row["candidate"] == better), None)
    if row is None:
        return Step(f"{told}. It was trained after the choice.", f"medn select {_run(content)}", CHOICE)
    why = reason(row, kind.row, content.board.budget)
    limits = [name for name in ("max_us", "max_kb", "max_load_ms") if content.board.budget.get(name)]
    if limits or content.board.budget.get("mode", "accuracy") != "accuracy":
        return Step(f"{told}. Not chosen for its cost: {why}.", f"medn select {_run(content)}", CHOICE)
    more = "More layers to choose by would tell them apart"
    return Step(f"{told}. By validation layers it looked otherwise: {why}. {more}.", _sweep(content, True), CHOICE)


def _more_layers(content: Content, kinds: Sequence[KindContent]) -> str:
    """What the learning curve says, or that there is none and layers are few."""
    told, few = [], []
    for kind in kinds:
        if forecast := twice_the_layers(content, kind):
            ahead = f"{percent(forecast[0])} -> {percent(forecast[1])}"
            told.append(f"{name_of(content, kind)} ({kind.layers}; twice as many: {ahead})")
        else:
            few.append(f"{name_of(content, kind)} ({kind.layers})")
    sentences = (
        [f"Measure more layers of {joined(some_of(told))}: the error still falls with their number."] if told else []
    )
    sentences += [f"Measure more layers of {joined(some_of(few))}: so many are few to learn from."] if few else []
    return " ".join(sentences)


def _warnings(content: Content) -> Iterator[Step]:
    if content.lost:
        reasons = "; ".join(some_of([lost.sentence for lost in content.lost]))
        yield Step(f"Nothing could be chosen for {reasons}.", f"medn train {_run(content)} --retry-failed")
    if content.untrained:
        names = joined(some_of([f"{kind} on {device}" for device, kind in content.untrained]))
        yield Step(f"Measured, but nothing was trained: {names}. Training says why.", f"medn train {_run(content)}")
    if wide := [kind for kind in content.kinds if kind.candidate.warning]:
        least = min(kind.row["inside_width"] or 0.0 for kind in wide)
        yield Step(
            f"The intervals of {names_of(content, wide)} are {least:.3g} times as wide as the predictions or wider, "
            "also within what was measured: they say next to nothing. More layers, and more alike, would narrow them."
        )
    if missed := [kind for kind in content.kinds if misses(kind)]:
        yield Step(f"Do not lean on the intervals of {names_of(content, missed)}: more layers make them more reliable.")
    if wrong := {kind: count for kind in content.kinds if (count := _wrong(kind))}:
        counted = joined(some_of([f"{count} of {name_of(content, kind)}" for kind, count in wrong.items()]))
        yield Step(
            f"Some points computed something else than torch does and were left out ({counted}): do not trust them."
        )
    failed = {kind: sum(kind.source.left_out.values()) for kind in content.kinds}
    if few := {kind: count for kind, count in failed.items() if count > MOST_FAILED * kind.points}:
        counted = joined(some_of([f"{count} of {name_of(content, kind)}" for kind, count in few.items()]))
        yield Step(f"Some points could not be used ({counted}).", f"medn summary {_run(content)}")


def _using(content: Content) -> Iterator[Step]:
    usual = content.folder / f"{content.folder.resolve().name}{SUFFIX}"
    written = [usual] if usual.exists() else sorted(content.folder.glob(f"*{SUFFIX}"))
    predict = f"medn predict {shlex.quote(str((written or [usual])[0]))} timm:resnet18"
    if not written:
        predict = f"medn select {_run(content)} && {predict}"
    yield Step("Predict a whole model from its layers.", predict)
    if content.config is not None:
        yield Step("Measure what your own model needs.", "medn sweep --for model.onnx --time 5m")


def _run(content: Content) -> str:
    return shlex.quote(str(content.folder))


def _sweep(content: Content, twice_the_points: bool = False) -> str:
    """The command that measures this run further; none for tables from elsewhere."""
    if content.config is None:
        return ""
    own = content.folder / "sweep.yaml"
    config = str(own) if own.is_file() else content.config if content.config in shipped(CONFIGS) else "CONFIG.yaml"
    points = f" --points {2 * sum(kind.points for kind in content.kinds)}" if twice_the_points else ""
    return f"medn sweep {shlex.quote(config)} --run {_run(content)}{points}"


def _percents(shares: Iterator[float | None]) -> str:
    """The shares of several kinds: the one, or the least and the largest."""
    known = sorted(share for share in shares if share is not None)
    return " to ".join(percent(share) or "" for share in dict.fromkeys([known[0], known[-1]]))


def _wrong(kind: KindContent) -> int:
    return sum(count for reason_, count in kind.source.left_out.items() if reason_.startswith("wrong: "))
