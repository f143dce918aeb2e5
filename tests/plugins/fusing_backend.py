"""A backend of one's own that brings what it fuses: its rules, how its graph is read, and what to install for it."""

from __future__ import annotations

from pathlib import Path

from medn.devices.backend import Backend, NodeGroups, Runner, backends
from medn.devices.backends.torch_eager import TorchRunner
from medn.devices.onnx_nodes import DataNodes
from medn.devices.workload import Workload


@backends.register
class Fusing(Backend):
    name = "test-fusing"
    description = "torch, said to run an activation with the convolution before it"
    packages = ("torch", "no_such_compiler")
    requirement = "my-backends[compiler]"
    runs_module = True
    fusion_rules = Path(__file__).with_name("fusing_backend.json")

    def load(self, workload: Workload) -> Runner:
        return TorchRunner(workload.module, workload.inputs)

    def fused_groups(self, model: bytes) -> NodeGroups:
        nodes = DataNodes(model)
        kept = {node.output[0] for node in nodes.nodes if node.op_type != "Conv"}
        return [group for tensor in kept if (group := nodes.between([tensor], kept))]
