"""The report in a real browser: what a reader clicks works, on a desk, on a phone, by night and on paper."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medn.report.compare import compare, comparison_page
from medn.report.page import write_page

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"

SORT = """
(() => {
  const table = [...document.querySelectorAll('#leaderboard table')].at(-1);
  const headings = [...table.tHead.rows[0].cells];
  const place = headings.findIndex((cell) => cell.textContent === %r);
  headings[place].querySelector('button').click();
  return {
    sort: headings.map((cell) => cell.getAttribute('aria-sort')).filter((value) => value),
    values: [...table.tBodies[0].rows].map((row) => row.cells[place].dataset.value ?? null),
  };
})()
"""
SHOWN = "[...document.querySelectorAll(%r)].filter((element) => element.offsetParent !== null).length"


@pytest.fixture(scope="session")  # as the page, which is not drawn where there is no browser
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        module = importlib.import_module("browser")
    program = module.find_browser()
    if program is None:
        pytest.skip("no browser is installed (chromium); the report was not tried in one")
    with module.Browser(program, tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def shown(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("page") / "report.html", page)


def numbers(values: list[str | None]) -> list[float]:
    return [float(value) for value in values if value is not None]


def test_the_page_opens_without_a_complaint_or_a_request(browser: Any, shown: Path) -> None:
    browser.open(shown)
    assert browser.complaints() == []
    assert browser.requests() == [shown.as_uri()]


def test_a_heading_sorts_its_column_both_ways(browser: Any, shown: Path) -> None:
    browser.open(shown)
    up = browser.ask(SORT % "MAPE")
    assert up["sort"] == ["ascending"]
    assert numbers(up["values"]) == sorted(numbers(up["values"]))
    down = browser.ask(SORT % "MAPE")
    assert down["sort"] == ["descending"]
    assert numbers(down["values"]) == sorted(numbers(up["values"]), reverse=True)


def test_texts_are_sorted_as_texts_and_gaps_stand_last(browser: Any, shown: Path) -> None:
    browser.open(shown)
    names = browser.ask(SORT % "candidate")["values"]
    assert names == sorted(names)
    beyond = browser.ask(SORT % "beyond")["values"]
    known = len(numbers(beyond))
    assert beyond[known:] == [None] * (len(beyond) - known)


def test_choosing_a_kind_hides_the_others_and_links_bring_them_back(browser: Any, shown: Path) -> None:
    browser.open(shown)
    assert browser.ask(SHOWN % "section.kind") == 2
    browser.ask("(() => { const s = document.getElementById('kind'); s.value = 'kind-0';"
                " s.dispatchEvent(new Event('change')); })()")  # fmt: skip
    assert browser.ask(SHOWN % "section.kind") == 1
    assert browser.ask(SHOWN % "tr[data-kind='kind-1']") == 0
    browser.ask("document.querySelector('#summary a[href=\"#kind-1\"]').click()")
    assert browser.ask(SHOWN % "#kind-1") == 1
    assert browser.ask(SHOWN % "#kind-0") == 0
    assert browser.complaints() == []


def test_headings_can_be_reached_and_pressed_by_keyboard(browser: Any, shown: Path) -> None:
    browser.open(shown)
    browser.ask("document.querySelector('#leaderboard th button').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.send(
            "Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13
        )
    assert browser.ask("document.querySelector('#leaderboard th').getAttribute('aria-sort')") == "ascending"


def test_nothing_but_tables_is_wider_than_a_phone(browser: Any, shown: Path) -> None:
    browser.open(shown, width=390)
    assert browser.ask("document.documentElement.scrollWidth") == 390
    assert browser.ask("[...document.querySelectorAll('.scroll')].some((box) => box.scrollWidth > box.clientWidth)")


def test_the_page_follows_light_and_dark(browser: Any, shown: Path) -> None:
    papers = []
    for scheme in ("light", "dark"):
        browser.open(shown, scheme=scheme)
        papers.append(browser.ask("getComputedStyle(document.body).backgroundColor"))
    assert papers == ["rgb(255, 255, 255)", "rgb(21, 24, 29)"]


def test_on_paper_it_is_light_and_whole(browser: Any, shown: Path) -> None:
    browser.open(shown, scheme="dark", media="print")
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.ask(SHOWN % "nav, .chooser") == 0
    assert browser.ask(SHOWN % "section.kind") == 2


def test_a_comparison_opens_and_sorts_too(browser: Any, chosen_run: Path, tmp_path: Path) -> None:
    shown = write_page(tmp_path / "compare.html", comparison_page(compare(chosen_run, chosen_run)))
    browser.open(shown)
    browser.ask("document.querySelector('thead button').click()")
    assert browser.ask("document.querySelector('th[aria-sort]').textContent") == "kind"
    assert browser.complaints() == []
