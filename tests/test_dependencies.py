"""Dependencies point one way, and heavy libraries are imported only inside the functions that need them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("medn", "layer_generators", "regressors", "selection")

MAY_IMPORT: dict[str, set[str]] = {
    "checkout": set(),
    "program": set(),
    "core": {"program"},
    "layer_generators": {"program", "core"},
    "selection": {"core"},
    "network": {"core"},
    "regressors": {"program", "core", "network"},
    "devices": {"core", "layer_generators"},
    "remote": {"core", "layer_generators", "devices"},
    "deployed": {"program", "core", "regressors"},
    "bundle": {"core", "layer_generators", "regressors", "deployed"},
    "estimator": {"program", "core", "layer_generators", "regressors", "deployed", "bundle"},
    "runs": {"core", "layer_generators"},
    "importing": {"core", "layer_generators", "runs"},
    "merging": {"core", "runs"},
    "benchmark_tools": {"core", "layer_generators", "devices", "runs", "importing"},
    "measuring": {"core", "layer_generators", "devices", "remote", "runs"},
    "sources": {"core", "layer_generators", "regressors", "deployed", "bundle", "runs"},
    "training": {"core", "layer_generators", "selection", "regressors", "deployed", "runs", "sources"},
    "adaptive": {"core", "layer_generators", "regressors", "runs", "measuring"},
    "choosing": {
        *("core", "layer_generators", "selection", "regressors", "devices", "deployed", "bundle", "runs", "sources"),
        "training",
    },
    "transfer": {
        *("core", "layer_generators", "selection", "regressors", "deployed", "bundle", "estimator", "runs", "sources"),
        *("training", "adaptive", "choosing"),
    },
    "capture": {"core", "layer_generators", "devices"},
    "fusion": {"core", "layer_generators", "devices", "capture"},
    "model": {"core", "layer_generators", "devices", "estimator", "capture", "fusion"},
    "blocks": {"core", "devices", "bundle", "estimator", "runs", "capture", "model"},
    "predictor": {"core", "bundle", "estimator", "capture", "model"},
    "programs": {
        *(
            "core",
            "layer_generators",
            "selection",
            "network",
            "regressors",
            "devices",
            "deployed",
            "bundle",
            "choosing",
        ),
        "capture",
    },
    "drift": {"core", "layer_generators", "devices", "estimator", "runs", "measuring", "predictor"},
    "partition": {"core", "capture"},
    "recommending": {"core", "devices", "capture", "model", "predictor"},
    "integrations": {"core", "devices", "capture", "model", "predictor", "partition"},
    "exporting": {"program", "core", "layer_generators", "estimator", "capture", "model"},
    "serving": {"core", "layer_generators", "estimator", "capture", "predictor"},
    "benches": {"program", "core", "layer_generators", "devices", "estimator", "runs", "measuring", "predictor"},
    "quickstart": {
        *("core", "layer_generators", "devices", "estimator", "runs", "measuring", "capture", "model", "predictor")
    },
    "report": {
        *("core", "layer_generators", "deployed", "estimator", "runs", "training", "adaptive", "choosing", "capture"),
        *("model", "predictor", "drift"),
    },
    "sklearn": {
        *(
            "core",
            "layer_generators",
            "selection",
            "network",
            "regressors",
            "deployed",
            "runs",
            "importing",
            "training",
        ),
        *("choosing", "predictor"),
    },
    "api": {
        *("core", "layer_generators", "selection", "devices", "runs", "measuring", "training", "choosing", "capture"),
        *("transfer", "model", "blocks", "predictor", "drift"),
    },
    "medn": {
        *("checkout", "core", "estimator", "choosing", "capture", "fusion", "model", "predictor", "partition", "api")
    },
    "__main__": {"cli"},
}
"""What each part may import of medn beside itself, the lower parts first: a part never imports one that stands below
it here, so there is no cycle. The command line, which nobody imports, may import all."""

HEAVY = {
    *("torch", "pandas", "sklearn", "scipy", "pyarrow", "matplotlib", "onnx", "onnxruntime", "openvino", "MNN"),
    *("lightgbm", "xgboost", "catboost", "optuna", "distributed", "dask", "dask_jobqueue", "tvm"),
}
HEAVY_PARTS = {"network", "regressors", "capture", "sklearn"}
"""Parts in which the top of a module may import a heavy library."""
HEAVY_FILES = {
    "medn/quickstart/networks.py",
    *(f"medn/programs/{name}.py" for name in ("network", "losses", "training")),
}
"""Files that may too: they are nothing but torch modules and how they learn."""


def part_of(module: list[str]) -> str:
    """The part a module belongs to: `core` for medn.core.values, `runs` for medn.runs, `medn` for itself."""
    return module[1] if len(module) > 1 else module[0]


def module_of(path: Path, root: Path) -> list[str]:
    parts = list(path.relative_to(root).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return parts if parts[0] == "medn" else ["medn", *parts]


def imported(node: ast.stmt) -> list[list[str]]:
    """The modules an import names; `from medn import core` names medn.core."""
    if isinstance(node, ast.Import):
        return [alias.name.split(".") for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = (node.module or "").split(".")
        return [[*base, alias.name] if base == ["medn"] else base for alias in node.names]
    return []


def top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that run when the module is imported: not those inside functions or under TYPE_CHECKING."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting += node.orelse
            continue
        if isinstance(node, ast.stmt):
            yield node
        waiting += ast.iter_child_nodes(node)


def wrong_imports(path: Path, root: Path) -> list[str]:
    """Every import of a file that points the wrong way or is too heavy for where it stands."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    part = part_of(module_of(path, root))
    may_import = {*MAY_IMPORT.get(part, ()), part, "__version__"}
    name = path.relative_to(root).as_posix()
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            wrong.append(f"{name}:{node.lineno} imports relatively")
            continue
        for target in imported(node) if isinstance(node, ast.stmt) else []:
            if target[0] in ("experiments", "tests", *FOLDERS[1:]):
                wrong.append(f"{name}:{node.lineno} imports {target[0]}")
            elif part != "cli" and target[0] == "medn" and target[1:] and target[1] not in may_import:
                wrong.append(f"{name}:{node.lineno} {part} imports {'.'.join(target)}")
    if part not in HEAVY_PARTS and name not in HEAVY_FILES:
        for node in top_level(tree):
            wrong += [f"{name}:{node.lineno} imports {to[0]} at its top" for to in imported(node) if to[0] in HEAVY]
    return wrong


