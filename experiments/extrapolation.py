"""What is predicted beyond what was measured, in every way that it can be: errors and coverage of every family.

    python -m experiments.extrapolation --data DATA --out results

Two tables, imported and trained as a user would, with `--split range:flops:VALUE` at the 70 % quantile of the FLOPs:
learned and chosen below it, told above it. The convolutions are from the public table cde_layers.csv.gz; the attention
is made up: a GPU with tiles, waves, causal masks, a bandwidth and two per cent of noise. Each family is told as held at
the edge's efficiency, as it goes on by itself, within what the work allows, and as the check in training chose on
smaller layers; coverage and width are those of the chosen way. Writes extrapolation.{md,json}.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.choosing.ensembling import with_ensembles
from medn.choosing.evaluation import Evaluated, evaluate_run
from medn.core.errors import UsageError
from medn.core.metrics import relative_errors
from medn.core.splits import Split
from medn.deployed.candidate import deployed_of
from medn.deployed.checked import CHECKED_WAYS
from medn.importing.import_table import import_table
from medn.importing.mapping import ImportMapping, load_mapping
from medn.runs.folder import RunFolder
from medn.runs.tables import kind_table, read_source
from medn.training.candidate_store import candidates_root
from medn.training.train_run import train_run

IMPORTS = Path(__file__).parent / "imports"
BELOW = 0.7
"""The quantile of the FLOPs up to which is learned."""

Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    rows = [row for name in options.tables.split(",") for row in run(name, options)]
    about = {
        "errors": "MAPE in per cent on test layers with more FLOPs than 70 % of all; nothing was chosen on them",
        "covered": "share of those test rows inside the 90 % interval, and its mean width over the prediction",
        "inside": "MAPE on validation layers below",
        "training": f"medn train --time {options.time:g} --split range:flops:VALUE --seed {options.seed}, one process",
        "rows": f"at most {options.rows:,} of each table",
    }
    write_tables(options.out, "extrapolation", rows, about)
    print(markdown_table(rows))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the public tables")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--tables", default=",".join(TABLES), help="those to tell, with commas between them")
    parser.add_argument("--families", default="", help="regressors, with commas between them; all there are")
    parser.add_argument("--time", type=float, default=360.0, help="seconds of training for each table")
    parser.add_argument("--rows", type=int, default=4000, help="rows of each table at most")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def run(name: str, options: argparse.Namespace) -> list[Row]:
    """One row for each candidate of a table; a run that is there already goes on."""
    if name not in TABLES:
        raise UsageError(f"no table {name!r}; there are {', '.join(TABLES)}")
    folder = options.out / "extrapolation" / name
    if not (folder / "run").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        file, mapping = TABLES[name](folder, options)
        import_table(file, mapping, RunFolder(folder / "run"))
    source = read_source(folder / "run")
    (kind,) = source.rows
    flops = kind_table(source, kind).table.column("flops")
    split = Split("range", "flops", float(f"{np.quantile(flops, BELOW):.4g}"))
    families = [each for each in options.families.split(",") if each]
    train_run(folder / "run", seconds=options.time, split=split, seed=options.seed, families=families)
    (place,) = evaluate_run(folder / "run", split=split)
    assert candidates_root(folder / "run", split).is_dir()
    return [_row(name, place, candidate) for candidate in with_ensembles(place).candidates.values()]


def _row(table: str, place: Evaluated, candidate: Any) -> Row:
    deployed, test = deployed_of(candidate), place.prepared.test

    def error(way: str) -> float:
        predicted_s = replace(deployed, way=way).predict(test.inputs)
        return round(100 * float(relative_errors(predicted_s, test.target).mean()), 1)

    return {
        "table": table,
        "candidate": candidate.regressor,
        "inside": round(100 * candidate.scores.validation.mape, 1),
        **{way: error(way) for way in CHECKED_WAYS},
        "chosen": deployed.way,
        "by": "check" if candidate.scores.extrapolation else "default",
        "error": round(100 * candidate.scores.test.mape, 1),
        "covered": round(100 * candidate.scores.coverage.covered, 1),
        "width": round(candidate.scores.coverage.mean_width, 2),
    }


def convolutions(folder: Path, options: argparse.Namespace) -> tuple[Path, ImportMapping]:
    """Rows of the public table, drawn at random from those that the mapping lets through."""
    mapping = load_mapping(IMPORTS / "cde_conv2d.yaml")
    with gzip.open(options.data / "cde_layers.csv.gz", "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if all(row[name] == str(v) for name, v in mapping.where.items())]
    drawn = np.random.default_rng(options.seed).permutation(len(rows))[: options.rows]
    return _written(folder / "cde.csv", [rows[place] for place in np.sort(drawn)]), mapping


def attention(folder: Path, options: argparse.Namespace) -> tuple[Path, ImportMapping]:
    """Prompts and single new tokens, on a made-up GPU."""
    random = np.random.default_rng(options.seed)
    rows = [_attention(random) for _ in range(options.rows)]
    sizes = ("heads", "head_size", "query_length", "key_length", "causal", "batch_size")
    mapping = ImportMapping.model_validate(
        {
            "kind": "attention",
            "device": "made-up",
            "latency_s": {"column": "latency_s"},
            "columns": {name: name for name in sizes} | {"dtype": {"value": "bf16"}},
        }
    )
    return _written(folder / "attention.csv", rows), mapping


PEAK, BANDWIDTH, LAUNCH_S, PROCESSORS, TILE = 6e14, 3e12, 5e-6, 132, 128


def _attention(random: np.random.Generator) -> Row:
    """Work in tiles of queries, as many at once as there are processors; a causal mask leaves out half of the tiles."""
    heads, head_size = int(random.choice([8, 12, 16, 32, 64])), int(random.choice([64, 80, 128]))
    batch_size, keys = int(2 ** random.integers(0, 7)), int(np.exp(random.uniform(np.log(16), np.log(16384))))
    is_prompt = random.random() < 0.6
    queries = keys if is_prompt else 1
    tiles = np.ceil(queries / TILE) * batch_size * heads
    rounds = np.ceil(tiles / PROCESSORS) * PROCESSORS / tiles
    share = 0.5 * (1 + TILE / max(queries, TILE)) if is_prompt else 1.0
    flops = 4 * tiles * min(TILE, max(queries, 16)) * keys * head_size * share
    efficiency = 0.7 * (head_size / 128) ** 0.3 * keys / (keys + 256)
    moved = 2 * batch_size * heads * head_size * (2 * queries + 2 * keys)
    latency_s = LAUNCH_S + np.hypot(flops * rounds / PEAK / efficiency, moved / BANDWIDTH / 0.8)
    return {
        **{"heads": heads, "head_size": head_size, "query_length": queries, "key_length": keys},
        **{"causal": is_prompt, "batch_size": batch_size, "latency_s": latency_s * random.lognormal(0, 0.02)},
    }


def _written(path: Path, rows: Sequence[Row]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


TABLES: dict[str, Callable[[Path, argparse.Namespace], tuple[Path, ImportMapping]]] = {
    "attention": attention,
    "convolutions": convolutions,
}

if __name__ == "__main__":
    end_with(main)
