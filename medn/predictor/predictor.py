"""The Predictor: what an optimizer's loop calls."""

from __future__ import annotations

from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.bundle.archive import LIMITS, Limits
from medn.bundle.bundle import Bundle, read_bundle
from medn.core.errors import UsageError
from medn.estimator.layer_predictor import LayerPredictor
from medn.estimator.query import condition

if TYPE_CHECKING:
    import torch

    from medn.capture.captured_model import CapturedModel
    from medn.model.composition import Composition
    from medn.model.prediction import ModelPrediction
    from medn.model.prepared_model import PreparedModel


class Predictor(LayerPredictor):
    """Predicts layers and whole models on one device, from a bundle that may know several.

    Any number of threads may share it: what it learns while it answers only makes later answers faster.

    >>> predictor = Predictor(bundle, "laptop")                                       # doctest: +SKIP
    >>> predictor.layer("linear", in_features=512, out_features=512).latency_s        # doctest: +SKIP
    """

    def __init__(self, bundle: Bundle, device: str | None = None, path: Path | None = None) -> None:
        super().__init__(bundle, device)
        self.path = path
        self._prepared: PreparedModel | None = None
        """The model that was asked for last."""

    def on(self, device: str) -> Predictor:
        """The same bundle for another of its devices."""
        return Predictor(self.bundle, device, self.path)

    def __repr__(self) -> str:
        return f"<medn.Predictor of {len(self.kinds)} layer kinds on {self.device!r}>"

    def __reduce__(self) -> Any:
        if self.path is None:
            raise UsageError("a predictor that was not loaded from a file cannot be pickled")
        return partial(load, device=self.device), (self.path,)

    def model(
        self,
        model: torch.nn.Module | CapturedModel | str | Path,
        example_input: Any = None,
        batch_size: int | None = None,
        utilization: float = 0.0,
        composition: Composition | None = None,
    ) -> ModelPrediction:
        """What a whole model costs: a torch module with an example of its input, an .onnx file, or a captured model.

        Left out, the batch size is that of the example, of the file or of the capture. A captured model is asked for
        again much faster than a module or a file, which are captured anew each time.
        """
        from medn.capture.capture import capture
        from medn.capture.captured_model import CapturedModel
        from medn.model.composition import HOT
        from medn.model.prepared_model import PreparedModel

        batch_size = batch_size if batch_size is None else condition("batch_size", batch_size)
        captured = model if isinstance(model, CapturedModel) else capture(model, example_input, batch_size)
        prepared = self._prepared
        if prepared is None or prepared.model is not captured:
            prepared = self._prepared = PreparedModel(self, captured)
        return prepared.predict(batch_size, utilization, composition or HOT)


def load(path: str | PathLike[str], device: str | None = None, *, limits: Limits = LIMITS) -> Predictor:
    """The predictor of a bundle; with several devices in it, say which."""
    file = Path(path)
    # Absolute, as a pickled predictor is loaded again wherever it is sent.
    return Predictor(read_bundle(file, limits), device, file.absolute())
