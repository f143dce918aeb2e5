"""Bundles of strangers: whatever lies in the file is refused in a sentence while it is read, or it predicts."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import medn
from medn.bundle.archive import MANIFEST, BadBundle, read_archive, write_archive
from medn.bundle.bundle import read_bundle
from medn.cli.main import run
from medn.core.errors import MednError, UsageError
from medn.regressors.form import restore
from medn.regressors.forms.trees import MOST_LEVELS, Trees

Json = dict[str, Any]
HUGE = 10**400
ASKED = {"in_features": 64, "out_features": 64, "batch_size": 8}


def facts_of(manifest: Json) -> Json:
    facts: Json = manifest["entries"][1]["quantities"]["latency"]["facts"]
    return facts


def form_of(manifest: Json, name: str) -> Json:
    return next(form for form in facts_of(manifest)["form"]["inner"] if form["form"] == name)


class Forged:
    """A bundle with something exchanged in it, and hashes that vouch for it."""

    def __init__(self, source: Path, target: Path) -> None:
        self.manifest, self.parts = read_archive(source)
        self.target = target
        self.name = self.manifest["entries"][1]["quantities"]["latency"]["arrays"]

    def arrays(self, **changed: Any) -> Forged:
        arrays = safetensors.numpy.load(self.parts[self.name])
        for name, array in changed.items():
            arrays[name] = np.ascontiguousarray(array(arrays[name]) if callable(array) else array)
        self.parts[self.name] = safetensors.numpy.save(arrays)
        return self

    def path(self) -> Path:
        write_archive(self.target, self.manifest, self.parts)
        return self.target


@pytest.fixture
def forged(bundle_path: Path, tmp_path: Path) -> Forged:
    return Forged(bundle_path, tmp_path / "x.medn")


def chain(levels: int) -> tuple[Any, Any, Any]:
    """One tree, each branch of which has a leaf on its left and the next branch on its right."""
    feature = np.array([0, -1] * levels + [-1], dtype=np.int16)
    right = np.array([place + 2 if place % 2 == 0 else 0 for place in range(2 * levels)] + [0], dtype=np.int32)
    return feature, np.zeros(len(feature), dtype=np.float32), right


def test_a_tree_that_would_overflow_the_stack_is_refused(forged: Forged) -> None:
    feature, number, right = chain(15_000)
    forged.arrays(**{"1/feature": feature, "1/number": number, "1/right": right, "1/roots": np.zeros(1, np.int32)})
    with pytest.raises(BadBundle, match="a tree must have at most 1000 levels"):
        read_bundle(forged.path())


def test_a_tree_of_as_many_levels_as_allowed_predicts(forged: Forged) -> None:
    feature, number, right = chain(MOST_LEVELS - 1)
    twice = {"1/feature": np.tile(feature, 2), "1/number": np.tile(number, 2), "1/right": np.tile(right, 2)}
    forged.arrays(**twice, **{"1/roots": np.array([0, len(feature)], np.int32)})
    assert medn.load(forged.path()).predict(ASKED, "linear").latency_s[0] > 0


def test_a_tree_that_is_too_deep_is_not_even_made() -> None:
    with pytest.raises(ValueError, match="at most 1000 levels"):
        Trees.from_trees([chain(MOST_LEVELS)], 0.0, 1)


def test_a_node_of_two_branches_is_refused() -> None:
    """Every walk ends, but other engines would go through it again and again."""
    shared = Trees(
        np.array([0, 0, -1, -1], np.int16),
        np.zeros(4, np.float32),
        np.array([2, 3, 0, 0], np.int32),
        np.zeros(1, np.int32),
        0.0,
        1,
    )
    with pytest.raises(ValueError, match="lead astray"):
        restore(shared.parts(), 1)


WRONG_FACTS: dict[str, tuple[Callable[[Json], object], str]] = {
    "waves after dense": (
        lambda manifest: form_of(manifest, "network")["facts"]["steps"].append(["waves", []]),
        "no step 'waves'",
    ),
    "unknown step": (lambda manifest: form_of(manifest, "network")["facts"]["steps"].append(["x", []]), "no step 'x'"),
    "bounds": (lambda manifest: form_of(manifest, "network")["facts"].update(bounds=[3, -30]), "bounds of a network"),
    "huge constant": (lambda manifest: facts_of(manifest)["constants"].update(threads=HUGE), "a constant of threads"),
    "huge bound": (lambda manifest: form_of(manifest, "affine")["facts"].update(constant_s=HUGE), "constant of a sum"),
    "no floor": (lambda manifest: form_of(manifest, "affine")["facts"].update(floor_s=0), "least value of a sum"),
    "true for a number": (lambda manifest: form_of(manifest, "trees")["facts"].update(base=True), "base of trees"),
    "huge weights": (lambda manifest: facts_of(manifest)["form"]["facts"].update(weights=[HUGE, 0, 0]), "weights"),
    "wide interval": (lambda manifest: facts_of(manifest)["interval"].update(quantile=1e90), "must not reach farther"),
    "huge quantile": (lambda manifest: facts_of(manifest)["interval"].update(quantile=HUGE), "quantile"),
    "true quantile": (lambda manifest: facts_of(manifest)["interval"].update(quantile=True), "quantile"),
    "text weights": (lambda manifest: facts_of(manifest)["interval"]["spread"].update(weights="abcd"), "spread"),
    "range upside down": (
        lambda manifest: facts_of(manifest)["range"]["low"].__setitem__(0, 1e90),
        "must end at or above",
    ),
    "huge range": (lambda manifest: facts_of(manifest)["range"]["high"].__setitem__(0, HUGE), "too large"),
    "long name": (lambda manifest: manifest.update(name="x" * 10_000), "must be a string of 1 to 200 letters"),
    "control characters": (lambda manifest: manifest.update(name="a\x1b[2Jb"), "must be a string of 1 to 200 letters"),
    "usual": (
        lambda manifest: manifest["entries"][1]["usual"].update(load_average=HUGE),
        "the usual value of load_average",
    ),
    "long usual": (lambda manifest: manifest["entries"][1]["usual"].update(dtype="x" * 2000), "at most 1000 letters"),
    "levels": (lambda manifest: nest(facts_of(manifest)), "levels deep"),
}


def nest(facts: Json) -> None:
    facts["form"] = {"form": "constant", "facts": {"log_value": 0}, "arrays": [], "inner": []}
    for _ in range(20):
        facts["form"] = {"form": "weighted_sum", "facts": {"weights": [1]}, "arrays": [], "inner": [facts["form"]]}


@pytest.mark.parametrize("what", WRONG_FACTS)
def test_wrong_facts_are_refused_while_reading(what: str, forged: Forged) -> None:
    change, words = WRONG_FACTS[what]
    change(forged.manifest)
    with pytest.raises(BadBundle, match=words) as caught:
        read_bundle(forged.path())
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


WRONG_ARRAYS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "encoding unit": ("2/encoding_unit", lambda array: 0 * array, "units of an encoding"),
    "encoding centre": ("2/encoding_centre", lambda array: array[:-1], "centres of an encoding"),
    "encoding factor": ("2/encoding_factor", lambda array: array * 1e300, "factors of an encoding"),
    "encoding columns": ("2/encoding_numeric", lambda array: -array, "columns of an encoding"),
    "encoding shape": ("2/encoding_factor", lambda array: array[None], "factors of an encoding"),
    "network weight": ("2/0.weight", lambda array: array.T, "weight of a dense step"),
    "network bias": ("2/0.bias", lambda array: array[:, None], "bias of a dense step"),
    "network end": ("2/2.bias", lambda array: np.tile(array, 2), "weight of a dense step"),
    "network of whole numbers": ("2/0.bias", lambda array: array.astype(np.int32), "bias of a dense step"),
    "tree numbers": ("1/number", lambda array: array.astype(np.int64), "numbers of trees"),
    "tree roots": ("1/roots", lambda array: array[:, None], "roots of trees"),
    "tree features": ("1/feature", lambda array: array.astype(np.uint16), "features of trees"),
    "sum columns": ("0/columns", lambda array: array - 5, "columns of a sum"),
    "sum weights": ("0/weights", lambda array: np.tile(array, 2), "weights of a sum"),
    "range": ("range.shift", lambda array: array[:-1], "middle numbers of a range"),
    "range centres": ("range.centres", lambda array: array[:0], "has seen nothing"),
}


@pytest.mark.parametrize("what", WRONG_ARRAYS)
def test_arrays_that_do_not_fit_are_refused_while_reading(what: str, forged: Forged) -> None:
    name, change, words = WRONG_ARRAYS[what]
    with pytest.raises(BadBundle, match=words):
        read_bundle(forged.arrays(**{name: change}).path())


@pytest.fixture(scope="module")
def roofline_bundle(made_up_bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the roofline of a training beside the form."""
    from medn.choosing.bundling import bundle_run
    from medn.training.candidate_store import load_candidates
    from medn.training.train_run import best_candidates, train_run

    run_folder: Path = made_up_bundle.write_run(tmp_path_factory.mktemp("roofline") / "run")
    train_run(run_folder, seconds=4.0, families=["roofline"])
    return bundle_run(run_folder, best_candidates(load_candidates(run_folder / "candidates")))


