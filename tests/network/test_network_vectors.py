"""The parameters of a network lie in a few vectors, and stay its parameters."""

from __future__ import annotations

import numpy as np
import pytest

from medn.network.design import Design
from medn.network.modules import CommonColumns, KindShape, Network
from medn.network.vectors import vectors_of

torch = pytest.importorskip("torch")

OUTPUTS = {"latency": (np.zeros(1), np.ones(1)), "efficiency": (np.zeros(1), np.ones(1))}


def network_of(*kinds: str) -> Network:
    common = CommonColumns((0, 1), np.ones(2), np.zeros(2)) if len(kinds) > 1 else None
    shapes = {kind: KindShape(4, 3, OUTPUTS, common) for kind in kinds}
    return Network(Design(width=8, hidden=4), shapes)


def test_a_network_of_one_kind_has_one_vector_that_decays_and_one_that_does_not() -> None:
    network = network_of("conv2d")
    vectors = vectors_of(network)
    assert sorted(vector.decays for vector in vectors) == [False, True]
    assert sum(len(vector.values) for vector in vectors) == sum(each.numel() for each in network.parameters())


def test_the_network_answers_by_what_stands_in_its_vectors() -> None:
    network, inputs = network_of("conv2d"), torch.ones(2, 4)
    before = network("conv2d", inputs)["latency"].detach().clone()
    vectors = vectors_of(network)
    assert torch.equal(network("conv2d", inputs)["latency"], before)
    for vector in vectors:
        vector.values.zero_()
    assert not network("conv2d", inputs)["latency"].any()


def test_gradients_are_summed_up_in_the_vectors() -> None:
    network = network_of("conv2d")
    vectors = vectors_of(network)
    for _ in range(2):
        network("conv2d", torch.ones(2, 4))["latency"].sum().backward()
    expected = torch.cat([each.grad.flatten() for each in network.parameters() if each.grad is not None])
    assert sum(float(vector.gradient.sum()) for vector in vectors) == pytest.approx(float(expected.sum()), rel=1e-4)
    assert all(vector.gradient.any() for vector in vectors)


def test_what_one_kind_uses_alone_lies_apart_from_what_all_use() -> None:
    network = network_of("conv2d", "linear")
    users = {vector.kinds for vector in vectors_of(network)}
    assert users == {frozenset({"conv2d"}), frozenset({"linear"}), frozenset({"conv2d", "linear"})}
