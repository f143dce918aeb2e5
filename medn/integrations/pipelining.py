"""torch.distributed.pipelining with stages of equal time instead of an equal number of layers."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from medn.core.errors import MednError, UsageError
from medn.core.packages import need
from medn.core.table import Array
from medn.partition.graph import LayerGraph, Link, graph_of, module_starts
from medn.partition.stages import Pipeline, pipeline_stages
from medn.predictor.predictor import Predictor

if TYPE_CHECKING:
    import torch
    from torch.distributed.pipelining import Pipe, SplitPoint

SAME_HOST = Link(bytes_per_s=1e10)
"""Between stages of one machine, where handing a tensor on costs next to nothing."""


@dataclass(frozen=True)
class Stages:
    """Where to split a model, and what its stages take."""

    pipeline: Pipeline
    begin: tuple[str, ...]
    """The modules with which the second and later stages begin."""
    seconds: tuple[float, ...]

    @property
    def split_spec(self) -> dict[str, SplitPoint]:
        """As `torch.distributed.pipelining.pipeline` takes it."""
        from torch.distributed.pipelining import SplitPoint

        return dict.fromkeys(self.begin, SplitPoint.BEGINNING)


def balanced_stages(
    model: torch.nn.Module, example_inputs: Any, stages: int, predictor: Predictor, link: Link = SAME_HOST
) -> Stages:
    """The stages of a model whose slowest one is predicted to be as fast as possible.

    >>> balanced_stages(net, example, 3, medn.load("laptop.medn")).split_spec           # doctest: +SKIP
    """
    prediction = predictor.model(model, example_inputs)
    return stages_by(graph_of(prediction.captured), prediction.layers.latency_s, stages, link)


def stages_by(graph: LayerGraph, seconds: Array, stages: int, link: Link = SAME_HOST) -> Stages:
    """The same from the seconds of each layer, wherever they come from; stages begin where modules do."""
    if stages < 2:
        raise UsageError(f"stages: must be at least 2 (got {stages})")
    starts = module_starts(graph.names)
    found = pipeline_stages(graph, np.tile(seconds, (stages, 1)), link, cuts=list(starts))
    each_s = tuple(float(seconds[stage.start : stage.stop].sum()) for stage in found.stages)
    return Stages(found, tuple(starts[stage.start] for stage in found.stages[1:]), each_s)


def split(model: torch.nn.Module, example_inputs: Any, begin: Sequence[str]) -> Pipe:
    """A copy of a model in stages that begin with the modules of these names."""
    need("splitting a model", "torch")
    from torch.distributed.pipelining import SplitPoint, pipeline

    arguments, named = _arguments(example_inputs)
    spec = dict.fromkeys(begin, SplitPoint.BEGINNING)
    with warnings.catch_warnings(action="ignore"):
        # A copy, because the marks of where to split stay in the model.
        pipe = pipeline(copy.deepcopy(model), arguments, named, split_spec=spec)
    if pipe.num_stages != len(begin) + 1:
        raise MednError(f"split at {', '.join(begin)} the model has {pipe.num_stages} stages")
    return pipe


def _arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """As `capture` reads them: a tensor, a sequence of arguments or a mapping of named ones."""
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    return (tuple(example_inputs), {}) if isinstance(example_inputs, (tuple, list)) else ((example_inputs,), {})
