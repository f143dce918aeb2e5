"""The comparison of adaptive measuring with random drawing: what the script does, on a made-up run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from experiments.adaptive_points import forecasts, simulation
from experiments.adaptive_points.live import drawn_order
from experiments.adaptive_points.picture import draw
from experiments.adaptive_points.simulation import ADAPTIVE, GAUSSIAN_PROCESS, RANDOM, Curve, curves, share, table_rows
from experiments.few_points.tables import own_kinds
from medn.core.table import Array
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import parse_sweep


@pytest.fixture
def found(
    write_run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[Curve]:
    """Of the linear layers of a run, which are enough; its activations are not."""
    monkeypatch.setattr(simulation, "FEWEST_ROWS", 100)
    monkeypatch.setattr(simulation, "MOST_POINTS", {RANDOM: 72, ADAPTIVE: 55})
    run = write_run(tmp_path / "desk", layers=70, activations=10)
    made = curves(own_kinds(run), range(1), GAUSSIAN_PROCESS, tmp_path / "kept")
    assert capsys.readouterr().out.count("made-up") == 2
    assert curves(own_kinds(run), range(1), GAUSSIAN_PROCESS, tmp_path / "kept") == made
    assert capsys.readouterr().out == ""  # nothing is computed twice
    return made


def test_curves_are_computed_once_and_told_as_a_table_and_a_picture(found: list[Curve], tmp_path: Path) -> None:
    assert [(curve.way, curve.points[0], curve.points[-1]) for curve in found] == [(RANDOM, 24, 72), (ADAPTIVE, 24, 55)]
    assert found[0].errors[0] == found[1].errors[0]  # the first points are the same
    rows = table_rows(found)
    assert [row["table"] for row in rows] == ["own linear on made-up", "geometric mean"]
    assert rows[0]["share of points"] > 0
    draw(found, tmp_path / "picture")
    assert (tmp_path / "picture.png").is_file()


def test_forecasts_are_checked_with_more_layers(
    write_run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecasts, "LAYERS", (48,))
    run = write_run(tmp_path / "desk", layers=130, activations=10)
    found = forecasts.checked(own_kinds(run), range(1), tmp_path / "kept")
    assert [(each.layers, each.factor) for each in found] == [(48, 1), (48, 2)]
    assert forecasts.checked(own_kinds(run), range(1), tmp_path / "kept") == found
    assert [row["forecasts"] for row in forecasts.forecast_rows(found)] == [1, 1]


def curve_of(points: list[int], errors: list[float]) -> dict[str, Array]:
    return {"points": np.array(points), "errors": np.array(errors), "seconds": np.array(points) * 2.0}


def test_half_the_points_for_the_same_error_is_a_share_of_one_half() -> None:
    chance, chosen = curve_of([50, 100, 200], [0.4, 0.2, 0.1]), curve_of([50, 100], [0.2, 0.1])
    told = np.array([True, True])
    assert share(chance, chosen, "points", told) == pytest.approx(0.5)
    assert share(chance, chosen, "seconds", told) == pytest.approx(0.5)


def test_an_error_that_random_drawing_does_not_reach_counts_as_its_last() -> None:
    chance, chosen = curve_of([50, 100], [0.4, 0.2]), curve_of([50], [0.01])
    assert share(chance, chosen, "points", np.array([True])) == pytest.approx(0.5)


def test_any_beginning_of_drawn_points_has_every_kind_by_its_share() -> None:
    config = parse_sweep(
        "{name: two, devices: [torch], budget: {points: 40}, layers: {linear: {share: 3}, softmax: {}}}"
    )
    points = {point.key: point for point in plan_points(config).points}
    first = [points[key].layer.kind for key in drawn_order(config)[:20]]
    assert (first.count("linear"), first.count("softmax")) == (15, 5)
