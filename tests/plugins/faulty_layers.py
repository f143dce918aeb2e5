"""Layer kinds that misbehave on purpose, loaded into worker processes through MEDN_PLUGINS."""

from __future__ import annotations

import os
import signal
import time

from medn.layer_generators.kind import Column, Costs, LayerKind, TensorSpec, Values, choice, integer, layer_kinds


def misbehave(how: str) -> None:
    if how == "hang":
        time.sleep(600)
    elif how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "fail":
        raise RuntimeError("this layer always fails\nand says so at length")
    elif how == "memory":
        import torch

        torch.ones(2**50)
    elif how == "chatter":
        os.write(1, b'{"status": "a library printed this"}\n')


@layer_kinds.register
class Faulty(LayerKind):
    name = "faulty"
    description = "fails in a chosen way"
    parameters = (
        choice("how", "what goes wrong", ("nothing", "hang", "crash", "killed", "fail", "memory", "chatter")),
        integer("size", "elements per batch entry", 1, 1_000_000, default=8),
    )
    sweep = {}

    def build(self, values: Values):  # type: ignore[no-untyped-def]
        import torch

        class Module(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                misbehave(values.how)
                return x + 1

        return Module()

    def inputs(self, values: Values, batch_size: int) -> tuple[TensorSpec, ...]:
        return (TensorSpec((batch_size, values.size)),)

    def output_shape(self, values: Values, batch_size: int) -> tuple[int, ...]:
        return (batch_size, values.size)

    def costs(self, values: Values, batch_size: Column, element_bytes: Column) -> Costs:
        moved = values.size * batch_size * element_bytes
        return Costs(flops=moved, input_bytes=moved, output_bytes=moved)
