"""Threads that share a predictor: each gets what it would get alone, whatever the others make it remember or forget."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

import medn
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.model.composition import Composition
from medn.model.conditioned_rows import CACHE_SIZE, cached


@pytest.fixture
def impatient_threads() -> Iterator[None]:
    """Threads take turns after every few steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient_threads")
def test_threads_that_share_what_is_kept_find_what_they_asked_for() -> None:
    known: dict[Composition, float] = {}
    asked = [Composition(overhead_s=float(number)) for number in range(2 * CACHE_SIZE)]
    orders = np.random.default_rng(0).integers(0, len(asked), (8, 12_000)).tolist()

    def work(order: list[int]) -> list[float]:
        return [cached(known, asked[place], lambda place=place: place) for place in order]  # type: ignore[misc]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, orders)) == orders


@pytest.mark.usefixtures("impatient_threads")
def test_threads_that_ask_for_models_get_what_one_gets(bundle_path: Path, captured: CapturedModel) -> None:
    models = (captured, capture(torch.nn.Linear(64, 32), torch.zeros(1, 64)))
    asked = list(product(range(len(models)), range(1, CACHE_SIZE // 2), (0.0, 0.3, 0.6)))
    alone, shared = medn.load(bundle_path), medn.load(bundle_path)
    expected = {each: alone.model(models[each[0]], None, *each[1:]).latency_s for each in asked}

    def work(seed: int) -> list[tuple[int, int, float]]:
        order = np.random.default_rng(seed).permutation(len(asked))[:60]
        chosen = [asked[place] for place in order]
        return [each for each in chosen if shared.model(models[each[0]], None, *each[1:]).latency_s != expected[each]]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(8))) == [[]] * 8
