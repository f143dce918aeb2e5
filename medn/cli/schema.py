"""`medn schema`: the JSON Schema of a sweep config."""

from __future__ import annotations

from medn.cli.output import AsJson, write_json


def schema(as_json: AsJson = False) -> None:
    """Print the JSON Schema of a sweep config.

    An editor completes and checks configs with it. The output is JSON with and without --json.

    \b
    Example:
      medn schema > sweep.schema.json
    """
    from medn.layer_generators.sweep import sweep_json_schema

    write_json(sweep_json_schema())
