"""A bundle read back predicts the same; a damaged or forged one is refused before anything is computed with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import medn
from medn.bundle.archive import BadBundle, read_archive, write_archive
from medn.bundle.bundle import Bundle, read_bundle, write_bundle
from medn.choosing.bundling import bundle_run
from medn.core.errors import MednError, UsageError
from medn.deployed.candidate import deployed_of

Change = Callable[[dict[str, Any], dict[str, bytes]], None]
ASKED = {"in_features": 64, "out_features": 64, "batch_size": 8}


@pytest.fixture(scope="module")
def bundle(bundle_path: Path) -> Bundle:
    return read_bundle(bundle_path)


def forged(source: Path, to: Path, change: Change) -> Path:
    """The bundle with something changed in it, and a manifest that vouches for the change."""
    manifest, parts = read_archive(source)
    change(manifest, parts)
    write_archive(to, manifest, parts)
    return to


def test_a_bundle_lies_in_its_run_under_the_name_of_the_run(bundle_path: Path) -> None:
    assert bundle_path.name == "run.medn"
    assert bundle_path.parent.name == "run"


def test_a_bundle_read_back_is_the_same(bundle: Bundle, tmp_path: Path, bundle_path: Path) -> None:
    write_bundle(tmp_path / "run.medn", bundle)
    assert (tmp_path / "run.medn").read_bytes() == bundle_path.read_bytes()


def test_a_bundle_remembers_what_drives_a_device(bundle: Bundle, tmp_path: Path) -> None:
    (device,) = bundle.devices
    assert bundle.backend(device) == device
    write_bundle(tmp_path / "run.medn", replace(bundle, backends={device: "openvino"}))
    assert read_bundle(tmp_path / "run.medn").backend(device) == "openvino"


def test_a_bundle_remembers_how_layers_compose(bundle: Bundle, tmp_path: Path, bundle_path: Path) -> None:
    assert bundle.compositions == {}
    assert "compositions" not in read_archive(bundle_path)[0]  # as bundles always were
    learned = {"made-up": {"stretch": 1.25, "elsewhere": False}}
    write_bundle(tmp_path / "run.medn", replace(bundle, compositions=learned))
    assert read_bundle(tmp_path / "run.medn").compositions == learned


@pytest.mark.parametrize("written", [{"stretch": "long"}, {"stretch": None}, ["stretch"], 1.2])
def test_how_layers_compose_must_be_numbers(written: Any, bundle_path: Path, tmp_path: Path) -> None:
    def change(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
        manifest["compositions"] = {"made-up": written}

    with pytest.raises(BadBundle):
        read_bundle(forged(bundle_path, tmp_path / "forged.medn", change))


def test_forms_read_back_predict_the_same(bundle: Bundle, made_up_bundle: ModuleType, bundle_path: Path) -> None:
    for made, entry in zip(made_up_bundle.made_up_candidates(bundle_path.parent), bundle.entries, strict=True):
        rows = np.stack([made.deployed.range.low, made.deployed.range.high])
        np.testing.assert_array_equal(deployed_of(entry.latency).predict(rows), made.deployed.predict(rows))


def test_the_manifest_says_what_was_measured_where(bundle_path: Path) -> None:
    manifest, _ = read_archive(bundle_path)
    assert manifest["environments"] == {"here": {"source": "a law"}}
    (activation, linear) = manifest["entries"]
    facts = linear["quantities"]["latency"]["facts"]
    assert facts["scores"]["test"]["mape"] > 0
    assert facts["interval"]["level"] == 0.9
    assert len(facts["range"]["low"]) == len(facts["schema"]["names"])
    assert activation["device"] == "made-up"


def test_usual_values_are_those_at_which_most_was_measured(bundle: Bundle) -> None:
    usual = bundle.entries[0].usual
    assert {name: usual[name] for name in ("batch_size", "utilization", "threads", "dtype", "cache")} == {
        "batch_size": 1,
        "utilization": 0.0,
        "threads": 1,
        "dtype": "fp32",
        "cache": "hot",
    }
    assert 0 < float(usual["load_average"]) < 1


def test_a_bundle_remembers_how_fast_memory_was_read(bundle: Bundle, tmp_path: Path) -> None:
    write_bundle(tmp_path / "known.medn", replace(bundle, streaming={"made-up": 1.5e10}))
    assert read_bundle(tmp_path / "known.medn").streaming == {"made-up": 1.5e10}


@pytest.mark.parametrize("rate", [0, -1, "fast", True, None, 10**400])
def test_a_rate_that_is_none_is_refused(rate: object, bundle_path: Path, tmp_path: Path) -> None:
    def change(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
        manifest["streaming"] = {"made-up": rate}

    with pytest.raises(BadBundle, match="reads must be a number from"):
        read_bundle(forged(bundle_path, tmp_path / "forged.medn", change))


def test_a_bundle_from_before_memory_was_read_opens(bundle_path: Path, tmp_path: Path) -> None:
    path = forged(bundle_path, tmp_path / "old.medn", lambda manifest, parts: manifest.pop("streaming"))
    assert read_bundle(path).streaming == {}


def test_a_bundle_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing was chosen"):
        bundle_run(tmp_path, [])


@pytest.mark.parametrize(
    ("version", "words"),
    [(3, "To use it: pip install --upgrade medn"), (0, "make it again: medn select RUN"), (None, "make it again")],
)
def test_another_version_says_what_to_do(version: object, words: str, bundle_path: Path, tmp_path: Path) -> None:
    def change(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
        manifest["version"] = version

    with pytest.raises(BadBundle, match=words):
        read_bundle(forged(bundle_path, tmp_path / "x.medn", change))


def latency_facts(manifest: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = manifest["entries"][1]["quantities"]["latency"]["facts"]
    return facts


def set_array(parts: dict[str, bytes], name: str, function: Callable[[Any], Any]) -> None:
    arrays = safetensors.numpy.load(parts["1/latency.safetensors"])
    arrays[name] = function(arrays[name])
    parts["1/latency.safetensors"] = safetensors.numpy.save(arrays)


def at(place: int, value: float) -> Callable[[Any], Any]:
    def function(array: Any) -> Any:
        array[place] = value
        return array

    return function


@pytest.mark.parametrize(
    ("array", "function", "words"),
    [
        ("1/right", at(0, 0), "lead astray"),
        ("1/right", at(0, 2**31 - 1), "branches of trees"),
        ("1/feature", at(0, 9999), "features of trees"),
        ("1/feature", at(0, -2), "features of trees"),
        ("1/feature", at(-1, 0), "lead astray"),
        ("1/roots", at(0, 1), "not in order"),
        ("1/roots", at(1, 10**6), "roots of trees"),
        ("1/right", lambda array: array[:-1], "branches of trees"),
        ("1/right", lambda array: array.astype(np.float32), "array of whole numbers"),
        ("1/number", at(0, np.nan), "not finite"),
        ("1/number", at(0, np.inf), "not finite"),
        ("2/0.weight", lambda array: array[:-1], "damaged"),
        ("2/0.weight", lambda array: array.astype(np.float16), "has the type float16"),
        ("2/0.bias", lambda array: array[:-1], "damaged"),
        ("2/encoding_numeric", at(0, 9999), "damaged"),
        ("0/columns", at(0, 9999), "damaged"),
        ("range.components", lambda array: array[:, :-1], "centres of a range"),
        ("range.centres", at(0, np.nan), "not finite"),
    ],
)
def test_a_forged_array_is_refused(
    array: str, function: Callable[[Any], Any], words: str, bundle_path: Path, tmp_path: Path
) -> None:
    path = forged(bundle_path, tmp_path / "x.medn", lambda _, parts: set_array(parts, array, function))
    with pytest.raises(BadBundle, match=words):
        read_bundle(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda facts: facts["form"].update(form="pickle"), "no deployed form named 'pickle'"),
        (lambda facts: facts.update(interval=None), "lacks its form"),
        (lambda facts: facts["interval"].update(level=2), "level of an interval"),
        (lambda facts: facts["interval"]["spread"].update(scale=0), "scale of a spread"),
        (lambda facts: facts["range"].update(reach=0), "reach of a range"),
        (lambda facts: facts["range"].update(reach="x"), "could not convert"),
        (lambda facts: facts["form"]["facts"].update(weights=[1, 2]), "not as many as the forms"),
        (lambda facts: facts.update(kind="conv2d"), "belongs to another entry"),
        (lambda facts: facts["schema"].update(names=["a", "a"]), "damaged"),
        (lambda facts: facts.update(surprise=1), "surprise"),
    ],
)
def test_forged_facts_are_refused(
    change: Callable[[dict[str, Any]], None], words: str, bundle_path: Path, tmp_path: Path
) -> None:
    path = forged(bundle_path, tmp_path / "x.medn", lambda manifest, _: change(latency_facts(manifest)))
    with pytest.raises(BadBundle, match=words):
        read_bundle(path)


def test_a_part_that_is_no_safetensors_is_refused(bundle_path: Path, tmp_path: Path) -> None:
    path = forged(bundle_path, tmp_path / "x.medn", lambda _, parts: parts.update({"1/latency.safetensors": b"xyz"}))
    with pytest.raises(BadBundle, match="damaged"):
        read_bundle(path)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(leaf for name, part in below for leaf in leaves(part, (*path, name)))]


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
)


def test_a_text_in_the_place_of_a_usual_number_is_refused(bundle_path: Path, tmp_path: Path) -> None:
    def change(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
        manifest["entries"][1]["usual"]["load_average"] = ""

    path = forged(bundle_path, tmp_path / "x.medn", change)
    with pytest.raises(MednError, match="the usual value of load_average is a string, and the column holds numbers"):
        medn.load(path)


def test_an_encoding_that_names_no_column_is_refused(bundle_path: Path, tmp_path: Path) -> None:
    def change(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
        inner = manifest["entries"][1]["quantities"]["latency"]["facts"]["form"]["inner"]
        (network,) = (form for form in inner if form["form"] == "network")
        network["facts"]["encoding"] = []

    path = forged(bundle_path, tmp_path / "x.medn", change)
    with pytest.raises(MednError, match="an encoding names 0 columns and makes"):
        medn.load(path)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), junk=JUNK)
def test_junk_anywhere_in_the_manifest_is_refused_or_harmless(
    data: st.DataObject, junk: Any, bundle_path: Path, tmp_path: Path
) -> None:
    def change(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
        place = data.draw(st.sampled_from(leaves(manifest)[1:]))
        holder: Any = manifest
        for name in place[:-1]:
            holder = holder[name]
        holder[place[-1]] = json.loads(json.dumps(junk))

    path = forged(bundle_path, tmp_path / "x.medn", change)
    try:
        predictor = medn.load(path)
        found = predictor.layer("linear", **ASKED)
        table = predictor.predict({"kind": "linear", **ASKED})
    except MednError:
        return
    assert isinstance(found.latency_s, float)
    assert len(table) == 1


def test_a_bundle_of_two_quantities_keeps_both(bundle: Bundle, made_up_bundle: ModuleType, tmp_path: Path) -> None:
    write_bundle(tmp_path / "x.medn", made_up_bundle.with_further(bundle))
    assert [set(entry.further) for entry in read_bundle(tmp_path / "x.medn").entries] == [{"memory_bytes"}] * 2


def test_a_quantity_that_nobody_knows_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    entries = tuple(replace(entry, further={"colour": entry.latency}) for entry in bundle.entries)
    write_bundle(tmp_path / "x.medn", replace(bundle, entries=entries))
    with pytest.raises(BadBundle, match="no quantity named 'colour'"):
        read_bundle(tmp_path / "x.medn")


def test_the_arrays_of_a_learned_range_take_four_bytes_a_number(bundle_path: Path) -> None:
    import safetensors.numpy

    _, parts = read_archive(bundle_path)
    arrays = safetensors.numpy.load(parts["0/latency.safetensors"])
    assert {arrays[f"range.{name}"].dtype for name in ("components", "centres")} == {np.dtype("f4")}
