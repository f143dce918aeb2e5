"""Files and folders that are given in place of another: what they are, and what to do with them."""

from __future__ import annotations

from pathlib import Path

TORCH = (".pt", ".pth", ".pt2", ".ckpt", ".bin", ".safetensors", ".pkl")
OTHER_MODELS = (".tflite", ".pb", ".h5", ".keras", ".mlmodel", ".mlpackage", ".xml", ".engine", ".plan", ".mnn")
TABLES = (".csv", ".tsv", ".parquet", ".feather", ".gz")
MOST_NAMED = 3


def told_instead(path: Path) -> str:
    """A sentence about a path that is not what was asked for, to append; empty where there is nothing to say.

    >>> told_instead(Path("nets.py"))
    '. It is code: python:nets:FUNCTION names a function in it that makes a model'
    """
    try:
        said = _folder(path) if path.is_dir() else _file(path)
    except OSError:
        return ""
    return f". It is {said}" if said else ""


def is_run(path: Path) -> bool:
    from medn.core.store import JOURNAL_NAME

    return (path / JOURNAL_NAME).is_file()


def _folder(path: Path) -> str:
    bundles = sorted(map(str, path.glob("*.medn")))
    if is_run(path):
        return f"a run folder; {_its_bundle(path, bundles)}"
    runs = sorted(str(each) for each in path.iterdir() if is_run(each))
    if runs:
        return f"a folder of runs: {_few(runs)}"
    return f"a folder; in it: {_few(bundles)}" if bundles else "a folder"


def _its_bundle(path: Path, bundles: list[str]) -> str:
    return f"its bundle is {_few(bundles)}" if bundles else f"it has no bundle yet: medn train and medn select {path}"


def _file(path: Path) -> str:
    ending = path.suffix.lower()
    if ending == ".medn":
        run = f", and its run is {path.parent}" if is_run(path.parent) else ""
        return f"a bundle: medn inspect {path} shows what is in it{run}"
    if ending in (".yaml", ".yml"):
        return f"a config: medn sweep {path} measures what it describes"
    if ending == ".onnx":
        return f"a model: medn predict BUNDLE {path} says what it costs, medn sweep --for {path} measures its layers"
    if ending == ".py":
        return f"code: python:{path.stem}:FUNCTION names a function in it that makes a model"
    if ending in TORCH:
        return (
            "a file of weights or of pickled code, and medn runs none: name the code that makes the model, "
            "python:MODULE:FUNCTION, or export it with torch.onnx.export"
        )
    if ending in OTHER_MODELS:
        return "a model of another format: export it to ONNX"
    return f"a table: medn import {path} --run RUN takes it in" if ending in TABLES else ""


def _few(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
