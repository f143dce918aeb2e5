"""Attention over the steps of a schedule, taught to rank above all: nothing has to be lowered before it answers."""

from __future__ import annotations

from medn.programs.encoder_family import EncoderFamily
from medn.programs.family import program_families


@program_families.register
class PrimitiveAttention(EncoderFamily):
    name = "primitive_attention"
    description = "attention over the steps of the schedule, with a ranking loss"
    encoding = "steps"
    defaults = {"rank_weight": 1.0, "blocks": 1}
