"""Errors that a person reads: one clear sentence each, and the exit code the command line ends with."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence

from medn.core.text import LONGEST, first_line, shown

NAMED = 3
"""Unknown names that are told one by one."""


class MednError(Exception):
    """Something went wrong that the user can mend; the message says how."""

    exit_code = 1


class UsageError(MednError):
    """What was asked for is not possible: a wrong name, value, file or combination."""

    exit_code = 2


class ConfigError(UsageError):
    """Everything that is wrong with one configuration, gathered and each with its path."""

    def __init__(self, source: str, mistakes: Sequence[str]) -> None:
        self.source = source
        self.mistakes = tuple(mistakes)
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        super().__init__("\n".join([f"{source}: {count}", *(f"  {mistake}" for mistake in mistakes)]))


class StoreError(MednError):
    """The run folder cannot be read or written, or holds something other than what is asked for."""


class DeviceUnavailable(MednError):
    """The device does not exist on this machine, or a library it needs is missing."""

    exit_code = 3


class NothingMeasured(MednError):
    """There is no measurement to work with."""

    exit_code = 3


class TooNoisy(MednError):
    """The measurements repeat worse than `--strict` allows."""

    exit_code = 4


def reason_of(failure: BaseException) -> str:
    """An error as one line to keep: the whole of a sentence for people, of any other its type and first line.

    >>> reason_of(UsageError("no such kind")), reason_of(ValueError("wrong\\nmore")), reason_of(KeyError())
    ('no such kind', 'ValueError: wrong', 'KeyError')
    """
    if isinstance(failure, MednError):
        return "; ".join(str(failure).strip().splitlines())
    name = type(failure).__name__
    return f"{name}: {first_line(failure)}" if str(failure).strip() else name


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The near miss, if there is one, as a sentence to append.

    >>> did_you_mean("conv2", ["conv2d", "linear"])
    " Did you mean 'conv2d'?"
    """
    if len(name) > LONGEST:  # near to nothing, and slow to compare
        return ""
    close = difflib.get_close_matches(name, [str(other) for other in known], n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def unknown(what: str, name: object, known: Iterable[object]) -> str:
    """The sentence for a name that is not one of the known ones.

    >>> unknown("layer kind", "conv2", ["conv2d", "linear"])
    "no layer kind named 'conv2'. Did you mean 'conv2d'? Known: conv2d, linear"
    """
    names = sorted(str(other) for other in known)
    text = str(name) if isinstance(name, str) else shown(name)
    return f"no {what} named {shown(text)}.{did_you_mean(text, names)} Known: {', '.join(names) or 'none'}"


def unknown_names(what: str, names: Sequence[str], known: Collection[str]) -> str:
    """The same for several names: the first few of them, and how many there are beside.

    >>> unknown_names("column", ["b", "c", "d", "e"], ["a"])
    "no column named 'b', 'c', 'd' and 1 more. Known: a"
    """
    if len(names) == 1:
        return unknown(what, names[0], known)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    near = "".join(did_you_mean(name, known) for name in names[:NAMED])
    told = ", ".join(map(shown, names[:NAMED]))
    return f"no {what} named {told}{more}.{near} Known: {', '.join(sorted(known))}"
