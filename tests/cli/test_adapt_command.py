"""`medn adapt` and `medn devices` as a person meets them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from medn.choosing.bundling import bundle_run
from medn.choosing.select_run import select_run
from medn.cli.main import run as medn
from medn.selection.budget import Budget
from medn.training.train_run import train_run

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def known(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two devices with its bundle."""
    run = write_run(tmp_path_factory.mktemp("known") / "desk", devices=("fast", "slow"))
    train_run(run, seconds=60.0, families=("roofline",))
    bundle_run(run, select_run(run, Budget()).chosen)
    return run


@pytest.fixture(scope="module")
def adapted(known: Path, write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run of a new device that was adapted on the command line, and what that printed."""
    run = write_run(tmp_path_factory.mktemp("new") / "phone", devices=("new",), layers=16, activations=12, seed=3)
    return known, run


def test_measurements_of_a_run_become_a_bundle(
    adapted: tuple[Path, Path], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, run = adapted
    monkeypatch.setenv("COLUMNS", "80")
    assert medn(["adapt", str(known), "--run", str(run), "--train-time", "15s", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bundle"].endswith("phone.medn")
    assert {each["kind"] for each in told["chosen"]} == {"linear", "activation"}
    assert set(told["leaned_on"]) == {"new/linear", "new/activation"}
    assert medn(["adapt", str(known), "--run", str(run), "--train-time", "15s"]) == 0
    out, err = capsys.readouterr()
    assert "alone" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "the bundle is" in err
    assert medn(["predict", told["bundle"], "linear", "in_features=100", "out_features=50"]) == 0
    small = told["bytes"] / 2000
    assert medn(["adapt", str(known), "--run", str(run), "--train-time", "15s", "--max-kb", f"{small:.1f}"]) == 0
    assert Path(told["bundle"]).stat().st_size <= 1000 * small


def test_devices_are_compared(known: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert medn(["devices", str(known)]) == 0
    out, _ = capsys.readouterr()
    assert "fast" in out
    assert max(map(len, out.splitlines())) <= 80
    assert medn(["devices", str(known), "--json"]) == 0
    (pair,) = json.loads(capsys.readouterr().out)["alike"]
    assert pair["ratio"] == pytest.approx(2.0, rel=0.2)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "say where the new device is measured: --device NEW, or --run RUN"),
        (["--run", "RUN", "--points", "50"], 2, "--points, --time and --until-error go with --device"),
        (["--device", "tocrh"], 2, "no device named 'tocrh'. Did you mean 'torch'?"),
        (["--device", "torch", "--by", "medoid"], 2, "Did you mean 'medoids'?"),
        (["--device", "torch", "--points", "10"], 2, "10 are too few for 2 layer kinds, which need 10 each: 20"),
        (["--device", "torch", "--kinds", "conv3d"], 2, "no layer kind that the sources know named 'conv3d'"),
        (["--device", "torch", "--sheet", "peak"], 2, "--sheet: must look like peak_gflops=14130"),
        (["--device", "torch", "--sheet", "peak_flops=1"], 2, "Did you mean 'peak_gflops'?"),
        (["--device", "torch", "--config", "quickstart", "--for", "a.onnx"], 2, "give it or --config, not both"),
        (["--device", "torch", "--max-kb", "-1"], 2, "max_kb must be above 0 (got -1)"),
        (["--device", "new", "--points", "0", "--max-kb", "100"], 2, "--points 0 has one bundle to offer"),
        (["--run", "nowhere"], 1, "no run named 'nowhere'"),
    ],
)
def test_what_cannot_be_adapted_is_one_sentence(
    known: Path,
    adapted: tuple[Path, Path],
    arguments: list[str],
    code: int,
    words: str,
    capsys: Capture,
    tmp_path: Path,
) -> None:
    filled = [str(adapted[1]) if each == "RUN" else each for each in arguments]
    assert medn(["adapt", str(known), *filled]) == code
    assert words in capsys.readouterr().err


def test_a_source_without_its_run_cannot_say_which_points(known: Path, tmp_path: Path, capsys: Capture) -> None:
    alone = shutil.copy(known / "desk.medn", tmp_path / "alone.medn")
    assert medn(["adapt", str(alone), "--device", "torch", "--run", str(tmp_path / "run")]) == 2
    assert "nothing says which points to choose from: give --config or --for" in capsys.readouterr().err
