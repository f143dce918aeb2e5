"""`medn sweep --for`: blocks of the models are timed beside their layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from medn.cli.output import say
from medn.cli.sweep_for import batch_sizes_of
from medn.core.units import format_duration

if TYPE_CHECKING:
    from medn.blocks.stays import BlockStays, Case
    from medn.layer_generators.sweep import SweepConfig
    from medn.runs.folder import RunFolder


def block_cases(config: SweepConfig, sources: Sequence[str], batch_sizes: str, threads: int | None) -> Sequence[Case]:
    """The models that a config was made for and that have blocks; none where it was written by hand."""
    from medn.blocks.stays import cases_of
    from medn.model.model_sources import MAKERS

    modules = [source for source in sources if source.partition(":")[0] in MAKERS]
    for source in sources:
        if source not in modules:
            say(f"{source}: only torch modules have blocks to time; its layers compose as they usually do")
    devices = [device.backend for device in config.devices]
    return cases_of(modules, devices, batch_sizes_of(batch_sizes), threads or 1)


def say_planned_blocks(cases: Sequence[Case], seconds: float | None) -> None:
    """What a sweep times of blocks."""
    from medn.blocks.chosen import MOST_BLOCKS
    from medn.blocks.stays import STAYS, affordable, stay_s

    timed = affordable(cases, seconds)
    for case in cases:
        if case in timed:
            each = format_duration(stay_s(len(timed), seconds))
            say(f"up to {MOST_BLOCKS} blocks of {case} are timed in turns, {STAYS} times {each}, spread over the sweep")
        else:
            say(f"{case}: too little time for its blocks, too; its layers compose as they usually do")


def block_stays(folder: RunFolder, cases: Sequence[Case], seconds: float | None) -> BlockStays:
    from medn.blocks.stays import BlockStays

    return BlockStays(folder, cases, seconds, say)
