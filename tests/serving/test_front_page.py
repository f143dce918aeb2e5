"""The page at the root in a real browser: what a visitor clicks works, and nothing is fetched from elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import opened_browser

TRIES = 100


@pytest.fixture(scope="module")
def page(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with opened_browser(tmp_path_factory.mktemp("profile"), "the page") as browser:
        browser.send("Page.navigate", url=server.url)
        wait(
            browser, "document.querySelectorAll('#kind option').length > 0 && document.getElementById('request').value"
        )
        yield browser


def wait(browser: Any, script: str) -> Any:
    for _ in range(TRIES):
        found = browser.ask(script)
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"never true: {script}")


def test_it_needs_no_other_place(server: Any, page: Any) -> None:
    asked = [address for address in page.requests() if not address.startswith("about:")]
    assert all(address.startswith(server.url) for address in asked)


def test_every_kind_is_listed_with_its_parameters(page: Any) -> None:
    kinds = page.ask("[...document.querySelectorAll('#kind option')].map((option) => option.textContent)")
    assert kinds == ["activation", "linear"]
    assert page.ask("document.getElementById('kinds').textContent.includes('in_features')")


@pytest.mark.parametrize("address", ["/v1/layer", "/v1/predict"])
@pytest.mark.parametrize("kind", ["activation", "linear"])
def test_the_example_of_a_kind_is_answered(page: Any, kind: str, address: str) -> None:
    page.ask(
        "document.getElementById('answer').textContent = '';"
        f"document.getElementById('address').value = '{address}';"
        f"document.getElementById('kind').value = '{kind}';"
        "document.getElementById('kind').onchange();"
        "document.getElementById('send').click();"
    )
    answer = wait(page, "document.getElementById('answer').textContent")
    assert answer.startswith("200")
    assert "latency_s" in answer


def test_nothing_went_wrong_in_it(page: Any) -> None:
    assert page.complaints() == []
