"""A candidate as it answers in use: beyond its range it holds the efficiency, and every answer has bounds."""

from __future__ import annotations

from dataclasses import dataclass

from medn.core.errors import StoreError
from medn.core.intervals import Interval
from medn.core.ranges import HeldEfficiency, Range
from medn.core.table import Array
from medn.pipeline.candidates import Candidate
from medn.regressors.form import Form


@dataclass(frozen=True, eq=False)
class Deployed:
    candidate: Candidate
    form: Form
    range: Range
    interval: Interval
    roofline: Form | None
    """How latency grows with the work beyond what was measured, where the run knows."""

    @classmethod
    def of(cls, candidate: Candidate, roofline: Form | None = None) -> Deployed:
        if candidate.form is None or candidate.range is None or candidate.interval is None:
            raise StoreError(
                f"{candidate.regressor} for {candidate.kind} on {candidate.device} was chosen but is not whole. "
                "Choose again: medn select RUN"
            )
        return cls(candidate, candidate.form, candidate.range, candidate.interval, roofline)

    def predict(self, inputs: Array) -> Array:
        """Latency in seconds."""
        held = HeldEfficiency(self.range, self.roofline.predict if self.roofline else None)
        return held.predict(inputs, self.form.predict)[0]

    def bounds(self, predicted_s: Array, inputs: Array) -> tuple[Array, Array]:
        return self.interval.bounds(predicted_s, self.range.distance(inputs))
