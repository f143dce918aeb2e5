"""The page that comes out: complete in itself, escaped, accessible, small and the same every time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from medn.core.table import Schema
from medn.report.content import Content, KindContent
from medn.report.kind_plots import kind_plots
from medn.report.page import report_page
from medn.report.tables import leaderboard_table
from medn.report.training_cost import family_costs
from medn.report.worst_layers import worst_layers

HOSTILE = "<script>alert('x')</script>"


class Elements(HTMLParser):
    """Every element with its attributes, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def of(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag in tags]


def test_nothing_is_loaded_from_anywhere(page: str) -> None:
    elements = Elements(page)
    links = [attributes["href"] or "" for attributes in elements.of("a", "link", "use") if "href" in attributes]
    assert links
    assert all(link.startswith("#") for link in links)
    assert not any("src" in attributes for _, attributes in elements.found)
    assert "url(http" not in page
    assert "default-src 'none'" in page


def test_ids_are_unique_and_links_lead_to_them(page: str) -> None:
    elements = Elements(page)
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {str(attributes["href"])[1:] for attributes in elements.of("a", "use") if "href" in attributes}
    targets |= set(re.findall(r"url\(#(\w+)\)", page))
    assert targets <= set(ids)


def plots_of(page: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)]


def test_every_plot_and_table_says_what_it_shows(page: str) -> None:
    plots = plots_of(page)
    assert len(plots) >= 20
    assert all(len(plot["label"]) > 20 and plot["marks"] for plot in plots)
    elements = Elements(page)
    assert len(elements.of("figcaption")) == len(elements.of("figure")) == len(plots)
    assert len(elements.of("caption")) == len(elements.of("table")) >= 6


def test_points_tell_their_layer_when_one_points_at_them(page: str) -> None:
    titles = [title for plot in plots_of(page) for mark in plot["marks"] for title in mark.get("title", ())]
    assert any(
        re.match(r"in_features\s\d+, out_features\s\d+, batch_size\s\d\nmeasured .*\npredicted", each)
        for each in titles
    )


def test_the_libraries_that_draw_are_in_the_page_once(page: str) -> None:
    assert page.count("Copyright 2010-2026 Mike Bostock") == 1
    assert page.count("Copyright 2020-2025 Observable, Inc.") == 1


