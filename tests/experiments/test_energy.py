"""Energy from a table like aic_power_gemm: the shipped mapping, and which families learn it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medn.cli.main import run
from medn.core.splits import Split
from medn.regressors.regressor import regressors
from medn.runs.tables import read_source
from medn.training.further_quantities import further_jobs
from medn.training.job import Job
from medn.training.prepared import prepare

COLUMNS = "device,op,dtype,framework,version,m,n,k,latency_ms,power_w,power_limit_w,energy_mj"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Matrix products that draw 400 W, and some of another device and another data type."""
    folder, random, lines = tmp_path_factory.mktemp("energy"), np.random.default_rng(0), [COLUMNS]
    for _ in range(120):
        n, k = (int(each) for each in random.integers(32, 4096, 2))
        for m in (1, 64):
            latency_ms = 0.01 + 2 * m * n * k / 5e11
            line = f"gemm,bfloat16,vllm,0.22.0,{m},{n},{k},{latency_ms},400,700,{400 * latency_ms}"
            lines += [f"H200,{line}"]
    lines += [lines[1].replace("H200", "B200"), lines[1].replace("bfloat16", "fp8_block")]
    (folder / "power.csv").write_text("\n".join(lines) + "\n")
    assert run(["import", str(folder / "power.csv"), "--map", "aic_power_gemm", "--run", str(folder / "run")]) == 0
    return folder / "run"


def job(imported: Path, family: str) -> Job:
    tables, _ = prepare(read_source(imported), ["linear"], Split(), 0, False)
    return Job(imported, "H200", family, tables["H200"], "random", 0, 10.0, 1.0)


def test_the_shipped_mapping_brings_joules(imported: Path) -> None:
    rows = job(imported, "linear").tables["linear"].train
    assert rows.further["energy_j"] == pytest.approx(400 * rows.target)
    source = read_source(imported)
    assert sum(map(len, source.rows.values())) == 240


def learned(imported: Path, family: str) -> list[str]:
    return [each.root.name for each in further_jobs(job(imported, family), imported)]


def test_few_rows_are_left_to_light_families(imported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert learned(imported, "decision_tree") == ["energy_j"]
    assert learned(imported, "lightgbm_on_roofline") == []
    monkeypatch.setattr(type(regressors["lightgbm_on_roofline"]), "further_rows", 100)
    assert learned(imported, "lightgbm_on_roofline") == ["energy_j"]


def test_what_light_families_learn_well_is_left_to_them(imported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medn.core.quantities import FURTHER

    monkeypatch.setattr(type(regressors["lightgbm_on_roofline"]), "further_rows", 100)
    object.__setattr__(FURTHER["energy_j"], "hard", False)
    try:
        assert learned(imported, "lightgbm_on_roofline") == []
    finally:
        object.__setattr__(FURTHER["energy_j"], "hard", True)
