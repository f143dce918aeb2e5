"""What comes with medn can be listed, named and written to be edited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medn.cli.main import run as medn
from medn.core.shipped import CONFIGS, MAPPINGS, shipped
from medn.importing.mapping import load_mapping
from medn.layer_generators.sweep import parse_sweep

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("listing", ["configs", "mappings"])
def test_everything_that_is_shipped_is_listed_with_what_it_is(listing: str, capsys: Capture) -> None:
    assert medn(["list", listing, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(shipped(CONFIGS if listing == "configs" else MAPPINGS))
    assert len(rows) > 5
    assert all(row["description"] for row in rows)


@pytest.mark.parametrize("mapping", shipped(MAPPINGS).values(), ids=lambda path: path.stem)
def test_a_shipped_mapping_parses(mapping: Path) -> None:
    assert load_mapping(mapping)


@pytest.mark.parametrize("name", ["cpu-layers", "cpu_layers"])
def test_a_config_is_named_without_its_path(name: str, capsys: Capture) -> None:
    assert medn(["sweep", name, "--dry-run", "--points", "8", "--json"]) == 0
    assert "conv2d" in json.loads(capsys.readouterr().out)["kinds"]


def test_a_file_of_the_same_name_is_taken_before(capsys: Capture) -> None:
    Path("edge").write_text("{name: own, devices: [torch], budget: {points: 3}, layers: {softmax: {}}}")
    assert medn(["sweep", "edge", "--dry-run", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["kinds"]) == ["softmax"]


def test_a_mapping_is_named_without_its_path(capsys: Capture) -> None:
    Path("gemm.csv").write_text("device,op,split,b,m,k,n,latency_ms\n")
    assert medn(["import", "gemm.csv", "--map", "neusight-bm", "--run", "run"]) == 2
    assert "no mapping named 'neusight-bm'. Did you mean 'neusight_bmm'?" in capsys.readouterr().err


def test_a_config_that_is_neither_a_file_nor_shipped_is_one_sentence(capsys: Capture) -> None:
    assert medn(["sweep", "cpu-layer"]) == 2
    said = capsys.readouterr().err
    assert "there is no file cpu-layer, and with medn comes no config named 'cpu-layer'" in said
    assert "Did you mean 'cpu-layers'?" in said


def test_init_writes_a_config_that_is_named_after_its_file(capsys: Capture) -> None:
    assert medn(["init", "transformer", "--to", "new/laptop.yaml"]) == 0
    out, err = capsys.readouterr()
    assert out == "new/laptop.yaml\n"
    assert "medn sweep new/laptop.yaml --dry-run" in err
    assert parse_sweep(Path("new/laptop.yaml")).name == "laptop"


def test_init_without_a_name_writes_something_to_begin_with() -> None:
    assert medn(["init"]) == 0
    assert parse_sweep(Path("cpu-layers.yaml")).layers


def test_init_writes_a_mapping(capsys: Capture) -> None:
    assert medn(["init", "cde_conv2d", "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written == {"file": "cde_conv2d.yaml", "from": "cde_conv2d", "what": "mapping"}
    assert load_mapping(Path("cde_conv2d.yaml"))


def test_init_overwrites_nothing(capsys: Capture) -> None:
    Path("edge.yaml").write_text("mine")
    assert medn(["init", "edge"]) == 2
    assert "edge.yaml is there already and is left as it is" in capsys.readouterr().err
    assert Path("edge.yaml").read_text() == "mine"


@pytest.mark.parametrize(("name", "near"), [("egde", "edge"), ("cde_conv", "cde_conv2d")])
def test_init_of_what_is_not_there_names_the_near_miss(name: str, near: str, capsys: Capture) -> None:
    assert medn(["init", name]) == 2
    assert f"Did you mean '{near}'?" in capsys.readouterr().err


def test_init_where_nothing_can_be_written_is_one_sentence(capsys: Capture) -> None:
    Path("file").write_text("")
    assert medn(["init", "edge", "--to", "file/edge.yaml"]) == 1
    assert "cannot write file/edge.yaml" in capsys.readouterr().err
