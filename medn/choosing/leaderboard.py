"""The leaderboard of a run: a documented contract, written as JSON and CSV beside the measurements."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.choosing.evaluation import Evaluated
from medn.core.atomic import atomic_write
from medn.core.errors import StoreError, UsageError, unknown
from medn.core.mistaken import told_instead
from medn.core.notebook import frame, html_table
from medn.core.registry import known_name
from medn.core.units import percent
from medn.core.values import plain
from medn.deployed.candidate import Candidate, deployed_of, scores_of
from medn.deployed.facts import ALL, NOTES, FormCosts
from medn.deployed.packing import Json
from medn.selection.choice import Shares, overall_error, total_cost
from medn.selection.gain import Bootstrap
from medn.selection.option import Selection
from medn.selection.schemes import CHOSEN, Scheme

if TYPE_CHECKING:
    import pandas

VERSION = 1
JSON_FILE = "leaderboard.json"
CSV_FILE = "leaderboard.csv"

COLUMNS = (
    *("device", "kind", "candidate", "mape", "mape_low", "mape_high"),
    *("median", "p90", "within_5", "within_10", "r2", "spearman"),
    *("validation_mape", "coverage", "width", "inside_coverage", "inside_width"),
    *("beyond", "extrapolation_mape", "extrapolation_held_mape", "extrapolation_own_mape", "extrapolation_coverage"),
    *("noise_median", "noise_mean", "never_calm", "calm_mape", "never_calm_mape"),
    *("us_1", "us_100", "us_10000", "ratio_1", "ratio_100", "ratio_10000", "bytes", "load_ms", "resident_bytes"),
    *("fit_s", "pareto", "chosen", "note"),
)
"""Errors are shares. What is not known is None: a failed candidate has nothing but its note."""

MORE_IS_BETTER = (
    "within_5",
    "within_10",
    "r2",
    "spearman",
    "coverage",
    "inside_coverage",
    "extrapolation_coverage",
    "pareto",
    "chosen",
)

NO_EXTRAPOLATION = "extrapolation not tried"

REFIT_ALL = f"What the bundle ships {NOTES[ALL]}."


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """Every candidate of a run with its errors and costs, and ways to choose among them side by side.

    >>> import medn
    >>> board = medn.leaderboard("runs/laptop")
    >>> [row["kind"] for row in board.rows if row["chosen"]]
    ['activation', 'linear']
    >>> list(board.to_frame().columns[:4])
    ['device', 'kind', 'candidate', 'mape']
    """

    run: str
    split: str
    seed: int
    budget: Json
    rows: Sequence[Json]
    """One per device, kind and candidate, failed ones too."""
    schemes: Sequence[Json]
    """Ways to select, side by side; the last one is what was chosen."""
    front: Sequence[Json]
    """All selections that none equals or beats, in error and microseconds and again in error and bytes."""
    gain: Json
    """What choosing brings over one regressor for everything, on test rows."""
    fixed_bytes: int = 0
    """What the bundle has beside what its candidates add to it."""
    refit_all: bool = False
    """Whether the bundle ships what was chosen fitted once more on every row."""

    @property
    def shipped_sentence(self) -> str:
        """What whoever reads errors here must know of the bundle; nothing where it ships what they are of."""
        return REFIT_ALL if self.refit_all else ""

    def __repr__(self) -> str:
        return f"<Leaderboard of {self._caption}>"

    def _repr_html_(self) -> str:
        """What was chosen first, then by error."""
        order = sorted(self.rows, key=lambda row: (not row["chosen"], row["mape"] is None, row["mape"]))
        return html_table(self._caption, [_told(row) for row in order])

    @property
    def _caption(self) -> str:
        places = {(row["device"], row["kind"]) for row in self.rows}
        error = f", error of the chosen {percent(self.schemes[-1]['mape'])}" if self.schemes else ""
        return f"{self.run}: {len(self.rows)} candidates for {len(places)} layer kinds{error}"

    def to_frame(self) -> pandas.DataFrame:
        """One row per candidate with all columns; needs pandas."""
        return frame(self.rows)

    def as_json(self) -> Json:
        """All of it as plain values, as leaderboard.json holds it."""
        return {"version": VERSION, **asdict(self)}

    def write(self, folder: Path) -> None:
        """Write leaderboard.json, and the candidates as leaderboard.csv."""
        atomic_write(folder / CSV_FILE, csv_text(self.rows).encode())
        atomic_write(folder / JSON_FILE, json.dumps(self.as_json(), indent=1).encode())


def _told(row: Json) -> Json:
    """A candidate as people read it."""
    numbers = {"us a row": row["us_1"], "kB": None if row["bytes"] is None else row["bytes"] / 1e3}
    return {
        **{name: row[name] for name in ("device", "kind", "candidate")},
        "error": percent(row["mape"]),
        "median": percent(row["median"]),
        "noise": percent(row["noise_mean"]),
        **{name: None if value is None else f"{value:.3g}" for name, value in numbers.items()},
        "chosen": "yes" if row["chosen"] else "",
        "note": row["note"],
    }


def load_leaderboard(folder: Path) -> Leaderboard:
    """The leaderboard that `medn select` wrote; one sentence if there is none or it is damaged."""
    path = folder / JSON_FILE
    if not folder.is_dir():
        instead = told_instead(folder)
        raise StoreError(f"{folder} is no run folder{instead}" if instead else f"no run folder {folder}")
    if not path.is_file():
        raise StoreError(f"{folder} has no leaderboard yet. Make it with: medn select {folder}")
    try:
        written: Json = json.loads(path.read_text(encoding="utf-8"))
        version = written.pop("version")
        if version != VERSION:
            raise StoreError(
                f"{path} has version {version}, this medn reads version {VERSION}. Write it again: medn select {folder}"
            )
        return Leaderboard(**written)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}). Write it again: medn select {folder}") from None


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as CSV, with the columns of the first."""
    written = io.StringIO()
    if rows:
        writer = csv.DictWriter(written, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return written.getvalue()


def _on_it(what: str, names: Sequence[str], known: set[str]) -> list[str]:
    return [known_name(f"{what} on this leaderboard", name, known) for name in names]


def arranged(
    rows: Sequence[Json],
    sort: str = "mape",
    kinds: Sequence[str] = (),
    candidates: Sequence[str] = (),
    pareto: bool = False,
    chosen: bool = False,
) -> list[Json]:
    """The rows asked for, each kind by itself, the best first by a column and last what has no value there."""
    if sort not in COLUMNS:
        raise UsageError(unknown("column", sort, COLUMNS))
    kinds = _on_it("layer kind", kinds, {row["kind"] for row in rows})
    candidates = _on_it("candidate", candidates, {row["candidate"] for row in rows})
    wanted = [
        row
        for row in rows
        if (not kinds or row["kind"] in kinds)
        and (not candidates or row["candidate"] in candidates)
        and (not pareto or row["pareto"])
        and (not chosen or row["chosen"])
    ]

    def place(row: Json) -> tuple[Any, ...]:
        value = row.get(sort)  # a leaderboard of an earlier version has fewer columns
        ranked = -value if sort in MORE_IS_BETTER and value is not None else value
        return row["device"], row["kind"], value is None, 0 if ranked is None else ranked

    return sorted(wanted, key=place)


def candidate_rows(evaluated: Evaluated, costs: Mapping[str, FormCosts], pareto: set[str], chosen: str) -> list[Json]:
    """The rows of one place: every candidate and ensemble, then what failed."""
    rows = []
    for name, candidate in evaluated.candidates.items():
        scores, noise = scores_of(candidate), candidate.facts.noise
        coverage, beyond = scores.coverage, scores.extrapolation
        known = {
            "device": evaluated.device,
            "kind": evaluated.kind,
            "candidate": name,
            **scores.test.as_json(),
            "validation_mape": scores.validation.mape,
            "coverage": coverage.covered,
            "width": coverage.mean_width,
            "inside_coverage": coverage.inside_covered,
            "inside_width": coverage.inside_width,
            "beyond": deployed_of(candidate).way,
            "extrapolation_mape": beyond and beyond.scores.mape,
            "extrapolation_held_mape": beyond and beyond.held_mape,
            "extrapolation_own_mape": beyond and beyond.own_mape,
            "extrapolation_coverage": beyond and beyond.covered,
            "noise_median": noise and noise.median,
            "noise_mean": noise and noise.mean,
            "never_calm": scores.never_calm,
            "calm_mape": scores.test_calm and scores.test_calm.mape,
            "never_calm_mape": scores.test_never_calm and scores.test_never_calm.mape,
            **costs[name].as_json(),
            "fit_s": candidate.facts.fit_seconds,
            "pareto": name in pareto,
            "chosen": name == chosen,
            "note": _note(candidate, evaluated.ensembles.get(name, {})),
        }
        rows.append({column: plain(known[column]) for column in COLUMNS})
    return rows + failed_rows(evaluated.device, evaluated.kind, evaluated.failed)


def failed_rows(device: str, kind: str, reasons: Mapping[str, str]) -> list[Json]:
    """A row with nothing but a note for everything that cannot be chosen."""
    about: Json = {**dict.fromkeys(COLUMNS), "device": device, "kind": kind, "pareto": False, "chosen": False}
    return [{**about, "candidate": name, "note": reason} for name, reason in sorted(reasons.items())]


def _note(candidate: Candidate, members: Mapping[str, float]) -> str:
    mixture = " + ".join(f"{weight:.2f} {name}" for name, weight in members.items())
    untried = "" if scores_of(candidate).extrapolation else NO_EXTRAPOLATION
    return "; ".join(filter(None, [mixture, untried, candidate.facts.learned_note]))


def scheme_row(scheme: Scheme, judged: Bootstrap, costs: Mapping[tuple[str, str], FormCosts], share: Shares) -> Json:
    """One way to select: overall accuracy and R2 on test rows, time as the mean over places, bytes as the sum."""
    picked = {place: costs[place, option.name] for place, option in scheme.selection.items()}
    times = {
        name: sum(share[place] * getattr(cost, name) for place, cost in picked.items())
        for name in ("us_1", "us_100", "us_10000")
    }
    accuracy, r2 = judged.accuracy_of(scheme.name), judged.r2_of(scheme.name)
    found: Json = {
        "name": scheme.name,
        "accuracy": accuracy.value,
        "mape": 1 - accuracy.value,
        "r2": r2.value,
        **times,
        "bytes": sum(cost.bytes for cost in picked.values()),
        "load_ms": sum(cost.load_ms for cost in picked.values()),
        "accuracy_low": accuracy.low,
        "accuracy_high": accuracy.high,
        "gain": judged.accuracy_gain(CHOSEN, scheme.name).as_json(),
        "r2_gain": judged.r2_gain(CHOSEN, scheme.name).as_json(),
        "note": scheme.note,
    }
    cleaned: Json = plain(found)
    return cleaned


def front_row(resource: str, selection: Selection, share: Shares, test_error: Mapping[tuple[str, str], float]) -> Json:
    """One selection of the front: what it costs, its error on validation rows, and on test rows beside."""
    cost = total_cost(selection, share)
    return {
        "resource": resource,
        "validation_mape": overall_error(selection, share),
        "mape": sum(share[place] * test_error[place, option.name] for place, option in selection.items()),
        **asdict(cost),
        "picks": {place: option.name for place, option in selection.items()},
    }
