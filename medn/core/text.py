"""Values and texts of others as people read them: on one line, of bounded length, nothing that a terminal obeys."""

from __future__ import annotations

import reprlib

LONGEST = 80
"""Characters of a value in a sentence."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = LONGEST
_short.maxlong = 40


def shown(value: object) -> str:
    """A value as a sentence quotes it.

    >>> shown("fp31"), shown(10**400), shown([1, 2])
    ("'fp31'", '100000000000000000...0000000000000000000', '[1, 2]')
    """
    try:
        said = _short.repr(value)
    except ValueError:  # Python writes no number of more than a few thousand digits
        said = f"a number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    return shortened(" ".join(said.split()))


def shortened(text: str, longest: int = LONGEST) -> str:
    """
    >>> shortened("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def printable(text: str) -> str:
    """The same text with every character that has no shape of its own written as its code; lines stay lines.

    >>> print(printable("red \\x1b[31m"))
    red \\x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else _code(each) for each in text)


def _code(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
