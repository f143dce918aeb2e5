"""`medn serve`: how it starts, how it stops, what it refuses."""

from __future__ import annotations

import importlib
import json
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from medn.cli.main import run

pytest.importorskip("uvicorn")

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"


@pytest.fixture(scope="module")
def serving() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        return importlib.import_module("served_bundle")


@pytest.fixture(scope="module")
def bundle(serving: ModuleType, write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = serving.write_bundle(write_run, tmp_path_factory.mktemp("served"))
    return path


def test_a_terminated_server_ends_well_and_finishes_what_is_under_way(serving: ModuleType, bundle: Path) -> None:
    with serving.Server(bundle, "--device", "fast") as server:
        connection = server.connection()
        body = json.dumps({"kind": "linear", "in_features": 8, "out_features": 8}).encode()
        connection.putrequest("POST", "/v1/layer")
        connection.putheader("content-type", "application/json")
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body[:10])
        server.ask("GET", "/healthz")  # by now the half of the other request has arrived as well
        ended: list[tuple[int, str]] = []
        stopping = threading.Thread(target=lambda: ended.append(server.stop()))
        stopping.start()
        stopping.join(1.0)
        connection.send(body[10:])
        assert connection.getresponse().status == 200
        connection.close()
        stopping.join()
    assert ended[0][0] == 0
    assert ended[0][1].splitlines()[-1] == "stopped"


def test_an_interrupted_server_ends_as_any_other_verb(serving: ModuleType, bundle: Path) -> None:
    with serving.Server(bundle, "--device", "fast") as server:
        server.ask("GET", "/healthz")
        code, said = server.stop(signal.SIGINT)
    assert code == 130
    assert said.splitlines()[-1] == "medn: interrupted"


def test_json_says_where_it_listens(serving: ModuleType, bundle: Path) -> None:
    with serving.Server(bundle, "--device", "fast", "--json") as server:
        lines = [server.url, *(server.process.stdout.readline() for _ in range(3))]
        server.stop()
    assert json.loads("".join(lines))["url"].startswith("http://127.0.0.1:")


def test_a_port_in_use_is_one_sentence(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["serve", str(bundle), "--device", "fast", "--port", str(port)]) == 1
    assert f"cannot listen on 127.0.0.1, port {port}: Address already in use" in capsys.readouterr().err


def test_a_host_that_is_not_here_is_one_sentence(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(bundle), "--device", "fast", "--host", "no such host"]) == 1
    assert capsys.readouterr().err.startswith("medn: cannot listen on no such host, port 8765: ")


def test_several_devices_need_one_to_be_named(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", str(bundle)]) == 2
    assert "knows several devices: fast, slow" in capsys.readouterr().err


def test_a_file_that_is_no_bundle_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.medn"
    path.write_text("nothing")
    assert run(["serve", str(path)]) in (1, 2)
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--port", "70000"], ["--max-rows", "0"], ["--max-bytes", "many"]])
def test_a_wrong_option_is_wrong_usage(bundle: Path, options: list[str]) -> None:
    assert run(["serve", str(bundle), *options]) == 2
