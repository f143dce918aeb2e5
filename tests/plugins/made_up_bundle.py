"""A bundle of a made-up run, with forms of every sort made by hand: no training library is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from made_up_run import PEAK, write_run

from medn.bundle.bundle import Bundle
from medn.choosing.bundling import bundle_run
from medn.core.splits import Split
from medn.core.table import Table
from medn.deployed.beyond import HELD
from medn.deployed.candidate import Candidate
from medn.deployed.facts import TrainingFacts
from medn.regressors.encoding import Encoding
from medn.regressors.form import Form
from medn.regressors.forms.affine import Affine
from medn.regressors.forms.network import NetworkForm
from medn.regressors.forms.trees import Trees, tree
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.runs.tables import read_source
from medn.training.prepared import prepare
from medn.training.scoring import judged

KINDS = ("activation", "linear")


def affine(table: Table) -> Form:
    return Affine(np.array([table.schema.index("flops")], dtype=np.int32), np.array([1 / PEAK]), 1e-6, 1e-7)


def trees(table: Table) -> Form:
    random = np.random.default_rng(0)
    grown = []
    for _ in range(8):
        first, second = random.integers(0, len(table.schema.names), 2)
        cuts = [float(np.median(table.inputs[:, column])) for column in (first, second)]
        grown.append(
            tree(
                [first, second, -1, -1, -1], [*cuts, 0, 0, 0], [1, 3, -1, -1, -1], [2, 4, -1, -1, -1], random.random(5)
            )
        )
    return Trees.from_trees(grown, float(np.log(table.target).mean()), len(table.schema.names))


def network(table: Table) -> Form:
    random = np.random.default_rng(1)
    encoding = Encoding.fit(table.schema, table.inputs)

    def dense(wide: int, high: int) -> tuple[str, dict[str, Any]]:
        return "dense", {
            "weight": (random.normal(size=(wide, high)) / np.sqrt(wide)).astype(np.float32),
            "bias": random.normal(size=high).astype(np.float32),
        }

    return NetworkForm(encoding, [dense(encoding.width, 16), ("silu", {}), dense(16, 1)], (-30.0, 3.0))


def both(table: Table) -> Form:
    return WeightedSum([affine(table), trees(table), network(table)], [0.8, 0.1, 0.1])


FORMS: dict[str, Callable[[Table], Form]] = {"affine": affine, "trees": trees, "network": network, "both": both}


def made_up_candidates(run: Path, form: str = "both", kinds: Sequence[str] = KINDS) -> list[Candidate]:
    """One candidate for each kind and device of a run."""
    source = read_source(run)
    found = []
    tables, _ = prepare(source, kinds, Split(), 0, False)
    for device, own in tables.items():
        for kind, prepared in own.items():
            made = prepared.source
            facts = TrainingFacts(
                "made-up",
                1.0,
                0,
                "random",
                inputs=made.choice.as_json(),
                schema=made.table.schema,
                constants=made.constants,
                dtypes=made.dtypes,
            )
            blank = Candidate(device, kind, form, facts)
            # The same bytes each time: how long one row takes is no fact of a made-up candidate.
            shipped, edge = FORMS[form](prepared.train), prepared.edge._replace(roofline=None)
            held_out = np.log(shipped.predict(prepared.held_out.inputs))
            found.append(replace(judged(blank, prepared, shipped, edge, HELD, held_out), row_us=0.0))
    return found


def write_made_up_bundle(folder: Path, form: str = "both", devices: tuple[str, ...] = ("made-up",)) -> Path:
    """The run FOLDER and its bundle."""
    run = write_run(folder, devices=devices)
    return bundle_run(run, made_up_candidates(run, form))


def with_further(bundle: Bundle) -> Bundle:
    """The same bundle that also predicts memory, by the forms of latency."""
    return replace(
        bundle, entries=tuple(replace(each, further={"memory_bytes": each.latency}) for each in bundle.entries)
    )
