"""Models called in their own libraries, to time predictions beside: fitted on the spot, asked with ready numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from medn.core.table import Array
from medn.estimator.estimator import Estimator
from medn.program.onnx_engine import Model
from medn.program.symbols import NOT_TRACED

Predict = Callable[[Array], Any]


def _lightgbm(inputs: Array, logs: Array) -> Predict:
    import lightgbm

    settings = {"num_leaves": 31, "min_data_in_leaf": 2, "verbosity": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(inputs, logs), 200)
    return lambda given: booster.predict(given, num_threads=1)


def _xgboost(inputs: Array, logs: Array) -> Predict:
    import xgboost

    booster = xgboost.train({"max_depth": 5, "nthread": 1}, xgboost.DMatrix(inputs, logs), 200)
    return booster.inplace_predict


def _forest(inputs: Array, logs: Array) -> Predict:
    from sklearn.ensemble import RandomForestRegressor

    found: Predict = RandomForestRegressor(100, random_state=0, n_jobs=1).fit(inputs, logs).predict
    return found


NATIVE: Mapping[str, tuple[str, Callable[[Array, Array], Predict]]] = {
    "LightGBM, 200 trees": ("lightgbm", _lightgbm),
    "XGBoost, 200 trees": ("xgboost", _xgboost),
    "scikit-learn forest, 100 trees": ("sklearn", _forest),
}
"""By what they are called: the library, and what fits a model of inputs and logarithms of latencies."""

ONNXRUNTIME = "onnxruntime, the same forms"


def by_onnxruntime(estimator: Estimator) -> Predict | None:
    """What a bundle predicts of a kind in onnxruntime, from ready inputs; None where it is no plain formula."""
    import onnxruntime

    quantities = estimator.answering.quantities
    model = Model()
    inputs = model.graph.input("inputs", "float64", ["rows", quantities.width])
    model.writer.longest = model.writer.take(np.array([0]), inputs)
    try:
        for place, value in enumerate(model.writer.program(quantities.program(tuple(quantities.further)), inputs)):
            model.result(f"answer {place}", value)
    except NOT_TRACED:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.graph.model("bench"), options, providers=["CPUExecutionProvider"])
    return lambda given: session.run(None, {"inputs": given})
