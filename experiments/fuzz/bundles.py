"""Damaged and forged bundles: each is refused in one sentence or predicts.

    python -m experiments.fuzz.bundles BUNDLE [SECONDS]

Half of the inputs are the bundle with bytes exchanged, half are the bundle with parts or facts exchanged and hashes
that vouch for them, so that what lies behind the hashes is reached too.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from experiments.fuzz.running import Draw, damaged, instrumented, run

with instrumented():
    from medn.bundle.archive import read_archive, write_archive
    from medn.core.errors import MednError
    from medn.predictor.predictor import load


def forge(manifest: dict[str, Any], parts: dict[str, bytes], draw: Draw) -> None:
    """Exchange one fact of the manifest, or some bytes of a part."""
    if draw.between(0, 1):
        name = sorted(parts)[draw.between(0, len(parts) - 1)]
        parts[name] = damaged(parts[name], draw)
        return
    holder: Any = manifest
    while True:
        places = sorted(holder) if isinstance(holder, dict) else range(len(holder))
        place = list(places)[draw.between(0, len(holder) - 1)]
        if not isinstance(holder[place], (dict, list)) or not holder[place] or draw.between(0, 9) == 0:
            break
        holder = holder[place]
    junk = [None, True, -1, 0, 10**12, 1e308, "", "x", [], {}, [1.0], draw.between(0, 1000)]
    holder[place] = junk[draw.between(0, len(junk) - 1)]


def main() -> None:
    source = Path(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    whole, (manifest, parts) = source.read_bytes(), read_archive(source)
    written = json.dumps(manifest)
    target = Path(tempfile.mkdtemp()) / "fuzzed.medn"

    def once(data: bytes) -> None:
        draw = Draw(data)
        if draw.between(0, 1):
            target.write_bytes(damaged(whole, draw))
        else:
            changed, changed_parts = json.loads(written), dict(parts)
            forge(changed, changed_parts, draw)
            write_archive(target, changed, changed_parts)
        try:
            predictor = load(target)
            for kind in predictor.kinds:
                question = predictor.estimator(kind).question
                given = {name: 16 for name, each in question.parameters.items() if each.type is int}
                words = {name: each.choices[0] for name, each in question.parameters.items() if each.choices}
                predictor.layer(kind, **{**given, **words})
        except MednError as error:
            if "\n" in str(error):
                raise

    run(once, seconds)


if __name__ == "__main__":
    main()
