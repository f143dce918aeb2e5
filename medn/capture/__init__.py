"""Capture: a torch module or an ONNX file becomes the ordered list of its layers, with the bytes between them.

`medn.capture(net, example_input)` captures a model. The package itself can be called, since it bears the name of what
it does, and its modules stay where they are.
"""

from __future__ import annotations

import sys
from inspect import signature
from types import ModuleType

from medn.capture.capture import capture as _capture


class _CallablePackage(ModuleType):
    __call__ = staticmethod(_capture)
    __signature__ = signature(_capture)


sys.modules[__name__].__class__ = _CallablePackage
