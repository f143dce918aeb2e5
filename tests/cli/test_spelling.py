"""Names may be typed with `-` or `_`: what is written down has one spelling."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import medn
from medn.choosing.leaderboard import arranged
from medn.cli.main import run
from medn.core.errors import UsageError
from medn.core.registry import Registry
from medn.devices.backend import backends
from medn.devices.probe import probes
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.sampler import samplers
from medn.layer_generators.sweep import parse_sweep
from medn.regressors.form import forms
from medn.regressors.regressor import regressors
from medn.training.candidate_store import candidate_folder
from medn.training.config import parse_settings, read_train_config


@pytest.mark.parametrize("registry", [layer_kinds, samplers, regressors, probes, forms], ids=lambda each: each.what)
def test_names_in_yaml_and_python_are_spelled_with_underscores(registry: Registry[Any]) -> None:
    own = [entry.name for entry in registry.values() if entry.__module__.startswith("medn.")]
    assert own
    assert [name for name in own if "-" in name] == []


def test_names_of_devices_are_spelled_with_hyphens() -> None:
    assert [name for name in backends if "_" in name] == []


def test_a_sweep_config_takes_either_spelling() -> None:
    config = parse_sweep(
        "{name: x, devices: [torch_compile, {name: torch_compile 2, backend: torch_compile}],"
        " layers: {rms-norm: {}}, probes: [load-average]}",
        list(backends),
        list(probes),
    )
    assert [(device.name, device.backend) for device in config.devices] == [
        ("torch-compile", "torch-compile"),
        ("torch_compile 2", "torch-compile"),
    ]
    assert list(config.layers) == ["rms_norm"]
    assert [probe.name for probe in config.probes] == ["load_average"]


def test_a_kind_in_both_spellings_is_refused() -> None:
    with pytest.raises(UsageError, match="stands twice, as 'rms_norm' and as 'rms-norm'"):
        parse_sweep("{name: x, devices: [torch], layers: {rms_norm: {}, rms-norm: {}}}")


def test_a_training_config_takes_either_spelling(tmp_path: Path) -> None:
    (tmp_path / "training.yaml").write_text("{regressors: [medn-shared], settings: {medn-shared: {width: 64}}}")
    config = read_train_config(tmp_path / "training.yaml")
    assert config.regressors == ["medn_shared"]
    assert config.settings == {"medn_shared": {"width": 64}}


def test_a_setting_takes_either_spelling() -> None:
    written = ["medn-shared.width=64", "medn_shared.blocks=2"]
    assert parse_settings(written) == {"medn_shared": {"width": 64, "blocks": 2}}


@pytest.mark.parametrize(
    "arguments", [["list", "kinds", "rms-norm"], ["list", "probes", "load-average"], ["list", "devices", "torch_cuda"]]
)
def test_an_entry_is_listed_by_either_spelling(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_predictor_takes_either_spelling(bundle_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = medn.load(bundle_path)
    one = predictor.estimator("linear")
    monkeypatch.setitem(predictor._estimators, "rms_norm", one)
    assert predictor.estimator("rms-norm") is one
    with pytest.raises(UsageError, match=re.escape("Did you mean 'rms_norm'?")):
        predictor.estimator("rms-nrm")


def test_a_leaderboard_is_filtered_by_either_spelling() -> None:
    rows = [{"kind": "rms_norm", "candidate": "medn-shared", "mape": 0.1, "device": "x"}]
    assert arranged(rows, kinds=["rms-norm"], candidates=["medn_shared"]) == rows


def test_a_candidate_of_the_former_spelling_stays_where_it_is(tmp_path: Path) -> None:
    old = candidate_folder(tmp_path, "desk", "linear", "medn-shared")
    old.mkdir(parents=True)
    assert candidate_folder(tmp_path, "desk", "linear", "medn_shared") == old


def test_a_run_with_a_candidate_of_the_former_spelling_is_selected_from(
    trained_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(trained_run, tmp_path / "desk")
    for facts in folder.glob("candidates/*/*/roofline/candidate.json"):
        facts.write_text(facts.read_text().replace('"regressor": "roofline"', '"regressor": "medn-shared"'))
        facts.parent.rename(facts.parent.with_name("medn-shared"))
    assert run(["select", str(folder)]) == 0
    assert run(["leaderboard", str(folder), "--candidates", "medn_shared", "--json"]) == 0
    assert "medn-shared" in capsys.readouterr().out
