"""A captured model as a compiled backend runs it: the layers that it fuses become one."""

from __future__ import annotations

from dataclasses import dataclass

from medn.capture.captured_model import CapturedLayer, CapturedModel
from medn.core.values import Layer, Scalar
from medn.fusion.chains import LIGHT_KINDS, Chain, signature, sole_readers
from medn.fusion.decomposition import put_together
from medn.fusion.merge import Group, merge
from medn.fusion.rules import FusionRules
from medn.layer_generators.fused import FUSED_KINDS
from medn.layer_generators.kind import layer_kinds

Ending = dict[str, Scalar]


def fuse(model: CapturedModel, rules: FusionRules) -> CapturedModel:
    """The model with one layer for each group that the backend runs as one.

    Every convolution and every linear layer becomes its fused kind, alone or not.
    """
    model = put_together(model)
    return merge(model, [_group(model, members) for members in fused_members(model, rules)])


def fused_members(model: CapturedModel, rules: FusionRules) -> list[tuple[int, ...]]:
    """The layers of each group, by their indices; a layer that stays alone is a group of its own."""
    readers, chains = sole_readers(model), rules.chains
    folded = {count.chain for count in rules.folded}
    growing: dict[int, _Growing] = {}
    """By the layer that they end with so far."""
    for index, layer in enumerate(model.layers):
        own = signature(layer)
        # Where both operands could absorb a sum, a product does so rather than arithmetic, otherwise the first one.
        for source in sorted(layer.inputs, key=lambda each: each not in growing or not growing[each].heavy):
            group = growing.get(source)
            if group is None or readers[source] != index or not _can_express((*group.signatures, own)):
                continue
            grown = (*group.chain, own)
            if grown in folded or grown in chains:
                group.members.append(index)
                group.signatures += (own,)
                group.chain = group.chain if grown in folded else grown
                growing[index] = growing.pop(source)
                break
        else:
            growing[index] = _Growing([index], (own,), (own,))
    return [tuple(group.members) for group in growing.values()]


@dataclass
class _Growing:
    members: list[int]
    signatures: Chain
    chain: Chain
    """What the backend sees: the signatures without those that are folded before it gets the model."""

    @property
    def heavy(self) -> bool:
        return bool(_heavy(self.signatures))


def _heavy(signatures: Chain) -> list[int]:
    return [place for place, each in enumerate(signatures) if _kind(each) not in LIGHT_KINDS]


def _kind(each: str) -> str:
    return each.partition(" ")[0]


def _can_express(signatures: Chain) -> bool:
    """Whether one layer can stand for a chain: at most one of it works on more than single elements."""
    heavy = _heavy(signatures)
    if len(heavy) > 1:
        return False
    if not heavy or _kind(signatures[heavy[0]]) not in FUSED_KINDS:
        return True
    return _ending(signatures[heavy[0] + 1 :]) is not None


def _ending(absorbed: Chain) -> Ending | None:
    """The parameters of a fused kind that say what its product absorbs; None where it has none for that."""
    ending: Ending = {}
    for each in absorbed:
        match each.split():
            case ["activation", function] if "activation" not in ending:
                ending["activation"] = function
            case ["elementwise", "add", "none"] if "residual" not in ending:
                ending["residual"] = True
            case ["batch_norm2d"] | ["elementwise", "add" | "sub", _, "constant"]:
                ending["bias"] = True
            case ["elementwise", "mul" | "div", _, "constant"]:
                pass  # a factor of the weights
            case _:
                return None
    return ending


def _group(model: CapturedModel, members: tuple[int, ...]) -> Group:
    layers = [model.layers[member] for member in members]
    signatures = tuple(map(signature, layers))
    heavy = _heavy(signatures)
    # Without a heavy member they all work on as many elements, and the one that does most with each stands for all.
    place = heavy[0] if heavy else max(range(len(layers)), key=lambda each: layers[each].flops)
    standing = layers[place]
    operator = "+".join(map(_word, layers)) if len(layers) > 1 else standing.operator
    return Group(members, standing.name, operator, _layer(standing, signatures[place + 1 :]), standing.batch_size)


def _layer(standing: CapturedLayer, absorbed: Chain) -> Layer | None:
    layer = standing.layer
    if layer is None or layer.kind not in FUSED_KINDS:
        return layer
    return layer_kinds[FUSED_KINDS[layer.kind]].layer(**{**layer.values, **(_ending(absorbed) or {})})


def _word(layer: CapturedLayer) -> str:
    """How a member is called in the operator of its group."""
    match signature(layer).split():
        case ["activation" | "elementwise", word, *_]:
            return word
    return _kind(signature(layer))
