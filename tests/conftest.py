"""What several test folders share."""

from __future__ import annotations

import importlib
import lzma
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

for suite in (
    *("medn.layer_generators.kind_conformance", "medn.layer_generators.sampler_conformance"),
    *("medn.regressors.conformance", "medn.devices.conformance", "medn.exporting.conformance"),
    "medn.benchmark_tools.conformance",
):
    pytest.register_assert_rewrite(suite)

PLUGINS = Path(__file__).parent / "plugins"

os.environ["COLUMNS"] = "160"  # tables as wide as in a pipe, whatever the terminal or the test runner says

if "PYTEST_XDIST_WORKER" in os.environ:  # one of several processes that share the cores: libraries take one each
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


@pytest.fixture(scope="session")
def program_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real sweep: 144 programs of six layers on three instruction-set levels, two visits each."""
    run = tmp_path_factory.mktemp("programs")
    packed = Path(__file__).parent / "programs" / "sample.sqlite.xz"
    (run / "measurements.sqlite").write_bytes(lzma.decompress(packed.read_bytes()))
    return run


@pytest.fixture
def faulty_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of this test know the layer kind `faulty`, and so does this process."""
    load_plugins(monkeypatch, "faulty_layers")


@pytest.fixture
def own_load_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of this test know the backend `own-load`, and so does this process."""
    load_plugins(monkeypatch, "own_load_backend")


@pytest.fixture
def mode_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of this test know the backend `modes`, and so does this process."""
    load_plugins(monkeypatch, "mode_backend")


@pytest.fixture
def law_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of this test know the backend `law`, and so does this process."""
    load_plugins(monkeypatch, "law_backend")


@pytest.fixture
def wrong_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of this test know the backend `twice`, and so does this process."""
    load_plugins(monkeypatch, "wrong_backend")


def load_plugins(monkeypatch: pytest.MonkeyPatch, module: str) -> ModuleType:
    monkeypatch.setenv("MEDN_PLUGINS", module)
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS))
    monkeypatch.syspath_prepend(str(PLUGINS))
    return importlib.import_module(module)


@contextmanager
def opened_browser(profile: Path, tried: str) -> Iterator[Any]:
    """A real browser with a profile of its own; without one the test is skipped, and says what was not tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        module = importlib.import_module("browser")
    program = module.find_browser()
    if program is None:
        pytest.skip(f"no browser is installed (chromium); {tried} was not tried in one")
    with module.Browser(program, profile) as found:
        yield found


@pytest.fixture
def plain_regressors(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The small regressors of tests, known in this process and in those it starts."""
    return load_plugins(monkeypatch, "plain_regressors")


@pytest.fixture(scope="session")
def write_run() -> Callable[..., Path]:
    """Writes a run folder measured on a made-up device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PLUGINS))
        found: Callable[..., Path] = importlib.import_module("made_up_run").write_run
    return found


@pytest.fixture(scope="session")
def made_up_bundle() -> Iterator[ModuleType]:
    """Makes bundles of a made-up run without training anything."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(str(PLUGINS))
        yield importlib.import_module("made_up_bundle")


@pytest.fixture(scope="session")
def bundle_path(made_up_bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that predicts linear layers and activations on one device, by a sum of forms of several sorts."""
    found: Path = made_up_bundle.write_made_up_bundle(tmp_path_factory.mktemp("bundle") / "run")
    return found


@pytest.fixture(scope="session")
def convolution_bundle(made_up_bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle for whole networks of convolutions, on a device that takes as long as FLOPs say."""
    folder = tmp_path_factory.mktemp("convolutions") / "run"
    found: Path = importlib.import_module("convolution_bundle").write_convolution_bundle(folder)
    return found


@pytest.fixture(scope="session")
def law_bundle(made_up_bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of linear layers, in its run, for the backend `law`, which can be measured."""
    found: Path = importlib.import_module("law_bundle").write_law_bundle(tmp_path_factory.mktemp("law") / "run")
    return found


@pytest.fixture(scope="session")
def trained_run(write_run: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up run with candidates, one of them failed. Shared by all tests: copy it before changing anything."""
    from medn.training.train_run import train_run

    with pytest.MonkeyPatch.context() as patch:
        load_plugins(patch, "plain_regressors")
        run = write_run(tmp_path_factory.mktemp("trained") / "desk")
        train_run(run, seconds=30.0, families=("median", "ridge", "roofline", "test-law", "test-broken"))
    return run


@pytest.fixture(scope="session")
def selected_run(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a choice, a leaderboard and a bundle. Copy it before changing anything."""
    from medn.cli.main import run

    folder = shutil.copytree(trained_run, tmp_path_factory.mktemp("selected") / "desk")
    assert run(["select", str(folder)]) == 0
    return folder
