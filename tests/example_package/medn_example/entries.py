"""What medn imports: each class registers itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from medn.capture.captured_model import CapturedModel
from medn.core.domains import Range, log_range
from medn.core.parameters import Parameter
from medn.core.table import Table
from medn.estimator.layer_predictor import LayerPredictor
from medn.exporting.exporter import Exporter, Options, exporters
from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, integer, layer_kinds
from medn.regressors.fitted import Learned
from medn.regressors.polynomials import fit_polynomial
from medn.regressors.regressor import Effort, Regressor, Settings, regressors

if TYPE_CHECKING:
    import optuna
    import torch


@layer_kinds.register
class LeakyRelu(LayerKind):
    name = "leaky_relu"
    description = "negative values made smaller"
    parameters = (
        integer("elements", "values per sample", 1, 1 << 26),
        Parameter(
            "negative_slope", "what negative values are multiplied with", float, low=-1.0, high=1.0, default=0.01
        ),
    )
    sweep = {"elements": log_range(64, 65_536), "negative_slope": Range((0.0, 0.5))}

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        return torch.nn.LeakyReLU(values.negative_slope)

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.elements)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.elements)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        elements = batch_size * values.elements
        return Costs(2 * elements, elements * element_bytes, elements * element_bytes)


@regressors.register
class BayesianRidge(Regressor):
    name = "bayesian_ridge"
    description = "a polynomial of the second degree with a prior that it learns"
    packages = ("sklearn",)
    defaults = {"prior": 1e-6}

    def suggest(self, trial: optuna.Trial) -> Settings:
        return {"prior": trial.suggest_float("prior", 1e-8, 1e-2, log=True)}

    def fit(self, train: Table, validation: Table, settings: Settings, effort: Effort) -> Learned:
        from sklearn.linear_model import BayesianRidge as Model

        model = Model(alpha_1=settings["prior"], lambda_1=settings["prior"])
        return fit_polynomial(train, degree=2, model=model, effort=effort)


@exporters.register
class Markdown(Exporter):
    name = "markdown"
    description = "the layers of a model with their milliseconds: a table in Markdown"
    to = "layers.md"
    needs_model = True
    options = (integer("digits", "behind the decimal point", 0, 9, default=3),)

    def files(self, predictor: LayerPredictor, model: CapturedModel | None, options: Options) -> dict[str, bytes]:
        from medn.model.prepared_model import predict_model

        assert model is not None
        rows = predict_model(predictor, model).rows
        lines = [f"| {row.name} | {1e3 * row.latency_s:.{options.digits}f} |" for row in rows]
        return {"": "\n".join(["| layer | ms |", "|---|---|", *lines, ""]).encode()}
