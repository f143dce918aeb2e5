"""Counts as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from medn.serving.metrics import BOUNDS, Metrics


def values(metrics: Metrics, name: str) -> list[float]:
    families = text_string_to_metric_families(metrics.text())
    return [sample.value for family in families for sample in family.samples if sample.name == name]


def test_the_names_that_dashboards_ask_for_are_there() -> None:
    metrics = Metrics()
    metrics.add("/v1/layer", 200, 0.001)
    told = {sample.name for family in text_string_to_metric_families(metrics.text()) for sample in family.samples}
    assert told >= {
        *("medn_requests_total", "medn_layers_total", "medn_requests_in_progress", "medn_waiting_bytes"),
        *("medn_request_seconds_bucket", "medn_request_seconds_sum", "medn_request_seconds_count"),
        *("process_start_time_seconds", "process_resident_memory_bytes"),
    }


def test_the_bars_of_the_histogram_add_up() -> None:
    metrics = Metrics()
    for seconds in (0.0001, BOUNDS[0], 0.003, 99.0):
        metrics.add("/v1/layer", 200, seconds)
    counts = values(metrics, "medn_request_seconds_bucket")
    assert counts == sorted(counts)
    assert (counts[0], counts[-2], counts[-1]) == (2, 3, 4)
    assert values(metrics, "medn_request_seconds_count") == [4]


def test_what_is_being_done_is_told_as_it_is_now() -> None:
    metrics = Metrics()
    metrics.waiting_bytes = 63_600_001
    assert values(metrics, "medn_waiting_bytes") == [63_600_001]
    metrics.waiting_bytes = 0
    assert values(metrics, "medn_waiting_bytes") == [0]


def test_two_servers_in_one_process_count_for_themselves() -> None:
    one, other = Metrics(), Metrics()
    one.layers.inc(3)
    assert (values(one, "medn_layers_total"), values(other, "medn_layers_total")) == ([3], [0])
