"""Processor seconds that cores and processes have used so far, read without psutil where the kernel has files of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

_PROC = Path("/proc")
_WORKING = (0, 1, 2, 5, 6)
"""Columns of a core in /proc/stat that are somebody's work: user, nice, system and both sorts of interrupts."""


def busy_s(cores: Sequence[int]) -> float:
    """What these cores, or all where none are named, have spent on anybody's work."""
    try:
        lines = (_PROC / "stat").read_text().splitlines()
    except OSError:
        return _busy_by_psutil(cores)
    every = {
        int(name[3:]): [int(ticks) for ticks in columns]
        for name, *columns in map(str.split, lines)
        if name.startswith("cpu") and name[3:].isdigit()
    }
    chosen = [every[core] for core in cores if core in every] or list(every.values())
    return sum(columns[place] for columns in chosen for place in _WORKING) / os.sysconf("SC_CLK_TCK")


def _busy_by_psutil(cores: Sequence[int]) -> float:
    import psutil

    every = psutil.cpu_times(percpu=True)
    not_work = ("idle", "iowait", "steal", "guest", "guest_nice")
    return sum(
        sum(times) - sum(getattr(times, name, 0.0) for name in not_work)
        for times in [every[core] for core in cores if core < len(every)] or every
    )


def process_s(process_id: int) -> float | None:
    """What a process has used; None where it is gone."""
    if not (_PROC / "self/stat").exists():
        import psutil

        try:
            used = psutil.Process(process_id).cpu_times()
        except psutil.Error:
            return None
        return float(used.user + used.system)
    try:
        # The name of the program is in brackets and may hold anything, brackets too.
        columns = (_PROC / str(process_id) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(columns[11]) + int(columns[12])) / os.sysconf("SC_CLK_TCK")
