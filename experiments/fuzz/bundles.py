"""Damaged and forged bundles: each is refused in one sentence while it is read, or predicts.

    python -m experiments.fuzz.bundles BUNDLE... [--count 20000] [--seed 0]

Every input is one entry of a bundle with a fact or two of the manifest or an array exchanged, and hashes that vouch for
them; one in ten has bytes exchanged anywhere. What is read is then asked in every way: layers, tables, staircases,
gradients, what it says of itself. Inputs run in a process of their own, so that a crash or a hang is found too; the
exit code is 1 if there is any finding.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.fuzz.harness import Draw, instrumented, isolated
from experiments.fuzz.mutations import Arrays, Json, mutate_arrays, mutate_facts

with instrumented():
    import safetensors.numpy

    from medn.bundle.archive import read_archive, write_archive
    from medn.cli.inspect import _described, _summary
    from medn.core.errors import MednError
    from medn.core.values import plain
    from medn.predictor.predictor import Predictor, load
    from medn.serving.answers import Answers
    from medn.serving.schema import openapi

BYTES_EVERY = 10
LAYERS = 4
ROWS = 24


class Source:
    """A good bundle, taken apart once."""

    def __init__(self, path: Path) -> None:
        self.whole = path.read_bytes()
        self.manifest, parts = read_archive(path)
        self.arrays = {name: safetensors.numpy.load(part) for name, part in parts.items()}

    def forged(self, draw: Draw) -> tuple[Json, dict[str, bytes]]:
        entries = self.manifest["entries"]
        kept = copy.deepcopy(entries[draw.between(0, len(entries) - 1)])
        manifest = copy.deepcopy({**self.manifest, "entries": [kept]})
        names = [described["arrays"] for described in kept["quantities"].values()]
        names += [kept["roofline"]["arrays"]] if kept.get("roofline") else []
        arrays: dict[str, Arrays] = {name: dict(self.arrays[name]) for name in names}
        for _ in range(draw.between(1, 2)):
            if draw.between(0, 1):
                mutate_facts(manifest if draw.between(0, 4) == 0 else kept_of(manifest), draw)
            else:
                mutate_arrays(arrays[names[draw.between(0, len(names) - 1)]], draw)
        return manifest, {name: safetensors.numpy.save(tensors) for name, tensors in arrays.items()}


def kept_of(manifest: Json) -> Json:
    entries: Any = manifest.get("entries")
    entry: Json = entries[0] if isinstance(entries, list) and entries and isinstance(entries[0], dict) else manifest
    return entry


def damaged(whole: bytes, draw: Draw) -> bytes:
    changed = bytearray(whole)
    for _ in range(draw.between(1, 8)):
        changed[draw.between(0, len(changed) - 1)] = draw.between(0, 255)
    return bytes(changed[: draw.between(0, len(changed))] if draw.between(0, 3) == 0 else changed)


def question(predictor: Predictor, kind: str, random: np.random.Generator) -> Json:
    """A layer of allowed values, most of them small."""
    query: Json = {}
    for name, parameter in predictor.estimator(kind).query.parameters.items():
        if parameter.choices:
            query[name] = str(random.choice(parameter.choices))
        elif parameter.type is bool:
            query[name] = bool(random.integers(2))
        elif parameter.type is int:
            high = float(parameter.high or 1e6) if random.random() < 0.1 else 512.0
            query[name] = int(np.exp(random.uniform(np.log(max(parameter.low or 1, 1)), np.log(high))))
        elif parameter.type is float:
            query[name] = float(random.uniform(parameter.low or 0.0, min(parameter.high or 1.0, 1e9)))
    return query


def ask(path: Path, random: np.random.Generator) -> None:
    """Everything that can be asked of a bundle. Refusals are good answers; numbers must be finite."""
    first = told(partial(load, path))
    if first is None:
        return
    answers = Answers(path)
    for described in (answers.about(), openapi(answers)):
        plain(described)
    plain([_summary(entry) for entry in first.bundle.entries])
    plain(_described(first.bundle, list(first.bundle.entries)))
    for kind in first.kinds:
        rows = [question(first, kind, random) for _ in range(ROWS)]
        for row in rows[:LAYERS]:
            for _ in range(2):  # the second time the quick way
                answer = told(partial(first.layer, kind, **row))
                assert answer is None or 0 < answer.low_s <= answer.high_s < np.inf
            told(partial(first.gradient, kind, **row))
            told(partial(first.table, kind, row, batch_size=range(1, 9)))
            table = told(partial(first.predict, [row] * 3, kind))
            assert table is None or np.isfinite(table.high_s).all()
        told(partial(first.predict, rows, kind))


def told(ask_for: Callable[[], Any]) -> Any:
    try:
        return ask_for()
    except MednError as error:
        if "\n" in str(error) or len(str(error)) > 3000:
            raise AssertionError(f"no single sentence: {str(error)[:300]!r}") from None
        return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    sources = [Source(path) for path in options.bundles]
    target = Path(tempfile.mkdtemp()) / "fuzzed.medn"

    def once(data: bytes) -> None:
        draw = Draw(data)
        source = sources[draw.between(0, len(sources) - 1)]
        if draw.between(1, BYTES_EVERY) == 1:
            target.write_bytes(damaged(source.whole, draw))
        else:
            try:
                write_archive(target, *source.forged(draw))
            except (ValueError, TypeError, AttributeError, KeyError, UnicodeError):  # cannot be written down at all
                return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ask(target, np.random.default_rng(draw.between(0, 2**16)))

    failures = isolated(once, options.count, options.seed)
    for number, what in failures:
        print(f"input {number}: {what}", file=sys.stderr)
    print(f"{options.count} bundles (seed {options.seed}), {len(failures)} findings")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
