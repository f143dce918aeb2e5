"""medn predicts what every layer of a neural network costs on a device.

    predictor = medn.load("runs/laptop/laptop.medn")
    predictor.layer("conv2d", in_channels=64, out_channels=128, kernel_size=3, in_size=56, batch_size=8)
    predictor.model(net, example_input)

Ask:      load, Predictor, Prediction, Predictions, ModelPrediction
Make:     config_for, sweep, train, select, leaderboard, Leaderboard: from a config to the bundle that is loaded
Adapt:    adapt: a bundle for a new device from few measurements, leaning on bundles of known ones; zero_shot: from none
Keep:     check: whether a bundle still fits this machine; Predictor.observe and Predictor.drift do while it is used
Models:   capture, CapturedModel, load_captured, PreparedModel, fit_composition, load_composition, fuse, rules_for
Place:    split_between, pipeline_stages, graph_of, Link: a model on several devices
Tables:   medn.sklearn: the regressors, and selection within a budget, as scikit-learn estimators
Programs: medn.integrations: Torch-Pruning, Optuna, pymoo, torch.distributed.pipelining and NNCF with medn in their loop
Below:    medn.programs: tensor programs, a layer under one schedule, predicted and searched
Errors:   MednError, of which every error is one that a person can mend; its message says how

Names are imported when they are first used. Each verb of the command line is `medn VERB --help`.
"""

# The folders `layer_generators`, `regressors` and `selection` belong to this package. A wheel holds them inside
# `medn/`; a checkout holds them beside it, so there this package's search path leads to them.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from medn.core.lazy import lazy_names

if TYPE_CHECKING:
    from medn.api import adapt as adapt
    from medn.api import check as check
    from medn.api import config_for as config_for
    from medn.api import leaderboard as leaderboard
    from medn.api import load as load
    from medn.api import select as select
    from medn.api import sweep as sweep
    from medn.api import train as train
    from medn.api import zero_shot as zero_shot
    from medn.capture.capture import capture as capture
    from medn.capture.captured_model import CapturedModel as CapturedModel
    from medn.capture.captured_model import load_captured as load_captured
    from medn.choosing.leaderboard import Leaderboard as Leaderboard
    from medn.core.errors import MednError as MednError
    from medn.estimator.prediction import Prediction as Prediction
    from medn.estimator.prediction import Predictions as Predictions
    from medn.fusion.fuse import fuse as fuse
    from medn.fusion.rules import rules_for as rules_for
    from medn.model.composition import load_composition as load_composition
    from medn.model.fit_composition import fit_composition as fit_composition
    from medn.model.prediction import ModelPrediction as ModelPrediction
    from medn.model.prepared_model import PreparedModel as PreparedModel
    from medn.partition.graph import Link as Link
    from medn.partition.graph import graph_of as graph_of
    from medn.partition.split import split_between as split_between
    from medn.partition.stages import pipeline_stages as pipeline_stages
    from medn.predictor.predictor import Predictor as Predictor

__version__ = "0.1.0"

_here = Path(__file__).resolve().parent
if not (_here / "layer_generators").is_dir():
    from medn.checkout import add_folders

    add_folders(__path__, _here.parent)

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "medn.api": ("adapt", "check", "config_for", "leaderboard", "load", "select", "sweep", "train", "zero_shot"),
        "medn.capture.captured_model": ("CapturedModel", "load_captured"),
        "medn.choosing.leaderboard": ("Leaderboard",),
        "medn.core.errors": ("MednError",),
        "medn.estimator.prediction": ("Prediction", "Predictions"),
        "medn.fusion.fuse": ("fuse",),
        "medn.fusion.rules": ("rules_for",),
        "medn.model.composition": ("load_composition",),
        "medn.model.fit_composition": ("fit_composition",),
        "medn.model.prediction": ("ModelPrediction",),
        "medn.model.prepared_model": ("PreparedModel",),
        "medn.partition.graph": ("Link", "graph_of"),
        "medn.partition.split": ("split_between",),
        "medn.partition.stages": ("pipeline_stages",),
        "medn.predictor.predictor": ("Predictor",),
    },
    # `capture` is a package that can be called: its name is that of what it does.
    submodules=("capture", "integrations", "programs", "sklearn"),
)
