"""A captured model as a compiled backend runs it: the layers that it fuses become one."""

from __future__ import annotations

from dataclasses import dataclass

from medn.capture.captured_model import CapturedLayer, CapturedModel, check_captured
from medn.core.values import Layer, Scalar
from medn.fusion.chains import LIGHT_KINDS, Chain, signature, sole_readers
from medn.fusion.decomposition import recompose
from medn.fusion.merge import FusedGroup, merge
from medn.fusion.rules import FusionRules
from medn.layer_generators.fused import FUSED_KINDS
from medn.layer_generators.kind import layer_kinds

Ending = dict[str, Scalar]


def fuse(model: CapturedModel, rules: FusionRules | None) -> CapturedModel:
    """The model with one layer for each group that the backend runs as one.

    Every convolution and every linear layer becomes its fused kind, alone or not. Without rules it stays as it is.

    >>> import medn, torch
    >>> captured = medn.capture(torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()), torch.zeros(1, 3, 8, 8))
    >>> [each.operator for each in fuse(captured, medn.rules_for("onnxruntime")).layers]
    ['conv2d+relu']
    """
    check_captured(model)
    if rules is None:
        return model
    model = recompose(model)
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
    return [index for index, member in enumerate(signatures) if _kind(member) not in LIGHT_KINDS]


def _kind(member: str) -> str:
    return member.partition(" ")[0]


def _can_express(signatures: Chain) -> bool:
    """Whether one layer can represent a chain: at most one member is not element-wise."""
    heavy = _heavy(signatures)
    if len(heavy) > 1:
        return False
    if not heavy or _kind(signatures[heavy[0]]) not in FUSED_KINDS:
        return True
    return _ending(signatures[heavy[0] + 1 :]) is not None


def _ending(absorbed: Chain) -> Ending | None:
    """The parameters of a fused kind that say what its product absorbs; None where it has none for that."""
    ending: Ending = {}
    for member in absorbed:
        match member.split():
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


def _group(model: CapturedModel, members: tuple[int, ...]) -> FusedGroup:
    layers = [model.layers[member] for member in members]
    signatures = tuple(map(signature, layers))
    heavy = _heavy(signatures)
    # Without a heavy member all are element-wise, and the one with the most FLOPs represents them.
    index = heavy[0] if heavy else max(range(len(layers)), key=lambda position: layers[position].flops)
    representative = layers[index]
    operator = "+".join(map(_short_name, layers)) if len(layers) > 1 else representative.operator
    return FusedGroup(
        members,
        representative.name,
        operator,
        _layer(representative, signatures[index + 1 :]),
        representative.batch_size,
    )


def _layer(representative: CapturedLayer, absorbed: Chain) -> Layer | None:
    layer = representative.layer
    if layer is None or layer.kind not in FUSED_KINDS:
        return layer
    return layer_kinds[FUSED_KINDS[layer.kind]].layer(**{**layer.values, **(_ending(absorbed) or {})})


def _short_name(layer: CapturedLayer) -> str:
    """The name of a member in the operator of its group."""
    match signature(layer).split():
        case ["activation" | "elementwise", word, *_]:
            return word
    return _kind(signature(layer))
