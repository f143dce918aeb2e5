"""What `medn doctor --over` says of a device elsewhere."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from typing import Any

import pytest

from experiments.loopback_ssh import LoopbackSsh
from medn.cli.main import run
from medn.remote.link import AgentLink
from tests.remote.conftest import simulated


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    code = run(["doctor", *arguments, "--json"])
    written = capsys.readouterr()
    rows = json.loads(written.out) if written.out else []
    return code, {row["name"]: row for row in rows}, written.err


def test_a_device_over_ssh_says_what_it_has(sshd: LoopbackSsh, capsys: pytest.CaptureFixture[str]) -> None:
    code, checks, said = told(capsys, "--over", sshd.over(), "--python", sys.executable)
    assert code == 0
    assert checks["device onnxruntime"]["found"].startswith("onnxruntime ")
    assert checks["link"]["found"].startswith("a round trip takes")
    assert "backend: onnxruntime, over: " in said


def test_what_is_missing_comes_with_the_command_that_installs_it(
    bare_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, checks, _ = told(capsys, "--over", "env", "--python", bare_python)
    assert code == 0
    assert checks["device torch"]["status"] == "missing"
    assert checks["device torch"]["advice"] == f"env {bare_python} -m pip install torch, or --install torch"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--numpy", "0"), "Python there has no numpy. Install it: env env "),
        (("--version", "3.8.10"), "is Python 3.8.10, medn needs 3.10 there"),
    ],
)
def test_a_device_that_cannot_run_the_agent_is_one_sentence(
    options: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, checks, said = told(capsys, "--over", "env", "--python", simulated(*options))
    assert (code, "link" in checks) == (3, False)
    assert sentence in said


def test_an_unreachable_device_has_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = told(capsys, "--over", "false")
    assert (code, said) == (3, "medn: false: the command ended with exit code 1\n")


def test_options_of_a_device_need_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = told(capsys, "--install", "numpy")
    assert (code, said) == (2, "medn: --python and --install go with --over\n")


def test_libraries_that_are_laid_out_are_found_there(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("torch/__init__.py", "")
        archive.writestr("torch-9.9.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n")
    link = AgentLink("env", sys.executable)
    link.greet()
    link.lay_out(packed.getvalue())
    link.close()
    link = AgentLink("env", sys.executable)
    link.open()
    try:
        assert link.ask({"do": "environment", "backend": "torch"})["manifest"]["libraries"] == {"torch": "9.9"}
    finally:
        link.close()
