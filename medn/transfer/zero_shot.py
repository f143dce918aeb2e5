"""A device known by its data sheet alone: predicted from what devices with other sheets take for the same layers.

Nothing is measured and nothing is trained. The predictors of known devices are asked about layers, each device is left
out in turn to find out how much of the others there is in it, and the new device is put together in the same way.
Its errors and intervals are those of the devices left out, and every prediction is flagged.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from medn.adaptive.pool import Pair, PointPool, some
from medn.bundle.bundle import Bundle, Entry, write_bundle
from medn.core.data_sheet import NO_SHEET, SHEET_NUMBERS, Sheet, sheet_mistakes
from medn.core.errors import MednError, UsageError
from medn.core.intervals import LEVEL, Interval, Spread
from medn.core.learn_range import learn_range
from medn.core.metrics import score
from medn.core.splits import Split
from medn.core.table import Array
from medn.core.values import Point, content_key
from medn.deployed.beyond import BOUNDED
from medn.deployed.calibration import interval_coverage
from medn.deployed.candidate import Candidate, deployed_of
from medn.deployed.deployed import Answer, Deployed
from medn.deployed.facts import ELSEWHERE, ShippedScores, TrainingFacts
from medn.deployed.packing import pack_deployed
from medn.layer_generators.kind import layer_kinds
from medn.regressors.families.roofline import plain_roofline
from medn.regressors.forms.peak_times import PeakTimes
from medn.regressors.forms.roofline import Columns
from medn.regressors.forms.stack import Stack
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import Effort
from medn.regressors.sources import Sources
from medn.runs.inputs import remainders
from medn.runs.tables import KindTable, Source, kind_table
from medn.runs.usual_conditions import usual_conditions
from medn.sources.run_sources import KnownDevices
from medn.transfer.device_weights import LeftOut, blend_for, interval_width

NAME = "zero_shot"
"""What the candidate is called in the place of a regressor."""

ROWS = 600
"""Layers of a kind that known devices are compared on."""

FEWEST_DEVICES = 2
PEAKS = ("peak_gflops", "bandwidth_gb_s")
"""The numbers of a data sheet without which nothing can be said."""

OVERHEAD_S = 2e-5
"""What a layer takes at least, whatever the peaks are."""

LEAST_WIDENING = 0.5
"""Of intervals beyond the range, for each power of e."""

ROOFLINE_S = 10.0


@dataclass(frozen=True, eq=False)
class Foreseen:
    """What a data sheet and known devices say of one kind."""

    candidate: Candidate
    shares: Mapping[str, float]
    """How much of each known device there is in it."""
    left_out: Mapping[str, float]
    """The error on each known device when the others alone predict it."""


@dataclass(frozen=True, eq=False)
class ZeroShot:
    bundle: Bundle
    kinds: Mapping[str, Foreseen]
    unusable: Mapping[str, str]
    """Kinds, and known devices for a kind, that could not be used, with the reason."""

    def write(self, path: Path) -> Path:
        write_bundle(path, self.bundle)
        return path


def zero_shot(known: KnownDevices, device: str, sheet: Sheet, pool: PointPool, seed: int = 0) -> ZeroShot:
    """The bundle of a device that nothing was measured on; the layers of the pool say what it is for."""
    check_sheet(sheet)
    found: dict[str, Foreseen] = {}
    entries: list[Entry] = []
    unusable: dict[str, str] = {}
    for kind, pairs in pool.pairs.items():
        chosen = some(pairs, ROWS, np.random.default_rng(seed))
        try:
            table = unmeasured_table(kind, chosen, known, device, sheet)
            found[kind] = foresee(known, table, seed, unusable)
        except MednError as error:
            unusable[kind] = str(error)
            continue
        conditions = {(device, kind): [condition.values for _, condition in chosen]}
        entries.append(Entry(found[kind].candidate, usual=usual_conditions(conditions, device, kind)))
    if not entries:
        raise UsageError("; ".join(f"{name}: {reason}" for name, reason in unusable.items()))
    return ZeroShot(Bundle(f"{device}-adapted", tuple(entries)), found, unusable)


def check_sheet(sheet: Sheet) -> None:
    if mistakes := sheet_mistakes(sheet):
        raise UsageError(f"the data sheet: {'; '.join(mistakes)}")
    if missing := [name for name in PEAKS if name not in sheet]:
        raise UsageError(f"a device that is not measured needs {' and '.join(missing)} of its data sheet: --sheet")


def unmeasured_table(kind: str, pairs: Sequence[Pair], known: KnownDevices, device: str, sheet: Sheet) -> KindTable:
    """The table of layers on a new device, with a second in the place of every latency."""
    layer_kind = layer_kinds[kind]
    rows = [
        {
            **{"device": device, **layer_kind.complete(layer.values), **condition.values},
            **{"point_key": Point(layer, condition, device).key, "environment_id": ""},
            **{"status": "ok", "reason": None, "latency_s": 1.0, "split_half_difference": None},
        }
        for layer, condition in pairs
    ]
    dtypes: dict[str, float] = {}
    for _, _, entry in known.entries(kind):
        dtypes |= entry.latency.facts.dtypes
    return kind_table(Source({kind: rows}, sheets={device: sheet}, dtypes=dtypes), kind, device=device)


def foresee(known: KnownDevices, table: KindTable, seed: int, unusable: dict[str, str]) -> Foreseen:
    """What known devices say of the layers of a table, put together for its device."""
    (device,) = table.devices
    sources, entries, reasons = _usable(known, table)
    unusable |= {f"{name}/{table.kind}": reason for name, reason in reasons.items()}
    names = _shared_numbers([table.sheets[device], *entries.sheets])
    own = _descriptor(table.sheets[device], names)
    descriptors = np.array([_descriptor(sheet, names) for sheet in entries.sheets])
    logs = sources.logs(table.table.inputs)
    peaks = PeakTimes(
        Columns.find(table.table.schema),
        np.array([_rates(sheet) for sheet in (*entries.sheets, table.sheets[device])]),
        np.ones(len(entries.sheets) + 1),
    )
    times = np.column_stack(peaks.times(table.table.inputs))
    left_out = LeftOut.of(logs, times[:, :-1], descriptors)
    blend = blend_for(own, descriptors, left_out)
    form = WeightedSum(
        [Stack(sources, blend.weights.tolist(), 0.0), PeakTimes(peaks.columns, peaks.rates, blend.peak_weights)]
    )
    blended = left_out.blended
    filled = replace(table.table, target=np.exp(form.log_value(table.table.inputs)))
    deployed = Deployed(
        form=form,
        range=learn_range(filled, filled, seed, remainders(table.layer_kind)),
        interval=_interval(blended, entries, len(filled)),
        constants=table.constants,
        way=BOUNDED,
        roofline=plain_roofline(filled, Effort(ROOFLINE_S, seed)),
    )
    errors = np.abs(np.expm1(-blended)).mean(axis=1)
    return Foreseen(
        _candidate(table, deployed, _scores(deployed, blended, logs), sources.names, seed),
        dict(sorted(zip(sources.names, blend.weights.tolist(), strict=True), key=lambda each: -abs(each[1]))),
        dict(zip(sources.names, errors.tolist(), strict=True)),
    )


@dataclass(frozen=True)
class _Entries:
    """The sheets and the candidates of known devices."""

    sheets: tuple[Sheet, ...]
    candidates: tuple[Candidate, ...]


def _usable(known: KnownDevices, table: KindTable) -> tuple[Sources, _Entries, dict[str, str]]:
    """The known devices that have a data sheet and see the layers of the table."""
    found = known.sources(table)
    reasons = dict(found.reasons)
    sheets: dict[str, Sheet] = {}
    candidates: dict[str, Candidate] = {}
    for name, device, entry in known.entries(table.kind):
        sheets[name] = entry.latency.facts.sheets.get(device, NO_SHEET)
        candidates[name] = entry.latency
        if name not in reasons and not set(PEAKS) <= set(sheets[name]):
            reasons[name] = f"{device} was learned without a data sheet that has {' and '.join(PEAKS)}"
    names = [name for name in (found.sources.names if found.sources else ()) if name not in reasons]
    if found.sources is None or len(names) < FEWEST_DEVICES:
        why = "; ".join(dict.fromkeys(reasons.values()))
        raise UsageError(
            f"a device that is not measured needs {FEWEST_DEVICES} known ones with data sheets, "
            f"and {table.kind} has {len(names)}{f' ({why})' if why else ''}"
        )
    sources = found.sources.only([found.sources.names.index(name) for name in names])
    own = _Entries(tuple(sheets[name] for name in names), tuple(candidates[name] for name in names))
    return sources, own, reasons


def _shared_numbers(sheets: Sequence[Sheet]) -> list[str]:
    return [name for name in SHEET_NUMBERS if all(name in sheet for sheet in sheets)]


def _descriptor(sheet: Sheet, names: Sequence[str]) -> Array:
    return np.log([float(sheet[name]) for name in names])


def _rates(sheet: Sheet) -> tuple[float, float, float]:
    return 1e9 * float(sheet["peak_gflops"]), 1e9 * float(sheet["bandwidth_gb_s"]), 1.0 / OVERHEAD_S


def _interval(blended: Array, entries: _Entries, rows: int) -> Interval:
    """As wide as the devices left out call for, and as what predicts them errs itself; each device counts once."""
    own = statistics.median(math.log1p(each.scores.test.p90) if each.scores else 0.0 for each in entries.candidates)
    width = math.hypot(interval_width(blended, LEVEL), own)
    widenings = [deployed_of(each).interval.widening or 0.0 for each in entries.candidates]
    same = Spread(0.0, 1.0, (0.0, 0.0, 0.0, 0.0), 0.0, 0.0)
    return Interval(LEVEL, width, rows * len(blended), same, len(blended), max(LEAST_WIDENING, *widenings))


def _scores(deployed: Deployed, blended: Array, logs: Array) -> ShippedScores:
    """Of known devices, each predicted by the others."""
    measured = np.exp(logs.T.ravel())
    predicted = np.exp((logs.T - blended).ravel())
    factor = np.exp(deployed.interval.quantile)
    inside = np.ones(len(measured), dtype=bool)
    coverage = interval_coverage(deployed, Answer(predicted, predicted / factor, predicted * factor, inside), measured)
    errors = score(predicted, measured)
    return ShippedScores(errors, errors, coverage)


def _candidate(
    table: KindTable, deployed: Deployed, scores: ShippedScores, sources: Sequence[str], seed: int
) -> Candidate:
    (device,) = table.devices
    _, arrays = pack_deployed(deployed)
    return Candidate(
        device=device,
        kind=table.kind,
        regressor=NAME,
        facts=TrainingFacts(
            key=content_key([device, NAME, table.key, list(sources), seed]),
            budget_s=0.0,
            seed=seed,
            split=str(Split()),
            inputs=table.choice.as_json(),
            schema=table.table.schema,
            constants=table.constants,
            sheets=table.sheets,
            dtypes=table.dtypes,
            settings={"measured_on": ", ".join(sources)},
            learned_from=ELSEWHERE,
        ),
        scores=scores.told,
        deployed=deployed,
        size_bytes=sum(array.nbytes for array in arrays.values()),
    )
