"""The loops of a lowered program are told as they are."""

from __future__ import annotations

import pytest

from medn.devices.backend import backends
from medn.devices.program_loops import stored_nests
from medn.devices.tensor_programs import task_of
from medn.layer_generators.kind import layer_kinds

pytestmark = pytest.mark.skipif(
    backends["tvm-x86-64"].missing() is not None, reason=backends["tvm-x86-64"].missing() or ""
)


def test_every_access_steps_with_every_loop() -> None:
    layer = layer_kinds["linear"].layer(in_features=12, out_features=10, rows=3, bias=False)
    begun, summed = stored_nests(task_of(layer, 1, "x86-64", 1).module)
    assert [loop[1] for loop in summed["loops"]] == [3, 10, 12]
    assert summed["operations"] == {"add": 1, "multiply": 1}
    stored, own, data, weight = summed["accesses"]
    assert stored == own == [0, 4 * 30, [10, 1, 0], [3, 10, 1], [0, 0, 0]]
    assert (data[2], weight[2]) == ([12, 0, 1], [0, 12, 1])
    assert begun["accesses"][0][0] == 0
    assert begun["operations"] == {}


def test_a_choice_from_step_to_step_is_told_apart() -> None:
    layer = layer_kinds["conv2d"].layer(in_channels=2, out_channels=2, in_size=5, kernel_size=3, padding=1)
    padded = stored_nests(task_of(layer, 1, "x86-64", 1).module)[0]
    assert padded["operations"] == {"inner_choice": 1}
    assert padded["branches"] == 0


def test_a_drawn_schedule_says_what_is_vectorised_and_written_out() -> None:
    layer = layer_kinds["linear"].layer(in_features=64, out_features=64, rows=16, bias=False)
    task = task_of(layer, 1, "x86-64", 1)
    nests = [nest for number in range(1, 13) for nest in stored_nests(task.program(number).schedule.mod)]
    assert any(loop[2] == 2 for nest in nests for loop in nest["loops"])
    assert any(nest["unroll"] > 0 for nest in nests)
    assert all(len(access) == 5 for nest in nests for access in nest["accesses"])
