"""Whether measurements still are what was predicted: a sequential test on log ratios, with the errors it may make.

Each measurement gives the logarithm of measured over predicted, and the spread that was promised for it. Where the
promise holds, such a ratio follows a Student distribution with few degrees of freedom (errors have heavy tails) around
0. Three alternatives are held against that: everything is slower, everything is faster, errors are twice as large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

FREEDOM = 4
"""Degrees of freedom: one ratio in fifty lies beyond 3.7 times the spread, which a normal distribution all but rules
out, so that no single bad measurement decides."""

TOLERANCE = 0.1
"""The common factor, less 1, at which predictions do not fit any more."""

STILL_FITTING = 1 / 3
"""The share of it that still fits: a machine is never twice in quite the same state."""

LARGER = 2.0
"""How much larger than promised errors are that do not fit any more."""

FALSE_ALARM = MISSED = 0.05
"""The probabilities of finding a change where there is none, and none where there is one of the alternatives."""

SLOWER, FASTER, SCATTERED = ALTERNATIVES = ("slower", "faster", "scattered")

FITS, CHANGED, UNDECIDED = "fits", "changed", "undecided"


def student_quantile(share: float) -> float:
    """The quantile of the Student distribution with 4 degrees of freedom, which has a formula.

    >>> round(student_quantile(0.95), 3)
    2.132
    """
    product = 4 * share * (1 - share)
    root = math.sqrt(product)
    return math.copysign(2 * math.sqrt(math.cos(math.acos(root) / 3) / root - 1), share - 0.5)


def promised_spread(low: float, high: float, level: float) -> float:
    """The spread of log ratios that an interval promises: a share `level` of them lies in it."""
    return math.log(high / low) / 2 / student_quantile((1 + level) / 2)


@dataclass(frozen=True)
class Hypotheses:
    """What is held against one another, by the common factor that does not fit any more."""

    tolerance: float = TOLERANCE

    @property
    def changed(self) -> float:
        """The logarithm of the common factor that does not fit."""
        return math.log1p(self.tolerance)

    @property
    def still(self) -> float:
        """The logarithm of the common factor that still fits."""
        return STILL_FITTING * self.changed

    def change(self, found: str, log_factor: float) -> str:
        """What is told where an alternative was found: the common factor, where there is one that does not fit.

        What is much slower errs more than promised too, and few points are enough to see that.
        """
        if abs(log_factor) < self.changed:
            return found
        return SLOWER if log_factor > 0 else FASTER

    def evidence(self, log_ratio: float, spread: float) -> dict[str, float]:
        """By alternative, how much likelier it makes a log ratio than the promise does, as a logarithm."""
        wide = math.hypot(spread, self.still)

        def likelihood(centre: float, scale: float = 1.0) -> float:
            standard = (log_ratio - centre) / (scale * wide)
            return -(FREEDOM + 1) / 2 * math.log1p(standard * standard / FREEDOM) - math.log(scale)

        return {
            SLOWER: likelihood(self.changed) - likelihood(self.still),
            FASTER: likelihood(-self.changed) - likelihood(-self.still),
            SCATTERED: likelihood(0.0, LARGER) - likelihood(0.0),
        }


@dataclass
class SequentialTest:
    """Wald's sequential probability ratio test against each of the alternatives.

    Changed, as soon as one of them is likelier by a factor of 3 / `false_alarm`; fits, as soon as all of them are less
    likely by a factor of `missed`. Whenever one stops, the error rates hold.

    >>> test = SequentialTest()
    >>> while test.verdict == "undecided":
    ...     test.add(math.log(1.3), spread=0.1)
    >>> test.verdict, test.count
    ('changed', 5)
    """

    hypotheses: Hypotheses = field(default_factory=Hypotheses)
    false_alarm: float = FALSE_ALARM
    missed: float = MISSED
    count: int = 0
    evidence: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ALTERNATIVES, 0.0))

    def add(self, log_ratio: float, spread: float) -> None:
        self.count += 1
        for name, more in self.hypotheses.evidence(log_ratio, spread).items():
            self.evidence[name] += more

    @property
    def bounds(self) -> tuple[float, float]:
        """Of the evidence: at or below the first an alternative is ruled out, at or above the second it is found."""
        return math.log(self.missed), math.log(len(ALTERNATIVES) / self.false_alarm)

    @property
    def likeliest(self) -> str:
        return max(self.evidence, key=lambda name: self.evidence[name])

    @property
    def verdict(self) -> str:
        low, high = self.bounds
        most = max(self.evidence.values())
        return CHANGED if most >= high else FITS if most <= low else UNDECIDED


@dataclass
class ChangeDetector:
    """Page's test on a stream without end: evidence of each alternative since it was last outweighed.

    Where nothing changes, a false alarm comes once in `alarm_every` measurements on average, or less often.
    """

    hypotheses: Hypotheses = field(default_factory=Hypotheses)
    alarm_every: int = 10_000
    evidence: dict[str, float] = field(default_factory=lambda: dict.fromkeys(ALTERNATIVES, 0.0))
    found: str = ""
    """The alternative that was found, to be seen by whoever looks later; empty where none was."""

    def add(self, log_ratio: float, spread: float) -> None:
        for name, more in self.hypotheses.evidence(log_ratio, spread).items():
            self.evidence[name] = max(0.0, self.evidence[name] + more)
        if not self.found and max(self.evidence.values()) >= math.log(len(ALTERNATIVES) * self.alarm_every):
            self.found = max(self.evidence, key=lambda name: self.evidence[name])


TOLD: Mapping[str, str] = {
    SLOWER: "everything takes longer than predicted",
    FASTER: "everything takes less time than predicted",
    SCATTERED: "errors are larger than promised",
}
"""The alternatives, for people."""
