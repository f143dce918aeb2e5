"""The predictor of another device sees the rows of a new one as if they had been measured there."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from medn.bundle.bundle import Entry
from medn.core.errors import UsageError
from medn.core.intervals import Interval, calibrate, fit_spread
from medn.core.learn_range import learn_range
from medn.core.splits import Split
from medn.deployed.candidate import Candidate
from medn.deployed.deployed import Deployed
from medn.deployed.facts import TrainingFacts
from medn.importing.import_table import import_table
from medn.importing.mapping import ImportMapping
from medn.regressors.forms.constant import Constant
from medn.regressors.views import View
from medn.runs.folder import RunFolder
from medn.runs.tables import KindTable, Source, kind_table, read_source
from medn.sources.source_views import LearnedWhere, SourceView

SHEETS = {
    "old": {"multiprocessors": 15, "peak_gflops": 4290, "bandwidth_gb_s": 288, "cache_mb": 1.5},
    "new": {"multiprocessors": 80, "peak_gflops": 14130, "bandwidth_gb_s": 900, "cache_mb": 6},
}
MAPPING = {
    "kind": "conv2d",
    "device": {"column": "device"},
    "latency_s": {"column": "s"},
    "columns": {"in_channels": "cin", "out_channels": "cout", "in_size": "size", "kernel_size": "k", "batch_size": "b"},
    "extra": {"activation": "activation"},
}


def rows(device: str, seed: int, activations: tuple[str, ...]) -> Iterator[dict[str, object]]:
    random = np.random.default_rng(seed)
    for _ in range(60):
        sizes = {name: int(np.exp(random.uniform(1, 6))) for name in ("cin", "cout", "size", "b")}
        yield {
            "device": device,
            **sizes,
            "k": int(random.choice([1, 3, 5])),
            "activation": str(random.choice(activations)),
            "s": random.uniform(1e-4, 1e-2),
        }


def imported(run: Path, written: list[dict[str, object]], sheets: dict[str, dict[str, float]]) -> Source:
    table = run.with_suffix(".csv")
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(written[0]))
        writer.writeheader()
        writer.writerows(written)
    known = {device: sheet for device, sheet in sheets.items() if device in {row["device"] for row in written}}
    import_table(table, ImportMapping.model_validate({**MAPPING, "sheets": known}), RunFolder(run))
    return read_source(run)


def entry_of(table: KindTable) -> Entry:
    """What would ship of a table, but for the form."""
    known = learn_range(table.table, table.table)
    facts = TrainingFacts("key", 1.0, 0, str(Split()), sheets=table.sheets, constants=table.constants)
    logs = np.zeros(len(table.table))
    spread = fit_spread(np.exp(logs), table.table.target, logs)
    interval = calibrate(spread, np.exp(logs), table.table.target, logs, 0.9, table.table.groups)
    assert isinstance(interval, Interval)
    deployed = Deployed(Constant(0.0), known, interval, table.constants)
    return Entry(Candidate("old", "conv2d", "constant", facts, deployed=deployed))


def view(source: KindTable, target: KindTable, device: str = "old") -> View:
    return SourceView(LearnedWhere.of(entry_of(source), device), target).view()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """The same layers on both devices."""
    old = list(rows("old", 1, ("relu", "none")))
    new = [{**row, "device": "new"} for row in old]
    return imported(tmp_path_factory.mktemp("views") / "run", [*old, *new], SHEETS)


def test_inputs_are_those_that_the_other_device_was_learned_with(both: Source) -> None:
    old, new = (kind_table(both, "conv2d", device=device) for device in ("old", "new"))
    by_layer = dict(zip(old.table.groups, old.table.inputs, strict=True))
    seen = view(old, new).inputs(new.table.inputs)
    for key, row in zip(new.table.groups, seen, strict=True):
        assert row == pytest.approx(by_layer[key], rel=1e-5)


def test_a_category_is_found_by_its_name(both: Source, tmp_path: Path) -> None:
    new = imported(tmp_path / "run", list(rows("new", 2, ("none", "relu", "tanh"))), SHEETS)
    old, target = kind_table(both, "conv2d", device="old"), kind_table(new, "conv2d", device="new")
    place, own = (each.table.schema.index("activation") for each in (old, target))
    seen = view(old, target).inputs(target.table.inputs)[:, place]
    names = [target.table.schema.categories["activation"][int(code)] for code in target.table.inputs[:, own]]
    known = old.table.schema.categories["activation"]
    assert [known[int(code)] for code, name in zip(seen, names, strict=True) if name in known] == [
        name for name in names if name in known
    ]
    assert set(seen[[name == "tanh" for name in names]]) <= {0.0, 1.0}


def test_what_the_new_device_never_varied_is_the_same_for_all_rows(both: Source, tmp_path: Path) -> None:
    written = [{**row, "k": 3} for row in rows("new", 3, ("relu",))]
    target = kind_table(imported(tmp_path / "run", written, SHEETS), "conv2d", device="new")
    old = kind_table(both, "conv2d", device="old")
    seen = view(old, target).inputs(target.table.inputs)
    assert set(seen[:, old.table.schema.index("kernel_h")]) == {3.0}
    relu = old.table.schema.categories["activation"].index("relu")
    assert set(seen[:, old.table.schema.index("activation")]) == {float(relu)}


def test_a_new_device_without_a_data_sheet_is_told_to_state_it(both: Source, tmp_path: Path) -> None:
    target = kind_table(imported(tmp_path / "run", list(rows("new", 4, ("relu", "none"))), {}), "conv2d", device="new")
    with pytest.raises(UsageError, match=r"state its data sheet .*multiprocessors.* with --sheet"):
        view(kind_table(both, "conv2d", device="old"), target)


def test_beyond_what_was_seen_the_latency_grows_with_the_work(both: Source) -> None:
    old, new = (kind_table(both, "conv2d", device=device) for device in ("old", "new"))
    own = view(old, new)
    inputs = own.inputs(new.table.inputs[:1])
    for place in own.work:
        inputs[:, place] = 10 * own.high[place]
    within, growth = own.nearest(inputs)
    assert (within <= own.high).all()
    assert growth == pytest.approx(np.log(10.0))


def test_a_view_that_leads_astray_is_refused(both: Source) -> None:
    old, new = (kind_table(both, "conv2d", device=device) for device in ("old", "new"))
    own, width = view(old, new), len(new.table.schema.names)
    own.check(width)
    for name, wrong in (
        ("first", np.full_like(own.first, 10_000)),
        ("second", np.full_like(own.second, -1)),
        ("operation", np.full_like(own.operation, 9)),
        ("factors", own.factors[:1]),
        ("work", np.array([width + 99], dtype=np.int32)),
        ("low", own.high + 1.0),
    ):
        with pytest.raises(ValueError, match="view"):
            View.restore({**own.arrays, name: wrong}).check(width)
