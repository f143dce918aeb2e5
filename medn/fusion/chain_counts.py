"""Counting which chains of a model its backend runs as one, and how far rules agree with that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile

from medn.capture.captured_model import CapturedModel
from medn.devices.backend import NodeGroups
from medn.fusion.chains import Chain, signature, sole_readers
from medn.fusion.fuse import fused_members
from medn.fusion.rules import ChainCount, FusionRules


def count_chains(model: CapturedModel, groups: NodeGroups) -> list[ChainCount]:
    """How often each chain of known kinds was run as one, and how often its last layer was left apart.

    `model` is the captured file whose nodes the groups name, with spelled-out functions put together.
    """
    readers, group_of = sole_readers(model), _group_numbers(model, groups)
    fused, apart = Counter[Chain](), Counter[Chain]()
    for members in _members(group_of).values():
        # A group that is no chain is a formula of its own, which says nothing about chains.
        if any(readers[before] != after for before, after in pairwise(members)):
            continue
        of_a_kind = list(takewhile(lambda index: model.layers[index].layer is not None, members))
        chain = tuple(signature(model.layers[index]) for index in of_a_kind)
        fused.update(chain[:length] for length in range(2, len(chain) + 1))
        after = readers[members[-1]]
        if of_a_kind != members or after is None or group_of[after] is None or model.layers[after].layer is None:
            continue
        # A sum that another of its operands has absorbed says nothing about this one.
        if group_of[after] not in [group_of[source] for source in model.layers[after].inputs if source >= 0]:
            apart[(*chain, signature(model.layers[after]))] += 1
    return [ChainCount(chain, fused[chain], apart[chain]) for chain in {*fused, *apart}]


def count_folded(before: CapturedModel, exported: CapturedModel, chain: Chain) -> ChainCount:
    """How often a pair of layers of a torch module is one node of the file that it was exported to."""
    total, left = (_pairs(model, chain) for model in (before, exported))
    return ChainCount(chain, total - left, left)


def added(counts: Iterable[ChainCount]) -> list[ChainCount]:
    """One count per chain."""
    fused, apart = Counter[Chain](), Counter[Chain]()
    for count in counts:
        fused[count.chain] += count.fused
        apart[count.chain] += count.apart
    return [ChainCount(chain, fused[chain], apart[chain]) for chain in sorted({*fused, *apart})]


def agreement(model: CapturedModel, groups: NodeGroups, rules: FusionRules) -> float:
    """The share of the layers of known kinds that the rules put into the same group as the backend does."""
    group_of = _group_numbers(model, groups)
    told = {index for index, layer in enumerate(model.layers) if layer.layer and group_of[index] is not None}
    shown = {index: set(members) & told for members in _members(group_of).values() for index in members}
    made = {index: set(members) & told for members in fused_members(model, rules) for index in members}
    return sum(shown[index] == made[index] for index in told) / max(len(told), 1)


def _group_numbers(model: CapturedModel, groups: NodeGroups) -> list[int | None]:
    """The group of each layer; None where the backend's graph does not tell it."""
    numbers = {name: number for number, group in enumerate(groups) for name in group}
    return [numbers.get(layer.name) for layer in model.layers]


def _members(group_of: Sequence[int | None]) -> dict[int, list[int]]:
    """The layers of each group, in order."""
    members: dict[int, list[int]] = {}
    for index, number in enumerate(group_of):
        if number is not None:
            members.setdefault(number, []).append(index)
    return members


def _pairs(model: CapturedModel, chain: Chain) -> int:
    signatures = [signature(layer) for layer in model.layers]
    return sum(
        (signatures[index], signatures[reader]) == chain
        for index, reader in enumerate(sole_readers(model))
        if reader is not None
    )
