"""Damaged ONNX files: each is refused in one sentence or captured, and no layer of it does less than nothing.

    python -m experiments.fuzz.onnx_models MODEL.onnx... [SECONDS]

A third of the inputs are a file with bytes exchanged, the others a file with fields of its messages exchanged, left
out, doubled or put into other places.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from experiments.fuzz.harness import Draw, damaged, instrumented, run

with instrumented():
    from medn.capture.capture import capture
    from medn.core.errors import MednError

NUMBERS = [0, 1, -1, 2, 3, 7, 8, 16, 64, 255, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63), -7]


def strings(message: Any, collected: list[str]) -> list[str]:
    """All names in a message, so that one can take the place of another."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if field.message_type is not None:
                strings(each, collected)
            elif isinstance(each, str):
                collected.append(each)
    return collected


def mutate(model: onnx.ModelProto, names: list[str], draw: Draw) -> None:
    """Go down to some field, and change it."""
    message: Any = model
    while True:
        fields = [field for field, _ in message.ListFields()]
        if not fields:
            return
        field = fields[draw.between(0, len(fields) - 1)]
        value = getattr(message, field.name)
        is_message = field.message_type is not None
        if is_message and draw.between(0, 5):
            message = value[draw.between(0, len(value) - 1)] if field.is_repeated else value
            continue
        break
    if field.is_repeated:
        _mutate_repeated(value, is_message, names, draw)
    elif is_message or draw.between(0, 4) == 0:
        message.ClearField(field.name)
    else:
        _assign(message, field.name, other(value, names, draw))


def _mutate_repeated(values: Any, is_message: bool, names: list[str], draw: Draw) -> None:
    place, source = draw.between(0, len(values) - 1), draw.between(0, len(values) - 1)
    match draw.between(0, 3):
        case 0:
            del values[place]
        case 1 if is_message:
            values.add().CopyFrom(values[source])
        case 1:
            values.append(values[source])
        case 2 if is_message:
            values[place].CopyFrom(values[source])
        case _ if not is_message:
            _assign(values, place, other(values[place], names, draw))


def other(value: Any, names: list[str], draw: Draw) -> Any:
    """Another value of the same type."""
    if isinstance(value, str):
        return ["", "x", "\n\x1b", names[draw.between(0, len(names) - 1)]][draw.between(0, 3)]
    if isinstance(value, bytes):
        return damaged(value, draw) if value else b"x"
    if isinstance(value, float):
        return [0.0, -1.0, 1e38, float("nan"), float("inf")][draw.between(0, 4)]
    return NUMBERS[draw.between(0, len(NUMBERS) - 1)]


def _assign(holder: Any, place: Any, value: Any) -> None:
    try:
        if isinstance(place, str):
            setattr(holder, place, value)
        else:
            holder[place] = value
    except ValueError:  # a number that does not fit, or a word that is none of an enumeration
        return


def attempt(files: list[bytes]) -> Callable[[bytes], None]:
    """What is tried: a damaged one of these files is captured."""
    names = [strings(onnx.ModelProto.FromString(each), []) for each in files]
    target = Path(tempfile.mkdtemp()) / "fuzzed.onnx"

    def once(data: bytes) -> None:
        draw = Draw(data)
        chosen = draw.between(0, len(files) - 1)
        if draw.between(0, 2) == 0:
            target.write_bytes(damaged(files[chosen], draw))
        else:
            model = onnx.ModelProto.FromString(files[chosen])
            for _ in range(draw.between(1, 4)):
                mutate(model, names[chosen], draw)
            target.write_bytes(model.SerializeToString())
        try:
            found = capture(target)
        except MednError as error:
            if "\n" in str(error):
                raise
            return
        assert all(min(each.flops, each.moved_bytes, each.output_bytes) >= 0 for each in found.layers)

    return once


def main() -> None:
    arguments = sys.argv[1:]
    seconds = 60.0 if arguments[-1].endswith(".onnx") else float(arguments.pop())
    run(attempt([Path(each).read_bytes() for each in arguments]), seconds)


if __name__ == "__main__":
    main()
