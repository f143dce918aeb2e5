"""The public tables, each of them imported into a run by the mappings that are shipped with medn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from experiments.public.prepare import prepared
from medn.core.atomic import atomic_path
from medn.core.errors import NothingMeasured, UsageError, unknown
from medn.core.splits import Split, SplitRows
from medn.core.table import Table
from medn.importing.import_table import import_table
from medn.importing.mapping import load_mapping
from medn.runs.folder import RunFolder
from medn.runs.tables import read_source
from medn.training.prepared import prepare

MAPPINGS = Path(__file__).resolve().parents[1] / "imports"
NEUSIGHT = "NeuSight paper, GPUs seen in training"
MIOPEN = "quoted with the data: 60 s of one core, a random 80/20 of the rows, not of the layers"


@dataclass(frozen=True)
class Published:
    """A number that others report for the same rows and, where they say it, the same split."""

    who: str
    mape: float
    source: str
    kind: str = ""
    """Of the table's kinds, where it has several."""


@dataclass(frozen=True)
class PublicTable:
    name: str
    file: str
    """As it is, or as `experiments.public.prepare` writes it."""
    mappings: tuple[str, ...]
    about: str
    time: str
    """What `medn train` gets."""
    pool: bool = True
    published: tuple[Published, ...] = field(default=())

    @property
    def split(self) -> Split:
        return Split("pooled" if self.pool else "random")


@dataclass(frozen=True, eq=False)
class Task:
    """The rows and inputs of one kind of a public table, split by layer as `medn train` splits them."""

    name: str
    about: str
    table: Table
    parts: SplitRows


def _neusight(name: str, kind: str, mape: float, time: str, *mappings: str) -> PublicTable:
    about = "learned from random shapes, tested on shapes of real models, as the authors split them"
    files = tuple(f"neusight_{mapping}.yaml" for mapping in mappings or (name,))
    published = (Published("NeuSight", mape, NEUSIGHT, kind),)
    return PublicTable(f"neusight-{name}", "neusight_ops.csv.gz", files, about, time, published=published)


def _vidur(name: str, end: str, about: str, time: str, published: tuple[Published, ...] = ()) -> PublicTable:
    files = tuple(f"vidur_{mapping}{end}.yaml" for mapping in ("projections", "norms", "token_ops"))
    return PublicTable(name, "vidur_sizes.csv", files, about, time, published=published)


TABLES = {
    table.name: table
    for table in (
        PublicTable(
            "cde",
            "cde_conv2d.csv",
            ("cde_conv2d_pooled.yaml",),
            "convolutions in TensorFlow 1 on six GPUs, forward or with training, batch below 33",
            "20m",
            published=(
                Published("authors' network", 0.109, "Justus et al., all GPUs, batch below 33"),
                Published(
                    "LightGBM, 2,500 trees of 255 leaves",
                    0.0806,
                    "quoted with the data, random rows, inputs not stated",
                ),
            ),
        ),
        PublicTable(
            "miopen",
            "miopen_conv_fwd.csv.gz",
            ("miopen_conv2d.yaml",),
            "the fastest algorithm of each convolution on one AMD GPU, fp32, NCHW",
            "5m",
            pool=False,
            published=(
                Published("AutoGluon", 0.0662, MIOPEN),
                Published("FLAML", 0.0652, MIOPEN),
                Published("mljar", 0.0524, MIOPEN),
                Published("tuned LightGBM", 0.0504, MIOPEN),
            ),
        ),
        _neusight("bmm", "matmul", 0.260, "5m", "matmul"),
        _neusight("linear", "linear", 0.200, "3m"),
        _neusight("elementwise", "elementwise", 0.140, "4m", "binary", "unary"),
        _neusight("softmax", "softmax", 0.193, "90s"),
        _neusight("layer_norm", "layer_norm", 0.201, "90s"),
        _vidur(
            "vidur",
            "",
            "operations of language models on three GPUs, token counts held out",
            "10m",
            (Published("Vidur's forest per operation, 5 folds", 0.023, "re-run of the authors' estimator"),),
        ),
        _vidur("vidur-outside", "_outside", "the same, learned up to 2,048 tokens, tested up to 4,096", "7m"),
    )
}


def find_table(name: str) -> PublicTable:
    if name not in TABLES:
        raise UsageError(unknown("public table", name, TABLES))
    return TABLES[name]


def run_of(table: PublicTable, data: Path, out: Path) -> Path:
    """The run that holds the table, imported if it is not there yet: all of its mappings, or nothing."""
    run = out / table.name
    if run.is_dir():
        return run
    file = prepared(table.file, data, out)
    with atomic_path(run) as beside:
        for mapping in table.mappings:
            import_table(file, load_mapping(MAPPINGS / mapping), RunFolder(beside))
    return run


def tasks_of(table: PublicTable, data: Path, out: Path, seed: int = 0) -> list[Task]:
    """What `medn train` would learn from, one task for each kind and device, or for all devices together."""
    source = read_source(run_of(table, data, out))
    prepared, refused = prepare(source, sorted(source.rows), table.split, seed, without_unstable=False)
    if refused:
        raise NothingMeasured("; ".join(f"{each.kind} on {each.device}: {each.reason}" for each in refused))
    return [
        Task(f"{table.name} {kind}", f"{table.about}, {device}", each.source.table, each.rows)
        for device, kinds in prepared.items()
        for kind, each in kinds.items()
    ]
