"""What is true of every table format, medn's own and those of plug-ins, as tests that anyone can run:

pytest --pyargs medn.exporting.conformance -k my_format
"""

from __future__ import annotations

from typing import Any

import pytest

from medn.core.errors import ConfigError, UsageError
from medn.exporting.exporter import Exporter, exporters


@pytest.fixture(params=list(exporters))
def exporter(request: pytest.FixtureRequest) -> Exporter:
    return exporters[request.param]


def test_a_format_describes_itself_and_its_options(exporter: Exporter) -> None:
    assert exporter.description
    assert exporter.to
    assert all(option.about for option in exporter.options)


def test_the_defaults_of_options_are_allowed(exporter: Exporter) -> None:
    for option in exporter.options:
        assert option.default is None or option.mistake(option.default) is None


def test_an_unknown_option_gets_its_near_miss(exporter: Exporter) -> None:
    for option in exporter.options:
        with pytest.raises(ConfigError, match=f"Did you mean '{option.name}'"):
            exporter.read_options({f"{option.name}x": "1"})


def test_a_format_of_a_model_says_that_it_needs_one(exporter: Exporter) -> None:
    nobody: Any = None  # is asked before there is a model
    if exporter.needs_model:
        with pytest.raises(UsageError, match="give a model"):
            exporter.write(nobody)
