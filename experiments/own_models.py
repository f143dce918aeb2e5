"""Networks that nobody here has looked at, measured for, learned and predicted as a user would do it.

    python -m experiments.own_models --out results

For every network and backend: `medn sweep --for timm:NAME --device BACKEND --time 5m`, `medn train`, `medn select`,
`medn predict`, and only then the network itself is timed. Nothing of a network but its layers is measured before it is
predicted. What was done is kept in OUT/own_models, so that a run which is broken off goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments.peers.medn_verbs import verb
from experiments.script import end_with
from experiments.tables import markdown_table, write_tables
from medn.model.measured_models import Measured, Timeable, measure_models, plain, usable_backend
from medn.model.model_sources import timm_model

NETWORKS = ("gernet_s", "cs3darknet_s", "pit_ti_224")
"""Named before any layer of theirs was measured for this."""

BACKENDS = ("torch", "onnxruntime")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), metavar="NAME", help="models of timm")
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS))
    parser.add_argument("--sweep-time", default="5m", help="of measuring, for each network on each backend")
    parser.add_argument("--train-time", default="60s")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    rows = [row for backend in options.backends for row in predicted_and_measured(backend, options)]
    about = {"measuring": options.sweep_time, "training": options.train_time, "threads": 1, "batch size": 1}
    write_tables(options.out, "own_models", rows, about)
    print(markdown_table(rows))
    return 0


def predicted_and_measured(backend: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each network on one backend."""
    for name in options.networks:
        folder = options.out / "own_models" / f"{name}-{backend}"
        predicted = _predicted(name, backend, folder, options)
        measured = _measured(name, backend, folder / "measured.json")
        yield {
            "network": name,
            "backend": backend,
            "measured ms": 1e3 * measured.seconds,
            "spread": measured.spread,
            "predicted ms": 1e3 * predicted["latency_s"],
            "error": predicted["latency_s"] / measured.seconds - 1,
            "low ms": 1e3 * predicted["low_s"],
            "high ms": 1e3 * predicted["high_s"],
            "time in range": 1 - predicted["outside_share"] - predicted["unknown_share"],
            "not predicted": predicted["unknown_share"],
        }


def _predicted(name: str, backend: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    run, kept = folder / "run", folder / "predicted.json"
    if not kept.is_file():
        _tell(f"{name} on {backend}: measuring its layers for {options.sweep_time}")
        verb("sweep", "--for", f"timm:{name}", "--device", backend, "--time", options.sweep_time, "--run", str(run))
        verb("train", str(run), "--time", options.train_time, "--jobs", "1")
        verb("select", str(run))
        kept.write_text(verb("predict", str(run / f"{run.name}.medn"), f"timm:{name}", "--json"))
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def _measured(name: str, backend: str, kept: Path) -> Measured:
    if not kept.is_file():
        _tell(f"{name} on {backend}: measuring the network")
        makers = {name: partial(_made, name)}
        found = measure_models(usable_backend(backend), makers)[name]
        kept.write_text(json.dumps(found.visits))
    return Measured(tuple(json.loads(kept.read_text())))


def _made(name: str) -> Timeable:
    import torch

    torch.manual_seed(0)
    return plain(*timm_model(name, with_data=True))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    end_with(main)
