"""The C engine, which an installation does without where no compiler is; everything else stands in setup.cfg."""

import sys
from glob import glob

from setuptools import Extension, setup

optimised = ["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math"]
if sys.platform == "win32":
    optimised = ["/O2", "/std:c11", "/fp:precise"]

setup(
    ext_modules=[
        Extension(
            "medn.program._engine",
            ["medn/program/engine.c"],
            depends=sorted(glob("medn/program/*.h")),
            extra_compile_args=optimised,
            optional=True,
        )
    ]
)
