"""Counts in the text format of Prometheus."""

from __future__ import annotations

from medn.serving.metrics import BOUNDS, Metrics


def lines(metrics: Metrics, start: str) -> list[str]:
    return [line for line in metrics.text().splitlines() if line.startswith(start)]


def test_every_value_has_a_help_and_a_type() -> None:
    metrics = Metrics()
    metrics.add("/v1/layer", 200, 0.001)
    told = {line.split()[2] for line in lines(metrics, "# TYPE")}
    assert told == {line.split()[2] for line in lines(metrics, "# HELP")}
    names = {line.partition("{")[0].split()[0] for line in metrics.text().splitlines() if line[0] != "#"}
    assert {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in names} == told


def test_the_bars_of_the_histogram_add_up() -> None:
    metrics = Metrics()
    for seconds in (0.0001, BOUNDS[0], 0.003, 99.0):
        metrics.add("/v1/layer", 200, seconds)
    counts = [int(line.split()[-1]) for line in lines(metrics, "medn_request_seconds_bucket")]
    assert counts == sorted(counts)
    assert (counts[0], counts[-2], counts[-1]) == (2, 3, 4)
    assert lines(metrics, "medn_request_seconds_count")[0].endswith(" 4")


def test_a_text_ends_with_a_line_break() -> None:
    assert Metrics().text().endswith("\n")
