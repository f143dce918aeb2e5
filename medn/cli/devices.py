"""`medn devices`: which known devices behave alike."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from medn.cli.output import AsJson, say, write_json, write_rows

SourcesArgument = Annotated[
    list[Path], typer.Argument(metavar="SOURCE...", help="Bundles, NAME.medn, or run folders with one.")
]


def devices(
    sources: SourcesArgument,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws the layers that are compared.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show which devices behave alike: by how they rank the same layers, and by how much slower one is.

    Layers are those that the runs beside the bundles have measured, and others drawn from what each kind usually is;
    those count that lie where both devices were measured. The most alike come first.

    \b
    Examples:
      medn devices runs/gpus/gpus.medn
      medn devices runs/laptop runs/phone/phone.medn
      medn devices gpus.medn --json
    """
    from medn.transfer.similarity import likenesses

    found, apart = likenesses(sources, seed)
    if as_json:
        write_json({"alike": [asdict(each) for each in found], "nothing_in_common": apart})
        return
    write_rows(
        [
            {
                "device": each.first,
                "beside": each.second,
                "rank": f"{each.rank:.3f}",
                "takes": f"{each.ratio:.3g} x",
                "varies by": f"{each.spread:.2f} x",
                "layers": each.layers,
            }
            for each in found
        ],
        as_json=False,
    )
    for first, second in apart:
        say(f"{first} and {second} were measured on too different layers to be compared")
