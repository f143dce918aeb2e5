"""A flame graph of a model: a bar for each module, as wide as its share of the time, its parts below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from medn.core.units import format_latency, percent
from medn.model.prediction import LayerRow, ModelPrediction
from medn.report.plots import COLORS, Axis, Mark, Plot, mark

HEIGHT = 22
"""Pixels of a bar."""

MODULE, OTHERS = "module", "others"
"""What bars are of that have no colour of their own."""


@dataclass
class ModuleTime:
    """The time of a module, or of one operator in it."""

    name: str
    path: str
    latency_s: float = 0.0
    count: int = 0
    row: LayerRow | None = None
    """Of an operator: its first call."""
    parts: dict[str, ModuleTime] = field(default_factory=dict)

    def part(self, name: str) -> ModuleTime:
        return self.parts.setdefault(name, ModuleTime(name, f"{self.path}.{name}" if self.path else name))

    @property
    def depth(self) -> int:
        return 1 + max((part.depth for part in self.parts.values()), default=0)

    @property
    def what(self) -> str:
        """The kind of an operator, or its name; `module` of all others."""
        return MODULE if self.row is None else self.row.kind or self.row.operator


@dataclass(frozen=True)
class Bar:
    node: ModuleTime
    level: int
    start_s: float


def module_tree(model: ModelPrediction) -> ModuleTime:
    """The modules of a model by their paths, those that begin first coming first."""
    root = ModuleTime("model", "")
    for row in model.rows:
        nodes = [root]
        for name in filter(None, row.name.replace("/", ".").split(".")):
            nodes.append(nodes[-1].part(name))
        nodes.append(nodes[-1].part(f"({row.operator})"))
        nodes[-1].row = nodes[-1].row or row
        for node in nodes:
            node.latency_s += row.latency_s
            node.count += 1
    return root


def flame(model: ModelPrediction) -> Plot:
    root = module_tree(model)
    bars = list(_bars(root, 0, 0.0))
    named = _longest(model)
    by_what: dict[str, list[Bar]] = {MODULE: [], **{name: [] for name in named}, OTHERS: []}
    for bar in bars:
        by_what[bar.node.what if bar.node.what in by_what else OTHERS].append(bar)
    colors = {MODULE: "quiet", **dict(zip(named, COLORS, strict=False)), OTHERS: COLORS[-1]}
    marks = [_rects(own, root, what, colors[what]) for what, own in by_what.items() if own]
    ends = [bar.start_s + bar.node.latency_s for bar in bars]
    starts, levels = [bar.start_s for bar in bars], [bar.level + 0.5 for bar in bars]
    names = mark("labels", x1=starts, x2=ends, y=levels, text=[bar.node.name for bar in bars], fill="ink")
    caption = (
        "Each bar is a module, as wide as its share of the time; below it are its parts, in the order in which they "
        "first run. Operators have the colour of their layer kind; where the bundle predicts none, they are pale and "
        "the time is an estimate. Drag over a part to see it larger."
    )
    return Plot(
        "Time by module",
        caption,
        Axis("", "linear", "latency", (0.0, root.latency_s)),
        Axis("", "linear", "none", (float(root.depth), 0.0)),
        [*marks, names],
        height=62 + HEIGHT * root.depth,
    )


def _rects(bars: list[Bar], root: ModuleTime, what: str, color: str) -> Mark:
    """All bars of one kind, or those of all modules."""
    is_module = what == MODULE
    opacity = [0.12 if is_module else 0.6 if bar.node.row and bar.node.row.known else 0.25 for bar in bars]
    return mark(
        "rect",
        "" if is_module else what,
        x1=[bar.start_s for bar in bars],
        x2=[bar.start_s + bar.node.latency_s for bar in bars],
        y1=[bar.level for bar in bars],
        y2=[bar.level + 1 for bar in bars],
        fill=color,
        fillOpacity=opacity,
        inset=0.5,
        title=[_title(bar.node, root) for bar in bars],
        tip=True,
    )


def _title(node: ModuleTime, root: ModuleTime) -> str:
    share = percent(node.latency_s / max(root.latency_s, 1e-30))
    told = f"{node.path or node.name}\n{format_latency(node.latency_s)}, {share}, {node.count} layers"
    if node.row is None:
        return told
    return f"{told}\n{node.what}" + ("" if node.row.known else ", estimated")


def _longest(model: ModelPrediction) -> list[str]:
    """The kinds, or operators of none, that take longest, as many as have a colour of their own."""
    seconds: dict[str, float] = {}
    for row in model.rows:
        what = row.kind or row.operator
        seconds[what] = seconds.get(what, 0.0) + row.latency_s
    ranked = sorted(seconds, key=lambda name: -seconds[name])
    return ranked if len(ranked) <= len(COLORS) else ranked[: len(COLORS) - 1]


def _bars(node: ModuleTime, level: int, start_s: float) -> Iterator[Bar]:
    yield Bar(node, level, start_s)
    for part in node.parts.values():
        yield from _bars(part, level + 1, start_s)
        start_s += part.latency_s
