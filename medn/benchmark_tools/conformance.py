"""What holds for every benchmark tool: `pytest --pyargs medn.benchmark_tools.conformance -k my_tool`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from medn.benchmark_tools.tool import BenchmarkTool, benchmark_tools

every_tool = pytest.mark.parametrize("tool", list(benchmark_tools.values()), ids=list(benchmark_tools))

NO_RESULTS = ("", "\n", "it was a warm day", "a,b\n1,2\n", "[]", "{}", "1.5")


@every_tool
def test_it_says_what_it_is(tool: BenchmarkTool) -> None:
    assert tool.name
    assert tool.description
    assert Path(tool.script_name).name == tool.script_name


@every_tool
def test_its_script_is_called_as_that_of_no_other(tool: BenchmarkTool) -> None:
    assert [each.script_name for each in benchmark_tools.values()].count(tool.script_name) == 1


@every_tool
def test_its_script_reads_the_points_of_a_plan(tool: BenchmarkTool) -> None:
    assert "points.tsv" in tool.script
    assert "results" in tool.script


@every_tool
def test_its_script_can_be_parsed(tool: BenchmarkTool, tmp_path: Path) -> None:
    if not tool.script.startswith("#!/bin/sh"):
        compile(tool.script, tool.script_name, "exec")
    elif shutil.which("sh"):
        (tmp_path / "script.sh").write_text(tool.script)
        subprocess.run(["sh", "-n", tmp_path / "script.sh"], check=True)


@every_tool
@pytest.mark.parametrize("text", NO_RESULTS)
def test_what_no_tool_wrote_is_not_taken_for_its_output(tool: BenchmarkTool, text: str) -> None:
    assert not tool.recognises(text)
