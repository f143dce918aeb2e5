"""What a benchmark tool is: how it is called for every point of a layer plan, and how its output is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from medn.core.registry import Registry

RESULTS = "results"
"""The folder, beside the script, that scripts write into."""


@dataclass(frozen=True)
class Result:
    """What one call of a tool tells of one layer."""

    name: str
    """What it was called: the label of a point or the name of its file, with or without folders and suffixes."""
    seconds: tuple[float, ...]
    """Every run, or a single number that stands for all of them."""
    statistic: str = ""
    """What that single number is: the mean, the median or the minimum; empty where every run is there."""

    @property
    def stem(self) -> str:
        return name_of(self.name)


def name_of(path: str) -> str:
    """The name of a file without its folders and suffixes.

    >>> name_of("C:\\\\layers\\\\linear-1a2b.onnx"), name_of("/data/local/tmp/linear-1a2b.ncnn.param")
    ('linear-1a2b', 'linear-1a2b')
    """
    return PurePosixPath(path.replace("\\", "/")).name.partition(".")[0]


class BenchmarkTool(ABC):
    """One tool. One subclass in one file, with `@benchmark_tools.register` above it."""

    name: ClassVar[str]
    description: ClassVar[str]
    script: ClassVar[str]
    """What runs the tool for every point: a template to be edited, that reads `points.tsv` beside it."""
    script_name: ClassVar[str]

    @abstractmethod
    def recognises(self, text: str) -> bool:
        """Whether this is output of the tool."""

    @abstractmethod
    def read(self, path: Path, text: str) -> list[Result]:
        """All results in one file. A ValueError says what is wrong with it."""


def shell_script(about: str, before: str, call: str) -> str:
    """A script that makes `call` for every point, with LABEL, FILE, THREADS and SHAPES set."""
    return f"""#!/bin/sh
# {about}
# A template: edit paths and options, then run it where the layers are. What is in {RESULTS}/ is not measured again.
# Bring {RESULTS}/ back, and: medn import {RESULTS} --plan . --run runs/NAME
set -u
cd "$(dirname "$0")" || exit 1
mkdir -p {RESULTS}
{before}
tail -n +2 points.tsv | while IFS="$(printf '\\t')" read -r LABEL FILE THREADS SHAPES REST; do
{call}
done
"""


benchmark_tools: Registry[BenchmarkTool] = Registry("benchmark tool", package="medn.benchmark_tools.tools")
