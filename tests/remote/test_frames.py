"""Frames: what arrives is what was sent, or it is refused."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medn.core.values import Samples, Visit
from medn.remote.agent_code import agent_code
from medn.remote.frames import BrokenFrame, read_frame, write_frame
from medn.remote.rows import row_of, visit_of


def framed(*frames: tuple[dict[str, object], bytes]) -> bytes:
    stream = io.BytesIO()
    for head, content in frames:
        write_frame(stream, head, content)
    return stream.getvalue()


@given(st.lists(st.tuples(st.dictionaries(st.text(), st.integers()), st.binary()), max_size=4))
def test_what_is_written_is_read(frames: list[tuple[dict[str, int], bytes]]) -> None:
    named = [({f"own {name}": value for name, value in head.items()}, content) for head, content in frames]
    stream = io.BytesIO(framed(*named))
    for head, content in named:
        found = read_frame(stream)
        assert found is not None
        assert (found[1], {name: found[0][name] for name in head}) == (content, head)
    assert read_frame(stream) is None


@given(st.data())
def test_a_stream_that_ends_in_the_middle_is_at_its_end(data: st.DataObject) -> None:
    whole = framed(({"do": "keep"}, b"0123456789"))
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert read_frame(io.BytesIO(whole[:cut])) is None


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        (b"Welcome!\n", "no JSON object"),
        (b"[1]\n", "no JSON object"),
        (b'{"bytes": -1}\n', "a frame of -1 bytes"),
        (b'{"bytes": 99999999999}\n', "a frame of 99999999999 bytes"),
        (framed(({}, b"right")).replace(b"right", b"wrong"), "5 bytes with another hash"),
    ],
)
def test_what_is_no_frame_is_refused(content: bytes, mistake: str) -> None:
    with pytest.raises(BrokenFrame, match=mistake):
        read_frame(io.BytesIO(content))


def test_a_visit_arrives_as_it_was_made() -> None:
    samples = Samples(np.array([1e-3, 2e-3]), np.array([1e-3, 3e-3]), np.array([False, True]), 7)
    runs, quantities = {"compute": [1e-5]}, {"memory_bytes": 5.0, "energy_j": "no meter"}
    visit = Visit(
        "key", 2, "there", 5.0, "ok", samples=samples, reference_runs=runs, quantities=quantities, state={"cpu_hz": 1e9}
    )
    head, content = row_of(visit)
    (found,) = [visit_of(head, content, Visit("key", 2, "there", 5.0, "ok"))]
    assert (found.quantities, found.reference_runs, found.state) == (quantities, runs, {"cpu_hz": 1e9})
    assert found.samples.wall_s.tolist() == [1e-3, 2e-3]
    assert (found.samples.preempted.tolist(), found.samples.calls_per_sample) == ([False, True], 7)


def test_the_code_for_devices_is_small_and_named_by_its_content() -> None:
    name, content = agent_code("")
    agent_code.cache_clear()
    assert agent_code("") == (name, content)
    assert len(content) < 500_000
    assert all(first == second for first, second in pairwise([name, agent_code("")[0]]))
