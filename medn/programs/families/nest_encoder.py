"""A transformer over the stores of a program and the loops around each, on top of a sum of rates."""

from __future__ import annotations

from medn.programs.encoder_family import EncoderFamily
from medn.programs.family import program_families


@program_families.register
class NestEncoder(EncoderFamily):
    name = "nest_encoder"
    description = "a transformer over stores with their loops, over a sum of rates"
    encoding = "nests"
    packages = ("torch", "scipy")
