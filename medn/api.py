"""The verbs of medn as functions: each takes what the one before gives, and says nothing unless something is wrong.

config -> sweep -> run -> train -> select -> bundle -> load -> Predictor
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.core.errors import UsageError
from medn.core.packages import need
from medn.core.registry import known_name
from medn.core.shipped import CONFIGS, found_file
from medn.core.text import shown

if TYPE_CHECKING:
    import torch

    from medn.capture.captured_model import CapturedModel
    from medn.choosing.leaderboard import Leaderboard
    from medn.drift.check import BundleCheck
    from medn.layer_generators.sweep import SweepConfig
    from medn.predictor.predictor import Predictor
    from medn.training.train_run import TrainOutcome

AnyPath = str | PathLike[str]
Duration = float | str
"""Seconds, or a text such as "10m"."""
Names = str | Sequence[str]
"""One, or several."""


def load(path: AnyPath, device: str | None = None) -> Predictor:
    """The predictor in a bundle, a file NAME.medn; with several devices in it, say which.

    >>> predictor = load("runs/laptop/laptop.medn")
    >>> predictor.kinds
    ('activation', 'linear')
    >>> predictor.layer("linear", in_features=100, out_features=200, batch_size=8).in_range
    True
    >>> predictor.predict({"kind": "linear", "in_features": [64, 128], "out_features": 200}).latency_s.shape
    (2,)
    """
    from medn.predictor.predictor import load as load_predictor

    return load_predictor(path, device)


def sweep(
    config: AnyPath | Mapping[str, Any],
    run: AnyPath | None = None,
    *,
    time: Duration | None = None,
    mix_environments: bool = False,
) -> Path:
    """Measure what a config describes, and give the run folder (runs/NAME).

    A config is a YAML file, the name of one that comes with medn (`medn list configs`), or the same as a dict; what
    `config_for` gives for a network of one's own is one.
    The same call again goes on where the last one stopped; `time` bounds this call alone.

    >>> layers = {"linear": {"in_features": [64, 128], "out_features": 256, "rows": 1, "bias": True}}
    >>> sweep({"name": "desk", "devices": ["torch"], "sampler": "grid", "layers": layers}, time="1m").name
    'desk'
    """
    from medn.measuring.sweep import run_sweep
    from medn.runs.folder import DEFAULT_ROOT, RunFolder
    from medn.runs.summary import summarise

    chosen = _sweep_config(config)
    folder = RunFolder(Path(run) if run is not None else DEFAULT_ROOT / chosen.name)
    limit = chosen.budget.time_s if time is None else _seconds(time)
    run_sweep(chosen, folder, seconds=limit, mix_environments=mix_environments)
    with folder.store(must_exist=True) as store:
        summarise(store).check_measured()
    return folder.path


def config_for(
    model: torch.nn.Module | CapturedModel | AnyPath | Mapping[str, CapturedModel],
    example_input: Any = None,
    *,
    devices: Names = ("torch",),
    batch_sizes: int | Sequence[int] = (),
    threads: int = 1,
    points: int | None = None,
    time: Duration | None = None,
) -> dict[str, Any]:
    """The sweep config for a model: its own layers first, as the devices run them, then layers like them.

    A torch module with an example of its input, an .onnx file, a captured model, or several captured ones by name. It
    is a dict for `sweep`, as it is or edited. Left out, the batch size is that of the example, and the number of points
    follows from the `time`, or from the number of layers.

    >>> import torch
    >>> config = config_for(torch.nn.Linear(64, 10), torch.zeros(1, 64), time="1m")
    >>> config["name"], config["layers"]["linear"]["listed"]
    ('for-Linear', [{'bias': True, 'in_features': 64, 'out_features': 10, 'rows': 1}])
    """
    from medn.devices.backend import backends
    from medn.layer_generators.sweep import Measure
    from medn.measuring.sweep_time import affordable_points
    from medn.model.sweep_config import MEASURE, model_sweep

    sizes = [batch_sizes] if isinstance(batch_sizes, int) else list(batch_sizes)
    if not all(isinstance(size, int) and size >= 1 for size in sizes):
        raise UsageError(f"batch_sizes: must be whole numbers from 1 on (got {shown(batch_sizes)})")
    _check_positive(threads=threads, points=points)
    names = [known_name("device", name, backends) for name in _several(devices)]
    wanted = model_sweep(_captured(model, example_input, sizes), names, sizes, threads)
    seconds = None if time is None else _seconds(time)
    if points is None and seconds is not None:
        # Too little time leaves visits to be made later; all the models' own layers are in the plan.
        points = max(affordable_points(seconds, Measure.model_validate(MEASURE), len(names)), wanted.own_points)
    return wanted.config(points or wanted.usual_points, seconds)


def _captured(model: Any, example_input: Any, batch_sizes: Sequence[int]) -> Mapping[str, CapturedModel]:
    """The models by their names, captured where they are not yet."""
    from medn.capture.capture import capture
    from medn.capture.captured_model import CapturedModel
    from medn.model.model_sources import read_model

    batch_size = batch_sizes[0] if batch_sizes else None
    if isinstance(model, Mapping) and all(isinstance(each, CapturedModel) for each in model.values()):
        return model
    if isinstance(model, CapturedModel):
        return {"model": model}
    if isinstance(model, str | PathLike):
        source = fspath(model)
        from_source = example_input is None
        return {source: read_model(source, batch_size) if from_source else capture(source, example_input, batch_size)}
    return {type(model).__name__: capture(model, example_input, batch_size)}


def train(
    run: AnyPath,
    *,
    time: Duration = "5m",
    jobs: int = 1,
    kinds: Names = (),
    regressors: Names = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    pool: bool = False,
    seed: int = 0,
    on: str = "local",
) -> TrainOutcome:
    """Tune, fit, export and calibrate regressors for every layer kind of a run; all families where none are named.

    The same call again keeps what is finished; with more `time` it tunes on. `pool` learns all devices together,
    `settings` fixes settings of families instead of searching them. `on` is where to fit: "local" in `jobs` processes,
    "dask://HOST:PORT" or "slurm".

    >>> outcome = train("runs/laptop", time=2, regressors=["linear", "median"])
    >>> [(candidate.kind, candidate.regressor) for candidate in outcome.best()]
    [('activation', 'linear'), ('linear', 'linear')]
    """
    need("training", "optuna", "safetensors")
    _check_positive(jobs=jobs)
    from medn.training.config import checked_settings
    from medn.training.train_run import train_run

    return train_run(
        Path(run),
        seconds=_seconds(time),
        jobs=jobs,
        kinds=_several(kinds),
        families=_several(regressors),
        settings=checked_settings(settings or {}, "settings"),
        split=_split(pool),
        seed=seed,
        on=on,
    )


def select(
    run: AnyPath,
    *,
    mode: str = "accuracy",
    max_us: float | None = None,
    max_kb: float | None = None,
    max_load_ms: float | None = None,
    rows: int = 1,
    weights: Mapping[str, float] | None = None,
    kinds: Names = (),
    pool: bool = False,
    refit_all: bool = False,
) -> Path:
    """Choose the most accurate regressors within a budget, and give the bundle that holds them (RUN/NAME.medn).

    `max_us` are microseconds a row in queries of `rows` rows, the mean over kinds by their `weights`; `max_kb` is the
    size of the bundle. Nothing is trained: choose again for another budget as often as you like. With `refit_all`, what
    was chosen is fitted once more on every row, test rows too, to be shipped; errors told stay those of before.

    >>> select("runs/laptop", max_kb=500).name
    'laptop.medn'
    """
    need("selection", "optuna", "safetensors")
    from medn.blocks.learned import learn_compositions
    from medn.choosing.bundling import bundle_run
    from medn.choosing.select_run import select_run
    from medn.selection.budget import Budget

    budget = Budget(mode, rows, max_us, max_kb, max_load_ms, weights or {})
    outcome = select_run(Path(run), budget, kinds=_several(kinds), split=_split(pool), refit_all=refit_all)
    bundle = bundle_run(Path(run), outcome.chosen)
    learn_compositions(Path(run), bundle)
    outcome.check_all_chosen()
    return bundle


def check(
    bundle: AnyPath,
    run: AnyPath | None = None,
    *,
    device: str | None = None,
    time: Duration = "2m",
    points: int = 80,
    tolerance: float = 0.1,
    seed: int = 0,
) -> BundleCheck:
    """Measure a few layers again, and give whether a bundle still fits this machine: its `verdict` is fits, changed or
    undecided.

    Points are drawn from what the bundle has learned, or taken from the `run` that it was made from. `tolerance` is the
    common deviation that does not fit any more.

    >>> check("runs/laptop/laptop.medn").verdict    # doctest: +SKIP
    'fits'
    """
    from medn.drift.check import check_bundle

    return check_bundle(
        load(bundle, device),
        run=None if run is None else Path(run),
        points=points,
        seconds=_seconds(time),
        tolerance=tolerance,
        seed=seed,
    )


def adapt(
    run: AnyPath,
    sources: Sequence[AnyPath],
    *,
    time: Duration = "1m",
    jobs: int = 1,
    regressors: Names = (),
    max_us: float | None = None,
    max_kb: float | None = None,
    refit_all: bool = False,
    seed: int = 0,
) -> Path:
    """Learn a new device from the few measurements of a run, leaning on bundles of known devices, and give its bundle.

    Sources are files NAME.medn, or run folders with one; families that lean on them are trained beside some that learn
    from the run alone, and what ships is chosen among all of them. Sources that lie in their runs are learned from as
    they were measured too. `regressors` names the families where not all usual ones are meant; `max_us` and `max_kb`
    limit what ships, as in `select`.

    >>> adapt("runs/phone", ["runs/laptop/laptop.medn"])    # doctest: +SKIP
    PosixPath('runs/phone/phone.medn')
    """
    need("training", "optuna", "safetensors")
    from medn.selection.budget import Budget
    from medn.transfer.adapt_run import adapt_run

    files = [Path(source) for source in sources]
    outcome = adapt_run(
        Path(run),
        files,
        seconds=_seconds(time),
        budget=Budget(max_us=max_us, max_kb=max_kb),
        families=_several(regressors),
        jobs=jobs,
        refit_all=refit_all,
        seed=seed,
    )
    outcome.selected.check_all_chosen()
    return outcome.bundle


def zero_shot(
    sources: Sequence[AnyPath],
    device: str,
    sheet: Mapping[str, float],
    run: AnyPath | None = None,
    *,
    config: AnyPath | Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Path:
    """A bundle for a device that nothing was measured on, from its data sheet and bundles of known devices.

    Two or more of them need data sheets with the same numbers, `peak_gflops` and `bandwidth_gb_s` among them. `config`
    says which layers it is for; those that the sources were measured at if left out. Every prediction is flagged: none
    is in range, and intervals are as wide as known devices call for when they are left out.

    >>> sheet = {"peak_gflops": 14130, "bandwidth_gb_s": 900, "multiprocessors": 80, "cache_mb": 6}
    >>> zero_shot(["gpus.medn"], "V100", sheet, config="transformer")    # doctest: +SKIP
    PosixPath('runs/V100-adapted/V100-adapted.medn')
    """
    need("training", "safetensors")
    from medn.runs.folder import DEFAULT_ROOT
    from medn.transfer.adapt_sweep import Wanted, known_and_pool
    from medn.transfer.zero_shot import check_sheet
    from medn.transfer.zero_shot import zero_shot as from_sheet

    check_sheet(sheet)
    drawn = _sweep_config(config) if config is not None else None
    known, pool = known_and_pool([Path(source) for source in sources], Wanted(device, drawn=drawn))
    folder = Path(run) if run is not None else DEFAULT_ROOT / f"{device}-adapted"
    return from_sheet(known, device, sheet, pool, seed).write(folder / f"{folder.resolve().name}.medn")


def leaderboard(run: AnyPath) -> Leaderboard:
    """Every candidate of a run with its errors and costs, as `select` wrote it down.

    >>> board = leaderboard("runs/laptop")
    >>> sorted({row["kind"] for row in board.rows})
    ['activation', 'linear']
    """
    from medn.choosing.leaderboard import load_leaderboard

    return load_leaderboard(Path(run))


def _sweep_config(config: AnyPath | Mapping[str, Any]) -> SweepConfig:
    import yaml

    from medn.devices.backend import backends
    from medn.devices.probe import probes
    from medn.layer_generators.sweep import parse_sweep

    if isinstance(config, Mapping):
        return parse_sweep(yaml.safe_dump(_plain(config)), list(backends), list(probes))
    if not isinstance(config, str | PathLike):
        wanted = "a config must be a file, the name of one that comes with medn, or a dict"
        remedy = "For a network of your own: medn.config_for(net, example_input)"
        raise UsageError(f"{wanted} (got {type(config).__name__}). {remedy}")
    return parse_sweep(found_file(CONFIGS, fspath(config)), list(backends), list(probes))


def _plain(value: Any) -> Any:
    """Mappings and sequences of any type as YAML takes them: a range or a tuple is a list."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        return value.item() if hasattr(value, "item") else value
    return [_plain(each) for each in value]


def _several(names: Names) -> Sequence[str]:
    """One name is a list of one, not of its letters."""
    return [names] if isinstance(names, str) else names


def _check_positive(**numbers: int | None) -> None:
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise UsageError(f"{name}: must be at least 1 (got {number})")


def _seconds(time: Duration) -> float:
    from medn.core.config import seconds  # reads YAML, which answering does without

    try:
        return seconds(time)
    except ValueError as error:
        raise UsageError(f"time: {error}") from None


def _split(pool: bool) -> Any:
    from medn.core.splits import Split

    return Split("pooled" if pool else "random")
