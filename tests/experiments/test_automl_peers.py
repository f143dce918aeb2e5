"""The comparison with other programs: what the script does itself, with a peer that needs no installing."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from experiments import automl_peers
from experiments.automl_peers import chosen
from experiments.peers import child, environments
from experiments.public import miopen

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"
ROWS = 120


@pytest.fixture
def data(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    about = {"device": miopen.DEVICE, "dtype": "fp32", "layout": "NCHW"}
    same = dict.fromkeys(("kh", "kw", "stride_h", "stride_w", "dil_h", "dil_w", "groups"), 1) | {"pad_h": 0, "pad_w": 0}
    with gzip.open(tmp_path / "miopen_conv_fwd.csv.gz", "wt", newline="") as file:
        writer = csv.DictWriter(
            file, [*about, *same, "batch", "in_c", "in_h", "in_w", "out_c", "latency_ms"], lineterminator="\n"
        )
        writer.writeheader()
        for _ in range(ROWS):
            batch, channels, filters, size = (int(random.integers(1, 65)) for _ in range(4))
            shape = {"batch": batch, "in_c": channels, "out_c": filters, "in_h": size, "in_w": size}
            latency = 0.01 + 2e-9 * batch * channels * filters * size**2
            writer.writerow(about | same | shape | {"latency_ms": latency})
    return tmp_path


@pytest.fixture
def arguments(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The script with a peer and a medn that are both the mean."""
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS))
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.setattr(automl_peers, "PEERS", {"mean": "mean_peer"})
    monkeypatch.setattr(automl_peers, "OWN", "mean_peer")
    return ["--data", str(data), "--out", str(tmp_path / "out"), "--seconds", "1"]


def result(tmp_path: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads((tmp_path / "out" / "automl_peers.json").read_text())["rows"]
    return rows


def test_a_peer_is_trained_scored_timed_and_weighed(arguments: list[str], tmp_path: Path) -> None:
    assert automl_peers.main(arguments) == 0
    row = result(tmp_path)[0]
    assert row["who"] == "mean"
    assert row["MB"] == pytest.approx(1e-3)
    assert all(isinstance(row[name], float) for name in automl_peers.BLANK)
    assert str(row["note"]).endswith(" inputs")


def test_a_second_run_trains_nothing(arguments: list[str], tmp_path: Path) -> None:
    automl_peers.main(arguments)
    automl_peers.main(arguments)
    assert (tmp_path / "out" / "automl_peers" / "mean_peer" / "runs.txt").read_text() == "run\n"


def test_a_peer_asked_for_otherwise_is_trained_again(arguments: list[str], tmp_path: Path) -> None:
    automl_peers.main(arguments)
    automl_peers.main([*arguments, "--seconds", "2"])
    assert (tmp_path / "out" / "automl_peers" / "mean_peer" / "runs.txt").read_text() == "run\nrun\n"


def test_a_peer_that_fails_is_a_row_that_says_why(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEAN_PEER_FAILS", "1")
    assert automl_peers.main(arguments) == 0
    row = result(tmp_path)[0]
    assert row["MAPE %"] is None
    assert row["note"] == "failed: RuntimeError: told to fail"


def test_an_unknown_peer_is_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert automl_peers.main([*arguments, "--peers", "meen"]) == 2
    assert "Did you mean 'mean'?" in capsys.readouterr().err


def test_the_rows_held_out_come_last(data: Path, tmp_path: Path) -> None:
    (task,) = miopen.load(data, 0)
    rows = child.Rows.read(automl_peers.write_rows(tmp_path / "rows.npz", task))
    held = np.log(task.table.latency_s[task.parts.validation])
    assert np.array_equal(rows.log_latency[-rows.held_out :], held)
    assert len(rows.test) == len(task.parts.test)


def test_every_peer_has_pins_for_what_it_requires() -> None:
    import importlib

    for name, module in automl_peers.PEERS.items():
        pinned = (environments.PINS / f"{name}.txt").read_text().lower()
        for requirement in importlib.import_module(module).REQUIREMENTS:
            package, _, version = requirement.partition("==")
            assert f"{package.partition('[')[0]}=={version}" in pinned


def test_medn_offers_its_regressors_and_both_together(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.peers import medn_zoo

    monkeypatch.setattr(medn_zoo, "PLAN", {"roofline": (0.5, {}), "linear": (1.0, {})})
    (task,) = miopen.load(data, 0)
    rows = child.Rows.read(automl_peers.write_rows(tmp_path / "rows.npz", task))
    models = medn_zoo.fit(rows, 2.0, 0, tmp_path)
    assert [model.name for model in models][:2] == ["medn: roofline", "medn: linear"]
    for model in models:
        assert model.predict_one is not None
        one = model.predict_one(rows.test[0])
        assert one == pytest.approx(float(model.predict(rows.test[:1])[0]), rel=1e-4)
        assert all(path.exists() for path in model.saved)


def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path) -> None:
    with pytest.raises(environments.PeerFailed, match="cannot be installed"):
        environments.interpreter("flaml", [str(tmp_path / "no-such-package")], tmp_path)


def row(who: str, validation: float, us: float) -> dict[str, object]:
    return {"who": who, "validation": validation, "us, 1 row": us, "note": ""}


def test_the_accurate_and_the_fast_are_chosen_on_validation_rows() -> None:
    own = [row("trees", 0.04, 900.0), row("network", 0.05, 9.0), row("line", 0.5, 1.0)]
    assert [each["who"] for each in chosen(own, 10.0)] == ["trees", "network"]


def test_without_anything_fast_enough_the_fastest_is_shown_as_that() -> None:
    own = [row("trees", 0.04, 900.0), row("network", 0.05, 20.0)]
    assert [each["note"] for each in chosen(own, 10.0)] == ["the most accurate", "the fastest"]
