"""`medn bench measure`: what it counts, and how it answers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from medn.cli.main import run
from medn.core.values import Samples, Visit
from medn.pipeline.bench import timed_share


def visit(wall_s: float, samples: int, calls: int, elapsed_s: float) -> Visit:
    timings = Samples(np.full(samples, wall_s), np.full(samples, wall_s), np.full(samples, False), calls)
    return Visit("point", 0, "here", 0.0, "ok", samples=timings, elapsed_s=elapsed_s)


def test_the_timed_share_counts_every_call_of_a_sample() -> None:
    share = timed_share([visit(0.001, 10, 2, elapsed_s=0.04), visit(0.002, 10, 1, elapsed_s=0.06)])
    assert share is not None
    assert (share.visits, share.visit_s, share.timed_share) == pytest.approx((2, 0.05, 0.4))


def test_no_visits_have_no_share() -> None:
    assert timed_share([]) is None


def test_bench_measures_short_and_long_layers_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "measure", "--time", "5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["visits"] == told["short"]["visits"] + told["long"]["visits"]
    assert told["points_per_minute"] == pytest.approx(told["visits_per_second"] * 60 / 8)
    assert 0 < told["short"]["timed_share"] < 1
    assert 0 < told["long"]["timed_share"] < 1


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--device", "torhc"], 2, "Did you mean 'torch'?"),
        (["--device", "torch-cuda"], 3, "torch-cuda needs"),
        (["--time", "0"], 2, "--time: must be a duration above 0"),
    ],
)
def test_bench_refuses_in_one_sentence(
    arguments: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "measure", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err


def test_the_help_of_bench_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "measure", "--help"]) == 0
    assert "medn bench measure --device" in capsys.readouterr().out