@pytest.mark.parametrize(
    ("array", "change", "words"),
    [
        ("peak", lambda array: array[:, :1], "peaks of a roofline"),
        ("overhead", lambda array: array[:0], "needs a device"),
        ("offset", lambda array: np.tile(array, 2), "offsets of a roofline"),
        ("weights", lambda array: array[:-1], "weights of a roofline"),
        ("bounds", lambda array: array[:, :-1], "bounds of a roofline"),
        ("bounds", lambda array: array.T, "bounds of a roofline"),
    ],
)
def test_a_roofline_of_other_shapes_is_refused(
    array: str, change: Callable[[Any], Any], words: str, roofline_bundle: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadBundle, match=words):
        read_bundle(Forged(roofline_bundle, tmp_path / "x.medn").arrays(**{array: change}).path())


@pytest.mark.parametrize("contention", [1.0, 2, HUGE, "x", None])
def test_a_roofline_that_never_answers_is_refused(contention: Any, roofline_bundle: Path, tmp_path: Path) -> None:
    forged = Forged(roofline_bundle, tmp_path / "x.medn")
    facts_of(forged.manifest)["form"]["facts"]["contention"] = contention
    with pytest.raises(BadBundle, match="contention"):
        read_bundle(forged.path())


def test_a_number_that_is_learned_from_a_text_is_refused(forged: Forged) -> None:
    schema = facts_of(forged.manifest)["schema"]
    del forged.manifest["entries"][1]["usual"]["dtype"]
    schema["names"][schema["names"].index("in_features")] = "dtype"
    with pytest.raises(MednError, match="takes dtype of linear as a number"):
        medn.load(forged.path())


