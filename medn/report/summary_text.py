"""The summary in plain language: sentences made from the numbers, good and bad alike."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from medn.core.environment import describe_environment
from medn.core.units import format_bytes, percent
from medn.report.content import Content, KindContent
from medn.report.verdicts import VERDICTS, is_near_noise, verdict

MOST_NAMES = 8
"""In one sentence."""

TOO_FEW = "Tested on too few layers to tell"


def summary(content: Content) -> list[str]:
    """The results, a sentence or two for each question."""
    return [
        _measured(content),
        _errors(content),
        _verdicts(content),
        _costs(content),
        *_gain(content),
        _intervals(content),
    ]


def joined(names: Sequence[str]) -> str:
    """Names as one says them.

    >>> joined(["conv2d", "linear", "softmax"])
    'conv2d, linear and softmax'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _measured(content: Content) -> str:
    points = sum(kind.points for kind in content.kinds)
    kinds = len({kind.kind for kind in content.kinds})
    machines = "; ".join(describe_environment(environment) for environment in content.environments.values())
    return (
        f"This run holds {points:,} measured points of {_count(kinds, 'layer kind')} on {joined(content.devices)}"
        + (f" ({machines})." if machines else ".")
    )


def _errors(content: Content) -> str:
    rows = [kind.row for kind in content.kinds]
    median = statistics.fmean(row["median"] for row in rows)
    mape = statistics.fmean(row["mape"] for row in rows)
    noises = [kind.noise for kind in content.kinds if kind.noise is not None]
    text = (
        f"For a layer it has not seen, half of the predictions are within {percent(median)} of the measurement, and "
        f"the mean error is {percent(mape)} (means over the kinds)."
    )
    if noises:
        text += (
            f" The measurements themselves repeat within {percent(statistics.fmean(noises))} on average, so no "
            "predictor can be judged finer than that."
        )
    never_calm = [kind for kind in content.kinds if kind.row.get("never_calm")]
    if never_calm:
        share = statistics.fmean(kind.row.get("never_calm") or 0.0 for kind in content.kinds)
        text += (
            f" {percent(share)} of the test points were never calm, as something else slowed every visit: their error, "
            f"{percent(_mean(never_calm, 'never_calm_mape'))}, is partly that of measuring"
        )
        others = percent(_mean(content.kinds, "calm_mape"))
        text += f"; that of the others is {others}." if others else "."
    unknown = [kind for kind in content.kinds if kind.noise is None]
    if unknown:
        text += (
            f" How well the measurements of {names_of(content, unknown)} repeat is not known, as they were not made "
            "twice: their share of the error cannot be told."
        )
    return " ".join(filter(None, [text, content.board.shipped_sentence]))


def _mean(kinds: Sequence[KindContent], column: str) -> float | None:
    known = [kind.row[column] for kind in kinds if kind.row.get(column) is not None]
    return statistics.fmean(known) if known else None


def _verdicts(content: Content) -> str:
    by_verdict: dict[str, list[str]] = {name: [] for name in VERDICTS}
    for kind in sorted(content.kinds, key=lambda kind: kind.row["mape"]):
        by_verdict[verdict(kind)].append(f"{name_of(content, kind)} ({percent(kind.row['mape'])})")
    openings = {"good": "Accurate", "fair": "Usable", "poor": "Not to be relied on yet", "unclear": TOO_FEW}
    sentences = [f"{openings[name]}: {joined(kinds)}." for name, kinds in by_verdict.items() if kinds]
    near = [kind for kind in content.kinds if is_near_noise(kind)]
    if near:
        sentences.append(f"Close to what the measurements allow: {names_of(content, near)}.")
    return " ".join(sentences)


def _costs(content: Content) -> str:
    rows = [kind.row for kind in content.kinds]
    times = [row["us_1"] for row in rows]
    return (
        f"The chosen predictors take {min(times):.3g} to {max(times):.3g} us for one prediction and "
        f"{format_bytes(sum(row['bytes'] for row in rows))} in all."
    )


def _gain(content: Content) -> Iterator[str]:
    """What choosing brings, where the leaderboard compares it with one regressor for every kind."""
    gain = content.board.gain
    if gain and gain["accuracy"]["value"] is not None:
        accuracy = {name: f"{gain['accuracy'][name] * 100:+.1f}" for name in ("value", "low", "high")}
        yield (
            f"Against the scheme '{gain['over']}', this choice changes the accuracy by {accuracy['value']} percentage "
            f"points ({gain['accuracy']['level'] * 100:g} % confidence: {accuracy['low']} to {accuracy['high']})."
        )


def _intervals(content: Content) -> str:
    missed = [kind for kind in content.kinds if misses(kind)]
    levels = {kind.level for kind in content.kinds}
    promised = joined([f"{level * 100:.3g} %" for level in sorted(levels)])
    covered = [kind.row["coverage"] for kind in content.kinds]
    text = f"Intervals promise to hold {promised} of the measurements and hold {percent(min(covered))}"
    text += f" to {percent(max(covered))} of them by kind" if len(covered) > 1 else ""
    if missed:
        return (
            f"{text}: too few for {joined([name_of(content, kind) for kind in missed])}, beyond what chance explains."
        )
    return f"{text}, as far off as chance explains."


def misses(kind: KindContent) -> bool:
    """Whether the intervals hold fewer measurements than they promise, beyond what chance explains."""
    return float(kind.row["coverage"]) < kind.level - kind.doubt(kind.level)


def name_of(content: Content, kind: KindContent) -> str:
    """With its device where there are several."""
    return f"{kind.kind} on {kind.device}" if len(content.devices) > 1 else kind.kind


def names_of(content: Content, kinds: Sequence[KindContent]) -> str:
    """The names of kinds; of many, the first and how many more there are."""
    return joined(some_of([name_of(content, kind) for kind in kinds]))


def some_of(names: Sequence[str]) -> list[str]:
    """
    >>> some_of(list("abcdefghij"))
    ['a', 'b', 'c', 'd', 'e', 'f', 'g', '3 more']
    """
    if len(names) <= MOST_NAMES:
        return list(names)
    return [*names[: MOST_NAMES - 1], f"{len(names) - MOST_NAMES + 1} more"]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
