"""How much of real models is captured: sixty timm families and fifteen configurations of transformers.

    python -m experiments.capture_coverage --out results
    python -m experiments.capture_coverage --only resnet50,llama

For each: which way of capturing it took, how long, and how much of its work belongs to known layer kinds. The seconds
are those of the processor, for capture alone. Random weights; nothing is downloaded.

Each is also captured with weights and inputs that have data (configurations of transformers made small for it), to see
whether its state, its attributes, its inputs and the random state are bit for bit as before: `changed` is what is not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.real_models import IMAGE_MODELS, LANGUAGE_MODELS, SMALL, image_model, language_model
from experiments.script import end_with
from experiments.state_snapshot import changes_by_capture
from experiments.tables import markdown_table, write_tables
from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel
from medn.core.errors import MednError, UsageError, unknown

NAMES = (*IMAGE_MODELS, *LANGUAGE_MODELS)
SHARES = ("operators", "FLOPs", "bytes")


def coverage(name: str) -> dict[str, Any]:
    """One row of the table."""
    try:
        model, inputs = image_model(name) if name in IMAGE_MODELS else language_model(name)
        started = time.process_time()
        captured = capture(model, inputs)
    except MednError as error:
        return row(name, note=str(error))
    return row(name, captured, time.process_time() - started, changed=len(changed_by_capture(name)))


def changed_by_capture(name: str) -> list[str]:
    """What differs after the model was captured with weights and inputs that have data."""
    import torch

    if name in IMAGE_MODELS:
        model, inputs = image_model(name, with_data=True)
    else:
        model, inputs = language_model(name, with_data=True, **SMALL[name])
    filled = {name: torch.rand(each.shape) if each.is_meta else each for name, each in inputs.items()}
    return changes_by_capture(model, filled)


def row(
    name: str,
    captured: CapturedModel | None = None,
    seconds: float | None = None,
    note: str = "",
    changed: int | None = None,
) -> dict[str, Any]:
    if captured is None:
        nothing = dict.fromkeys(("way", "seconds", "layers", *SHARES, "changed"))
        return {"model": name, **nothing, "note": note}
    recognised = sum(layer.layer is not None for layer in captured.layers)
    most = ", ".join(each.operator.removeprefix("aten.") for each in captured.unknown_operators[:3])
    guessed = f"; {captured.guesses} values guessed" if captured.guesses else ""
    return {
        "model": name,
        "way": captured.how,
        "seconds": seconds,
        "layers": len(captured.layers),
        "operators": recognised / len(captured.layers),
        "FLOPs": 1 - captured.unknown_flops_share,
        "bytes": 1 - captured.unknown_bytes_share,
        "changed": changed,
        "note": f"{most}{guessed}",
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the table says in a few words, by the two sources of models."""
    totals: dict[str, Any] = {"captured": f"{sum(row['way'] is not None for row in rows)} of {len(rows)}"}
    totals["left as it was"] = f"{sum(row['changed'] == 0 for row in rows)} of {len(rows)}"
    for source, names in (("timm", IMAGE_MODELS), ("transformers", tuple(LANGUAGE_MODELS))):
        good = [row for row in rows if row["model"] in names and row["way"] is not None]
        for share in SHARES if good else ():
            values = sorted(row[share] for row in good)
            totals[f"{source}: known share of {share}"] = (
                f"median {values[len(values) // 2]:.4f}, least {values[0]:.4f}"
            )
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--only", help="names with commas between them")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else NAMES
    for name in names:
        if name not in NAMES:
            raise UsageError(unknown("model", name, NAMES))
    rows = []
    for name in names:
        print(f"{len(rows) + 1}/{len(names)} {name}", file=sys.stderr)
        rows.append(coverage(name))
    write_tables(options.out, "capture_coverage", rows, summary(rows))
    print(markdown_table(rows))
    return 0


if __name__ == "__main__":
    end_with(main)
