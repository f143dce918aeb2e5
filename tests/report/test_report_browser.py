"""The report in a real browser: what a reader clicks works, on a desk, on a phone, by night and on paper."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medn.report.compare import compare, comparison_page
from medn.report.page import write_page
from medn.report.timeline import over_time, timeline_page
from tests.conftest import opened_browser

SORT = """
(() => {
  const table = document.querySelector('#leaderboard table');
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
    with opened_browser(tmp_path_factory.mktemp("profile"), "the report") as found:
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
    assert browser.ask(SHOWN % "details.kind") == 2
    browser.ask("(() => { const s = document.getElementById('kind'); s.value = 'kind-0';"
                " s.dispatchEvent(new Event('change')); })()")  # fmt: skip
    assert browser.ask(SHOWN % "details.kind") == 1
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
    browser.open(shown, width=400)
    assert browser.ask("document.documentElement.scrollWidth") == 400
    assert browser.ask("[...document.querySelectorAll('.scroll')].some((box) => box.scrollWidth > box.clientWidth)")


def test_no_table_loses_a_column_on_a_phone(browser: Any, shown: Path) -> None:
    counts = []
    for width in (1366, 400):
        browser.open(shown, width=width)
        browser.ask("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        counts.append(browser.ask(SHOWN % "th, td"))
    assert counts[0] == counts[1]


def test_the_page_follows_light_and_dark(browser: Any, shown: Path) -> None:
    papers = []
    for scheme in ("light", "dark"):
        browser.open(shown, scheme=scheme)
        papers.append(browser.ask("getComputedStyle(document.body).backgroundColor"))
    assert papers == ["rgb(255, 255, 255)", "rgb(21, 24, 29)"]


def test_on_paper_it_is_light_and_whole(browser: Any, shown: Path) -> None:
    browser.open(shown, scheme="dark", media="print")
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.ask(SHOWN % "nav, .chooser, .tools, .command button") == 0
    assert browser.ask(SHOWN % "details.kind") == 2


def test_printing_unfolds_every_kind_and_draws_every_plot(browser: Any, shown: Path, tmp_path: Path) -> None:
    browser.open(shown)
    browser.pdf(tmp_path / "report.pdf")
    assert browser.ask("document.querySelectorAll('details.kind:not([open])').length") == 0
    assert browser.ask("[...document.querySelectorAll('.plot')].every((box) => box.querySelector('svg'))")
    assert browser.complaints() == []


def center_of(browser: Any, selector: str) -> tuple[float, float]:
    """Where the last such element lies in the window, after the first plot was brought there and drawn."""
    x, y = browser.ask(
        f"""new Promise((done, failed) => {{
          document.querySelector('#summary .plot').scrollIntoView({{ block: 'center', behavior: 'instant' }});
          let frames = 0;
          const wait = () => {{
            const found = [...document.querySelectorAll({selector!r})].at(-1);
            if (!found) return frames++ < 500 ? requestAnimationFrame(wait) : failed(Error('nothing is drawn'));
            const box = found.getBoundingClientRect();
            done([box.x + box.width / 2, box.y + box.height / 2]);
          }};
          wait();
        }})"""
    )
    return x, y


def move(browser: Any, kind: str, at: tuple[float, float], **options: Any) -> None:
    browser.send("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **options)


NEXT_FRAME = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
DOMAIN = """
[...document.querySelectorAll('#summary .plot [aria-label="x-axis tick label"] text')].map((text) => text.textContent)
"""


def test_pointing_at_a_plot_shows_a_tooltip(browser: Any, shown: Path) -> None:
    browser.open(shown)
    at = center_of(browser, "#summary .plot [aria-label=dot] :is(path, circle)")
    move(browser, "mouseMoved", (at[0] + 2, at[1]))
    browser.ask(NEXT_FRAME)
    tips = "[...document.querySelectorAll('#summary .plot [aria-label=tip]')].map((tip) => tip.textContent).join('')"
    told = browser.ask(tips)
    assert "mean error" in told
    assert "noise" in told
    assert browser.complaints() == []


def test_dragging_zooms_and_a_button_shows_all_again(browser: Any, shown: Path) -> None:
    browser.open(shown)
    x, y = center_of(browser, "#summary .plot svg")
    whole = browser.ask(DOMAIN)
    assert len(whole) >= 2
    move(browser, "mousePressed", (x - 60, y - 20), button="left", clickCount=1)
    move(browser, "mouseMoved", (x, y), button="left", buttons=1)
    move(browser, "mouseReleased", (x + 60, y + 20), button="left", clickCount=1)
    assert browser.ask(DOMAIN) != whole
    assert browser.ask(SHOWN % "#summary figure .tools button:first-child") == 1
    browser.ask("document.querySelector('#summary figure .tools button').click()")
    assert browser.ask(DOMAIN) == whole
    assert browser.complaints() == []


def test_a_plot_is_zoomed_by_keyboard_too(browser: Any, shown: Path) -> None:
    browser.open(shown)
    center_of(browser, "#summary .plot svg")
    whole = browser.ask(DOMAIN)
    press = "document.querySelector('#summary .plot').dispatchEvent(new KeyboardEvent('keydown', {key: %r}))"
    browser.ask(press % "+")
    browser.ask(press % "+")
    assert browser.ask(DOMAIN) != whole
    browser.ask(press % "-")
    browser.ask(press % "-")
    assert browser.ask(DOMAIN) == whole


def test_a_plot_can_be_enlarged(browser: Any, shown: Path) -> None:
    browser.open(shown)
    center_of(browser, "#summary .plot svg")
    browser.ask("document.querySelector('#summary figure .tools button:last-child').click()")
    assert browser.ask(
        "document.querySelector('dialog svg').clientWidth > document.querySelector('#summary svg').clientWidth"
    )
    browser.ask("[...document.querySelectorAll('dialog button')].at(-1).click()")
    browser.ask(NEXT_FRAME)
    assert browser.ask("document.querySelector('dialog')") is None
    assert browser.complaints() == []


def test_a_command_is_copied_by_its_button(browser: Any, shown: Path) -> None:
    browser.open(shown)
    browser.send("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    x, y = browser.ask(
        "(() => { const box = document.querySelector('.command button'); box.scrollIntoView({behavior: 'instant'});"
        " const at = box.getBoundingClientRect(); return [at.x + 5, at.y + 5]; })()"
    )
    for kind in ("mousePressed", "mouseReleased"):
        move(browser, kind, (x, y), button="left", clickCount=1)
    assert browser.ask(
        "new Promise((done) => { const button = document.querySelector('.command button'), began = Date.now();"
        " const wait = () => (button.textContent === 'Copied' || Date.now() - began > 5000) ?"
        " done(button.textContent) : setTimeout(wait, 20); wait(); })"
    ) == "Copied"  # fmt: skip
    written = browser.ask("document.querySelector('.command code').textContent")
    assert browser.ask("navigator.clipboard.readText()") == written


def test_runs_over_time_are_drawn(browser: Any, chosen_run: Path, tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(chosen_run, tmp_path / f"run{number}")) for number in range(3)]
    browser.open(write_page(tmp_path / "compare.html", timeline_page(over_time(copies))), width=400)
    center_of(browser, "#summary .plot svg")
    assert browser.ask("document.documentElement.scrollWidth") == 400
    assert browser.complaints() == []


def test_a_comparison_opens_and_sorts_too(browser: Any, chosen_run: Path, tmp_path: Path) -> None:
    shown = write_page(tmp_path / "compare.html", comparison_page(compare(chosen_run, chosen_run)))
    browser.open(shown)
    browser.ask("document.querySelector('thead button').click()")
    assert browser.ask("document.querySelector('th[aria-sort]').textContent") == "kind"
    assert browser.complaints() == []
