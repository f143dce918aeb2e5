"""Fixed settings and training configs: what is meant, and every mistake at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from medn.core.errors import ConfigError
from medn.training.config import TrainConfig, parse_settings, read_train_config
from medn.training.train_run import train_run

pytestmark = pytest.mark.usefixtures("plain_regressors")


def test_settings_are_read_as_they_are_meant() -> None:
    written = ["medn.memory=off", "medn.epochs=80", "lightgbm.objective=l1", "medn.weight_decay=1e-3", "medn.tail=on"]
    assert parse_settings(written) == {
        "medn": {"memory": False, "epochs": 80, "weight_decay": 1e-3, "tail": True},
        "lightgbm": {"objective": "l1"},
    }


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("medn", "must look like medn.memory=off (got 'medn')"),
        ("mend.memory=off", "no regressor named 'mend'. Did you mean 'medn'?"),
        ("medn.memroy=off", "no setting of medn named 'memroy'. Did you mean 'memory'?"),
        ("medn.memory=3", "medn.memory: must be on or off (got 3)"),
        ("medn.width=wide", "medn.width: must be a whole number (got 'wide')"),
        ("medn.width=-5", "medn.width: must be a finite number of 0 or more (got -5)"),
        ("medn.learning_rate=.nan", "medn.learning_rate: must be a finite number of 0 or more"),
        ("lightgbm.objective=l3", "lightgbm.objective: must be l2 or l1 or huber (got 'l3')"),
        ("mlp.memory=on", "no setting of mlp named 'memory'"),
        ("medn.width={", "medn.width: must be a number, a string, on or off"),
        ("medn.width=2001-13-45", "medn.width: must be a number, a string, on or off"),
        (f"medn.width={'[' * 5000}", "medn.width: must be a number, a string, on or off"),
    ],
)
def test_a_wrong_setting_is_one_line(written: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_settings([written])
    assert words in str(refused.value)


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    path = tmp_path / "training.yaml"
    path.write_text(
        "jobs: 0\nregressor: [medn]\nsettings:\n  medn: {memroy: off}\n  mend: {}\nregressors: [lihgtgbm]\n"
    )
    with pytest.raises(ConfigError) as refused:
        read_train_config(path)
    for words in (
        "jobs: must be at least 1",
        "regressor: unknown key",
        "settings.medn.memroy",
        "settings.mend",
        "ghtgbm",
    ):
        assert words in str(refused.value)
    assert str(refused.value).startswith(f"{path}: 5 mistakes")


def test_a_config_holds_the_options_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "training.yaml"
    path.write_text("time: 20m\njobs: 2\nsettings:\n  medn: {memory: off}\n")
    assert read_train_config(path) == TrainConfig(time=1200.0, jobs=2, settings={"medn": {"memory": False}})


def test_fixed_settings_are_not_searched_and_other_ones_train_anew(
    write_run: Callable[..., Path], tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run", activations=0, memory_bytes=None)

    def trained(slope: float) -> tuple[int, float, int]:
        outcome = train_run(run, seconds=1.0, families=["test-law"], settings={"test-law": {"slope": slope}})
        (candidate,) = outcome.candidates
        return outcome.trained, candidate.facts.settings["slope"], candidate.facts.trials.made

    assert trained(0.9) == (1, 0.9, 1)
    assert trained(0.9) == (0, 0.9, 1)
    assert trained(0.7) == (1, 0.7, 1)