def test_headings_leave_out_no_level(page: str) -> None:
    levels = [int(tag[1]) for tag, _ in Elements(page).found if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(second <= first + 1 for first, second in pairwise(levels))


def test_all_parts_are_there(page: str) -> None:
    titles = re.findall(r"<h4>(.*?)</h4>", page)
    for title in (
        *(
            "Mean error against noise, by layer kind",
            "Predicted against measured",
            "Error against latency",
            "Interval coverage",
        ),
        *("Error against prediction time", "Error against size", "Error against batch size", "Importance of inputs"),
        *("Latency over out_features", "Tuning"),
    ):
        assert title in titles
    assert any(title.startswith("Error over ") for title in titles)
    assert "a law" in page


def test_the_first_screen_has_numbers_a_picture_and_commands(page: str) -> None:
    first = page[page.index('<section id="summary">') : page.index('<section id="worst">')]
    names = re.findall(r'<span class="name">(.*?)</span>', first)
    assert names == ["mean error", "noise", "good predictors", "intervals hold", "one prediction", "measured"]
    assert first.index('class="tiles"') < first.index("Mean error against noise, by layer kind") < first.index("<table")
    commands = re.findall(r"<code>(.*?)</code>", first)
    assert len(commands) >= 2
    assert all(command.startswith("medn ") for command in commands)


def test_every_candidate_says_why_it_was_chosen_or_not(content: Content) -> None:
    table = leaderboard_table(content.board, {})
    place = [column.heading for column in table.columns].index("why")
    by_candidate = {(line.cells[0].text, line.cells[1].text): line.cells[place].text for line in table.lines}
    assert list(by_candidate.values()).count("chosen") == 2
    assert re.fullmatch(r"validation error [\d.]+ %, chosen [\d.]+ %", by_candidate["linear", "median"])


def test_the_leaderboard_opens_by_error(content: Content) -> None:
    table = leaderboard_table(content.board, {})
    errors = [float(line.cells[2].value or 0) for line in table.lines if line.cells[0].text == "linear"]
    assert errors == sorted(errors)


def test_the_worst_layers_are_listed_with_their_parameters(content: Content) -> None:
    kind = content.kinds[1]
    found = worst_layers(kind)
    assert len(found) == 5
    assert [each.factor for each in found] == sorted((each.factor for each in found), reverse=True)
    assert found[0].factor == pytest.approx(float(np.exp(np.abs(np.log(kind.predicted_s / kind.test.target)).max())))
    assert re.match(r"in_features\s\d+, out_features\s\d+, batch_size\s\d", found[0].layer)


def test_the_cost_of_training_is_told_by_family(content: Content) -> None:
    costs = {each.family: each for each in family_costs(content)}
    assert {"median", "roofline", "test-law"} <= costs.keys()
    assert (costs["test-law"].kinds, costs["median"].trials) == (2, 0)
    assert costs["test-law"].trials > 2
    assert costs["test-law"].search_s > 0
    assert sum(each.chosen for each in costs.values()) >= 2


def test_the_same_content_makes_the_same_plots(content: Content) -> None:
    first, again = ([plot.as_json() for plot in islice(kind_plots(content.kinds[0]), 3)] for _ in range(2))
    assert first == again


def test_the_page_is_small(page: str) -> None:
    assert len(page) < 900_000  # of which half a megabyte is what draws


def test_names_are_escaped_everywhere(content: Content) -> None:
    kind = content.kinds[1]
    rows = tuple({**row, "note": HOSTILE, "candidate": f"{row['candidate']}{HOSTILE}"} for row in kind.rows)
    hostile = replace(kind, device=HOSTILE, rows=rows, candidate=replace(kind.candidate, regressor=HOSTILE))
    board = replace(content.board, rows=[{**row, "device": HOSTILE} for row in rows])
    page = report_page(replace(content, run=HOSTILE, kinds=(hostile,), board=board))
    assert "alert" in page
    assert "<script>alert" not in page


def test_errors_over_utilization_are_shown_where_it_varied(content: Content, page: str) -> None:
    assert "Error against utilisation" not in page
    assert any(each.title == "Error against utilisation" for each in kind_plots(under_load(content.kinds[0])))


def under_load(kind: KindContent) -> KindContent:
    schema = Schema((*kind.test.schema.names, "utilization"), kind.test.schema.categories)
    loads = np.linspace(0, 0.9, len(kind.test))
    return replace(kind, test=replace(kind.test, schema=schema, inputs=np.column_stack([kind.test.inputs, loads])))


def test_a_kept_learning_curve_is_drawn(content: Content) -> None:
    forecasts = [{"factor": 1.0, "error": 0.1, "low": 0.08, "high": 0.12}]
    forecasts += [{"factor": 1.5, "error": 0.08, "low": 0.06, "high": 0.11}]
    kind = {"device": "made-up", "kind": "linear", "points": 80, "weight": 80.0, "layers": 40, "floor": 0.01}
    kind |= {"sizes": [8, 15, 30], "errors": [0.3, 0.2, 0.12], "forecasts": forecasts}
    few = {"device": "made-up", "kind": "softmax", "points": 3, "weight": 0.0, "reason": "too few layers: 3"}
    curve = {"further_s": 600.0, "further_factor": 1.5, "kinds": [kind, few], "all": {"forecasts": forecasts}}
    drawn = report_page(replace(content, curve=curve))
    assert "Error against the number of layers" in drawn
    assert "another 10 min of measuring: 10.0\u00a0% -&gt; 8.0\u00a0%" in drawn
    assert "Error against the number of layers" not in report_page(replace(content, curve={**curve, "kinds": [few]}))
