"""One network for several devices, trained further for a new one."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from medn.network import across_devices  # noqa: E402
from medn.network.across_devices import AcrossDevices, Batch, GoingOn, learn_devices, restored  # noqa: E402
from medn.network.design import Design  # noqa: E402
from medn.network.modules import as_array  # noqa: E402
from medn.network.moments import moment_discrepancy  # noqa: E402


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for laws as simple as these."""
    monkeypatch.setattr(across_devices, "LEAST_STEPS", 400)
    monkeypatch.setattr(across_devices, "PASSES", 1)


def rows(seed: int = 0, count: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    random = np.random.default_rng(seed)
    encoded, device = random.normal(size=(count, 3)), random.integers(0, 2, count)
    logs = np.where(device == 0, encoded[:, 0] - 5, 0.5 * encoded[:, 0] + encoded[:, 1] - 8)
    return encoded, logs, device


def test_every_device_has_a_decoder_of_its_own() -> None:
    encoded, logs, device = rows()
    steps, weight, bias = learn_devices(encoded, logs, device, 3, seed=0, seconds_left=lambda: 60.0)
    network = restored(steps, weight, bias)
    with torch.no_grad():
        said = network(Batch.of(encoded, logs, device), network.encoder(torch.tensor(encoded, dtype=torch.float32)))
    assert float(np.abs(said.numpy() - logs).mean()) < 0.1


def test_a_network_taken_apart_is_the_same_again() -> None:
    torch.manual_seed(0)
    network = AcrossDevices(Design(width=16, hidden=8), 3, 3, 2)
    weight, bias = as_array(network.decoders.weight).T.astype(float), as_array(network.decoders.bias).astype(float)
    again = restored(network.steps(), weight, bias)
    encoded = torch.randn(5, 3)
    with torch.no_grad():
        assert torch.allclose(again.encoder(encoded), network.encoder(encoded), atol=1e-6)


def test_without_time_there_is_a_network_all_the_same() -> None:
    encoded, logs, device = rows(count=60)
    steps, weight, _ = learn_devices(encoded, logs, device, 3, seed=0, seconds_left=lambda: 0.0)
    assert weight.shape[1] == 2
    assert all(np.isfinite(array).all() for _, arrays in steps for array in arrays.values())


def test_going_on_learns_the_new_device() -> None:
    encoded, logs, device = rows()
    steps, weight, bias = learn_devices(encoded, logs, device, 3, seed=0, seconds_left=lambda: 60.0)
    new = 0.7 * encoded[:40, 0] - 0.5 * encoded[:40, 2] - 6
    network = restored(steps, np.column_stack([weight, weight[:, 0]]), np.append(bias, bias[0]))
    target, known = Batch.of(encoded[:40], new, np.full(40, 2)), Batch.of(encoded, logs, device)
    training = GoingOn(
        network, target, known, learning_rate=3e-3, moment_weight=0.1, batch_rows=32, planned=200, seed=0
    )
    before = np.abs(training.predict(encoded[:40]) - new).mean()
    training.steps(200)
    assert np.abs(training.predict(encoded[:40]) - new).mean() < 0.3 * before


def test_moments_differ_where_representations_do() -> None:
    near, far = torch.randn(200, 4), torch.randn(200, 4) + 1.0
    assert float(moment_discrepancy(near, near)) == 0.0
    assert float(moment_discrepancy(near, far)) > float(moment_discrepancy(near, torch.randn(200, 4)))
