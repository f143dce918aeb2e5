"""The table of what is predicted beyond what was measured, on a few rows."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.extrapolation import main


def test_every_family_is_told_in_every_way(tmp_path: Path) -> None:
    options = ["--tables", "attention", "--rows", "300", "--time", "3", "--families", "median,roofline"]
    assert main(["--data", str(tmp_path), "--out", str(tmp_path / "results"), *options]) == 0
    found = json.loads((tmp_path / "results" / "extrapolation.json").read_text())["rows"]
    assert {"median", "roofline"} <= {row["candidate"] for row in found}
    for row in found:
        assert {"held", "own", "bounded"} <= row.keys()
        assert row["error"] == row[row["chosen"]]
        assert 0 <= row["covered"] <= 100