def test_every_import_points_the_right_way() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert [mistake for path in files for mistake in wrong_imports(path, ROOT)] == []


def test_every_part_says_what_it_may_import() -> None:
    parts = {part_of(module_of(path, ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert set(MAY_IMPORT) == parts - {"cli"}


def test_parts_import_only_parts_that_stand_before_them() -> None:
    parts = list(MAY_IMPORT)
    before = {part: set(parts[:place]) for place, part in enumerate(parts)}
    assert {part: MAY_IMPORT[part] - before[part] for part in parts if part != "__main__"} == {
        part: set() for part in parts if part != "__main__"
    }


@pytest.mark.parametrize(
    ("file", "code", "mistake"),
    [
        ("medn/core/values.py", "import medn.devices.backend", "core imports medn.devices.backend"),
        ("medn/core/values.py", "from medn import training", "core imports medn.training"),
        (
            "layer_generators/kind.py",
            "from medn.regressors.tree import x",
            "layer_generators imports medn.regressors.tree",
        ),
        (
            "layer_generators/kind.py",
            "def f():\n    from medn.devices import x",
            "layer_generators imports medn.devices",
        ),
        ("selection/front.py", "import medn.layer_generators", "selection imports medn.layer_generators"),
        ("medn/devices/worker.py", "import medn.cli.main", "devices imports medn.cli.main"),
        ("medn/measuring/sweep.py", "import medn.cli.main", "measuring imports medn.cli.main"),
        ("medn/measuring/sweep.py", "import experiments.table", "imports experiments"),
        ("medn/measuring/sweep.py", "from selection import front", "imports selection"),
        ("medn/core/values.py", "from . import errors", "imports relatively"),
        ("medn/core/values.py", "try:\n    import torch.nn\nexcept ImportError:\n    pass", "imports torch at its top"),
        ("medn/cli/doctor.py", "class A:\n    from scipy import stats", "imports scipy at its top"),
    ],
)
def test_an_import_is_refused(file: str, code: str, mistake: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(code)
    (found,) = wrong_imports(path, tmp_path)
    assert found.endswith(mistake)


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("medn/core/values.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
        ("medn/core/values.py", "def f():\n    import torch"),
        ("medn/devices/worker.py", "from medn.layer_generators.kind import layer_kinds"),
        ("medn/measuring/sweep.py", "import medn.devices.worker\nimport medn.layer_generators.plan"),
        ("medn/cli/main.py", "import medn.cli.doctor\nfrom medn import __version__"),
    ],
)
def test_an_import_is_allowed(file: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(code)
    assert wrong_imports(path, tmp_path) == []
