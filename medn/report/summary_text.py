"""The summary in plain language: sentences made from the numbers, good and bad alike."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from medn.core.environment import describe_environment
from medn.core.units import format_bytes, percent
from medn.core.values import Condition, Scalar
from medn.layer_generators.kind import LayerKind
from medn.report.content import Content, KindContent

GOOD_ERROR = 0.05
"""A median error up to this is good, whatever the machine: noise is a reason for an error, not an excuse."""

POOR_ERROR = 0.15
"""A mean error above this misleads an optimizer."""

NEAR_NOISE = 2.0
"""A median error of at most this many times the noise floor is about as good as the measurements allow."""

NOISY = 0.05
FEW_LAYERS = 300
FEW_TRIALS = 5
MOST_FAILED = 0.01


def verdict(kind: KindContent) -> str:
    """good, fair or poor, by the error alone."""
    row = kind.row
    if row["mape"] > POOR_ERROR:
        return "poor"
    return "good" if row["median"] <= GOOD_ERROR else "fair"


def is_near_noise(kind: KindContent) -> bool:
    """Whether the measurements themselves explain the error; where their noise is not known, nothing does."""
    noise = kind.row["noise_median"]
    return noise is not None and kind.row["median"] <= NEAR_NOISE * noise


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


def advice(content: Content) -> list[str]:
    """What to do next, the most useful first."""
    sentences = list(_advice(content))
    return sentences or ["Nothing stands out: every kind is predicted well."]


def joined(names: Sequence[str]) -> str:
    """Names as one says them.

    >>> joined(["conv2d", "linear", "softmax"])
    'conv2d, linear and softmax'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def format_layer(kind: LayerKind, layer: Mapping[str, Scalar]) -> str:
    """A layer and its condition without defaults.

    >>> from medn.layer_generators.kind import layer_kinds
    >>> format_layer(layer_kinds["linear"], {"in_features": 8, "bias": True, "batch_size": 1, "threads": 1})
    'in_features 8, batch_size 1'
    """
    usual = {name: value for name, value in Condition().values.items() if name != "batch_size"}
    usual |= {parameter.name: parameter.default for parameter in kind.parameters if parameter.default is not None}
    return ", ".join(f"{name} {value}" for name, value in layer.items() if usual.get(name) != value)


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
    noises = [row["noise_median"] for row in rows if row["noise_median"] is not None]
    text = (
        f"For a layer it has not seen, half of the predictions are within {percent(median)} of the measurement, and "
        f"the mean error is {percent(mape)} (means over the kinds)."
    )
    if noises:
        text += (
            f" The measurements themselves repeat within {percent(statistics.fmean(noises))}, so no predictor can be "
            "judged finer than that."
        )
    unknown = [kind for kind in content.kinds if kind.row["noise_median"] is None]
    if unknown:
        text += (
            f" How well the measurements of {_names(content, unknown)} repeat is not known, as they were not made "
            "twice: their share of the error cannot be told."
        )
    return text


def _verdicts(content: Content) -> str:
    by_verdict: dict[str, list[str]] = {"good": [], "fair": [], "poor": []}
    for kind in sorted(content.kinds, key=lambda kind: kind.row["mape"]):
        by_verdict[verdict(kind)].append(f"{_name(content, kind)} ({percent(kind.row['mape'])})")
    openings = {"good": "Accurate", "fair": "Usable", "poor": "Not to be relied on yet"}
    sentences = [f"{openings[name]}: {joined(kinds)}." for name, kinds in by_verdict.items() if kinds]
    near = [kind for kind in content.kinds if is_near_noise(kind)]
    if near:
        sentences.append(f"Close to what the measurements allow: {_names(content, near)}.")
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
    missed = [kind for kind in content.kinds if _misses(kind)]
    levels = {kind.interval.level for kind in content.kinds}
    promised = joined([f"{level * 100:g} %" for level in sorted(levels)])
    covered = [kind.row["coverage"] for kind in content.kinds]
    text = f"Intervals promise to hold {promised} of the measurements and hold {percent(min(covered))}"
    text += f" to {percent(max(covered))} of them by kind" if len(covered) > 1 else ""
    if missed:
        return f"{text}: too few for {joined([_name(content, kind) for kind in missed])}, beyond what chance explains."
    return f"{text}, as far off as chance explains."


def _misses(kind: KindContent) -> bool:
    level = kind.interval.level
    return float(kind.row["coverage"]) < level - kind.doubt(level)


def _advice(content: Content) -> Iterator[str]:
    wanting = [kind for kind in content.kinds if verdict(kind) != "good"]
    noisy = [kind for kind in wanting if is_near_noise(kind) and kind.row["noise_median"] > NOISY]
    few = [kind for kind in wanting if kind not in noisy and kind.layers < FEW_LAYERS]
    hardly_tuned = [kind for kind in wanting if 0 < len(_history(kind)) < FEW_TRIALS]
    rest = [kind for kind in wanting if kind not in (*noisy, *few, *hardly_tuned)]
    if noisy:
        yield (
            f"Measure {_names(content, noisy)} again, on a quieter machine or with more visits: the measurements "
            f"themselves repeat badly."
        )
    if few:
        counts = joined([f"{kind.layers}" for kind in few])
        yield f"Measure more layers of {_names(content, few)}: {counts} different ones are few to learn from."
    if hardly_tuned:
        yield (
            f"Train longer (medn train {content.folder} --time ...): the chosen regressor of "
            f"{_names(content, hardly_tuned)} was tried with fewer than {FEW_TRIALS} settings."
        )
    if rest:
        yield (
            f"Look at the pictures of {_names(content, rest)}: points, noise and tuning do not explain the error, so "
            "the heat map may show which sizes to measure more of."
        )
    for warning in [kind.candidate.warning for kind in content.kinds if kind.candidate.warning]:
        yield f"{warning[0].upper()}{warning[1:]}"
    missed = [kind for kind in content.kinds if _misses(kind)]
    if missed:
        yield f"Do not lean on the intervals of {_names(content, missed)}: more points make them more reliable."
    wrong = {kind: count for kind in content.kinds if (count := _wrong(kind))}
    if wrong:
        counted = joined([f"{count} of {_name(content, kind)}" for kind, count in wrong.items()])
        yield f"Some points computed something else than torch does and were left out ({counted}): do not trust them."
    failed = {kind: _failed(kind) for kind in content.kinds if _failed(kind) > MOST_FAILED * kind.points}
    if failed:
        counted = joined([f"{count} of {_name(content, kind)}" for kind, count in failed.items()])
        yield f"Some points could not be used ({counted}); medn summary {content.folder} says why."


def _history(kind: KindContent) -> tuple[float, ...]:
    """Of the chosen regressor; an ensemble was searched as long as its least searched member."""
    members = kind.candidate.regressor.split("+")
    return min((kind.histories.get(member, ()) for member in members), key=len)


def _failed(kind: KindContent) -> int:
    return sum(kind.source.left_out.values())


def _wrong(kind: KindContent) -> int:
    return sum(count for reason, count in kind.source.left_out.items() if reason.startswith("wrong: "))


def _name(content: Content, kind: KindContent) -> str:
    return f"{kind.kind} on {kind.device}" if len(content.devices) > 1 else kind.kind


def _names(content: Content, kinds: Sequence[KindContent]) -> str:
    return joined([_name(content, kind) for kind in kinds])


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
