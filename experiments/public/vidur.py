"""Operations of language models at half precision on three GPUs (microsoft/vidur, MIT).

Inside: a GPU, operation and token count are held out together, from all models of the same width, so no measurement
of the same point is on two sides. Outside: learned up to 2,048 tokens, tested up to
4,096. Matrix products and the operations that treat every token by itself are two tables.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from experiments.public.hardware import Device, device_features, product_features
from experiments.public.task import (
    Columns,
    Published,
    Task,
    build_table,
    chosen,
    joined,
    read_columns,
    three_parts,
    whole,
)
from medn.core.splits import Parts
from medn.core.table import Table
from medn.layer_generators.features import analytic_features
from medn.layer_generators.kind import layer_kinds

DEVICES = {
    "A40": Device(84, 149_700, 696, 6),
    "A100": Device(108, 312_000, 2039, 40),
    "H100": Device(132, 989_000, 3350, 50),
}
"""Half-precision peaks."""
ELEMENT_BYTES = 2.0
LARGEST = 4096
"""The largest token count that every model was measured with."""
FOREST = Published("Vidur's forest per op, 5 folds", 0.023, "re-run of the authors' estimator")
DEEPER_TREES = {"num_leaves": 255, "learning_rate": 0.1}
SETTINGS = {"lightgbm": DEEPER_TREES, "lightgbm_on_roofline": DEEPER_TREES}
TABLES = {
    "projections": ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj"),
    "token ops": ("add", "attn_rope", "emb", "input_layernorm", "mlp_act", "post_attention_layernorm"),
}


def load(folder: Path, seed: int) -> list[Task]:
    columns = read_columns(folder / "vidur_llm_ops.csv.gz")
    tasks = []
    for name, operations in TABLES.items():
        rows = chosen(columns, np.isin(columns["op"], operations))
        numbers = _projections(rows) if name == "projections" else _token_operations(rows)
        numbers["parallel"] = rows["tp"]
        words = {"device": rows["device"], "operation": rows["op"], "model": rows["model"]}
        groups = joined(rows["device"], rows["op"], rows["n_embd"], rows["num_tokens"])
        table = build_table(numbers, words, rows["latency_ms"], groups)
        inside = three_parts(table.groups, seed, (0.7, 0.15, 0.15))
        outside = _beyond(table)
        about = f"{', '.join(operations)}; token counts held out"
        tasks.append(
            Task(f"vidur {name}, inside", about, table, inside, 0.02, (FOREST,), seconds=40.0, settings=SETTINGS)
        )
        about = f"{', '.join(operations)}; learned and chosen up to {LARGEST // 2} tokens, tested up to {LARGEST}"
        tasks.append(Task(f"vidur {name}, outside", about, table, outside, 0.08, peak_us="roofline_us"))
    return tasks


def _beyond(table: Table) -> Parts:
    """Choosing is done beyond what is learned from as well, on the last eighth below the limit."""
    tokens = table.column("batch_size")
    limit = LARGEST / 2
    is_last = (tokens > limit * 7 / 8) & (tokens <= limit)
    train, test = tokens <= limit * 7 / 8, (tokens > limit) & (tokens <= LARGEST)
    return Parts(np.flatnonzero(train), np.flatnonzero(is_last), np.empty(0, dtype=int), np.flatnonzero(test))


def _sizes(rows: Columns) -> tuple[Any, ...]:
    sizes = whole(rows, "num_tokens", "n_embd", "n_expanded_embd", "n_head", "n_kv_head", "tp")
    heads = (sizes["n_head"] + 2 * sizes["n_kv_head"]) / sizes["tp"]
    width = sizes["n_embd"] / sizes["n_head"]
    gates = 1.0 + rows["use_gated_mlp"].astype(np.float64)
    return (
        sizes["num_tokens"],
        sizes["n_embd"],
        sizes["n_expanded_embd"] / sizes["tp"],
        heads * width,
        gates,
        sizes["tp"],
    )


def _projections(rows: Columns) -> dict[str, Any]:
    tokens, hidden, expanded, attention, gates, parallel = _sizes(rows)
    is_up, is_down, is_pre = (rows["op"] == name for name in ("mlp_up_proj", "mlp_down_proj", "attn_pre_proj"))
    in_features = np.where(is_up | is_pre, hidden, np.where(is_down, expanded, hidden / parallel))
    out_features = np.where(is_pre, attention, np.where(is_up, gates * expanded, hidden))
    values = SimpleNamespace(in_features=in_features, out_features=out_features, rows=1.0, bias=False)
    features = analytic_features(layer_kinds["linear"], values, tokens, ELEMENT_BYTES)
    numbers = {"batch_size": tokens, "in_features": in_features, "out_features": out_features, **features}
    numbers |= device_features(DEVICES, rows["device"], numbers["flops"], numbers["memory_bytes"])
    return numbers | product_features(1.0, tokens, in_features, out_features, numbers["multiprocessors"])


def _token_operations(rows: Columns) -> dict[str, Any]:
    tokens, hidden, expanded, attention, gates, _ = _sizes(rows)
    is_activation, is_rope = rows["op"] == "mlp_act", rows["op"] == "attn_rope"
    written = np.where(is_activation, expanded, np.where(is_rope, attention, hidden))
    read = np.where(is_activation, gates * expanded, np.where(rows["op"] == "add", 2 * hidden, written))
    numbers = {
        "batch_size": tokens,
        "row_size": written,
        "flops": tokens * written,
        "bytes_read": tokens * read * ELEMENT_BYTES,
        "bytes_written": tokens * written * ELEMENT_BYTES,
    }
    numbers["memory_bytes"] = numbers["bytes_read"] + numbers["bytes_written"]
    sheet = device_features(DEVICES, rows["device"], numbers["flops"], numbers["memory_bytes"])
    return numbers | sheet | {"rows_per_multiprocessor": tokens / sheet["multiprocessors"]}
