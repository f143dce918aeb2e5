"""Every notebook runs from its first cell to its last, in short form: real sweeps of seconds on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from medn.core.packages import missing

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
NEEDED = {"prune_to_a_budget": ["torch_pruning"]}

RUN_CELLS = """
import ast, json, sys
known = {"__name__": "__main__"}
for number, cell in enumerate(json.load(open(sys.argv[1]))["cells"]):
    if cell["cell_type"] == "code":
        tree = ast.parse("".join(cell["source"]))
        shown = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), known)
        if shown:  # as a notebook does with the last line of a cell
            found = eval(compile(ast.Expression(shown.value), f"cell {number}", "eval"), known)
            print(found, getattr(found, "_repr_html_", str)())
"""


@pytest.mark.serial  # what the sweeps of a notebook measure must teach something
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_short_form(notebook: Path, tmp_path: Path) -> None:
    sentence = missing(notebook.stem, ["torch", *NEEDED.get(notebook.stem, ())], "optimizers")
    if sentence:
        pytest.skip(sentence)
    environment = {**os.environ, "MEDN_SHORT": "1", "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", RUN_CELLS, str(notebook)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "<table>" in done.stdout or "<Placement" in done.stdout


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_what_it_printed(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert cells[0]["source"][0].startswith("# ")
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
