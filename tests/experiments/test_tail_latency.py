"""The tail of a loaded run, judged on the layers that nothing was learned from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.tail_latency import main, run
from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import select_run
from medn.core.errors import NothingMeasured
from medn.selection.budget import Budget
from medn.training.train_run import train_run


def trained(folder: Path) -> Path:
    train_run(folder, seconds=8.0, families=["roofline"])
    bundle_run(folder, select_run(folder, Budget()).chosen)
    return folder


def test_a_predicted_tail_is_nearer_than_the_latency_on_a_busy_device(
    write_run: Callable[..., Path], tmp_path: Path
) -> None:
    folder = trained(write_run(tmp_path / "run", activations=0, utilizations=(0.0, 0.4, 0.8)))
    assert main(["--run", str(folder), "--out", str(tmp_path / "out")]) == 0
    busiest = run(folder)[-1]
    assert (busiest["kind"], busiest["utilization"], busiest["tail"]) == ("linear", 0.8, "p90")
    assert busiest["error %"] < busiest["error of the latency taken for it %"] / 2
    assert (tmp_path / "out" / "tail_latency.json").is_file()


def test_a_run_that_was_always_idle_has_no_tail(write_run: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="sweep more than one utilization"):
        run(trained(write_run(tmp_path / "run", activations=0)))
