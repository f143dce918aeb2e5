"""The nodes of an ONNX model that work on its data, and who hands what to whom."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

SHAPE_OPERATORS = ("Shape", "Size", "Constant")
"""What they give does not depend on the data they are given."""


class DataNodes:
    """Nodes in their order, without those that follow from weights and shapes alone: backends compute these once."""

    def __init__(self, content: bytes) -> None:
        import onnx

        graph = onnx.load_model_from_string(content).graph
        weights = {each.name for each in graph.initializer}
        data = {each.name for each in graph.input if each.name not in weights}
        self.nodes: list[Any] = []
        self.by_name: dict[str, Any] = {}
        self.producers: dict[str, Any] = {}
        self.readers: dict[str, list[Any]] = {}
        for node in graph.node:
            given = data.intersection(node.input)
            if not given or node.op_type in SHAPE_OPERATORS:
                continue
            self.nodes.append(node)
            self.by_name[node.name] = node
            data.update(node.output)
            self.producers |= dict.fromkeys(node.output, node)
            for tensor in given:
                self.readers.setdefault(tensor, []).append(node)

    def before(self, node: Any) -> list[Any]:
        """The nodes whose outputs it reads, in the order of its inputs."""
        return [self.producers[tensor] for tensor in node.input if tensor in self.producers]

    def after(self, node: Any) -> list[Any]:
        return [reader for tensor in node.output for reader in self.readers.get(tensor, [])]

    def only_reader(self, tensor: str) -> Any | None:
        """The node that reads a tensor, where it is one alone."""
        readers = self.readers.get(tensor, [])
        return readers[0] if len(readers) == 1 else None

    def between(self, ends: Iterable[str], alive: Collection[str]) -> tuple[str, ...]:
        """The names of the nodes that make the tensors at the end from others that are alive, in order."""
        names: set[str] = set()
        waiting = list(ends)
        while waiting:
            node = self.producers.get(waiting.pop())
            if node is not None and node.name not in names:
                names.add(node.name)
                waiting += [tensor for tensor in node.input if tensor not in alive]
        return tuple(node.name for node in self.nodes if node.name in names)
