"""The page that comes out: complete in itself, escaped, accessible, small and the same every time."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import islice, pairwise

import numpy as np
import pytest

from medn.core.table import Schema
from medn.report.content import Content, KindContent
from medn.report.drawing import BLUE, dots
from medn.report.page import report_page
from medn.report.pictures import kind_pictures
from medn.report.svg import inline_svg

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


def test_every_picture_and_table_says_what_it_shows(page: str) -> None:
    elements = Elements(page)
    pictures = elements.of("svg")
    assert len(pictures) >= 20
    assert all(picture["role"] == "img" and len(picture["aria-label"] or "") > 20 for picture in pictures)
    assert len(elements.of("caption")) == len(elements.of("table")) >= 3


def test_headings_leave_out_no_level(page: str) -> None:
    levels = [int(tag[1]) for tag, _ in Elements(page).found if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(second <= first + 1 for first, second in pairwise(levels))


def test_all_parts_are_there(page: str) -> None:
    titles = re.findall(r"<h4>(.*?)</h4>", page)
    for title in (
        *("Error against the noise floor", "Predicted against measured", "Error against latency", "Interval coverage"),
        *("Error against prediction time", "Error against size", "Error against batch size", "Importance of inputs"),
        *("Latency over out_features", "Tuning"),
    ):
        assert title in titles
    assert any(title.startswith("Error over ") for title in titles)
    assert "a law" in page


def test_ink_is_that_of_the_page(page: str) -> None:
    assert "currentColor" in page
    assert "#0a0b0c" not in page
    assert "#000000" not in page


def test_the_same_content_makes_the_same_pictures(content: Content, page: str) -> None:
    first, again = (list(islice(kind_pictures(content.kinds[0]), 3)) for _ in range(2))
    assert first == again
    assert all(picture.svg in page for picture in first)


@pytest.mark.parametrize("count", [3, 200])
def test_every_point_is_drawn(count: int) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    dots(figure.subplots(), np.arange(float(count)), np.arange(float(count)) % 7, BLUE)
    (path,) = (each for each in inline_svg(figure, "points", "salt").split("<path") if BLUE in each)
    assert path.count("M ") == path.count("L ") == count


def test_the_page_is_small(page: str) -> None:
    assert len(page) < 600_000


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
    assert any(each.title == "Error against utilisation" for each in kind_pictures(under_load(content.kinds[0])))


def under_load(kind: KindContent) -> KindContent:
    schema = Schema((*kind.test.schema.names, "utilization"), kind.test.schema.categories)
    loads = np.linspace(0, 0.9, len(kind.test))
    return replace(kind, test=replace(kind.test, schema=schema, inputs=np.column_stack([kind.test.inputs, loads])))
