"""Whole networks timed on a backend: real architectures with random weights, one thread, at several batch sizes.

    python -m experiments.measured_models --backend torch --passes 2 --out results

Every visit is kept in OUT/whole_models/measured.json as soon as its round is over; the same command goes on from there,
and more passes add visits at other times of the day.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.real_models import Inputs, image_model, language_model
from experiments.script import end_with
from medn.core.atomic import atomic_write
from medn.core.errors import MednError, UsageError, unknown
from medn.model.measured_models import Measured, Timeable, measure_models, plain, usable_backend

if TYPE_CHECKING:
    import torch

FITTED = (
    *("resnet18", "mobilenetv3_large_100", "efficientnet_b0", "densenet121", "convnext_atto"),
    *("vit_small_patch16_224", "poolformer_s12", "ghostnet_100", "bert"),
)
"""The networks from which is learned how layers run among one another."""

UNSEEN = (
    *("vgg11", "resnet34", "seresnext26d_32x4d", "mnasnet_100", "mobilenetv4_conv_small", "efficientnet_lite0"),
    *("regnetx_008", "dla34", "inception_v3", "ese_vovnet19b_dw", "dpn68", "rexnet_100", "lcnet_100"),
    *("deit_tiny_patch16_224", "resmlp_12_224", "levit_128s", "mobilevitv2_050", "edgenext_x_small"),
    *("llama", "t5", "bart"),
)
"""Named before any of them was timed or predicted: nothing is learned from these."""

BATCH_SIZES = (1, 4, 16)

_NO_CACHE = {"vocab_size": 8192, "use_cache": False}
_BART = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 8, "decoder_attention_heads": 8}
LANGUAGE_SETTINGS: dict[str, dict[str, Any]] = {
    "bert": {
        **{"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2048},
        "vocab_size": 8192,
    },
    "llama": {
        **{"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 4, "num_attention_heads": 8},
        **{"num_key_value_heads": 4, **_NO_CACHE},
    },
    "t5": {"num_layers": 3, "num_decoder_layers": 3, **_NO_CACHE},
    "bart": {"d_model": 512, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, **_BART, **_NO_CACHE},
}
"""Networks of transformers, smaller than by default; all others are of timm."""

AT_ONCE = 6
"""Networks that are ready to be timed at the same time, in turns: more would fill the memory."""


class Case(NamedTuple):
    """A network at a batch size."""

    network: str
    batch_size: int

    def __str__(self) -> str:
        return f"{self.network}@{self.batch_size}"


def make(case: Case) -> Timeable:
    """A network with weights drawn from seed 0, and inputs: something to be timed."""
    import torch

    torch.manual_seed(0)
    return plain(*shapes(case, with_data=True))


def shapes(case: Case, with_data: bool = False) -> tuple[torch.nn.Module, Inputs]:
    """The same without data, unless that is wanted: something to be captured."""
    name, batch_size = case
    if name not in LANGUAGE_SETTINGS:
        return image_model(name, batch_size, with_data)
    model, inputs = language_model(name, with_data, **LANGUAGE_SETTINGS[name])
    return model, {key: each.repeat(batch_size, *[1] * (each.ndim - 1)) for key, each in inputs.items()}


def check_names(names: Sequence[str]) -> None:
    for name in names:
        if name not in (*FITTED, *UNSEEN):
            raise UsageError(unknown("model", name, (*FITTED, *UNSEEN)))


class Kept:
    """A file with the visits to every case on every backend, and why some cannot be visited."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._written: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}

    def found(self, backend: str, case: Case) -> Measured | str | None:
        """What was measured, or why nothing can be; None if that was not tried."""
        written = self._written.get(backend, {}).get(str(case))
        return Measured(tuple(written)) if isinstance(written, list) else written

    def add(self, backend: str, case: Case, result: Measured | str) -> None:
        before = self.found(backend, case)
        visits = before.visits if isinstance(before, Measured) else ()
        written = [*visits, *result.visits] if isinstance(result, Measured) else result
        self._written.setdefault(backend, {})[str(case)] = written
        self.file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self.file, f"{json.dumps(self._written, indent=1)}\n".encode())


def measured_once(
    kept: Kept,
    backend: str,
    cases: Sequence[Case],
    tell: Callable[[str], None],
    passes: int = 1,
) -> dict[Case, Measured]:
    """What was measured before on a backend; what lacks is measured and kept. Cases that it cannot run are told."""
    for number in range(1, passes + 1):
        missing = [case for case in cases if _lacks(kept.found(backend, case), number)]
        for start in range(0, len(missing), AT_ONCE):
            tell(f"{backend}: pass {number}, {len(missing) - start} to go")
            for case, result in _measured(backend, missing[start : start + AT_ONCE], tell):
                kept.add(backend, case, result)
    results = {case: kept.found(backend, case) for case in cases}
    for case, reason in results.items():
        if isinstance(reason, str):
            tell(f"{backend}: {case} is left out: {reason}")
    return {case: result for case, result in results.items() if isinstance(result, Measured)}


def _lacks(result: Measured | str | None, number: int) -> bool:
    from medn.model.measured_models import ROUNDS

    return result is None or (isinstance(result, Measured) and len(result.visits) < number * ROUNDS)


def _measured(
    backend: str, cases: Sequence[Case], tell: Callable[[str], None]
) -> Iterator[tuple[Case, Measured | str]]:
    """In turns; if one of them cannot be run, each by itself."""
    try:
        makers = {str(case): partial(make, case) for case in cases}
        by_name = measure_models(usable_backend(backend), makers, 1, tell)
    except MednError as error:
        if len(cases) == 1:
            yield cases[0], str(error)
            return
        for case in cases:
            yield from _measured(backend, [case], tell)
        return
    for case in cases:
        yield case, by_name[str(case)]


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", action="append", required=True, help="repeat it for several")
    parser.add_argument("--models", nargs="+", default=[*FITTED, *UNSEEN], metavar="NAME")
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=list(BATCH_SIZES))
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args(arguments)
    check_names(options.models)
    kept = Kept(options.out / "whole_models" / "measured.json")
    cases = [Case(name, batch_size) for batch_size in options.batch_sizes for name in options.models]
    for number in range(1, options.passes + 1):
        for backend in options.backend:
            measured_once(kept, backend, cases, _tell, number)
    return 0


if __name__ == "__main__":
    end_with(main)
