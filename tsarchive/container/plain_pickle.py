"""Detection of pickles of protocols 0 and 1, which have no magic number, by reading them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class _Opcode(NamedTuple):
    """The form of an opcode's argument, and its stack effect.

    With ``to_mark`` it also pops the items above the last mark.
    """

    argument: re.Pattern[bytes]
    takes: int = 0
    puts: int = 1
    to_mark: bool = False


def _rows(
    codes: str, argument: bytes, takes: int = 0, puts: int = 1, to_mark: bool = False
) -> dict[int, _Opcode]:
    opcode = _Opcode(re.compile(argument, re.DOTALL), takes, puts, to_mark)
    return dict.fromkeys(codes.encode(), opcode)


_OPCODES: Final = {
    **_rows(")]}N", b""),
    **_rows("IL", rb"-?\d+L?\n"),
    **_rows("F", rb"[-+.\w]+\n"),
    **_rows("S", rb"(['\"])[^\n]*\1\n"),
    **_rows("V", rb"[^\n]*\n"),
    **_rows("P", rb"[^\n]+\n"),
    **_rows("c", rb"[^\s]+\n[^\s]+\n"),
    **_rows("g", rb"\d+\n"),
    **_rows("Kh", rb"."),
    **_rows("M", rb".."),
    **_rows("Jj", rb".{4}"),
    **_rows("G", rb".{8}"),
    **_rows("p", rb"\d+\n", takes=1),
    **_rows("q", rb".", takes=1),
    **_rows("r", rb".{4}", takes=1),
    **_rows("Q", b"", takes=1),
    **_rows("0", b"", takes=1, puts=0),
    **_rows("2", b"", takes=1, puts=2),
    **_rows("abR", b"", takes=2),
    **_rows("s", b"", takes=3),
    **_rows("tdl", b"", to_mark=True),
    **_rows("eu", b"", takes=1, to_mark=True),
    **_rows("1", b"", puts=0, to_mark=True),
    **_rows("o", b"", to_mark=True),
    **_rows("i", rb"[^\s]+\n[^\s]+\n", to_mark=True),
}
# Sizes of the length fields of counted strings.
_COUNTED: Final = {ord("U"): 1, ord("T"): 4, ord("X"): 4}
# Maximum length of arguments other than lines.
_SHORT: Final = 10
_MARK, _STOP = ord("("), ord(".")
# This many different opcodes are no coincidence, even if the bytes are not all a pickle.
_ENOUGH: Final = 4


def begins_as_pickle(head: bytes, *, is_whole: bool) -> bool:
    """Return whether ``head`` is a pickle, or the beginning of one unless ``is_whole``."""
    depths, seen = [0], set[int]()
    position = 0
    while position < len(head):
        code = head[position]
        if code == _STOP:
            is_enough = position + 1 == len(head) or len(seen) >= _ENOUGH
            return is_enough and depths == [1]
        end = _end(head, position)
        if end is None or end > len(head):
            break
        if not _follow(code, depths):
            return False
        position = end
        seen.add(code)
    is_cut = not is_whole and _is_cut(head, position)
    return is_cut and len(seen) >= _ENOUGH


def _is_cut(head: bytes, position: int) -> bool:
    """Return whether the data ends within an opcode's argument or between two opcodes."""
    rest = head[position:]
    if not rest or rest[0] in _COUNTED:
        return True
    return rest[0] in _OPCODES and (len(rest) < _SHORT or b"\n" not in rest)


def _end(head: bytes, position: int) -> int | None:
    """Return the position after an opcode and its argument, None where there is none."""
    code, start = head[position], position + 1
    if code == _MARK:
        return start
    if code in _COUNTED:
        width = _COUNTED[code]
        return start + width + int.from_bytes(head[start : start + width], "little")
    opcode = _OPCODES.get(code)
    found = None if opcode is None else opcode.argument.match(head, start)
    return None if found is None else found.end()


def _follow(code: int, depths: list[int]) -> bool:
    """Apply the stack effect of an opcode; ``depths`` counts the items above each mark."""
    if code == _MARK:
        depths.append(0)
        return True
    if code in _COUNTED:
        depths[-1] += 1
        return True
    opcode = _OPCODES[code]
    if opcode.to_mark:
        if len(depths) == 1:
            return False
        depths.pop()
    if depths[-1] < opcode.takes:
        return False
    depths[-1] += opcode.puts - opcode.takes
    return True
