"""A visit as it passes through a pipe: JSON, and its samples as little-endian float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from medn.core.values import Samples, Visit, plain
from medn.remote.frames import Json

_FIELDS = (
    *("status", "reason", "utilization_measured", "utilization_during", "reference_s", "reference_runs"),
    *("quantities", "output_error", "probes", "state", "program", "elapsed_s"),
)


def row_of(visit: Visit) -> tuple[Json, bytes]:
    """Without what only the other side knows: the point, its environment, and when the visit was."""
    samples = visit.samples
    table = np.array([samples.wall_s, samples.cpu_s, samples.preempted], dtype="<f8")
    told = {name: plain(getattr(visit, name)) for name in _FIELDS}
    return {"visit": told, "calls_per_sample": samples.calls_per_sample}, table.tobytes()


def visit_of(head: Json, content: bytes, made: Visit) -> Visit:
    """What a row says, in place of what a visit holds that was only planned."""
    wall_s, cpu_s, preempted = np.frombuffer(content, dtype="<f8").reshape(3, -1)
    samples = Samples(wall_s, cpu_s, preempted > 0, head["calls_per_sample"])
    return replace(made, samples=samples, **{name: head["visit"][name] for name in _FIELDS if name in head["visit"]})
