"""Mutation of records: of bytes regardless of their meaning, of JSON, of pickles, and of code.

Pickles are changed by opcode: arguments, names, memos, lengths, nesting. Code is changed by
syntax: tokens, lines, expressions, definitions. JSON is above all that of torch.export programs.
"""

from __future__ import annotations

import ast
import copy
import json
import pickletools
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from tsarchive.pickler import opcodes as op

# Values on both sides of the limits of 8, 16, 31, 32, 63 and 64 bits, and some in between.
BOUNDARIES: Final = (
    0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 1000, 4095, 4096, 4097,
    0x7FFF, 0x8000, 0xFFFE, 0xFFFF, 0x10000, 0xFFFFFF, 0x7FFFFFFE, 0x7FFFFFFF, 0x80000000,
    0xFFFFFFFE, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000,
    0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF,
)  # fmt: skip
_WIDTHS = (1, 2, 4, 8)
_LONGEST_INSERTION = 64


def boundary(random: Random, near: int, bits: int) -> int:
    """Return a number of at most ``bits`` bits: a boundary, or one close to ``near``."""
    chosen = random.choice(BOUNDARIES)
    if random.random() < 0.3:
        chosen = near + random.randint(-2, 2)
    return chosen & ((1 << bits) - 1)


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Return ``data`` after one to four changes: bits, numbers, cuts, insertions, repetitions."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        random.choice(_BYTE_CHANGES)(changed, random)
    return bytes(changed)


_ByteChange: TypeAlias = Callable[[bytearray, Random], None]


def _position(data: bytearray, random: Random) -> int:
    return random.randrange(len(data) + 1)


