"""Search for pickles in bytes: one after another, behind other bytes, and in text of pickles."""

from __future__ import annotations

import base64
import binascii
import codecs
import heapq
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from .pickle_names import Budget, Budgets, is_importable, is_widespread
from .pickle_walk import (
    OPCODES,
    STEPS_OF_LOST_NAME,
    STEPS_OF_WALK,
    Act,
    Event,
    Passed,
    PickleBytes,
    Walk,
    note_passed,
    walk,
    weight_of_name,
)

_CALLS: Final = frozenset({Act.CALL, Act.MAKE, Act.CALL_COMPUTED, Act.EXTENSION, Act.CHANGE})
# What only opcodes do that are no letters of ASCII.
_BEYOND_ASCII: Final = frozenset({Act.MAKE, Act.EXTENSION})
_PROTOCOL = re.compile(rb"\x80[\x00-\x05]")
# What a walk must weigh to be that of a pickle: where a reader begins, and elsewhere, where chance
# has as many tries as there are bytes; and where a name stands alone, which text often looks like.
_HERE: Final = 5
_ANYWHERE: Final = 9
_NAME_ALONE: Final = 9
# STOP weighs this, and so do the end of the data right behind a walk and, where a global was
# changed, an empty stack.
_WEIGHT_OF_END: Final = 2
_BLANK_BYTES: Final = 16
# What names a global has an end of a line, or an opcode that no text has.
_NAMING = re.compile(rb"[\n\x82-\x84\x93]")
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
    """Return whether bytes begin with the opcode that names a pickle's protocol."""
    return _PROTOCOL.match(head) is not None


def pickles_in(
    data: bytes, budgets: Budgets, *, is_named_pickle: bool, starts: Iterable[int] = ()
) -> Streams:
    """Find every pickle in the data; only those that call something, unless the name or the first
    bytes say that it is one. ``starts`` are where else readers begin than at the first byte."""
    found = Streams()
    stream = PickleBytes(data)
    with warnings.catch_warnings():
        # An odd escape in a string of protocol 0 makes Python warn.
        warnings.simplefilter("ignore")
        _read_first(stream, found, budgets.reading, is_named_pickle)
        for start in (*starts, *array_starts(data)):
            in_a_row = _in_a_row(stream, start, budgets.reading)
            found.hidden += takewhile(lambda seen: _is_pickle(seen, data), in_a_row)
        _find_behind(stream, found, budgets.searching)
        for pickle in (*found.pickles, *found.hidden):
            found.hidden += _in_texts(pickle, budgets.searching, _DEPTH)
    found.is_complete &= not budgets.searching.is_spent
    return found


def _read_first(stream: PickleBytes, found: Streams, budget: Budget, is_named: bool) -> None:
    """Read the pickles that stand one after another from the first byte on."""
    for seen in _in_a_row(stream, 0, budget):
        expected = is_named and not found.pickles
        if not (expected or _is_pickle(seen, stream.data)):
            found.is_complete = not seen.is_too_long
            return
        if not found.pickles or seen.events or seen.texts or seen.fault:
            found.pickles.append(seen)
        if not seen.fault:
            found.end = seen.end


def _in_a_row(stream: PickleBytes, start: int, budget: Budget) -> Iterator[Walk]:
    """Walk from where a reader begins, and on from each STOP."""
    while start < len(stream.data):
        seen = walk(stream, start, budget)
        yield seen
        if seen.fault:
            return
        start = seen.end


def _is_pickle(seen: Walk, data: bytes) -> bool:
    """Return whether a walk from where a reader begins went over a pickle.

    It did if the bytes name a protocol, call a global which exists, or are no product of chance.
    Text that would raise an error at its first lines is no pickle.
    """
    if _PROTOCOL.match(data, seen.start):
        return seen.fault is None or _calls(seen)
    if any(is_widespread(e.name) for e in _called(seen) if e.act is not Act.CHANGE):
        return True
    return _weight(seen, seen.weight_here, data) >= _HERE or _is_name(seen, data)


