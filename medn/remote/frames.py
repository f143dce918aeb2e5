"""What passes through a pipe: frames of one line of JSON, which tells how many bytes follow it and their hash."""

from __future__ import annotations

import hashlib
import json
from typing import IO, Any

PROTOCOL = 1
"""Goes up with every change of what the frames mean."""
BEAT_S = 2.0
"""Either side sends at least a beat this often."""
SILENCE_S = 15.0
"""A side that has heard nothing for so long takes the link for lost."""
LONGEST_LINE = 1 << 24
MOST_BYTES = 1 << 32

Json = dict[str, Any]


class BrokenFrame(Exception):
    """What came is no frame; the message says what is wrong with it."""


def write_frame(stream: IO[bytes], head: Json, content: bytes = b"") -> None:
    """Send a frame. What it tells of itself is added to its head."""
    told = {**head, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} if content else head
    stream.write(json.dumps(told).encode() + b"\n" + content)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[Json, bytes] | None:
    """The next frame; None at the end of the stream, in the middle of a frame too.

    >>> import io
    >>> stream = io.BytesIO()
    >>> write_frame(stream, {"do": "keep"}, b"content")
    >>> _ = stream.seek(0)
    >>> read_frame(stream)[1], read_frame(stream)
    (b'content', None)
    """
    line = stream.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        if len(line) == LONGEST_LINE:
            raise BrokenFrame(f"a line of more than {LONGEST_LINE} bytes")
        return None
    try:
        head = json.loads(line)
        size = int(head.get("bytes", 0))
    except (ValueError, TypeError, AttributeError):
        raise BrokenFrame(f"no JSON object: {line[:60]!r}") from None
    if not 0 <= size <= MOST_BYTES:
        raise BrokenFrame(f"a frame of {size} bytes")
    content = stream.read(size) if size else b""
    if len(content) < size:
        return None
    if size and hashlib.sha256(content).hexdigest() != head.get("sha256"):
        raise BrokenFrame(f"{size} bytes with another hash than theirs")
    return head, content