def _flip_bit(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_byte(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] = random.randrange(256)


def _set_number(data: bytearray, random: Random) -> None:
    width, place = random.choice(_WIDTHS), _position(data, random)
    number = boundary(random, len(data), 8 * width)
    data[place : place + width] = number.to_bytes(width, "little")


def _insert_bytes(data: bytearray, random: Random) -> None:
    place = _position(data, random)
    data[place:place] = random.randbytes(random.randint(1, _LONGEST_INSERTION))


def _delete_bytes(data: bytearray, random: Random) -> None:
    place = _position(data, random)
    del data[place : place + random.randint(1, _LONGEST_INSERTION)]


def _repeat_bytes(data: bytearray, random: Random) -> None:
    place = _position(data, random)
    data[place:place] = data[place : place + random.randint(1, _LONGEST_INSERTION)]


def _cut_bytes(data: bytearray, random: Random) -> None:
    del data[_position(data, random) :]


_BYTE_CHANGES: tuple[_ByteChange, ...] = (
    *(_flip_bit, _set_byte, _set_number) * 3,
    *(_insert_bytes, _delete_bytes, _repeat_bytes, _cut_bytes),
)


_CHANCE_OF_BLIND_JSON: Final = 0.05
_MOST_DEEP: Final = 300
# Texts that replace a program, an expression, a guard, a path or a tree.
_JSON_TEXTS: Final = (
    "", "x", "weight", "s0", "s0 + 1", "Symbol('s0', integer=True)",
    "Mul(Symbol('s0'), Integer(2))",
    "__import__('os').getcwd()", "9**9**9", "Pow(Integer(9), Pow(Integer(9), Integer(9)))",
    "L['x'].size()[0] == 2", "L['x'].__class__", "(lambda: 1)()", "../../x", "/etc/passwd",
    "weight_0", "tensor_0", "custom_obj_0", "opaque_obj_0", "torch.os.system", "_operator.add",
    "torch.ops.aten.from_file.default", "torch.ops.aten.add.Tensor", "torch.ops.aten.sum.default",
    "torch.ops.higher_order.cond", "torch.ops.higher_order.while_loop", "\ud800", "\0", "\uff45",
    "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]", "self.weight", "a.b.c",
    "__torch__.torch.classes.a.B", "Infinity", "NaN", "builtins.dict", "collections.namedtuple",
)  # fmt: skip
_JSON_VALUES: Final[tuple[Any, ...]] = (None, True, 0, -1, 1.5, [], {}, [[]], {"as_none": True})
_TAGS: Final = (
    "as_none", "as_tensor", "as_tensors", "as_int", "as_ints", "as_float", "as_string", "as_bool",
    "as_sym_int", "as_sym_ints", "as_name", "as_expr", "as_graph", "as_optional_tensor",
    "as_optional_tensors", "as_custom_obj", "as_operator", "as_complex", "as_string_to_argument",
    "as_device", "as_scalar_type", "user_input", "parameter", "buffer", "constant_input",
    "tensor_constant", "custom_obj", "user_output", "buffer_mutation", "user_input_mutation",
    "token",
)  # fmt: skip


class _Spot(NamedTuple):
    """A value and its location: the list or dict around it, and its key there."""

    around: Any
    key: Any

    @property
    def value(self) -> Any:
        return self.around[self.key]

    def put(self, value: Any) -> None:
        self.around[self.key] = value


def mutate_json(data: bytes, random: Random) -> bytes:
    """Return ``data`` after one to four changes to its JSON; to its bytes where it is not JSON."""
    try:
        root = {"": json.loads(data)}
    except ValueError:
        return mutate_bytes(data, random)
    if random.random() < _CHANCE_OF_BLIND_JSON:
        return mutate_bytes(data, random)
    for _ in range(random.randint(1, 4)):
        spots = list(_spots(root))
        random.choice(_JSON_CHANGES)(random.choice(spots), spots, random)
    text = json.dumps(root[""])
    return (_duplicate_field(text, random) if random.random() < 0.03 else text).encode(
        "utf-8", "replace"
    )


def _spots(root: dict[str, Any]) -> Iterator[_Spot]:
    pending = [_Spot(root, "")]
    while pending:
        spot = pending.pop()
        yield spot
        value = spot.value
        if isinstance(value, dict):
            pending += [_Spot(value, key) for key in value]
        elif isinstance(value, list):
            pending += [_Spot(value, index) for index in range(len(value))]


_JsonChange: TypeAlias = Callable[[_Spot, list[_Spot], Random], None]


def _set_scalar(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    """Set a value of the same type, or of another one if it has parts."""
    value = spot.value
    if isinstance(value, bool):
        spot.put(not value)
    elif isinstance(value, int):
        spot.put(random.choice((*BOUNDARIES, -1, -(1 << 63), value + 1, value - 1, 1 << 70)))
    elif isinstance(value, float):
        spot.put(random.choice((0.0, -1.5, 1e308, "Infinity", "NaN")))
    else:
        spot.put(random.choice(_JSON_TEXTS))


def _set_any(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    spot.put(copy.deepcopy(random.choice((*_JSON_VALUES, random.choice(_JSON_TEXTS)))))


def _copy_other(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    """Copy another value of the record, preferably one under the same key."""
    same = [other for other in spots if other.key == spot.key]
    spot.put(copy.deepcopy(random.choice(same if random.random() < 0.7 else spots).value))


def _delete_value(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    if spot.key != "" or len(spot.around) > 1:
        del spot.around[spot.key]


def _insert_value(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    value = spot.value
    other = copy.deepcopy(random.choice(spots).value)
    if isinstance(value, list):
        own = copy.deepcopy(random.choice(value)) if value and random.random() < 0.7 else other
        value.insert(random.randint(0, len(value)), own)
    elif isinstance(value, dict):
        value[random.choice(_JSON_TEXTS)] = other


def _shuffle(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    value = spot.value
    if isinstance(value, list):
        random.shuffle(value)


def _retag(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    """Change the member of a union, keeping its content."""
    value = spot.value
    if isinstance(value, dict) and len(value) == 1:
        spot.put({random.choice(_TAGS): next(iter(value.values()))})


def _deepen(spot: _Spot, spots: list[_Spot], random: Random) -> None:
    value = spot.value
    for _ in range(random.choice((1, 2, 10, _MOST_DEEP))):
        value = [value] if random.random() < 0.5 else {"as_string_to_argument": {"x": value}}
    spot.put(value)


def _duplicate_field(text: str, random: Random) -> str:
    """Duplicate a field of some object."""
    before, brace, after = text.partition(random.choice(('{"', '{"as_', '{"name')))
    return f'{before}{{"x": 0, "x": 1, {brace[1:]}{after}' if brace else text


_JSON_CHANGES: Final[tuple[_JsonChange, ...]] = (
    *(_set_scalar,) * 5,
    *(_set_any, _copy_other, _delete_value, _insert_value, _retag) * 2,
    *(_shuffle, _deepen),
)


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
_PICKLE_DEPTHS: Final = (3, 100, 201, 1000, 5000)


def mutate_pickle(data: bytes, random: Random, *, donors: Sequence[bytes] = ()) -> bytes:
    """Return the pickle ``data``, of protocol 2 as torch writes it, after one to four changes.

    Runs of opcodes may come from ``donors``, also sound pickles.
    """
    opcodes = list(split_opcodes(data))
    for _ in range(random.randint(1, 4)):
        random.choice(_PICKLE_CHANGES)(opcodes, random)
    if donors and random.random() < 0.1:
        given = split_opcodes(random.choice(donors))
        start = random.randrange(1, len(given))
        place = _opcode_place(opcodes, random)
        opcodes[place:place] = given[start : start + random.randint(1, 12)]
    written = b"".join(opcodes)
    return mutate_bytes(written, random) if random.random() < 0.1 else written


@lru_cache(maxsize=4096)
def split_opcodes(data: bytes) -> tuple[bytes, ...]:
    """Return the opcodes of a sound pickle, each with its argument."""
    starts = (place or 0 for _, _, place in pickletools.genops(data))
    return tuple(data[start:end] for start, end in pairwise((*starts, len(data))))


_PickleChange: TypeAlias = Callable[[list[bytes], Random], None]


def _opcode_place(opcodes: list[bytes], random: Random) -> int:
    """Return a position after PROTO, which only byte mutations change."""
    return random.randrange(1, len(opcodes)) if len(opcodes) > 1 else len(opcodes)


def _replace_argument(opcodes: list[bytes], random: Random) -> None:
    """Replace the argument of an opcode by one of the same form."""
    for _ in range(8):
        place = _opcode_place(opcodes, random)
        opcode = op.BY_CODE.get(opcodes[place][0]) if place < len(opcodes) else None
        if opcode is not None and opcode.argument is not op.Argument.NONE:
            opcodes[place] = opcode.byte + _ARGUMENTS[opcode.argument](opcodes[place][1:], random)
            return


def _replace_opcode(opcodes: list[bytes], random: Random) -> None:
    """Insert or replace an opcode with an argument of its own."""
    place = _opcode_place(opcodes, random)
    opcodes[place : place + 1] = [_any_opcode(random)]


def _any_opcode(random: Random) -> bytes:
    if random.random() < 0.1:
        return bytes((random.choice(tuple(op.FOREIGN)),)) + random.randbytes(random.randrange(4))
    opcode = random.choice(op.READ)
    return opcode.byte + _ARGUMENTS[opcode.argument](bytes(opcode.argument.size), random)


def _insert_opcode(opcodes: list[bytes], random: Random) -> None:
    opcodes.insert(_opcode_place(opcodes, random), _any_opcode(random))


def _drop_run(opcodes: list[bytes], random: Random) -> None:
    place = _opcode_place(opcodes, random)
    del opcodes[place : place + random.choice((1, 1, 1, 2, 5))]


def _repeat_run(opcodes: list[bytes], random: Random) -> None:
    place = _opcode_place(opcodes, random)
    opcodes[place:place] = opcodes[place : place + random.randint(1, 8)] * random.choice((1, 1, 20))


def _swap_opcodes(opcodes: list[bytes], random: Random) -> None:
    if len(opcodes) > 2:
        one, other = _opcode_place(opcodes, random), _opcode_place(opcodes, random)
        opcodes[one], opcodes[other] = opcodes[other], opcodes[one]


def _move_run(opcodes: list[bytes], random: Random) -> None:
    """Move a run of opcodes."""
    place, length = _opcode_place(opcodes, random), random.randint(1, 6)
    run = opcodes[place : place + length]
    del opcodes[place : place + length]
    target = _opcode_place(opcodes, random)
    opcodes[target:target] = run


def _replace_scalar(opcodes: list[bytes], random: Random) -> None:
    """Replace a scalar by a value of another kind."""
    scalars = [i for i, code in enumerate(opcodes) if code[:1] in _SCALARS]
    if scalars:
        opcodes[random.choice(scalars)] = random.choice(_PICKLE_VALUES)(random)


def _call(random: Random) -> bytes:
    """Apply a name to something, in one of the ways that pickle has."""
    name = _lines(b"", random)
    argument = random.choice((b")", b"N", b"X\x02\x00\x00\x00id\x85", b"K\x01K\x02\x86", b"]"))
    return b"c" + name + argument + random.choice((b"R", b"\x81", b"\x81}b", b"\x85R", b"b", b"Q"))


def _nest(random: Random) -> bytes:
    """Nest containers."""
    depth = random.choice(_PICKLE_DEPTHS)
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
_PICKLE_VALUES: tuple[Callable[[Random], bytes], ...] = (
    *(_string, _int, _call, _any_opcode) * 4,
    *(lambda random: random.choice(_CONSTANTS),) * 4,
    *(_nest, _laughs),
)
_PICKLE_CHANGES: tuple[_PickleChange, ...] = (
    *(_replace_argument,) * 8,
    *(_replace_scalar,) * 4,
    *(_replace_opcode, _insert_opcode, _drop_run, _repeat_run, _swap_opcodes, _move_run),
)


# Expressions that access what archive code must not, or that are costly to read.
EXPRESSIONS: Final = (
    "__import__('os').system('id')", "().__class__.__mro__[1].__subclasses__()",
    "self.__class__", "self.__dict__", "torch.ops.load_library('x')", "torch.save(x, 'y')",
    "torch.from_file('x', True, 8)", "torch.format('{0.__class__}', self)",
    "torch.format(input, self)", "torch.percentFormat('%999999999d', 1)", "torch.jit.load('x')",
    "torch.classes.load_library('x')", "ops.prim.rpc_sync('w', 'f')", "ops.image.read_file('x')",
    "eval('1')", "exec('1')", "open('x', 'w')", "getattr(self, '__class__')", "globals()",
    "setattr(self, 'x', 1)", "lambda: 1", "[i for i in x]", "(y := 1)", "f'{self!r:>99999}'",
    "*x", "**x", "await x", "yield", "x if x else x", "CONSTANTS.c0", "CONSTANTS.c99999",
    "CONSTANTS.__class__", "uninitialized(Tensor)", "unchecked_cast(Tensor, 1)",
    "annotate(List[int], [])", "annotate(__import__('os'), 1)", "1 << 999999999", "9 ** 9 ** 9",
    "'a' * 999999999", "[0] * 999999999", "1e999", "0x" + "f" * 4000, "9" * 5000, "1_0", "1j",
    "b'x'", "...", "None", "True", "-x", "not x", "x[0]", "x[::0]", "x[0:1, ...]", "{}", "{1: 2}",
    "{*x}", "()", "(1,)", "[]", "''", "'\\ud800'", "'\\N{BULLET}'", "torch", "ops", "__torch__",
    "self", "torch.zeros([1 << 40])", "torch.nn.functional.relu(x)", "prim.Print(x)",
    "__torch__.Model", "__torch__.Model.__new__(__torch__.Model)", "super()", "torch.x.y.z(1)",
    "x.y.z", "a == b == c", "a and b or c", "a @ b", "a // 0", "1 % 0", "x is None", "x in y",
)  # fmt: skip
STATEMENTS: Final = (
    "import os", "from os import system", "import torch as ops", "pass", "return", "return 1",
    "raise AssertionError('x')", "raise x", "assert x, y", "assert False, (yield)", "del x",
    "global x", "nonlocal x", "while True:\n  pass", "while True:\n  x = 1", "for i in x:\n  break",
    "for i in range(9999999999):\n  x = i", "for i, j in x:\n  continue", "try:\n  x\nexcept:\n  y",
    "with x as y:\n  pass", "with x, y:\n  pass", "async def f(): pass", "match x:\n  case _: pass",
    "x, y = y, x", "x = y = 1", "x += 1", "x[0] = 1", "x[0] += 1", "self.x = 1", "x: int = 1",
    "x: __import__('os') = 1", "x = 1  # type: __import__('os').system('id')", "*x, = y",
    "@x\ndef f(self): pass", "def f(): return f()", "def f(x=__import__('os')): pass",
    "class A: pass", "class A(Module): pass", "class A(x()): pass",
    "class A(NamedTuple):\n  x : int",
    "class A(Enum):\n  X = 1", "class A(Interface):\n  def f(self) -> int: pass",
    "class A(Module):\n  __parameters__ = ['x', 1, x]", "__parameters__ = ['__class__']",
    "__annotations__['__class__'] = Tensor", "__annotations__ = []", "x : Final[int] = 1",
    "__setstate__ = 1", "def __setstate__(self, x: int): pass", "def __init__(self): self.x = 1",
    "op_version_set = 99", "op_version_set = x", "if x:\n  pass\nelse:\n  pass", "'doc'", "{",
    ")", "if 1:\n y\n  z", "\tx", "\\", "\x00", "\x0c", "\r", "\ufeff", "\u2028", "#", "\"\"\"",
    ";", "x;y",
)  # fmt: skip
TYPES: Final = (
    "int", "Tensor", "List[int]", "Dict[str, Tensor]", "Optional[Tensor]", "Tuple[()]", "Any",
    "x()", "Tuple[int, ...]", "Union[int, str]", "Future[Tensor]", "NoneType", "__torch__.Model",
    "'int'",
    "__import__('os')", "List[" * 90 + "int" + "]" * 90, "x.y", "lambda: 1", "Tensor[int]", "None",
    "__torch__.torch.classes.quantized.Conv2dPackedParamsBase", "number", "Device", "Generator",
)  # fmt: skip
_PIECES = re.compile(r"\w+|[^\w\s]|\n[ \t]*|[ \t]+")
_FOLDS: Final = (
    ("(", ")"), ("[", "]"), ("-", ""), ("not ", ""), ("x.f(", ")"), ("(1, ", ")"), ("{1: ", "}"),
    ("(x) + ", ""), ("", ".x"), ("", "[0]"), ("int(", ")"), ("a if b else ", ""),
)  # fmt: skip
_CODE_DEPTHS: Final = (2, 20, 90, 199, 1000, 20000)
_CHANCE_OF_DEPTH = 0.15


def mutate_code(text: str, random: Random, *, donors: Sequence[str] = ()) -> str:
    """Return code of an archive after one to four changes.

    Expressions and lines may come from ``donors``, texts that parse, as ``text`` must.
    """
    changes = random.choices(_CODE_CHANGES, k=1) + random.choices(
        _TEXTUAL, k=random.choice((0, 0, 1, 2))
    )
    for change in changes:
        text = change(text, random.choice(donors) if donors else text, random)
    return text


_CodeChange: TypeAlias = Callable[[str, str, Random], str]


@lru_cache(maxsize=1024)
def _spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the spans of expressions, if the text is ASCII and valid Python."""
    if not text.isascii():
        return ()
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and node.end_lineno and node.end_col_offset is not None:
            start = lines[node.lineno - 1] + node.col_offset
            found.append((start, lines[node.end_lineno - 1] + node.end_col_offset))
    return tuple(found)


def _replace_expression(text: str, source: str, random: Random) -> str:
    """Replace an expression by one of the other text, or by a hostile one."""
    spans = _spans(text)
    if not spans:
        return _token(text, source, random)
    start, end = random.choice(spans)
    others = _spans(source)
    if others and random.random() < 0.4:
        begin, stop = random.choice(others)
        return text[:start] + source[begin:stop] + text[end:]
    return text[:start] + random.choice(EXPRESSIONS) + text[end:]


def _wrap_expression(text: str, source: str, random: Random) -> str:
    """Nest an expression inside others, perhaps very deep."""
    spans = _spans(text)
    if not spans:
        return _token(text, source, random)
    start, end = random.choice(spans)
    before, after = random.choice(_FOLDS)
    depth = random.choice(_CODE_DEPTHS) if random.random() < _CHANCE_OF_DEPTH else 1
    return text[:start] + before * depth + text[start:end] + after * depth + text[end:]


def _token(text: str, source: str, random: Random) -> str:
    """Replace, delete or duplicate a token."""
    pieces = _PIECES.findall(text)
    if not pieces:
        return random.choice(STATEMENTS)
    place = random.randrange(len(pieces))
    others = _PIECES.findall(source) or pieces
    pieces[place : place + 1] = random.choice(
        ([], [pieces[place]] * 2, [random.choice(others)], [random.choice(_TOKENS)])
    )
    return "".join(pieces)


def _name(text: str, source: str, random: Random) -> str:
    """Rename every use of one name."""
    names = _NAMES.findall(text)
    if not names:
        return _token(text, source, random)
    old = random.choice(names)
    new = random.choice(_NAMES.findall(source) or names)
    if random.random() < 0.5:
        new = random.choice(("__class__", "torch", "self", "ops", "int", "x" * 300, "\u00e9"))
    return re.sub(rf"\b{old}\b", new, text)


def _on_lines(change: Callable[[list[str], int, str, Random], None]) -> _CodeChange:
    """Make a change of text from a change of its lines at one place."""

    def changed(text: str, source: str, random: Random) -> str:
        lines = text.split("\n")
        change(lines, random.randrange(len(lines)), source, random)
        return "\n".join(lines)

    return changed


@_on_lines
def _line(lines: list[str], place: int, source: str, random: Random) -> None:
    """Delete, duplicate, swap or import a line."""
    others = source.split("\n")
    lines[place : place + 1] = random.choice(
        ([], [lines[place]] * 2, [random.choice(others), lines[place]], [lines[place - 1]])
    )


@_on_lines
def _statement(lines: list[str], place: int, source: str, random: Random) -> None:
    """Insert a statement at the indentation of a line."""
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    statement = random.choice(STATEMENTS)
    if random.random() < 0.3:
        statement = f"x = {random.choice(EXPRESSIONS)}"
    lines.insert(place, "\n".join(indent + line for line in statement.split("\n")))


def _type(text: str, source: str, random: Random) -> str:
    """Replace an annotation."""
    found = list(_ANNOTATIONS.finditer(text))
    if not found:
        return _statement(text, source, random)
    start, end = random.choice(found).span(1)
    return text[:start] + random.choice(TYPES) + text[end:]


@_on_lines
def _indent(lines: list[str], place: int, source: str, random: Random) -> None:
    lines[place] = random.choice((" " + lines[place], lines[place].lstrip(), "\t" + lines[place]))


@_on_lines
def _blocks(lines: list[str], place: int, source: str, random: Random) -> None:
    """Nest a line in blocks."""
    body = lines[place].lstrip(" ")
    indent = len(lines[place]) - len(body)
    depth = random.choice((1, 3, 19, 101, 300))
    head = random.choice(("if x:", "while x:", "for i in x:", "with x:", "def f(self):"))
    lines[place : place + 1] = [" " * (indent + i) + head for i in range(depth)]
    lines.insert(place + depth, " " * (indent + depth) + body)


def _characters(text: str, source: str, random: Random) -> str:
    place = random.randrange(len(text) + 1)
    wild = chr(random.choice((0, 9, 12, 13, 34, 39, 92, 0x85, 0xA0, 0x2028, 0xFEFF, 0x1F600)))
    return text[:place] + wild * random.choice((1, 1, 3)) + text[place + random.randrange(3) :]


_TOKENS = (
    *"()[]{}:;,.=+-*/%@<>~^|&!#\\'\"", "**", "//", "->", ":=", "==", "is", "in", "not", "lambda",
    "yield", "await", "async", "def", "class", "return", "if", "else", "for", "while", "0", "-1",
    "99999999999999999999", "1.5", "1e400", "__class__", "_", "None", "True", "torch", "self",
)  # fmt: skip
_NAMES = re.compile(r"\b[A-Za-z_]\w*\b")
_ANNOTATIONS = re.compile(r"(?:: |-> )([^\n,:=()]+)")
_TEXTUAL: tuple[_CodeChange, ...] = (
    *(_statement,) * 4,
    *(_token, _name, _type, _line) * 2,
    *(_indent, _characters, _blocks),
)
# The first change is made to text that parses, so it may look for expressions.
_CODE_CHANGES = (*_TEXTUAL, *(_replace_expression,) * 4, _wrap_expression)
