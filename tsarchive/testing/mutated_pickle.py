"""Opcode-aware mutation of pickles: arguments, names, memos, lengths, nesting."""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import Final, TypeAlias

from tsarchive.pickler import opcodes as op

from .mutated_bytes import BOUNDARIES, boundary, mutate_bytes

# Names that a pickle must not reach, names of the format in wrong places, malformed names.
GLOBALS: Final = (
    "os system", "posix system", "builtins eval", "builtins exec", "builtins getattr",
    "builtins __import__", "subprocess Popen", "nt system", "sys modules", "io open",
    "torch.storage _load_from_bytes", "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_qtensor", "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_sparse_tensor", "torch._tensor _rebuild_from_type_v2",
    "torch.jit._pickle build_intlist", "torch.jit._pickle build_tensorlist",
    "torch.jit._pickle restore_type_tag", "torch.jit._pickle build_tensor_from_id",
    "torch FloatStorage", "torch LongStorage", "torch ComplexFloatStorage", "torch QInt8Storage",
    "torch UntypedStorage", "torch device", "torch Size", "torch float32",
    "collections OrderedDict", "builtins complex", "torch.package x", "__torch__ Model",
    "__torch__.torch.classes.quantized LinearPackedParamsBase", "__torch__ __class__",
    "__torch__.os system", "a..b c", " ", "x y z", "\u00e9 \u202e", "__builtin__ eval",
)  # fmt: skip
TEXTS: Final = (
    b"", b"storage", b"cpu", b"cuda:0", b"cuda:99999999999", b"meta", b"0", b"00", b"1", b"../../x",
    b"/etc/passwd", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"training", b"__class__", b"forward",
    b"_parameters", b"List[int]", b"Dict[str, Tensor]", b"Tensor", b"int" * 500, b"[" * 300,
    b"Optional[" * 150, b"Tuple[()]", b"__torch__.Model", b"{0.__class__}", "\u202e".encode(),
    b"List[__import__('os')]", b"FORMAT_WITH_STRING_TABLE",
)  # fmt: skip
_LONGS: Final = (0, 1, -1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63))
_FLOATS: Final = (0.0, -0.0, float("inf"), float("nan"), 5e-324, 1.7976931348623157e308)
# Deeper than Python's stack, and less deep.
_DEPTHS: Final = (3, 100, 201, 1000, 5000)


def mutate_pickle(data: bytes, random: Random, *, donors: Sequence[bytes] = ()) -> bytes:
    """Return the pickle ``data``, of protocol 2 as torch writes it, after one to four changes.

    Runs of opcodes may come from ``donors``, also sound pickles.
    """
    opcodes = list(split_opcodes(data))
    for _ in range(random.randint(1, 4)):
        random.choice(_CHANGES)(opcodes, random)
    if donors and random.random() < 0.1:
        given = split_opcodes(random.choice(donors))
        start = random.randrange(1, len(given))
        place = _place(opcodes, random)
        opcodes[place:place] = given[start : start + random.randint(1, 12)]
    written = b"".join(opcodes)
    return mutate_bytes(written, random) if random.random() < 0.1 else written


@lru_cache(maxsize=4096)
def split_opcodes(data: bytes) -> tuple[bytes, ...]:
    """Return the opcodes of a sound pickle, each with its argument."""
    starts = (place or 0 for _, _, place in pickletools.genops(data))
    return tuple(data[start:end] for start, end in pairwise((*starts, len(data))))


_Change: TypeAlias = Callable[[list[bytes], Random], None]


def _place(opcodes: list[bytes], random: Random) -> int:
    """Return a position after PROTO, which only byte mutations change."""
    return random.randrange(1, len(opcodes)) if len(opcodes) > 1 else len(opcodes)


def _argument(opcodes: list[bytes], random: Random) -> None:
    """Replace the argument of an opcode by one of the same form."""
    for _ in range(8):
        place = _place(opcodes, random)
        opcode = op.BY_CODE.get(opcodes[place][0]) if place < len(opcodes) else None
        if opcode is not None and opcode.argument is not op.Argument.NONE:
            opcodes[place] = opcode.byte + _ARGUMENTS[opcode.argument](opcodes[place][1:], random)
            return


def _opcode(opcodes: list[bytes], random: Random) -> None:
    """Insert or replace an opcode with an argument of its own."""
    place = _place(opcodes, random)
    opcodes[place : place + 1] = [_any_opcode(random)]


def _any_opcode(random: Random) -> bytes:
    if random.random() < 0.1:
        return bytes((random.choice(tuple(op.FOREIGN)),)) + random.randbytes(random.randrange(4))
    opcode = random.choice(op.READ)
    return opcode.byte + _ARGUMENTS[opcode.argument](bytes(opcode.argument.size), random)


def _insert(opcodes: list[bytes], random: Random) -> None:
    opcodes.insert(_place(opcodes, random), _any_opcode(random))


def _drop(opcodes: list[bytes], random: Random) -> None:
    place = _place(opcodes, random)
    del opcodes[place : place + random.choice((1, 1, 1, 2, 5))]


def _repeat(opcodes: list[bytes], random: Random) -> None:
    place = _place(opcodes, random)
    opcodes[place:place] = opcodes[place : place + random.randint(1, 8)] * random.choice((1, 1, 20))


