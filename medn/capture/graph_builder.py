"""The graph that a capture builds: which layer produces a tensor, which read it, and which tensors share memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from medn.capture.captured_model import CapturedLayer, CapturedModel, Guess, Port, input_index, short_dtype
from medn.capture.operator_call import Call, TensorView, distinct
from medn.capture.unknown_operator import unknown_costs
from medn.core.values import Layer
from medn.layer_generators.features import analytic_features
from medn.layer_generators.kind import layer_kinds
from medn.layer_generators.operation import split_batch


class GraphBuilder:
    """Grows by one layer per call, in the order in which the calls are added."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self.layers: list[CapturedLayer] = []
        self.inputs: list[Port] = []
        self._parameters: dict[Hashable, int] = {}
        self._producers: dict[Hashable, tuple[int, ...]] = {}

    def add_parameter(self, tensor: TensorView) -> None:
        self._parameters[tensor.storage] = tensor.storage_bytes

    def add_input(self, name: str, tensor: TensorView) -> None:
        self._producers[tensor.storage] = (input_index(len(self.inputs)),)
        self.inputs.append(_port(name, tensor))

    def add_constant(self, tensor: TensorView) -> None:
        """A storage without a producer, even if it had one before."""
        self._producers.pop(tensor.storage, None)
        self._parameters.pop(tensor.storage, None)

    def pass_on(self, source: TensorView, target: TensorView) -> None:
        """Another name for a tensor, where tensors are known by name."""
        if source.storage in self._parameters:
            self.add_parameter(target)
        self._producers[target.storage] = self._producers.get(source.storage, ())

    def add(self, call: Call) -> None:
        call = replace(call, reads=distinct(call.reads), writes=distinct(call.writes))
        main = next((tensor for tensor in call.writes if tensor.floating), call.writes[0])
        layer, batch_size = None, max(split_batch(main.shape)[0], 1)
        flops, moved = unknown_costs(call)
        if call.recognised is not None:
            kind, recognised = call.recognised
            layer, batch_size = kind.layer(**recognised.parameters), recognised.batch_size
            flops, kind_moved = kind_costs(layer, batch_size, main.element_bytes)
            # Kinds are measured on floating-point numbers; for indices, masks and quantised numbers only FLOPs hold.
            layer, moved = (layer, kind_moved) if main.floating else (None, moved)
        sources = self._sources(call.reads)
        self.layers.append(
            CapturedLayer(
                name=call.name,
                operator=call.operator,
                layer=layer,
                batch_size=batch_size,
                dtype=short_dtype(main.dtype),
                flops=flops,
                moved_bytes=moved,
                parameter_bytes=sum(tensor.size_bytes for tensor in call.reads if tensor.storage in self._parameters),
                output_bytes=sum(tensor.size_bytes for tensor in call.writes),
                inputs=tuple(sources),
                input_bytes=tuple(sources.values()),
            )
        )
        for tensor in call.writes:
            self._write(tensor, call.in_place)

    def hold(self, held_bytes: int, held_fixed_bytes: int) -> None:
        """What tensors take together that are held now that the last layer has run."""
        self.layers[-1] = replace(self.layers[-1], held_bytes=held_bytes, held_fixed_bytes=held_fixed_bytes)

    def _write(self, tensor: TensorView, in_place: bool) -> None:
        """Who writes all of a storage is its only producer; who writes part of it joins the earlier ones."""
        index = len(self.layers) - 1
        self._parameters.pop(tensor.storage, None)
        whole = not in_place or tensor.size_bytes >= tensor.storage_bytes
        before = () if whole else self._producers.get(tensor.storage, ())
        self._producers[tensor.storage] = (*before, index)

    def _sources(self, reads: Iterable[TensorView]) -> dict[int, int]:
        """Bytes by producer, never more than it produced."""
        sources: dict[int, int] = {}
        for tensor in reads:
            for producer in self._producers.get(tensor.storage, ()):
                from_input = producer < 0
                size = self.inputs[-1 - producer].size_bytes if from_input else self.layers[producer].output_bytes
                sources[producer] = min(size, sources.get(producer, 0) + tensor.size_bytes)
        return sources

    def finish(
        self,
        outputs: Sequence[tuple[str, TensorView]],
        parameter_bytes: int,
        how: str,
        guessed: tuple[Guess, ...] = (),
        notes: Sequence[str] = (),
    ) -> CapturedModel:
        return CapturedModel(
            layers=tuple(self.layers),
            inputs=tuple(self.inputs),
            outputs=tuple(_port(name, tensor, self._producers.get(tensor.storage, ())) for name, tensor in outputs),
            parameter_bytes=parameter_bytes,
            batch_size=self.batch_size,
            how=how,
            guesses=sum(guess.count for guess in guessed),
            guessed=guessed,
            notes=tuple(notes),
        )


def _port(name: str, tensor: TensorView, producers: tuple[int, ...] = ()) -> Port:
    return Port(name, tensor.shape, short_dtype(tensor.dtype), tensor.size_bytes, producers)


def kind_costs(layer: Layer, batch_size: int, element_bytes: int) -> tuple[int, int]:
    """FLOPs and moved bytes by the formulas of the layer's kind."""
    kind = layer_kinds[layer.kind]
    features = analytic_features(kind, kind.values_of(layer), batch_size, element_bytes)
    return int(features["flops"]), int(features["moved_bytes"])
