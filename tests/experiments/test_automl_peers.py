"""The comparison with other programs: what the script does itself, with a peer that needs no installing."""

from __future__ import annotations

import csv
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from experiments import automl_peers
from experiments.automl_peers import PREPARED, RAW, winners
from experiments.peers import child, environments, medn_quick, medn_verbs
from experiments.peers.model import Model, Rows
from medn.core.errors import UsageError

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"
LAYERS = 60
MAPPING = """
kind: linear
device: bench
latency_s: {column: latency_ms, scale: 0.001}
columns: {in_features: inputs, out_features: outputs, batch_size: batch, bias: true}
extra: {mood: mood}
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of linear layers at two batch sizes, and how to import it."""
    random = np.random.default_rng(0)
    with (tmp_path / "layers.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["inputs", "outputs", "batch", "mood", "latency_ms"])
        for place in range(LAYERS):
            wide, high = (int(np.exp(random.uniform(3, 7))) for _ in range(2))
            for batch in (1, 8):
                writer.writerow([wide, high, batch, ("calm", "wild")[place % 2], 0.01 + 2e-6 * batch * wide * high])
    (tmp_path / "layers.yaml").write_text(MAPPING)
    monkeypatch.setattr(automl_peers, "TABLES", {"layers": ("layers.csv", str(tmp_path / "layers.yaml"))})
    return tmp_path


@pytest.fixture
def arguments(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The script with a peer and a medn that are both the mean, and one seed."""
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS))
    monkeypatch.syspath_prepend(str(PLUGINS))
    monkeypatch.setattr(automl_peers, "PEERS", {"mean": "mean_peer"})
    monkeypatch.setattr(automl_peers, "OWN", ("mean_peer",))
    wanted = ["--tables", "layers", "--peers", "mean", "--seeds", "1", "--seconds", "1"]
    return ["--data", str(data), "--out", str(tmp_path / "out"), *wanted]


def result(tmp_path: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads((tmp_path / "out" / "automl_peers.json").read_text())["rows"]
    return rows


def test_a_peer_is_trained_scored_timed_and_weighed_on_both_sorts_of_inputs(
    arguments: list[str], tmp_path: Path
) -> None:
    assert automl_peers.main(arguments) == 0
    raw, prepared = result(tmp_path)
    assert [(row["who"], row["inputs"]) for row in (raw, prepared)] == [("mean", RAW), ("mean", PREPARED)]
    assert raw["MB"] == pytest.approx(1e-3)
    told = [name for name in ("MAPE %", *automl_peers.COSTS) if name != "us, 1 row, bare"]
    assert all(isinstance(raw[name], float) for name in told)
    assert raw["us, 1 row, bare"] is None  # of a package that has no estimator inside
    assert raw["note"] == "4 inputs"
    assert int(str(prepared["note"]).split()[0]) > 4


def test_a_second_run_trains_nothing_and_one_asked_otherwise_does(arguments: list[str], tmp_path: Path) -> None:
    automl_peers.main(arguments)
    automl_peers.main(arguments)
    runs = tmp_path / "out" / "automl_peers" / "layers" / "0" / "mean_peer-prepared" / "runs.txt"
    assert runs.read_text() == "run\n"
    automl_peers.main([*arguments, "--seconds", "2"])
    assert runs.read_text() == "run\nrun\n"


def test_a_peer_that_fails_is_a_row_that_says_why(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEAN_PEER_FAILS", "1")
    assert automl_peers.main(arguments) == 0
    row = result(tmp_path)[0]
    assert row["MAPE %"] is None
    assert row["note"] == "failed: RuntimeError: told to fail"


@pytest.mark.parametrize(("option", "near"), [("--peers", "mean"), ("--tables", "layers")])
def test_an_unknown_name_is_one_sentence(arguments: list[str], option: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"Did you mean '{near}'"):
        automl_peers.main([*arguments, option, f"{near}x"])


def laid_out(arguments: list[str], folder: Path) -> Rows:
    automl_peers.lay_out("layers", 0, folder, automl_peers._options(arguments))
    return Rows.read(folder / "raw.npz")


def test_a_table_that_cannot_be_imported_is_one_sentence(arguments: list[str], data: Path, tmp_path: Path) -> None:
    (data / "layers.csv").unlink()
    with pytest.raises(UsageError, match=r"^layers: medn import ended with 2: .*layers\.csv"):
        laid_out(arguments, tmp_path / "rows")


def test_no_layer_is_learned_from_and_tested(arguments: list[str], tmp_path: Path) -> None:
    rows = laid_out(arguments, tmp_path / "rows")
    sizes = [rows.names.index(name) for name in ("in_features", "out_features")]
    learned, tested = ({tuple(row) for row in part[:, sizes]} for part in (rows.inputs, rows.test))
    assert learned
    assert tested
    assert not learned & tested


def test_categories_are_names_again_for_the_peers(arguments: list[str], tmp_path: Path) -> None:
    rows = laid_out(arguments, tmp_path / "rows")
    assert set(rows.columns(rows.inputs)["mood"]) == {"calm", "wild"}


def test_rows_to_choose_by_are_whole_layers(arguments: list[str], tmp_path: Path) -> None:
    rows = laid_out(arguments, tmp_path / "rows")
    held = rows.held_out(0.2, seed=1)
    assert 0 < held.sum() < len(held)
    assert not set(rows.groups[held]) & set(rows.groups[~held])


def test_medn_is_what_its_verbs_make(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = laid_out(arguments, tmp_path / "rows")
    verb, asked = medn_verbs.verb, []

    def fewer_families(*words: str) -> str:
        asked.append(words[0])
        return verb(*words, *(("--regressors", "roofline,linear") if words[0] == "train" else ()))

    monkeypatch.setattr(medn_verbs, "verb", fewer_families)
    medn, quick = (tmp_path / "rows" / f"{name}-raw" for name in ("medn_verbs", "medn_quick"))
    medn.mkdir()
    model = medn_verbs.fit(rows, 2.0, 0, medn)
    assert asked == ["train", "select", "leaderboard"]
    assert "--max-us 10" in medn_quick.fit(rows, 2.0, 0, quick).note
    assert asked[3:] == ["select", "leaderboard"]
    assert model.prepare_one is not None
    assert model.predict_one is not None
    one = model.predict_one(model.prepare_one(rows.test[:1]))
    assert np.log(one.latency_s) == pytest.approx(float(model.predict(model.prepare(rows.test))[0]), rel=1e-6)
    assert all(path.is_file() for path in model.saved)


def test_no_row_is_asked_twice_while_one_is_timed() -> None:
    asked: list[float] = []
    model = Model(lambda inputs: inputs, lambda rows: asked.append(float(rows[0, 0])) if len(rows) == 1 else None, ())
    child.costs(model, np.arange(40.0).reshape(20, 2), timing_s=0.05)
    assert len(asked) == len(set(asked)) == 20


def test_every_peer_has_pins_for_what_it_requires() -> None:
    for name, module in automl_peers.PEERS.items():
        pinned = (environments.PINS / f"{name}.txt").read_text().lower()
        for requirement in importlib.import_module(module).REQUIREMENTS:
            package, _, version = requirement.partition("==")
            assert f"{package.partition('[')[0]}=={version}" in pinned


def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path) -> None:
    with pytest.raises(environments.PeerFailed, match="cannot be installed"):
        environments.interpreter("flaml", [str(tmp_path / "no-such-package")], tmp_path)


def test_the_lowest_mean_error_wins_a_table() -> None:
    def row(table: str, who: str, error: float | None) -> dict[str, object]:
        return {"table": table, "who": who, "inputs": RAW, "MAPE %": error}

    rows = [row("a", "medn", 4.0), row("a", "other", 3.0), row("b", "medn", 4.0), row("b", "other", None)]
    assert winners(rows) == {"a": f"other ({RAW})", "b": f"medn ({RAW})"}
