"""medn inside the programs that prune, search, split and quantise: functions that take your own network."""

from __future__ import annotations

from medn.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__, {}, submodules=("nncf", "optuna", "pipelining", "pymoo", "torch_pruning")
)
