"""The Predictor: what an optimizer's loop calls."""

from __future__ import annotations

import logging
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.bundle.archive import LIMITS, Limits
from medn.bundle.bundle import Bundle, read_bundle
from medn.core.errors import UsageError
from medn.estimator.layer_predictor import LayerPredictor
from medn.estimator.prediction import Prediction
from medn.estimator.query import condition
from medn.predictor.observed import Drift, Observed, read_layer, read_seconds

if TYPE_CHECKING:
    import torch

    from medn.capture.captured_model import CapturedModel
    from medn.model.composition import Composition
    from medn.model.prediction import ModelPrediction
    from medn.model.prepared_model import PreparedModel

_LOGGER = logging.getLogger(__name__)


class Predictor(LayerPredictor):
    """Predicts layers and whole models on one device, from a bundle that may know several.

    Any number of threads may share it: what it learns while it answers only makes later answers faster.

    >>> import medn
    >>> predictor = medn.load("runs/laptop/laptop.medn")
    >>> predictor
    <medn.Predictor of 2 layer kinds on 'made-up'>
    >>> small, large = (predictor.layer("linear", in_features=100, out_features=size) for size in (100, 200))
    >>> small.latency_s < large.latency_s
    True
    """

    def __init__(self, bundle: Bundle, device: str | None = None, path: Path | None = None) -> None:
        super().__init__(bundle, device)
        self.path = path
        self._prepared: PreparedModel | None = None
        """The model that was asked for last."""
        self._observed = Observed()

    def on(self, device: str) -> Predictor:
        """The same bundle for another of its devices, as `devices` names them."""
        return Predictor(self.bundle, device, self.path)

    def __repr__(self) -> str:
        return f"<medn.Predictor of {len(self.kinds)} layer kinds on {self.device!r}>"

    def __reduce__(self) -> Any:
        if self.path is None:
            raise UsageError("a predictor that was not loaded from a file cannot be pickled")
        return partial(load, device=self.device), (self.path,)

    def observe(self, layer: Any, measured_s: float) -> Prediction:
        """Tell what a layer took where it runs, and get what was predicted; `drift` says whether both still agree.

        A layer is given as a row of a table is: a dict with its kind, parameters and conditions, or a `Layer`.

        >>> predictor.observe({"kind": "linear", "in_features": 512, "out_features": 512}, 1.7e-4)  # doctest: +SKIP
        """
        kind, parameters = read_layer(layer)
        seconds = read_seconds(measured_s)
        prediction = self.layer(kind, **parameters)
        self._observed.add(self.estimator(kind).kind.name, prediction, seconds)
        return prediction

    @property
    def drift(self) -> Drift:
        """How far what was observed is from what is predicted, kind by kind, and whether it is time to adapt."""
        return self._observed.drift()

    def model(
        self,
        model: torch.nn.Module | CapturedModel | str | Path,
        example_input: Any = None,
        batch_size: int | None = None,
        utilization: float = 0.0,
        composition: Composition | None = None,
    ) -> ModelPrediction:
        """What a whole model costs: a torch module with an example of its input, an .onnx file, or a captured model.

        Whatever else `medn predict` takes for a model is taken too: "net.json", "timm:resnet18", "python:nets:make".

        Left out, the batch size is that of the example, of the file or of the capture, and layers compose as they
        usually do on the backend where they were measured hot and cold. A captured model is asked for
        again much faster than a module or a file, which are captured anew each time.
        """
        from medn.capture.capture import capture
        from medn.capture.captured_model import CapturedModel
        from medn.model.model_sources import read_model
        from medn.model.prepared_model import PreparedModel

        batch_size = batch_size if batch_size is None else condition("batch_size", batch_size)
        if isinstance(model, str | Path) and example_input is None:
            captured = read_model(str(model), batch_size)
        else:
            captured = model if isinstance(model, CapturedModel) else capture(model, example_input, batch_size)
        prepared = self._prepared
        if prepared is None or prepared.model is not captured:
            prepared = self._prepared = PreparedModel(self, captured)
        return prepared.predict(batch_size, utilization, composition)


def load(path: str | PathLike[str], device: str | None = None, *, limits: Limits = LIMITS) -> Predictor:
    """The predictor of a bundle; with several devices in it, say which."""
    file = Path(path)
    bundle = read_bundle(file, limits)
    _LOGGER.debug("%s: %d predictors, made by medn %s", file, len(bundle.entries), bundle.made_by)
    # Absolute, as a pickled predictor is loaded again wherever it is sent.
    return Predictor(bundle, device, file.absolute())