def _swap(opcodes: list[bytes], random: Random) -> None:
    if len(opcodes) > 2:
        one, other = _place(opcodes, random), _place(opcodes, random)
        opcodes[one], opcodes[other] = opcodes[other], opcodes[one]


def _move(opcodes: list[bytes], random: Random) -> None:
    """Move a run of opcodes."""
    place, length = _place(opcodes, random), random.randint(1, 6)
    run = opcodes[place : place + length]
    del opcodes[place : place + length]
    target = _place(opcodes, random)
    opcodes[target:target] = run


def _value(opcodes: list[bytes], random: Random) -> None:
    """Replace a scalar by a value of another kind."""
    scalars = [i for i, code in enumerate(opcodes) if code[:1] in _SCALARS]
    if scalars:
        opcodes[random.choice(scalars)] = random.choice(_VALUES)(random)


def _call(random: Random) -> bytes:
    """Apply a name to something, in one of the ways that pickle has."""
    name = _lines(b"", random)
    argument = random.choice((b")", b"N", b"X\x02\x00\x00\x00id\x85", b"K\x01K\x02\x86", b"]"))
    return b"c" + name + argument + random.choice((b"R", b"\x81", b"\x81}b", b"\x85R", b"b", b"Q"))


def _nest(random: Random) -> bytes:
    """Nest containers."""
    depth = random.choice(_DEPTHS)
    if random.random() < 0.5:
        return b"N" + random.choice((b"\x85", b"\x85Q", b"K\x01\x86")) * depth
    return b"(" * depth + random.choice((b"t", b"l", b"d")) * depth


def _laughs(random: Random) -> bytes:
    """Build containers with exponentially many references (billion laughs)."""
    width, depth = random.choice((2, 10)), random.choice((3, 10, 30))
    parts = [b"]r\x00\x00\x01\x00"]
    for level in range(depth):
        get = b"j" + struct.pack("<I", 0x10000 + level)
        put = b"r" + struct.pack("<I", 0x10001 + level)
        parts.append(b"(" + get * width + random.choice((b"t", b"l")) + put)
    return b"".join(parts)


def _lines(old: bytes, random: Random) -> bytes:
    module, _, name = random.choice(GLOBALS).partition(" ")
    lines = old.split(b"\n")
    if len(lines) == 3 and random.random() < 0.3:
        kept, changed = lines[random.randrange(2)].decode(), random.choice((module, name))
        module, name = random.choice(((kept, changed), (changed, kept)))
    return f"{module}\n{name}\n".encode()


def _text(width: str) -> Callable[[bytes, Random], bytes]:
    head = struct.calcsize(width)

    def changed(old: bytes, random: Random) -> bytes:
        content = random.choice(TEXTS) if random.random() < 0.7 else old[head:]
        length = len(content)
        if random.random() < 0.2:
            length = boundary(random, length, 8 * head)
        return struct.pack(width, length) + content

    return changed


def _number(bits: int) -> Callable[[bytes, Random], bytes]:
    def changed(old: bytes, random: Random) -> bytes:
        near = int.from_bytes(old, "little")
        return boundary(random, near, bits).to_bytes(bits // 8, "little")

    return changed


def _long(old: bytes, random: Random) -> bytes:
    if random.random() < 0.1:
        length = random.choice((0, 1, 4, 9, 255))
        return bytes((length,)) + random.randbytes(random.choice((0, 1, length)))
    return b"\x08" + struct.pack("<q", random.choice(_LONGS))


def _string(random: Random) -> bytes:
    text = random.choice(TEXTS)
    return b"X" + struct.pack("<I", len(text)) + text


def _int(random: Random) -> bytes:
    return b"\x8a\x08" + (random.choice(BOUNDARIES) & (2**64 - 1)).to_bytes(8, "little")


_ARGUMENTS: dict[op.Argument, Callable[[bytes, Random], bytes]] = {
    op.Argument.NONE: lambda old, random: b"",
    op.Argument.UINT1: _number(8),
    op.Argument.UINT2: _number(16),
    op.Argument.INT4: _number(32),
    op.Argument.UINT4: _number(32),
    op.Argument.FLOAT8: lambda old, random: struct.pack(">d", random.choice(_FLOATS)),
    op.Argument.LONG1: _long,
    op.Argument.UTF8_4: _text("<I"),
    op.Argument.UTF8_8: _text("<Q"),
    op.Argument.LINES: _lines,
}
_SCALARS = frozenset(
    code.byte for code in (op.NONE, op.NEWTRUE, op.NEWFALSE, op.BININT1, op.BININT2, op.BININT,
                           op.LONG1, op.BINFLOAT, op.BINUNICODE, op.BINGET, op.EMPTY_TUPLE)
)  # fmt: skip
_CONSTANTS = (b"N", b")", b"]", b"}", b"\x88", b"\x89", b"G\x7f\xf8" + bytes(6))
_VALUES: tuple[Callable[[Random], bytes], ...] = (
    *(_string, _int, _call, _any_opcode) * 4,
    *(lambda random: random.choice(_CONSTANTS),) * 4,
    *(_nest, _laughs),
)
_CHANGES: tuple[_Change, ...] = (
    *(_argument,) * 8,
    *(_value,) * 4,
    *(_opcode, _insert, _drop, _repeat, _swap, _move),
)
