"""Columns that a mapping cannot compute, written beside those that two of the public tables have.

    python -m experiments.public.prepare --data DATA --out FOLDER

Writes FOLDER/cde_conv2d.csv with the padding of each convolution, which TensorFlow derives from its sizes, and
FOLDER/vidur_sizes.csv with the sizes of each operation, which Vidur's table gives as properties of the whole model.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.script import end_with
from medn.core.atomic import atomic_path
from medn.core.errors import UsageError

Row = Mapping[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the public data sets")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    for name in PREPARED:
        print(prepared(name, options.data, options.out))
    return 0


def prepared(name: str, data: Path, out: Path) -> Path:
    """The file of this name, written if it is not there yet; one that needs nothing written is taken as it is."""
    source, derive = PREPARED.get(name, (name, None))
    if not (data / source).is_file():
        raise UsageError(f"no file {data / source}: --data names the folder that holds the public data sets")
    if derive is None:
        return data / source
    if not (out / name).is_file():
        _write(data / source, out / name, derive)
    return out / name


def _write(source: Path, path: Path, derive: Callable[[Row], Row]) -> None:
    from pyarrow import csv as arrow_csv

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as beside, beside.open("w", newline="") as file:
        writer = csv.writer(file)
        for number, row in enumerate(arrow_csv.read_csv(source).to_pylist()):
            whole = {**row, **derive(row)}
            if not number:
                writer.writerow(whole)
            writer.writerow(whole.values())


def tensorflow_padding(row: Row) -> Row:
    """The padding of each side. TensorFlow pads an odd number by one more at the end, which no layer of medn can say:
    it is told by a column of its own, because it costs a copy of the input.

    >>> tensorflow_padding({"op": "conv2d", "in_hw": 8, "kernel": 3, "stride": 2, "padding_same": 1})
    {'padding': 1, 'uneven': True}
    """
    if row["op"] != "conv2d" or not row["padding_same"]:
        return {"padding": 0, "uneven": False}
    outputs = -(-row["in_hw"] // row["stride"])
    total = max((outputs - 1) * row["stride"] + row["kernel"] - row["in_hw"], 0)
    return {"padding": -(-total // 2), "uneven": total % 2 == 1}


def token_sizes(row: Row) -> Row:
    """Values of one token that an operation of a language model reads and writes on one of `tp` GPUs.

    >>> row = {"op": "mlp_up_proj", "n_embd": 4096, "n_expanded_embd": 11008, "n_head": 32, "n_kv_head": 8, "tp": 2}
    >>> token_sizes({**row, "num_tokens": 16, "use_gated_mlp": True})
    {'tokens': 16, 'read': 4096, 'written': 11008}
    """
    parallel, hidden = row["tp"], row["n_embd"]
    expanded = row["n_expanded_embd"] // parallel
    attention = (row["n_head"] + 2 * row["n_kv_head"]) * (hidden // row["n_head"]) // parallel
    gates = 1 + row["use_gated_mlp"]
    sizes = {
        "attn_pre_proj": (hidden, attention),
        "attn_post_proj": (hidden // parallel, hidden),
        "mlp_up_proj": (hidden, gates * expanded),
        "mlp_down_proj": (expanded, hidden),
        "mlp_act": (gates * expanded, expanded),
        "attn_rope": (attention, attention),
    }
    read, written = sizes.get(row["op"], (hidden, hidden))
    return {"tokens": row["num_tokens"], "read": read, "written": written}


PREPARED: Mapping[str, tuple[str, Callable[[Row], Row]]] = {
    "cde_conv2d.csv": ("cde_layers.csv.gz", tensorflow_padding),
    "vidur_sizes.csv": ("vidur_llm_ops.csv.gz", token_sizes),
}
"""The file that is written, the table it is made from, and what is derived for each row."""


if __name__ == "__main__":
    sys.exit(end_with(main))
