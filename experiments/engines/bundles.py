"""Bundles of one regressor each on made-up measurements, to compare engines by: nothing is timed or tuned for them.

    python -m experiments.engines.bundles medn,lightgbm,mean --out results [--kinds conv2d,linear] [--layers 200]

A layer takes as long as its FLOPs or its bytes say on a small made-up device, with 5 % of noise, at two utilisations.
`mean` is the mean of the regressors before it, so that an ensemble is there too.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from experiments.script import end_with, named
from medn.choosing.bundling import bundle_run
from medn.core.errors import ConfigError
from medn.core.splits import Split
from medn.core.values import Condition, Layer, Point, Samples, Visit
from medn.deployed.beyond import HELD
from medn.deployed.candidate import Candidate
from medn.deployed.facts import TrainingFacts
from medn.layer_generators.kind import LayerKind, layer_kinds
from medn.regressors.form import Form
from medn.regressors.forms.weighted_sum import WeightedSum
from medn.regressors.regressor import Effort, regressors
from medn.runs.folder import RunFolder
from medn.runs.tables import read_source
from medn.training.prepared import Prepared, prepare
from medn.training.scoring import judged

KINDS = ("conv2d", "linear", "activation", "attention", "elementwise", "max_pool2d", "softmax", "upsample")
MEAN = "mean"
FLOPS, BYTES = 5e10, 8e9
"""What the made-up device does in a second."""

SECONDS = 20.0
SETTINGS = {"epochs": 10, "num_leaves": 31, "most_trees": 200}
"""For quick fits of the usual size."""


def drawn(kind: LayerKind, count: int) -> list[Layer]:
    """Different layers of a kind, as a sweep draws them."""
    random = Random(kind.name)
    found: dict[Layer, None] = {}
    for _ in range(50 * count):
        try:
            found[kind.layer(**{name: domain.at(random.random()) for name, domain in kind.sweep.items()})] = None
        except ConfigError:
            continue
        if len(found) == count:
            break
    return list(found)


def write_run(folder: Path, kinds: Sequence[str], layers: int) -> Path:
    random = np.random.default_rng(0)
    visits = []
    for kind in (layer_kinds[name] for name in kinds):
        for layer in drawn(kind, layers):
            for batch_size, utilization in ((1, 0.0), (8, 0.0), (4, 0.5)):
                costs = kind.costs(kind.values_of(layer), batch_size, 4)
                work = max(costs.flops / FLOPS, (costs.input_bytes + costs.output_bytes) / BYTES)
                times = (1e-5 + work / (1 - 0.8 * utilization)) * np.exp(random.normal(0, 0.05, 3))
                samples = Samples(times, times, np.zeros(len(times), dtype=bool))
                memory = int(costs.input_bytes + costs.output_bytes + costs.parameter_bytes)
                point = Point(layer, Condition(batch_size=batch_size, utilization=utilization), "made-up")
                visit = Visit(point.key, 0, "here", 0.0, "ok", samples=samples, quantities={"memory_bytes": memory})
                visits.append((point, visit))
    with RunFolder(folder).store() as store:
        store.add_environment("here", {"source": "a law"})
        store.note("config", {"name": folder.name, "seed": 0, "drop": [], "unstable_above": 0.5})
        store.record(visits)
    return folder


def fitted(name: str, prepared: Prepared) -> Form:
    family = regressors[name]
    settings = {**family.defaults, **{name: value for name, value in SETTINGS.items() if name in family.defaults}}
    return family.fit(prepared.train, prepared.validation, settings, Effort(seconds=SECONDS)).export()


def candidate(device: str, kind: str, name: str, prepared: Prepared, form: Form) -> Candidate:
    made = prepared.source
    facts = TrainingFacts(
        *("made-up", SECONDS, 0, "random"),
        inputs=made.choice.as_json(),
        schema=made.table.schema,
        constants=made.constants,
        dtypes=made.dtypes,
    )
    held_out = np.log(form.predict(prepared.held_out.inputs))
    return replace(
        judged(Candidate(device, kind, name, facts), prepared, form, prepared.edge, HELD, held_out), row_us=0.0
    )


def write_bundles(names: Sequence[str], out: Path, kinds: Sequence[str], layers: int) -> list[Path]:
    """A bundle for each regressor, in a folder of its own."""
    forms: dict[tuple[str, str], list[Form]] = {}
    written = []
    for name in names:
        run = write_run(out / name, kinds, layers)
        tables, _ = prepare(read_source(run), kinds, Split(), 0, False)
        candidates = []
        for device, own in tables.items():
            for kind, prepared in own.items():
                known = forms.setdefault((device, kind), [])
                form = WeightedSum(known, [1 / len(known)] * len(known)) if name == MEAN else fitted(name, prepared)
                known.append(form)
                candidates.append(candidate(device, kind, name, prepared, form))
        written.append(bundle_run(run, candidates))
    return written


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("regressors", help="names as `medn list regressors` tells them, separated by commas")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--layers", type=int, default=200, help="of each kind")
    given = parser.parse_args()
    names = named("regressor", given.regressors, {**dict.fromkeys(regressors), MEAN: None})
    for path in write_bundles(names, given.out, named("layer kind", given.kinds, layer_kinds), given.layers):
        print(path)
    return 0


if __name__ == "__main__":
    end_with(main)
