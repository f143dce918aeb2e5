"""Groups that compiled backends run as one: a product, a residual that is added to it, and the activation after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from medn.core.domains import weighted
from medn.core.values import Layer, Scalar
from medn.layer_generators.kind import (
    Column,
    Costs,
    Expression,
    LayerKind,
    TensorSpec,
    Values,
    choice,
    flag,
    layer_kinds,
    look_up,
)
from medn.layer_generators.kinds.activation import FUNCTIONS, OPERATIONS, applied

if TYPE_CHECKING:
    import torch

NO_ACTIVATION = "none"
FUSED_KINDS = {"conv2d": "fused_conv2d", "linear": "fused_linear"}
"""The kind of the group that a layer of each kind heads."""

ENDINGS = (
    choice("activation", "what is applied to the sum", (NO_ACTIVATION, *FUNCTIONS), default=NO_ACTIVATION),
    flag("residual", "whether another tensor is added before the activation"),
)
ENDINGS_SWEEP = {
    "activation": weighted({NO_ACTIVATION: 0.4, "relu": 0.3, **dict.fromkeys(("silu", "hardswish", "gelu"), 0.1)}),
    "residual": weighted({False: 0.8, True: 0.2}),
}


class Fused:
    """What fused kinds do alike: all that their head does, then the ending; goes before `LayerKind` in the bases."""

    head: ClassVar[LayerKind]

    def open(self, given: dict[str, Scalar]) -> tuple[dict[str, Scalar], list[str]]:
        endings = {name: given.pop(name) for name in [ending.name for ending in ENDINGS] if name in given}
        opened, mistakes = self.head.open(given)
        return opened | endings, mistakes

    def rules(self, values: Values) -> Iterator[str]:
        return self.head.rules(values)

    def build(self, values: Values) -> torch.nn.Module:
        import torch

        head = self.head.build(values)
        activation = torch.nn.Identity()
        if values.activation != NO_ACTIVATION:
            function = FUNCTIONS[values.activation]
            activation = getattr(torch.nn, function.module)(**function.options)

        class FusedModule(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.head, self.activation = head, activation

            def forward(self, source: torch.Tensor, *residual: torch.Tensor) -> torch.Tensor:
                result: torch.Tensor = self.head(source)
                for other in residual:
                    result = result + other
                ended: torch.Tensor = self.activation(result)
                return ended

        return FusedModule()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        residual = (TensorSpec(self.output_shape(values, batch_size)),) if values.residual else ()
        return (*self.head.inputs(values, batch_size), *residual)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return self.head.output_shape(values, batch_size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        head = self.head.costs(values, batch_size, element_bytes)
        operations = look_up({NO_ACTIVATION: 0, **OPERATIONS}, values.activation) + values.residual
        return Costs(
            flops=head.flops + operations * (head.output_bytes // element_bytes),
            input_bytes=head.input_bytes + values.residual * head.output_bytes,
            output_bytes=head.output_bytes,
            parameter_bytes=head.parameter_bytes,
            more={**head.more, "operations_per_element": operations},
            product=head.product,
        )

    def expression(self, values: Values, inputs: Sequence[Expression], weights: Sequence[Expression]) -> Expression:
        from tvm import topi

        result = self.head.expression(values, inputs[:1], weights)
        for other in inputs[1:]:
            result = topi.add(result, other)
        return result if values.activation == NO_ACTIVATION else applied(values.activation, result)


def fused_layers(layers: Iterable[Layer]) -> Iterator[Layer]:
    """The groups in a network whose layers come in the order in which they run."""
    head: Layer | None = None
    ending: dict[str, Scalar] = {}
    for layer in layers:
        if head is not None:
            if layer.kind == "batch_norm2d" and not ending:
                ending["bias"] = True
                continue
            if _is_residual(layer) and "activation" not in ending:
                ending["residual"] = True
                continue
            if layer.kind == "activation":
                ending["activation"] = layer.values["function"]
            yield layer_kinds[FUSED_KINDS[head.kind]].layer(**{**head.values, **ending})
        head, ending = (layer, {}) if layer.kind in FUSED_KINDS else (None, {})
    if head is not None:
        yield layer_kinds[FUSED_KINDS[head.kind]].layer(**{**head.values, **ending})


def _is_residual(layer: Layer) -> bool:
    return layer.kind == "elementwise" and (layer.values["operation"], layer.values["broadcast"]) == ("add", "none")
