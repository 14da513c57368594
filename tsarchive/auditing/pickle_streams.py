"""Where pickles are in bytes: one after another, behind other bytes, and inside text of pickles."""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tsarchive.auditing.pickle_walk import MAX_OPCODES, Act, Walk, walk

__all__ = ["Streams", "begins_pickle", "pickles_in"]

_CALLS: Final = frozenset({Act.CALL, Act.MAKE, Act.CALL_COMPUTED, Act.EXTENSION, Act.CHANGE})
_PROTOCOL = re.compile(rb"\x80[\x00-\x05]")
# A pickle that begins with its protocol, or with the naming of a global.
_BEGINNING = re.compile(rb"\x80[\x02-\x05]|[ci][A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n")
_DOTTED = re.compile(r"[^\W\d][\w.]*")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){8,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{14,}={0,2}")
# Text in text in text: deeper nesting of encodings is not undone.
_DEPTH: Final = 3
_LONGEST_TEXT: Final = 1 << 24


@dataclass(slots=True)
class Streams:
    """``pickles`` stand one after another from the first byte on, up to ``end``; ``hidden`` are
    those that a reader of the file does not meet by itself. ``is_complete`` is False when the
    search for those took too long."""

    pickles: list[Walk] = field(default_factory=list)
    hidden: list[Walk] = field(default_factory=list)
    end: int = 0
    is_complete: bool = True


def begins_pickle(head: bytes | bytearray) -> bool:
    """Whether bytes begin like a pickle of a protocol that says so."""
    return _PROTOCOL.match(head) is not None


def pickles_in(data: bytes, *, is_named_pickle: bool) -> Streams:
    """Every pickle in the data; without a name or a beginning that says so, only those that
    call something."""
    found = Streams()
    stream = io.BytesIO(data)
    while found.end < len(data):
        seen = walk(stream, found.end)
        expected = is_named_pickle and not found.pickles
        if not (expected or _is_pickle(seen, data)):
            break
        found.pickles.append(seen)
        if seen.fault:
            break
        found.end = seen.end
    _find_behind(stream, data, found)
    for pickle in (*found.pickles, *found.hidden):
        found.hidden += _in_texts(pickle, _DEPTH)
    return found


def _is_pickle(seen: Walk, data: bytes) -> bool:
    """Whether a walk went over a pickle, not over bytes that begin like one by chance."""
    if seen.fault is not None:
        return _calls(seen)
    return bool(seen.events) or _PROTOCOL.match(data, seen.start) is not None


def _calls(seen: Walk) -> bool:
    """Whether the walk met a call of something with the name of a global."""
    return any(event.act in _CALLS and _DOTTED.fullmatch(event.name) for event in seen.events)


def _find_behind(stream: io.BytesIO, data: bytes, found: Streams) -> None:
    """Look for pickles in what follows the last one."""
    opcodes, position = 0, found.end
    while (match := _BEGINNING.search(data, position)) is not None:
        if opcodes > MAX_OPCODES:
            found.is_complete = False
            return
        seen = walk(stream, match.start())
        opcodes += seen.opcodes
        position = match.start() + 1
        if _calls(seen):
            found.hidden.append(seen)
            position = max(position, seen.end if seen.fault is None else position)


def _in_texts(outer: Walk, depth: int) -> Iterator[Walk]:
    """Pickles that text in a pickle spells, as bytes, in base 64, or in hexadecimal digits."""
    for position, text in outer.texts:
        if len(text) > _LONGEST_TEXT:
            continue
        for data in _decoded(text):
            if _BEGINNING.match(data) is None:
                continue
            seen = walk(io.BytesIO(data), 0)
            inner = list(_in_texts(seen, depth - 1)) if depth else []
            for pickle in (seen, *inner):
                if _calls(pickle):
                    pickle.start = position
                    yield pickle


def _decoded(text: str | bytes) -> Iterator[bytes]:
    if isinstance(text, bytes):
        yield text
        text = text.decode("latin-1")
    elif text[:1] in ("\x80", "c", "i"):
        yield text.encode("latin-1", "replace")
    if _HEX.fullmatch(text):
        yield bytes.fromhex(text)
    if _BASE64.fullmatch(text):
        try:
            yield base64.b64decode(text + "==", b"-_" if "-" in text or "_" in text else None)
        except binascii.Error:
            return
