"""What a run has measured, and its target: chosen once for the visits that there are, and recorded with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from medn.core.calm import with_calm
from medn.core.preempted import with_processor_time
from medn.core.statistic import NoiseFloor, Target, choose_target
from medn.core.store import Store, StoreState
from medn.core.values import Measurement

TARGET_NOTE = "target"


@dataclass(frozen=True)
class RunTarget:
    """Which statistic stands for the latency, and why."""

    target: Target = field(default_factory=Target)
    repeatability: Mapping[str, NoiseFloor] = field(default_factory=dict)
    """How well each candidate for the idle target repeats."""
    chosen_from: StoreState = field(default_factory=StoreState)
    """Which visits it was chosen from."""

    def as_json(self) -> dict[str, Any]:
        repeatability = {name: asdict(floor) for name, floor in self.repeatability.items()}
        return {
            **self.target.definition,
            "repeatability": repeatability,
            "chosen_from": self.chosen_from.as_json(),
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> RunTarget:
        """What `as_json` wrote; an earlier version wrote only the definition of the target."""
        repeatability = {name: NoiseFloor(**floor) for name, floor in written.get("repeatability", {}).items()}
        return cls(Target.from_definition(written), repeatability, StoreState(**written.get("chosen_from", {})))


def read_measured(store: Store) -> tuple[list[Measurement], RunTarget]:
    """Everything measured, with the target recorded for it; one is chosen where visits came since, or none was."""
    state = store.state()  # first: a visit made meanwhile must not pass for one that the target was chosen from
    measurements = with_processor_time(with_calm(list(store.measurements())))
    written = store.read_note(TARGET_NOTE)
    recorded = RunTarget.from_json(written) if written else None
    if recorded and recorded.chosen_from == state:
        return measurements, recorded
    return measurements, RunTarget(*choose_target(measurements), state)


def record_target(store: Store, target: RunTarget) -> None:
    """Keep the target for all who read the same visits later."""
    if store.read_note(TARGET_NOTE) != target.as_json():
        store.note(TARGET_NOTE, target.as_json())
