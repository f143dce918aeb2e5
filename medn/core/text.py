"""Values and strings of others as people read them: on one line, of bounded length, nothing that a terminal obeys."""

from __future__ import annotations

import reprlib

LONGEST = 80
"""Characters of a value in a sentence."""
LONGEST_LINE = 300
"""Characters of a line that a library says."""

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


def one_line(said: str | bytes | BaseException, longest: int = LONGEST) -> str:
    """All that was said, by a file or a library that may say anything: bytes are what protobuf gives if not UTF-8.

    >>> one_line(b"conv" + bytes([255]) + b"1"), one_line(ValueError("two\\n  lines"))
    ('conv\ufffd1', 'two lines')
    """
    return shortened(printable(" ".join(_text(said).split())), longest)


def first_line(said: str | BaseException) -> str:
    """
    >>> first_line(ValueError("no such operator\\nTraceback ...")), first_line(KeyError())
    ('no such operator', 'KeyError')
    """
    return one_line(_lines(said)[0], LONGEST_LINE)


def last_line(said: str | BaseException) -> str:
    """Where many libraries, and programs that end, put the reason.

    >>> last_line("Start to convert ...\\nno such operator\\n\\n"), last_line("")
    ('no such operator', 'no reason given')
    """
    return one_line(_lines(said)[-1], LONGEST_LINE)


def _lines(said: str | BaseException) -> list[str]:
    return [line for line in _text(said).splitlines() if line.strip()] or ["no reason given"]


def _text(said: str | bytes | BaseException) -> str:
    if isinstance(said, BaseException):
        return str(said).strip() or type(said).__name__
    return said.decode(errors="replace") if isinstance(said, bytes) else said


def _code(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
