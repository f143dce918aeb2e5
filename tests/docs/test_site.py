"""The documents as a site: `make docs` builds it strictly, and it needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import medn
from tests.conftest import opened_browser

ROOT = Path(__file__).resolve().parents[2]

WITHOUT_NETWORK = """
import socket, sys
def refuse(*_, **__):
    raise OSError("the site is built without network")
socket.socket.connect = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
sys.argv[0] = "mkdocs"
cli()
"""

SEARCH = """
(async () => {
  document.querySelector('[data-md-toggle=search]').click();
  const input = document.querySelector('.md-search__input');
  input.value = 'staircase';
  const found = document.querySelector('.md-search-result');
  while (!/matching/.test(found.innerText)) {
    input.dispatchEvent(new Event('keyup', { bubbles: true }));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return found.innerText;
})()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="pip install 'medn[docs]'")
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WITHOUT_NETWORK, "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_every_document_and_notebook_is_a_page(site: Path) -> None:
    documents = [
        path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*") if path.suffix in (".md", ".ipynb")
    ]
    pages = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    assert {path.with_suffix("") for path in documents} <= pages
    assert {Path("CONTRIBUTING"), Path("CHANGELOG"), Path("commands")} <= pages


def test_the_reference_has_every_name_with_its_words(site: Path) -> None:
    page = (site / "reference.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'<h[34] id="medn\.([\w.]+)"', page))
    last = {name.rpartition(".")[2] for name in shown}
    assert set(medn.__all__) - last - {"integrations", "sklearn"} == set()
    assert {"medn.Predictor.layer"} <= {f"medn.{name}" for name in shown}
    assert "Tune, fit, export and calibrate regressors" in page


def test_every_verb_is_on_the_page_of_commands(site: Path) -> None:
    from medn.cli.main import VERBS

    page = (site / "commands.html").read_text(encoding="utf-8")
    assert [verb for verb in VERBS if f"medn {verb}" not in page] == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"(\w+:[^\"]*)", page.read_text(encoding="utf-8")
        )
        assert [address for address in loaded if not address.startswith("data:")] == []


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with opened_browser(tmp_path_factory.mktemp("profile"), "the search") as found:
        yield found


def test_the_search_works_in_a_site_that_is_opened_from_disk(site: Path, browser: Any) -> None:
    browser.open(site / "index.html")
    assert "The Predictor" in browser.ask(SEARCH)
    assert browser.complaints() == []
    assert [address for address in browser.requests() if not address.startswith(("file:", "data:"))] == []
