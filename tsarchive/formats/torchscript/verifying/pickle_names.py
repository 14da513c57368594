"""The names that a pickle of any protocol refers to, and its storages, with their offsets.

The reader of :mod:`tsarchive.pickler` ends at the first opcode that TorchScript does not have;
this goes on, so that a record which is no pickle of ours still tells what it would call.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tsarchive.pickler import opcodes as op


@dataclass(frozen=True, slots=True)
class PickleNames:
    """The offsets of the opcodes that first refer to each.

    ``names`` has qualified names, and None for those that an opcode takes from values which are
    not written next to it; ``storages`` has the keys of storages.
    """

    names: dict[str | None, int] = field(default_factory=dict)
    storages: dict[str, int] = field(default_factory=dict)


# Bytes after an opcode, where there are always as many.
_FIXED: dict[int, int] = {
    **{opcode.code: opcode.argument.size for opcode in op.READ},
    **dict.fromkeys(op.FOREIGN, 0),
    0x82: 1, 0x83: 2, 0x84: 4,  # EXT1, EXT2, EXT4
    0x95: 8,  # FRAME
}  # fmt: skip
# Bytes of the length that stands before the argument.
_COUNTED: dict[int, int] = {
    0x8A: 1, 0x8B: 4,  # LONG1, LONG4
    ord("T"): 4, ord("U"): 1,  # BINSTRING, SHORT_BINSTRING
    ord("B"): 4, ord("C"): 1, 0x8E: 8, 0x96: 8,  # BINBYTES, SHORT_BINBYTES, BINBYTES8, BYTEARRAY8
    ord("X"): 4, 0x8C: 1, 0x8D: 8,  # BINUNICODE, SHORT_BINUNICODE, BINUNICODE8
}  # fmt: skip
# How many lines follow.
_LINES: dict[int, int] = {
    **dict.fromkeys(map(ord, "ILSFVgpP"), 1),  # INT LONG STRING FLOAT UNICODE GET PUT PERSID
    **dict.fromkeys(map(ord, "ci"), 2),  # GLOBAL INST
}
_NAMING = frozenset(map(ord, "ci"))
_TEXTS = frozenset({ord("X"), 0x8C, 0x8D, ord("V"), ord("S"), ord("T"), ord("U")})
_STACK_GLOBAL, _MEMOIZE, _FRAME = 0x93, 0x94, 0x95
_BINPERSID = op.BINPERSID.code
# Opcodes without an argument that say nothing here. Bytes of no model are full of them.
_BARE = frozenset(code for code, size in _FIXED.items() if size == 0) - {
    *_LINES, *_COUNTED, _STACK_GLOBAL, _MEMOIZE, _BINPERSID,
}  # fmt: skip
_PUTS = frozenset(map(ord, "qrp"))
_GETS = frozenset(map(ord, "hjg"))


def names_in_pickle(data: bytes) -> PickleNames:
    """What a pickle refers to, also behind its STOP, up to the first byte that is no opcode."""
    found = PickleNames()
    recent = _RecentTexts()
    position = 0
    while position < len(data):
        code = data[position]
        if code in _BARE:
            recent.pushed.append(None)
            position += 1
            continue
        argument = _argument(data, position)
        if argument is None:
            break
        start, end = argument
        content = data[start:end]
        if code in _NAMING:
            name = ".".join(map(_text, content.split(b"\n")[:2]))
            found.names.setdefault(name, position)
        elif code == _STACK_GLOBAL:
            found.names.setdefault(recent.joined(), position)
        elif code == _BINPERSID and (key := recent.storage_key()) is not None:
            found.storages.setdefault(key, position)
        recent.follow(code, content)
        position = end
    return found


def _argument(data: bytes, position: int) -> tuple[int, int] | None:
    """Where the argument of an opcode begins and ends; None for no opcode, or one cut short."""
    code, start = data[position], position + 1
    if code in _LINES:
        end = start
        for _ in range(_LINES[code]):
            end = data.find(b"\n", end) + 1
            if not end:
                return None
        return start, end
    if code in _COUNTED:
        width = _COUNTED[code]
        end = start + width + int.from_bytes(data[start : start + width], "little")
        start += width
    elif code in _FIXED:
        end = start + _FIXED[code]
    else:
        return None
    return (start, end) if end <= len(data) else None


class _RecentTexts:
    """What a pickle has put on its stack last, None for what is no text, and texts in its memo."""

    def __init__(self) -> None:
        self.pushed: deque[str | None] = deque([None] * 7, maxlen=7)
        self._memo: dict[str, str | None] = {}

    def joined(self) -> str | None:
        """Module and name, where both were put there by the last two opcodes."""
        module, name = self.pushed[-2], self.pushed[-1]
        return None if module is None or name is None else f"{module}.{name}"

    def storage_key(self) -> str | None:
        """The key in a tuple of "storage", type, key, device, size and, in version 1, None."""
        last = self.pushed
        if last[-6] == "storage":
            return last[-4]
        return last[-5] if last[-7] == "storage" else None

    def follow(self, code: int, content: bytes) -> None:
        if code in _TEXTS:
            self.pushed.append(_text(content.strip(b"\n'\"")))
        elif code == _MEMOIZE:
            self._memo[str(len(self._memo))] = self.pushed[-1]
        elif code in _PUTS:
            self._memo[_key(code, content)] = self.pushed[-1]
        elif code in _GETS:
            self.pushed.append(self._memo.get(_key(code, content)))
        elif code != _FRAME:
            self.pushed.append(None)


def _key(code: int, content: bytes) -> str:
    return _text(content).strip() if code in b"pg" else str(int.from_bytes(content, "little"))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
