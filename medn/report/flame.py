"""A flame graph of a model: a bar for each module, as wide as its share of the time, its parts below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from markupsafe import Markup

from medn.core.units import format_latency, percent
from medn.model.prediction import LayerRow, ModelPrediction
from medn.report.drawing import CYCLE, Picture

WIDTH = 1000.0
HEIGHT = 20.0
LETTER = 6.2
"""Sizes in units of the drawing; a letter is about so wide."""

LEGENDS_PER_LINE = 5

BAR = Markup(
    '<g><rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:.1f}" fill="{}" fill-opacity="{}"><title>{}</title></rect>'
    '<text x="{:.2f}" y="{:.1f}" fill="currentColor" pointer-events="none">{}</text></g>'
)


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


def flame(model: ModelPrediction) -> Picture:
    root, colours = module_tree(model), _colours(model)
    bars = [*_bars(root, 0.0, 0, WIDTH / max(root.latency_s, 1e-30), colours)]
    legend_lines = -(-len(colours) // LEGENDS_PER_LINE)
    height = (root.depth + 1 + legend_lines) * HEIGHT
    svg = Markup('<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}" font-size="11">{}</svg>').format(
        WIDTH,
        height,
        f"The time of {root.count} layers by module",
        Markup("").join([*bars, *_legend(colours, (root.depth + 0.5) * HEIGHT)]),
    )
    caption = (
        "Each bar is a module, as wide as its share of the time; below it are its parts, in the order in which they "
        "first run. Operators have the colour of their layer kind; where the bundle predicts none, they are pale and "
        "the time is an estimate. Point at a bar for its numbers."
    )
    return Picture("Time by module", caption, svg)


def _colours(model: ModelPrediction) -> dict[str, str]:
    """A colour for each of the kinds that take longest; what is left has the last colour."""
    seconds: dict[str, float] = {}
    for row in model.rows:
        seconds[_kind_or_operator(row)] = seconds.get(_kind_or_operator(row), 0.0) + row.latency_s
    ranked = sorted(seconds, key=lambda name: -seconds[name])
    return {name: CYCLE[min(rank, len(CYCLE) - 1)] for rank, name in enumerate(ranked)}


def _kind_or_operator(row: LayerRow) -> str:
    return row.kind or row.operator


def _bars(node: ModuleTime, left: float, level: int, scale: float, colours: Mapping[str, str]) -> Iterator[Markup]:
    width = node.latency_s * scale
    colour, opacity = "currentColor", 0.08
    title = f"{node.path or node.name}: {format_latency(node.latency_s)}, {percent(width / WIDTH)}, {node.count} layers"
    if node.row is not None:
        colour, opacity = colours[_kind_or_operator(node.row)], 0.55 if node.row.known else 0.2
        title += f", {_kind_or_operator(node.row)}" + ("" if node.row.known else ", estimated")
    # A bar too narrow for its name still has it in its title.
    label = node.name if len(node.name) * LETTER < width - 6 else ""
    yield BAR.format(
        left,
        level * HEIGHT,
        max(width - 1, 0.3),
        HEIGHT - 2,
        colour,
        opacity,
        title,
        left + 4,
        (level + 0.7) * HEIGHT,
        label,
    )
    for part in node.parts.values():
        yield from _bars(part, left, level + 1, scale, colours)
        left += part.latency_s * scale


def _legend(colours: Mapping[str, str], top: float) -> Iterator[Markup]:
    for number, (name, colour) in enumerate(colours.items()):
        left = number % LEGENDS_PER_LINE * WIDTH / LEGENDS_PER_LINE
        line = top + number // LEGENDS_PER_LINE * HEIGHT
        yield BAR.format(left, line, 12, 12, colour, 0.55, name, left + 18, line + 10, name)