def test_a_bundle_that_predicts_no_number_says_so(forged: Forged) -> None:
    form_of(forged.manifest, "affine")["facts"]["constant_s"] = 1e90
    facts_of(forged.manifest)["form"]["facts"]["weights"] = [1e5, 0, 0]
    with pytest.raises(UsageError, match="linear: the bundle predicts no finite"):
        medn.load(forged.path()).layer("linear", **ASKED)


# Files that are none.


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.medn")
    with pytest.raises(UsageError, match="it is no regular file"):
        medn.load(tmp_path / "x.medn")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
@pytest.mark.parametrize("linked", [False, True])
def test_a_device_is_refused_at_once(linked: bool, tmp_path: Path) -> None:
    path = Path("/dev/zero")
    if linked:
        (tmp_path / "x.medn").symlink_to(path)
        path = tmp_path / "x.medn"
    with pytest.raises(UsageError, match="it is no regular file"):
        medn.load(path)


def test_a_manifest_of_nothing_but_brackets_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.medn"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MANIFEST, b'{"format":"medn bundle","x":[' + b"[]," * 1_000_000 + b"0]}")
    with pytest.raises(BadBundle, match="lists and objects"):
        read_archive(path)


def test_reading_a_hostile_manifest_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.medn"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MANIFEST, b'{"format":"medn bundle","x":[' + b"1.5," * 8_000_000 + b"0]}")
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from medn.bundle.archive import read_archive, BadBundle\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: read_archive(Path(sys.argv[1]))\n"
        "except BadBundle as error: print(error)\n"
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "larger than" in done.stdout


def test_a_list_of_millions_of_parts_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.medn"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(60_000):
            archive.writestr(str(number), b"")
    with pytest.raises(BadBundle, match="more than the 4096 parts"):
        read_archive(path)


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.medn"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, bytes(100_000_000))
    with pytest.raises(BadBundle, match="compressed"):
        read_archive(path)


def test_a_predictor_loaded_by_a_relative_path_is_sent_anywhere(
    bundle_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bundle_path.parent)
    predictor = medn.load(bundle_path.name)
    pickled = pickle.dumps(predictor)
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(pickled).layer("linear", **ASKED) == predictor.layer("linear", **ASKED)


def test_texts_of_a_bundle_are_shown_without_what_a_terminal_obeys(
    forged: Forged, capsys: pytest.CaptureFixture[str]
) -> None:
    facts_of(forged.manifest)["constants"]["dtype"] = "fp32\x1b[2J\x9b\u202e" + "x" * 500
    path = forged.path()
    for command in (["inspect", str(path), "linear"], ["inspect", str(path), "--json"]):
        assert run(command) == 0
        told = capsys.readouterr()
        shown = told.out + told.err
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
    assert json.loads(told.out)["entries"][1]["constants"]["dtype"].startswith("fp32\x1b[2J")


def test_a_long_text_is_shown_shortened(forged: Forged, capsys: pytest.CaptureFixture[str]) -> None:
    facts_of(forged.manifest)["constants"]["dtype"] = "x" * 900
    assert run(["inspect", str(forged.path()), "linear"]) == 0
    assert "x" * 200 not in capsys.readouterr().out.replace("\n", "").replace(" ", "")
