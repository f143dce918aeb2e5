"""Models by the names that a command line takes: a file, or code that makes them."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medn.capture.capture import capture
from medn.capture.captured_model import CapturedModel, load_captured
from medn.core.errors import MednError, UsageError, did_you_mean
from medn.core.mistaken import told_instead
from medn.core.packages import need
from medn.model.torchvision_operators import prepare

if TYPE_CHECKING:
    import torch

_LOGGER = logging.getLogger(__name__)
FILES = (".onnx", ".json")
"""An ONNX model, or a model that was captured and saved."""


def is_source(name: str) -> bool:
    """Whether this names a model and not a layer kind: layer kinds have neither colons nor endings.

    >>> [is_source(name) for name in ("conv2d", "nets/small.onnx", "timm:resnet50", "weights.pt")]
    [False, True, True, True]
    """
    return ":" in name or ("=" not in name and (Path(name).suffix != "" or Path(name).name != name))


def read_model(source: str, batch_size: int | None = None) -> CapturedModel:
    """The captured model of a source such as `nets/small.onnx`, `timm:resnet50` or `python:nets:make`."""
    if Path(source).suffix in FILES and not source.startswith(tuple(f"{name}:" for name in MAKERS)):
        if not Path(source).is_file():
            raise UsageError(f"there is no model {source}")
        return load_captured(source) if source.endswith(".json") else capture(source, batch_size=batch_size)
    maker, _, name = source.partition(":")
    if maker not in MAKERS or not name:
        raise UsageError(
            f"{source!r}: a model must be a file ending in {' or '.join(FILES)}, timm:NAME or python:MODULE:FUNCTION."
            + (did_you_mean(maker, MAKERS) or told_instead(Path(source)).removeprefix("."))
        )
    model, example_inputs = MAKERS[maker](name)
    captured = capture(model, example_inputs, batch_size)
    _LOGGER.debug("%s: %d layers, captured by %s", source, len(captured.layers), captured.how)
    return captured


def make_model(source: str) -> tuple[torch.nn.Module, Any]:
    """The module of a source, with weights, and example inputs: something that can be run."""
    maker, _, name = source.partition(":")
    if maker not in MAKERS or not name:
        raise UsageError(f"{source!r}: a model that is to be run must be timm:NAME or python:MODULE:FUNCTION")
    return timm_model(name, with_data=True) if maker == "timm" else MAKERS[maker](name)


def timm_model(name: str, with_data: bool = False) -> tuple[torch.nn.Module, Any]:
    """A timm model with random weights, or shapes of weights, and an example of the input it is made for."""
    need("timm:NAME", "timm", extra="models")
    prepare()
    import timm
    import torch

    if not timm.is_model(name):
        raise UsageError(f"timm has no model {name!r}.{did_you_mean(name, timm.list_models())}")

    def make() -> torch.nn.Module:
        made: torch.nn.Module = timm.create_model(name, pretrained=False)
        return made

    model = make() if with_data else without_data(make)
    return model.eval(), torch.empty(1, *model.pretrained_cfg["input_size"], device="meta")  # type: ignore[index]


def python_model(name: str) -> tuple[torch.nn.Module, Any]:
    """What a function of the user's own module makes: a torch module and example inputs for it."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise UsageError(f"python:{name}: must be written as python:MODULE:FUNCTION")
    folder = str(Path.cwd())
    sys.path.insert(0, folder)  # as `python -m` does, and a command does not
    try:
        function = getattr(importlib.import_module(module_name), function_name, None)
        if not callable(function):
            raise UsageError(f"python:{name}: {module_name} has no function {function_name}")
        made = function()
    except MednError:
        raise
    except Exception as error:  # whatever the user's own code raises
        raise UsageError(f"python:{name}: {type(error).__name__}: {error}") from None
    finally:
        sys.path.remove(folder)
    model, example_inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    example_inputs = getattr(model, "example_inputs", None) if example_inputs is None else example_inputs
    if not hasattr(model, "named_modules") or example_inputs is None:
        raise UsageError(
            f"python:{name}: must give a torch module and its example inputs, or a module with the attribute "
            f"example_inputs (got {type(made).__name__})"
        )
    return model, example_inputs


MAKERS: dict[str, Callable[[str], tuple[torch.nn.Module, Any]]] = {"timm": timm_model, "python": python_model}


def without_data(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    """A module whose weights are shapes alone, where it can be made so."""
    import torch

    try:
        with torch.device("meta"):
            return make()
    except (NotImplementedError, RuntimeError):  # some constructors compute with the weights they make
        return make()
