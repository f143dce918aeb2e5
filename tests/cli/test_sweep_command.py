"""`medn sweep` and `medn summary` as a person meets them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from medn.cli import sweep as sweep_verb
from medn.cli.main import run
from medn.cli.progress import SweepProgress
from medn.core.values import Condition, Layer, Point, Visit

SMALL: dict[str, Any] = {
    "name": "small",
    "seed": 3,
    "devices": ["torch"],
    "budget": {"points": 6},
    "layers": {"linear": {"in_features": [16, 32, 64], "out_features": [16, 32, 64], "rows": 1}},
    "conditions": {"batch_size": [1, 4]},
    "measure": {"visits": 2, "max_visits": 2, "visit_time": 0.01},
    "drop": ["bias"],
}


def write_config(folder: Path, **changes: object) -> Path:
    path = folder / "small.yaml"
    path.write_text(json.dumps({**SMALL, **changes}))
    return path


def medn(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "medn", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, subprocess.CompletedProcess[str]]:
    """A config, the run made from it, and what the command said."""
    folder = tmp_path_factory.mktemp("finished")
    config = write_config(folder)
    return config, folder / "run", medn("sweep", config, "--run", folder / "run", "--json")


Finished = tuple[Path, Path, subprocess.CompletedProcess[str]]


def test_a_sweep_ends_well_and_prints_nothing_but_json(finished: Finished) -> None:
    _, folder, done = finished
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["run"], told["visits"], told["finished"]) == (str(folder), 12, True)
    assert told["summary"]["statuses"] == {"ok": 6}
    assert told["summary"]["environments"]


def test_a_sweep_writes_its_dataset_without_the_dropped_columns(finished: Finished) -> None:
    import pyarrow.parquet

    told = json.loads(finished[2].stdout)
    (file,) = told["dataset"]
    table = pyarrow.parquet.read_table(file)
    assert table.num_rows == 6
    assert "bias" not in table.column_names


def test_a_sweep_says_where_the_run_lies(finished: Finished) -> None:
    assert f"medn summary {finished[1]}" in finished[2].stderr


def test_a_finished_run_says_that_nothing_was_left(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    config, folder, _ = finished
    assert run(["sweep", str(config), "--run", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert "nothing was left to do" in err
    assert "linear" in out


@pytest.mark.parametrize(("allowed", "code"), [(10.0, 0), (-1.0, 4)])
def test_strict_refuses_noise_above_what_is_allowed(
    allowed: float,
    code: int,
    finished: Finished,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sweep_verb, "STRICT_NOISE", allowed)
    config, folder, _ = finished
    assert run(["sweep", str(config), "--run", str(folder), "--strict"]) == code
    assert ("noise at utilisation 0" in capsys.readouterr().err) == (code == 4)


def test_summary_shows_kinds_noise_and_machine(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["summary", str(finished[1])]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("linear", "idle", "noise, idle", "torch 2", " us"))


def test_a_verbose_summary_shows_every_statistic(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["summary", str(finished[1]), "--verbose"]) == 0
    assert "p25 over visits of the minimum within a visit" in capsys.readouterr().out


def test_summary_of_nothing_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["summary", str(tmp_path / "nowhere")]) == 1
    assert "medn sweep CONFIG" in capsys.readouterr().err


def test_a_dry_run_counts_and_measures_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert run(["sweep", str(write_config(tmp_path)), "--run", str(folder), "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["points"], told["visits"], told["kinds"]["linear"]["points"]) == (6, 12, {"torch": 6})
    assert 3 < told["expected_s"] < 4
    assert not folder.exists()


def test_a_dry_run_tells_people_about_how_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", str(write_config(tmp_path)), "--dry-run", "--points", "4"]) == 0
    out, err = capsys.readouterr()
    assert "linear" in out
    assert err == "4 points, 8 visits, about 3 s; nothing was measured\n"


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        ({"devices": ["torhc"]}, ["devices.0", "Did you mean 'torch'?"]),
        ({"probes": ["load_averge"]}, ["probes.0", "Did you mean 'load_average'?"]),
        ({"seed": -1, "measure": {"visit": 2}}, ["2 mistakes", "seed:", "measure.visit: unknown key"]),
    ],
)
def test_config_mistakes_come_together_by_path(
    changes: dict[str, Any], sentences: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", str(write_config(tmp_path, **changes))]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(sentence in err for sentence in sentences)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--time", "soon"], "--time: must be a duration above 0"),
        (["--points", "0"], "--points"),
        (["--points", "1"], "--points: must be at least 1 per device, 2 (got 1)"),
    ],
)
def test_a_wrong_option_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, devices=["torch", "onnxruntime"])
    assert run(["sweep", str(config), *arguments]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


def test_a_device_that_is_not_here_gives_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path, devices=["torch-cuda"])
    assert run(["sweep", str(config), "--run", str(tmp_path / "run")]) == 3
    assert "torch-cuda needs" in capsys.readouterr().err


def test_a_run_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path)
    assert run(["sweep", str(config), "--run", str(config / "run")]) == 1
    assert capsys.readouterr().err.startswith(f"medn: cannot write to the run folder {config / 'run'}: ")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, folder = write_config(tmp_path), tmp_path / "closed"
    folder.mkdir(mode=0o500)
    assert run(["sweep", str(config), "--run", str(folder)]) == 1
    assert capsys.readouterr().err.startswith(f"medn: cannot write to the run folder {folder}: ")


@pytest.mark.usefixtures("faulty_layers")
def test_where_every_point_fails_the_reason_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path, layers={"faulty": {"how": "fail"}}, conditions={}, sampler="grid", drop=[])
    assert run(["sweep", str(config), "--run", str(tmp_path / "run")]) == 3
    assert "1 of them: failed: this layer always fails" in capsys.readouterr().err


def committed(folder: Path) -> int:
    """Visits that another process has committed so far."""
    try:
        with sqlite3.connect(f"file:{folder}/measurements.sqlite?mode=ro", uri=True) as journal:
            return int(journal.execute("SELECT COUNT(*) FROM visits").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_sweep_that_is_stopped_keeps_its_visits_and_goes_on(sent: signal.Signals, code: int, tmp_path: Path) -> None:
    long = write_config(tmp_path, measure={"visits": 100, "visit_time": 0.05, "precision": 1e-6})
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "medn", "sweep", str(long), "--run", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    waited = time.monotonic() + 60
    while committed(folder) < 8 and time.monotonic() < waited:
        time.sleep(0.05)
    process.send_signal(sent)
    out, err = process.communicate(timeout=30)
    kept = committed(folder)
    assert (process.returncode, out) == (code, "")
    assert kept >= 8
    if code == 130:
        assert "the same command goes on from there" in err
    passes = kept // 6 + 1
    short = write_config(tmp_path, measure={"visits": passes, "max_visits": passes, "visit_time": 0.01})
    resumed = medn("sweep", short, "--run", folder, "--json")
    assert resumed.returncode == 0, resumed.stderr
    assert committed(folder) == 6 * passes


def test_progress_off_a_terminal_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    ticks = iter([0.0, 4.0, 12.0, 16.0])
    point = Point(Layer("linear", ()), Condition(), "torch")
    with SweepProgress(seconds=20.0, clock=lambda: next(ticks)) as progress:
        for done in (2, 6, 8):
            progress.on_visit(0, done, 600, point, Visit(point.key, 0, "here", 0.0, "ok"))
    said = "6 of 600 visits, pass 1, 0.5 visits a second, about 8 s left, linear on torch\n"
    assert capsys.readouterr().err == said