def _is_pickle_anywhere(seen: Walk, data: bytes) -> bool:
    """Return whether a walk from where no reader begins went over a pickle that calls something."""
    if _PROTOCOL.match(data, seen.start):
        return _calls(seen)
    if _weight(seen, seen.weight, data) < _ANYWHERE:
        return False
    return any(e.act not in _BEYOND_ASCII for e in _called(seen)) or not _is_utf8(data)


def _is_utf8(data: bytes) -> bool:
    """Return whether data is UTF-8, which may be cut off inside a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return True


def _is_name(seen: Walk, data: bytes) -> bool:
    """Return whether a pickle without protocol and calls gives a global to its reader."""
    names = [event.name for event in seen.events if is_importable(event.name)]
    if seen.fault is not None or not seen.is_clean or not names:
        return False
    return _weight(seen, seen.length + max(map(weight_of_name, names)), data) >= _NAME_ALONE


def _weight(seen: Walk, weight: int, data: bytes) -> int:
    """Return the weight of evidence for a pickle that calls a global; 0 for one that calls none."""
    is_whole = seen.fault is None
    is_clean = is_whole and seen.is_clean and any(e.act is Act.CHANGE for e in seen.events)
    is_end = len(data) - seen.end <= _BLANK_BYTES and not data[seen.end :].strip()
    ends = is_whole + is_clean + is_end
    return weight and weight + _WEIGHT_OF_END * ends


def _called(seen: Walk) -> Iterator[Event]:
    """Return the calls of globals in a walk, and the changes of them."""
    return (e for e in seen.events if e.act in _CALLS and is_importable(e.name))


def _calls(seen: Walk) -> bool:
    return any(True for _ in _called(seen))


def _find_behind(stream: PickleBytes, found: Streams, budget: Budget) -> None:
    """Look for pickles in what follows the last one."""
    reached, passed = found.end, Passed()
    for start in likely_starts(stream.data, found.end, budget):
        if start < reached:
            continue
        says_so = stream.data[start] == _PROTO
        if (says_so or start not in passed) and not _is_one_step(stream.data, start):
            seen = walk(stream, start, budget, None if says_so else passed)
            if _is_pickle_anywhere(seen, stream.data):
                found.hidden.append(seen)
                reached = seen.end if seen.fault is None else reached
            else:
                budget.left += STEPS_OF_LOST_NAME * len(seen.events)
        else:
            budget.left -= _skipped(start, passed, says_so=says_so)
        if budget.is_spent:
            return


def _is_one_step(data: bytes, start: int) -> bool:
    """Return whether a walk ends behind its first opcode, as most do that chance begins."""
    behind = start + _FIRST_STEPS.get(data[start], 0)
    return behind > start and data[behind : behind + 1] not in OPCODES


def _skipped(start: int, passed: Passed, *, says_so: bool) -> int:
    """Return what a walk would take of the budget that another went already, or of one step.

    What it would have passed is noted.
    """
    if says_so:
        return STEPS_OF_WALK + 1
    if start in passed:
        return STEPS_OF_WALK
    note_passed(passed, start, 0)
    note_passed(passed, start + 1, 1)
    return STEPS_OF_WALK + 1


def _in_texts(outer: Walk, budget: Budget, depth: int) -> Iterator[Walk]:
    """Pickles that text in a pickle spells, as bytes, in base 64, or in hexadecimal digits."""
    for position, text in outer.texts:
        if len(text) > _LONGEST_TEXT or budget.is_spent:
            continue
        for data in _decoded(text):
            if _NAMING.search(data) is None:
                continue
            seen = walk(PickleBytes(data), 0, budget)
            if (seen.weight or _calls(seen)) and _is_pickle(seen, data):
                seen.start = position
                yield seen
            for inner in _in_texts(seen, budget, depth - 1) if depth else ():
                inner.start = position
                yield inner


def _decoded(text: str | bytes) -> Iterator[bytes]:
    if isinstance(text, bytes):
        yield text
        text = text.decode("latin-1")
    else:
        yield text.encode("latin-1", "replace")
    if _HEX.fullmatch(text):
        yield bytes.fromhex(text)
    if _BASE64.fullmatch(text):
        try:
            yield base64.b64decode(text + "==", b"-_" if "-" in text or "_" in text else None)
        except binascii.Error:
            return


_NAME: Final = rb"[A-Za-z_][\w.]*"
_LONGEST_MODULE: Final = 200
# Opcodes that can follow a global before which there is nothing.
_AFTER_GLOBAL: Final = {
    code
    for code, opcode in OPCODES.items()
    if opcode.pops <= 1 and not opcode.has_mark and not opcode.name.endswith("GET")
}
# A pickle begins with its protocol, or names a global before long: in two lines, or in two texts.
# To look for two lines from every byte on would take the square of the time. The end of the first
# line is looked for instead; it is the end of a name no longer than names of modules are.
_MEMO: Final = rb"(?:\x94|q.|r.{4})?"
_TEXTS: Final = _NAME + _MEMO + rb"(?:\x8c.|X..\0\0)[A-Za-z_]"
# Each has its own first byte: re looks for one byte much faster than for any of several.
_LIKELY: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        rb"\x80[\x02-\x05]", rb"\n" + _NAME + rb"\n", rb"\x8c." + _TEXTS, rb"X..\0\0" + _TEXTS,
    )
)  # fmt: skip
_FIRST_LINE = re.compile(rb"[ci](?=" + _NAME + rb"\Z)")
# What may stand before a name: the mark of a list of arguments, or a container.
_OPENING = re.compile(rb"[(\]}]")
# What opcodes of opening and of the protocol take of the data.
_PROTO: Final = 0x80
_FIRST_STEPS: Final = {_PROTO: 2, **dict.fromkeys(b"(]}", 1)}
_NEAR: Final = 512
_MOST_OPENINGS: Final = 16

_ARRAY: Final = b"\x93NUMPY"
_LENGTHS: Final = {b"\x01": slice(8, 10), b"\x02": slice(8, 12), b"\x03": slice(8, 12)}


def array_starts(data: bytes) -> list[int]:
    """Return where the data of a NumPy file begin: a pickle, where they are objects."""
    length = _LENGTHS.get(data[6:7]) if data.startswith(_ARRAY) else None
    return [] if length is None else [length.stop + int.from_bytes(data[length], "little")]


def likely_starts(data: bytes, start: int, budget: Budget) -> Iterator[int]:
    """Yield where pickles may start from ``start`` on, about in order."""
    tried = start
    for match in heapq.merge(*(_matches(p, data, start) for p in _LIKELY), key=re.Match.start):
        budget.left -= 1
        if budget.is_spent:
            return
        found = _of_lines(data, start, match) if match[0][:1] == b"\n" else [match.start()]
        if found:
            yield from (place for place in found if _stands_alone(data, place, match.end()))
            yield from _openings(data, max(tried, found[-1] - _NEAR), found[-1])
            tried = found[-1]


def _matches(pattern: re.Pattern[bytes], data: bytes, start: int) -> Iterator[re.Match[bytes]]:
    """Yield all matches, those that begin inside of others, too."""
    while (match := pattern.search(data, start)) is not None:
        yield match
        start = match.start() + 1


def _of_lines(data: bytes, start: int, match: re.Match[bytes]) -> list[int]:
    """Return places of opcodes that take the rest of the line before the match for a module."""
    end = match.start()
    begin = max(start, end - _LONGEST_MODULE)
    begin = max(begin, data.rfind(b"\n", begin, end) + 1)
    return [begin + line.start() for line in _FIRST_LINE.finditer(data[begin:end])]


def _stands_alone(data: bytes, place: int, end: int) -> bool:
    """Return whether a pickle may begin here with an empty stack; ``end`` is that of a name."""
    code = data[place : place + 1]
    return code != b"i" and (code != b"c" or data[end : end + 1] in _AFTER_GLOBAL)


def _openings(data: bytes, start: int, end: int) -> list[int]:
    """Return the places of opening opcodes, the nearest first."""
    found = [start + opening.start() for opening in _OPENING.finditer(data[start:end])]
    return found[: -_MOST_OPENINGS - 1 : -1]
