"""Where pickles are in bytes: one after another, behind other bytes, and inside text of pickles."""

from __future__ import annotations

import base64
import binascii
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tsarchive.auditing.budgets import Budget, Budgets
from tsarchive.auditing.pickle_bytes import PickleBytes
from tsarchive.auditing.pickle_walk import STEPS_OF_LOST_NAME, Act, Walk, walk

__all__ = ["Streams", "begins_pickle", "pickles_in"]

_CALLS: Final = frozenset({Act.CALL, Act.MAKE, Act.CALL_COMPUTED, Act.EXTENSION, Act.CHANGE})
_PROTOCOL = re.compile(rb"\x80[\x00-\x05]")
# A pickle begins with its protocol, or with the naming of a global: two lines.
_BEGINNING = re.compile(rb"\x80[\x02-\x05]|[ci][A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n")
# To look for these from every byte on would take the square of the time. The end of the first
# line is looked for instead; it is the end of a name that is no longer than names of modules are.
_WITHIN_BEGINNING = re.compile(rb"\x80[\x02-\x05]|\n[A-Za-z_][\w.]*\n")
_FIRST_LINE = re.compile(rb"[ci](?=[A-Za-z_][\w.]*\Z)")
_LONGEST_MODULE: Final = 200
_DOTTED = re.compile(r"[^\W\d][\w.]*")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){8,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{14,}={0,2}")
# Text in text in text: deeper nesting of encodings is not undone.
_DEPTH: Final = 3
_LONGEST_TEXT: Final = 1 << 24


@dataclass(slots=True)
class Streams:
    """``pickles`` stand one after another from the first byte on, up to ``end``, those that say
    nothing left out; ``hidden`` are those that a reader of the file does not meet by itself.
    ``is_complete`` is False when the search for those took too long."""

    pickles: list[Walk] = field(default_factory=list)
    hidden: list[Walk] = field(default_factory=list)
    end: int = 0
    is_complete: bool = True


def begins_pickle(head: bytes | bytearray) -> bool:
    """Whether bytes begin like a pickle of a protocol that says so."""
    return _PROTOCOL.match(head) is not None


def pickles_in(data: bytes, budgets: Budgets, *, is_named_pickle: bool) -> Streams:
    """Every pickle in the data; without a name or a beginning that says so, only those that
    call something."""
    found = Streams()
    stream = PickleBytes(data)
    with warnings.catch_warnings():
        # An odd escape in a string of protocol 0 makes Python warn.
        warnings.simplefilter("ignore")
        _read_first(stream, found, budgets.reading, is_named_pickle)
        _find_behind(stream, found, budgets.searching)
        for pickle in (*found.pickles, *found.hidden):
            found.hidden += _in_texts(pickle, budgets.searching, _DEPTH)
    found.is_complete &= not budgets.searching.is_spent
    return found


def _read_first(stream: PickleBytes, found: Streams, budget: Budget, is_named: bool) -> None:
    """Read the pickles that stand one after another."""
    while found.end < len(stream.data):
        seen = walk(stream, found.end, budget)
        expected = is_named and not found.pickles
        if not (expected or _is_pickle(seen, stream.data)):
            found.is_complete = not seen.is_too_long
            return
        if not found.pickles or seen.events or seen.texts or seen.fault:
            found.pickles.append(seen)
        if seen.fault:
            return
        found.end = seen.end


def _is_pickle(seen: Walk, data: bytes) -> bool:
    """Whether a walk went over a pickle, not over bytes that begin like one by chance."""
    if seen.fault is not None:
        return _calls(seen)
    return bool(seen.events) or _PROTOCOL.match(data, seen.start) is not None


def _calls(seen: Walk) -> bool:
    """Whether the walk met a call of something with the name of a global."""
    return any(event.act in _CALLS and _DOTTED.fullmatch(event.name) for event in seen.events)


def _find_behind(stream: PickleBytes, found: Streams, budget: Budget) -> None:
    """Look for pickles in what follows the last one."""
    reached = found.end
    for start in _beginnings(stream.data, found.end, budget):
        if start < reached:
            continue
        seen = walk(stream, start, budget)
        if _calls(seen):
            found.hidden.append(seen)
            reached = seen.end if seen.fault is None else reached
        else:
            budget.spend(-STEPS_OF_LOST_NAME * len(seen.events))
        if budget.is_spent:
            return


def _beginnings(data: bytes, start: int, budget: Budget) -> Iterator[int]:
    """Where pickles may begin from ``start`` on, in order."""
    position = start
    while (match := _WITHIN_BEGINNING.search(data, position)) is not None:
        position = match.start() + 1
        budget.spend(1)
        if budget.is_spent:
            return
        if match[0].startswith(b"\n"):
            before = max(start, match.start() - _LONGEST_MODULE)
            lines = _FIRST_LINE.finditer(data[before : match.start()])
            yield from (before + line.start() for line in lines)
        else:
            yield match.start()


def _in_texts(outer: Walk, budget: Budget, depth: int) -> Iterator[Walk]:
    """Pickles that text in a pickle spells, as bytes, in base 64, or in hexadecimal digits."""
    for position, text in outer.texts:
        if len(text) > _LONGEST_TEXT or budget.is_spent:
            continue
        for data in _decoded(text):
            if _BEGINNING.match(data) is None:
                continue
            seen = walk(PickleBytes(data), 0, budget)
            inner = list(_in_texts(seen, budget, depth - 1)) if depth else []
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
