"""A transformer over the stores of a program, placed by their order in the tree of loops."""

from __future__ import annotations

from medn.programs.encoder_family import EncoderFamily
from medn.programs.family import program_families


@program_families.register
class AstEncoder(EncoderFamily):
    name = "ast_encoder"
    description = "a transformer over the leaves of the program's syntax tree"
    encoding = "leaves"
