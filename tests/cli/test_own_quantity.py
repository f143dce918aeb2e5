"""A quantity of one's own is one declaration: it is measured or imported, learned, shipped, predicted and shown."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet
import pytest

import medn
from medn.bundle.archive import BadBundle
from medn.cli.main import run as run_command
from medn.core.quantities import FURTHER
from medn.core.values import Condition
from medn.devices.backend import backends
from medn.devices.transport import Device
from medn.devices.worker_client import WorkerClient
from medn.model.prepared_model import predict_model
from medn.network.tasks import all_tasks
from medn.runs.tables import kind_table, read_source
from tests.conftest import PLUGINS, load_plugins

MISSES = 1 / 64
"""Lines missed for each multiplication of the made-up layers."""

ASKED = {"in_features": 300, "out_features": 400}
EXPECTED = 300 * 400 * MISSES


@pytest.fixture(scope="module", autouse=True)
def own_quantity() -> Iterator[None]:
    """Known in this process and in those it starts, and forgotten again after these tests."""
    with pytest.MonkeyPatch.context() as patch:
        load_plugins(patch, "own_quantity")
        yield
        del FURTHER["cache_misses"], sys.modules["own_quantity"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a column of misses, imported, exported, trained and shipped, each by its verb."""
    folder = tmp_path_factory.mktemp("own")
    random = np.random.default_rng(0)
    sizes = np.exp(random.uniform(4, 7, (120, 2))).astype(int).tolist()
    rows = [f"{n},{m},{n * m / 2e10},{n * m * MISSES}" for n, m in sizes]
    (folder / "layers.csv").write_text("\n".join(["n,m,s,misses", *rows]))
    mapping = {
        "kind": "linear",
        "device": "desk",
        "latency_s": "s",
        "cache_misses": "misses",
        "columns": {"in_features": "n", "out_features": "m"},
    }
    (folder / "map.yaml").write_text(json.dumps(mapping))
    imported = ["import", str(folder / "layers.csv"), "--map", str(folder / "map.yaml"), "--run", str(folder / "desk")]
    for command in (
        imported,
        ["export", str(folder / "desk")],
        ["train", str(folder / "desk"), "--time", "4", "--regressors", "roofline"],
        ["select", str(folder / "desk")],
    ):
        assert run_command(command) == 0
    return folder / "desk"


@pytest.fixture(scope="module")
def bundle(run: Path) -> Path:
    return run / "desk.medn"


def test_a_worker_counts_it() -> None:
    with pytest.MonkeyPatch.context() as patch:
        load_plugins(patch, "faulty_layers")
        patch.setenv("MEDN_PLUGINS", "faulty_layers,own_quantity")
        with WorkerClient(Device(backends["torch"]), threads=1) as child:
            layer = {"kind": "faulty", "layer": {"how": "nothing", "size": 64}, "condition": Condition().values}
            child.ask({"do": "prepare", **layer, "first": True}, 60)
            answer = child.ask({"do": "measure", "seconds": 0.02, "precision": 0.1, "quantile": 0.5}, 60)
    calls = len(answer["wall_s"]) * answer["calls_per_sample"]
    assert answer["quantities"]["cache_misses"] == pytest.approx(1200 / calls)


def test_it_is_a_column_of_exported_tables(run: Path) -> None:
    (file,) = (run / "dataset").glob("*.parquet")
    table = pyarrow.parquet.read_table(file)
    first = table.slice(0, 1).to_pylist()[0]
    assert first["cache_misses"] == pytest.approx(first["in_features"] * first["out_features"] * MISSES)
    assert first["cache_misses_reason"] == ""


def test_it_is_no_input_where_nobody_declared_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FURTHER, "cache_misses")
    table = kind_table(read_source(run / "dataset"), "linear").table
    assert not {"cache_misses", "cache_misses_reason"} & {*table.schema.names, *table.further}


def test_it_is_a_target(run: Path) -> None:
    table = kind_table(read_source(run), "linear").table
    assert table.further["cache_misses"].min() > 0
    assert all_tasks()["cache_misses"].targets(table, table.inputs) is not None


def test_a_layer_has_it(bundle: Path) -> None:
    found = medn.load(bundle).layer("linear", **ASKED)
    assert found.cache_misses == pytest.approx(EXPECTED, rel=0.3)
    assert (found.further.keys(), found.energy_j) == ({"cache_misses"}, None)


def test_a_table_of_layers_has_it(bundle: Path) -> None:
    found = medn.load(bundle).predict([ASKED, ASKED], "linear")
    assert found.cache_misses == pytest.approx([EXPECTED] * 2, rel=0.3)
    assert found[1].cache_misses == found.further["cache_misses"][1]


def test_a_model_adds_it_up(bundle: Path) -> None:
    import torch

    from medn.capture.capture import capture

    layers = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.Linear(400, 300))
    found = predict_model(medn.load(bundle), capture(layers, torch.zeros(1, 300)))
    assert found.cache_misses == pytest.approx(sum(row.cache_misses or 0.0 for row in found.rows))
    assert found.as_json()["cache_misses"] == pytest.approx(2 * EXPECTED, rel=0.3)


def test_it_is_answered_over_http(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGINS))
    serving: ModuleType = importlib.import_module("served_bundle")
    with serving.Server(bundle) as server:
        _, one = server.post("/v1/layer", {"kind": "linear", **ASKED})
        _, many = server.post("/v1/predict", {"kind": "linear", "rows": [ASKED]})
        schema = server.get("/openapi.json")["components"]["schemas"]["Prediction"]
    assert one["cache_misses"] == pytest.approx(EXPECTED, rel=0.3)
    assert many["cache_misses"] == pytest.approx([one["cache_misses"]], rel=1e-6)
    assert "lines that one call" in schema["properties"]["cache_misses"]["description"]


def test_it_is_shown_by_predict(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["predict", str(bundle), "linear", *(f"{name}={value}" for name, value in ASKED.items())]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "cache misses" in line)
    assert line.rstrip().endswith(" lines")


def test_a_bundle_that_has_it_says_so_where_nobody_declared_it(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FURTHER, "cache_misses")
    with pytest.raises(BadBundle, match=r"no quantity named 'cache_misses'.*MEDN_PLUGINS"):
        medn.load(bundle)
