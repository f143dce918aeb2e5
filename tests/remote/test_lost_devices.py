"""Links that break and devices that stay away, on simulated devices: nothing is lost, and the others go on."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from medn.core.errors import DeviceUnavailable, StoreError
from medn.devices.backend import backends
from medn.devices.transport import Device
from medn.layer_generators.plan import plan_points
from medn.layer_generators.sweep import Measure
from medn.measuring import side_by_side
from medn.measuring.far_lane import FarLane
from medn.measuring.lane import DueVisit, Events, LaneLost
from medn.measuring.sweep import run_sweep
from medn.remote.link import AgentLink
from medn.runs.folder import RunFolder
from medn.runs.summary import summarise
from tests.remote.conftest import far_config, simulated


def lives(folder: Path, *rows: int) -> str:
    """A device that dies after so many rows of each of its lives; the last has no end."""
    folder.mkdir(exist_ok=True)
    file = folder / f"lives-{len(list(folder.iterdir()))}"
    file.write_text("\n".join(map(str, rows)))
    return simulated("--lives", str(file))


def passes(folder: RunFolder) -> dict[str, list[int]]:
    with folder.store() as store:
        return {key: sorted(found) for key, found in store.visited().items()}


def test_every_visit_is_made_once_however_often_the_device_dies(folder: RunFolder, tmp_path: Path) -> None:
    config = far_config({"python": lives(tmp_path / "lives", 0, 1, 4, 0, 2, 5)})
    told: list[str] = []
    with pytest.raises(DeviceUnavailable, match="the device ended at once"):
        run_sweep(config, folder)  # the first life ends before it greets, and there is no other device to measure on
    outcome = run_sweep(config, folder, on_link=lambda _, sentence: told.append(sentence))
    assert outcome.finished
    assert outcome.visits == 18
    assert passes(folder) == {point.key: [0, 1, 2] for point in plan_points(config).points}
    assert sum("ended in the middle of a visit" in sentence for sentence in told) == 4
    assert "it answers again" in told


def test_a_visit_that_was_lost_is_a_row_until_it_is_made(folder: RunFolder, tmp_path: Path) -> None:
    config = far_config({"python": lives(tmp_path / "lives", 2)}, measure={"visits": 1, "patience": 0.001})
    outcome = run_sweep(config, folder)
    assert (outcome.visits, outcome.finished, list(outcome.given_up)) == (2, False, ["env"])
    with folder.store() as store:
        statuses = Counter(measurement.status for measurement in store.measurements())
        reasons = dict(summarise(store).failures)
        assert len(store.visited()) == 2
    assert statuses == {"ok": 2, "lost": 1}
    assert reasons == {"lost: env: the command ended with exit code 1: the device ended in the middle of a visit": 1}
    assert run_sweep(config, folder).visits == 4
    with folder.store() as store:
        assert [measurement.status for measurement in store.measurements()] == ["ok"] * 6


def test_other_devices_go_on_while_one_is_away(folder: RunFolder, tmp_path: Path) -> None:
    config = far_config(
        {"name": "flaky", "over": "env A=1", "python": lives(tmp_path / "lives", 3, 0, 0)},
        {"name": "steady", "over": "env A=2", "python": simulated("--latency", "2e-3")},
    )
    seen: list[str] = []
    outcome = run_sweep(config, folder, on_visit=lambda *told: seen.append(told[3].device))
    assert outcome.finished
    assert Counter(seen) == {"flaky": 18, "steady": 18}
    assert seen[-1] == "flaky"
    with folder.store() as store:
        latencies = {
            (each.point.device, float(each.visits[0].samples.wall_s.min()) > 2e-3) for each in store.measurements()
        }
    assert latencies <= {("flaky", False), ("steady", True)}


def test_a_device_that_cannot_be_reached_at_first_does_not_keep_others_from_being_measured(
    folder: RunFolder, tmp_path: Path
) -> None:
    config = far_config(
        {"name": "late", "over": "env A=1", "python": lives(tmp_path / "lives", 0, 0)},
        {"name": "steady", "over": "env A=2", "python": simulated()},
    )
    told: list[tuple[str, str]] = []
    assert run_sweep(config, folder, on_link=lambda *sentence: told.append(sentence)).finished
    assert told[0][0] == "env A=1"
    assert "tried again while the others are measured" in told[0][1]
    assert set(map(tuple, passes(folder).values())) == {(0, 1, 2)}


def test_a_layer_that_takes_the_device_down_is_left_for_another_call(folder: RunFolder) -> None:
    config = far_config(
        {"python": simulated("--ends-at", '"in_features": 32')},
        layers={"linear": {"in_features": [16, 32, 64], "out_features": 16, "rows": 1}},
        **{"budget": {}, "sampler": "grid", "conditions": {}},
    )
    outcome = run_sweep(config, folder)
    assert not outcome.finished
    with folder.store() as store:
        found = {(each.point.layer.values["in_features"], each.status) for each in store.measurements()}
    assert found == {(16, "ok"), (64, "ok"), (32, "lost")}


def test_pauses_grow_and_end_with_patience(folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    before = side_by_side.SideBySide._set_absent

    def noted(self, lane, reason, was_silent):  # type: ignore[no-untyped-def]
        before(self, lane, reason, was_silent)
        pauses.append(self._pauses[lane])

    monkeypatch.setattr(side_by_side.SideBySide, "_set_absent", noted)
    config = far_config(
        {"python": lives(tmp_path / "lives", 1, *[0] * 50)}, measure={"visits": 1, "max_visits": 1, "patience": 2}
    )
    outcome = run_sweep(config, folder)
    assert "the device ended at once" in outcome.given_up["env"]
    assert len(pauses) > 2
    assert all(after == pytest.approx(2 * earlier) for earlier, after in pairwise(pauses))


def test_time_that_is_up_leaves_nothing_half_done(folder: RunFolder) -> None:
    config = far_config({"python": simulated("--visit-time", "0.05")})
    ticks = iter(range(100_000))
    first = run_sweep(config, folder, seconds=12, clock=lambda: float(next(ticks)))
    assert not first.finished
    assert 0 < first.visits < 18
    assert first.visits + run_sweep(config, folder).visits == 18


def test_clocks_and_heat_of_the_device_are_kept_with_each_visit(folder: RunFolder) -> None:
    run_sweep(far_config({"python": simulated()}), folder)
    with folder.store() as store:
        assert {each.state["temperature_c"] for row in store.measurements() for each in row.visits} == {40.0}


def test_a_device_that_became_another_machine_is_refused(folder: RunFolder) -> None:
    run_sweep(far_config({"python": simulated()}), folder)
    other = far_config({"python": simulated("--model", "another CPU")}, budget={"points": 8})
    with pytest.raises(StoreError, match=r"cpu model: another CPU here, a simulated CPU in the run"):
        run_sweep(other, folder)


def test_a_device_that_is_added_to_a_run_brings_its_own_environment(folder: RunFolder) -> None:
    first = {"name": "first", "python": simulated()}
    second = {"name": "second", "over": "env A=2", "python": simulated("--model", "another CPU")}
    run_sweep(far_config(first), folder)
    assert run_sweep(far_config(first, second), folder).visits == 18
    with folder.store() as store:
        assert len(store.environments()) == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--protocol", "99"), "its agent speaks protocol 99, not 1"),
        (("--numpy", "0"), "Python there has no numpy. Install it: env .* -m pip install numpy"),
        (("--version", "3.6.9"), r"is Python 3\.6\.9, medn needs 3\.10 there"),
        (("--missing", "torch needs torch"), "torch needs torch there; install it: env .* -m pip install torch"),
    ],
)
def test_what_a_device_lacks_is_one_sentence(options: tuple[str, ...], sentence: str, folder: RunFolder) -> None:
    with pytest.raises(DeviceUnavailable, match=sentence):
        run_sweep(far_config({"python": simulated(*options)}), folder)
    assert not folder.path.exists()


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ({"over": "no-such-command"}, "no-such-command cannot be run: No such file or directory"),
        ({"over": "false"}, "false: the command ended with exit code 1"),
        ({"python": "no-such-python"}, "exit code 127: .*no-such-python"),
    ],
)
def test_a_way_that_leads_nowhere_is_one_sentence(device: dict[str, str], sentence: str, folder: RunFolder) -> None:
    with pytest.raises(DeviceUnavailable, match=sentence) as told:
        run_sweep(far_config(device), folder)
    assert told.value.exit_code == 3


def test_a_link_that_is_lost_while_visits_are_submitted_leaves_them_to_be_made_again() -> None:
    class Breaking:
        """Loses the link while layers are looked up."""

        def key_of(self, *_: object) -> str:
            lane._lose("it broke")
            return "key"

    point = plan_points(far_config({"backend": "onnxruntime"})).points[0]
    devices = {"board": Device(backends["onnxruntime"])}
    events: Events = Events()
    lane = FarLane("env", "python3", devices, events, Measure(), (), Breaking())  # type: ignore[arg-type]
    lane._link = AgentLink("env")
    lane.submit([DueVisit(1, 0, point)])
    assert isinstance(events.get(timeout=1), LaneLost)
    assert list(lane.under_way) == [1]
