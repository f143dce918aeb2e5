"""The layers that a sweep config lists itself, each with conditions of its own where it says some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from medn.core.conditions import with_dtypes
from medn.core.config import Mistake
from medn.core.errors import ConfigError
from medn.core.text import shown
from medn.layer_generators.conditions_config import read_domain
from medn.layer_generators.space import ListedLayer, Space

LISTED = "listed"
"""The key of the list below a kind, and the sampler that draws it."""


def read_listed(space: Space, written: object, dtypes: Iterable[str]) -> tuple[tuple[ListedLayer, ...], list[Mistake]]:
    """The layers of a list, and everything that is wrong with it, by path below the list."""
    if not isinstance(written, list):
        return (), [((), f"must be a list of layers, as in [{{in_features: 64, ...}}] (got {shown(written)})")]
    listed: list[ListedLayer] = []
    mistakes: list[Mistake] = []
    for index, entry in enumerate(written):
        found, wrong = _read_entry(space, entry, dtypes)
        listed += [found] if found else []
        mistakes += [((index, *path), sentence) for path, sentence in wrong]
    return tuple(listed), mistakes


def _read_entry(space: Space, entry: object, dtypes: Iterable[str]) -> tuple[ListedLayer | None, list[Mistake]]:
    if not isinstance(entry, Mapping) or not all(isinstance(name, str) for name in entry):
        return None, [((), f"must be a mapping of parameters to values (got {shown(entry)})")]
    table = with_dtypes(dtypes)
    conditions, mistakes = {}, list[Mistake]()
    for name in (name for name in entry if name in table):
        conditions[name], wrong = read_domain(entry[name], table[name].mistake)
        mistakes += [((name, *path), sentence) for path, sentence in wrong]
    values = {name: value for name, value in entry.items() if name not in table}
    try:
        layer = space.kind.layer(**values)
    except ConfigError as error:
        return None, [*mistakes, *(((), mistake) for mistake in error.mistakes)]
    _, outside = space.layer(values)
    mistakes += [((), outside)] if outside else []
    return (None if mistakes else ListedLayer(layer, conditions)), mistakes
