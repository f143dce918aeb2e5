"""A server with a token, and the page that is made from its description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from medn.cli.main import run
from medn.serving.answers import Answers
from medn.serving.docs_page import docs_page
from medn.serving.schema import openapi

TOKEN = "a-token-of-the-tests-1234"
LAYER = {"kind": "linear", "in_features": 8, "out_features": 8}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def guarded(serving: Any, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(f"{TOKEN}\n")
    with serving.Server(bundle, "--device", "fast", "--token-file", str(file)) as started:
        yield started


@pytest.mark.parametrize("path", ["/v1/layer", "/v1/predict", "/v1/model", "/v1/bundle", "/metrics", "/none"])
@pytest.mark.parametrize(
    "brought",
    [None, "", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Basic {TOKEN}", "Bearer \xe9"],
)
def test_without_the_token_nothing_is_answered(guarded: Any, path: str, brought: str | None) -> None:
    headers = JSON if brought is None else {**JSON, "authorization": brought}
    status, text, found = guarded.ask("POST", path, LAYER, headers)
    assert status == 401
    assert found["www-authenticate"] == "Bearer"
    assert "Authorization: Bearer TOKEN" in json.loads(text)["error"]


def test_with_the_token_all_is_answered(guarded: Any) -> None:
    headers = {**JSON, "authorization": f"Bearer {TOKEN}"}
    assert guarded.ask("POST", "/v1/layer", LAYER, headers)[0] == 200
    assert guarded.ask("GET", "/metrics", None, headers)[0] == 200
    assert guarded.ask("GET", "/none", None, headers)[0] == 404


@pytest.mark.parametrize("path", ["/", "/docs", "/healthz", "/openapi.json"])
def test_how_to_ask_is_open_to_all(guarded: Any, path: str) -> None:
    assert guarded.ask("GET", path, None, {})[0] == 200


def test_the_document_names_the_token(guarded: Any, server: Any) -> None:
    assert guarded.get("/openapi.json")["security"] == [{"token": []}]
    assert "security" not in server.get("/openapi.json")


def test_a_token_may_come_from_the_environment(serving: Any, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDN_TOKEN", TOKEN)
    with serving.Server(bundle, "--device", "fast") as started:
        assert started.ask("GET", "/v1/bundle", None, {})[0] == 401


@pytest.mark.parametrize("text", ["", "short", "with spaces between its words", "ünsichtbar-und-lang-genug"])
def test_a_token_that_is_none_is_one_sentence(
    text: str, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "token").write_text(text)
    assert run(["serve", str(bundle), "--device", "fast", "--token-file", str(tmp_path / "token")]) == 2
    assert "a token must be at least 16 visible characters of ASCII without spaces" in capsys.readouterr().err


def test_a_token_file_that_is_not_there_is_one_sentence(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(bundle), "--device", "fast", "--token-file", "none"]) == 2
    assert "none: the token cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.fixture(scope="module")
def document(bundle: Path) -> dict[str, Any]:
    return openapi(Answers(bundle, "fast"))


@pytest.fixture(scope="module")
def page(document: dict[str, Any]) -> str:
    return docs_page(document).decode()


def test_every_operation_and_schema_is_on_the_page(page: str, document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        assert all(f"{method.upper()} {path}</code>" in page for method in methods)
        assert all(operation.get("description", "") in page for operation in methods.values())
    assert all(f'id="schema-{name}"' in page for name in document["components"]["schemas"])


def test_links_of_the_page_lead_somewhere(page: str) -> None:
    for name in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{name}"' in page


def test_the_page_needs_nothing_from_elsewhere(page: str) -> None:
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="(?!#|/|data:)', page) == []


def test_the_page_is_well_formed(page: str) -> None:
    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            if tag not in ("meta", "link"):
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    tags = Tags()
    tags.feed(page)
    assert tags.open == []


def test_what_a_bundle_says_is_escaped(document: dict[str, Any]) -> None:
    hostile = {**document, "info": {"title": "<script>alert(1)</script>", "description": "&", "version": "0"}}
    assert "<script" not in docs_page(hostile).decode()


def test_the_example_of_an_operation_is_answered(server: Any, document: dict[str, Any]) -> None:
    for path in ("/v1/layer", "/v1/predict"):
        content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert server.post(path, content["example"])[0] == 200


def test_the_page_is_served(server: Any) -> None:
    status, text, headers = server.ask("GET", "/docs", None, {})
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert "script-src" not in headers["content-security-policy"]
    assert "/v1/model" in text
