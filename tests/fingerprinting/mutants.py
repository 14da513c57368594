"""Mutants of archives: one change each, and the parts of the fingerprint that it must change."""

from __future__ import annotations

import math
import pickletools
import random
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import NamedTuple

from tsarchive.describing.contents import TensorInfo

Records = Mapping[str, bytes]

# Operators of one arity, so that a program with another in its place still lowers.
_ALIKE = {
    "add": "sub", "sub": "mul", "mul": "add", "relu": "sigmoid", "sigmoid": "tanh", "tanh": "relu",
    "eq": "ne", "ne": "eq", "lt": "gt", "gt": "lt", "add_": "sub_", "mul_": "add_",
}  # fmt: skip
# What torch writes at the start of old records and nobody reads.
_HEAD = re.compile(r"\A(op_version_set *= *\d+\n)?")
_FLOATS = {"float16": "<e", "float32": "<f", "float64": "<d"}
_MOST_ELEMENTS = 20_000


class Mutant(NamedTuple):
    """The records of a mutant, and the parts of its fingerprint that differ.

    ``tensors`` are the names of those that differ; None where they have other names. ``base`` are
    the records that differ from it in the change alone, where these are not those of the original.
    """

    records: Records
    changed: frozenset[str] = frozenset()
    tensors: frozenset[str] | None = frozenset()
    where: str = ""
    base: Records | None = None
    kind: str = ""


class Original:
    """The records of an archive, and its tensors by name."""

    def __init__(self, records: Records, tensors: Mapping[str, TensorInfo]) -> None:
        self.records = records
        self.tensors = tensors

    @cached_property
    def code(self) -> list[str]:
        """The code records, but for copies of hooks, which torch writes and does not read."""
        return [
            name
            for name in self.records
            if name.startswith("code/") and name.endswith(".py") and not self._has_copies(name)
        ]

    def _has_copies(self, name: str) -> bool:
        folder, _, own = name.removesuffix(".py").rpartition("/")
        return b"class %b(" % own.encode() in self.records.get(f"{folder}.py", b"")

    @cached_property
    def opcodes(self) -> list[tuple[str, int]]:
        """The names and places of the opcodes of data.pkl."""
        found = pickletools.genops(self.records.get("data.pkl", b"."))
        return [(opcode.name, place or 0) for opcode, _, place in found]

    @property
    def has_gradients(self) -> bool:
        """Whether a tensor may require a gradient, which is told behind its strides."""
        pairs = zip(self.opcodes, self.opcodes[1:], strict=False)
        ends = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE")
        return any(name in ends and after == "NEWTRUE" for (name, _), (after, _) in pairs)

    @property
    def scales(self) -> list[int]:
        """The places of floats that are scales: the quantizer ends, and no gradient is required."""
        rows = zip(self.opcodes, self.opcodes[2:], self.opcodes[3:], strict=False)
        return [
            place
            for (name, place), (end, _), (after, _) in rows
            if name == "BINFLOAT" and end in ("TUPLE", "TUPLE3") and after == "NEWFALSE"
        ]

    @property
    def scalars(self) -> list[tuple[str, int]]:
        """The bools and floats that follow the name of an attribute."""
        triples = zip(self.opcodes, self.opcodes[1:], self.opcodes[2:], strict=False)
        return [
            scalar
            for (before, _), (key, _), scalar in triples
            if _is_key(before, key) and scalar[0] in ("NEWTRUE", "NEWFALSE", "BINFLOAT")
            if scalar[1] not in self.scales
        ]


def mutants(original: Original, seed: int | str, count: int) -> Iterator[Mutant]:
    """Yield so many mutants of random kinds, fewer where there is nothing to change."""
    chosen = random.Random(seed)
    for _ in range(count):
        kind = chosen.choice([*KINDS])
        made = KINDS[kind](original, chosen)
        if made is not None:
            yield made._replace(kind=kind)


def _with(original: Original, name: str, data: bytes) -> Records:
    return {**original.records, name: data}


# Weights


class _Element(NamedTuple):
    """The bytes of one element of a tensor in its record."""

    tensor: TensorInfo
    record: str
    start: int
    size: int


def _element(original: Original, chosen: random.Random, *dtypes: str) -> _Element | None:
    candidates = [
        info
        for name, info in original.tensors.items()
        if not name.startswith("CONSTANTS.")
        and info.elements
        and info.storage in original.records
        and not info.storages[1:]
        and (not dtypes or info.dtype in dtypes)
    ]
    if not candidates:
        return None
    info = chosen.choice(candidates)
    size = info.nbytes // info.elements
    place = [chosen.randrange(extent) for extent in info.shape]
    step = sum(index * stride for index, stride in zip(place, info.strides or (), strict=True))
    return _Element(info, str(info.storage), info.offset + step * size, size)


def _changed_element(original: Original, found: _Element, new: bytes) -> Mutant | None:
    data = bytearray(original.records[found.record])
    if data[found.start : found.start + found.size] == new:
        return None
    data[found.start : found.start + found.size] = new
    names = frozenset(name for name, info in original.tensors.items() if _has(info, found))
    return Mutant(_with(original, found.record, bytes(data)), frozenset({"weights"}), names)


def _has(info: TensorInfo, found: _Element) -> bool:
    """Whether a tensor has the element, too."""
    if info is found.tensor:
        return True
    if info.storage != found.record or not info.elements:
        return False
    size = info.nbytes // info.elements
    if info.elements > _MOST_ELEMENTS:
        return info.offset <= found.start < info.offset + info.nbytes
    places = product(*map(range, info.shape))
    steps = (
        sum(index * stride for index, stride in zip(place, info.strides or (), strict=True))
        for place in places
    )
    return any(info.offset + step * size == found.start for step in steps)


def _last_bit(original: Original, chosen: random.Random) -> Mutant | None:
    found = _element(original, chosen)
    if found is None:
        return None
    old = original.records[found.record][found.start : found.start + found.size]
    return _changed_element(original, found, bytes([old[0] ^ 1]) + old[1:])


def _sign_of_zero(original: Original, chosen: random.Random) -> Mutant | None:
    """Set an element to zero in the original as well, and to minus zero in the mutant."""
    return _special(original, chosen, 0.0, -0.0)


def _payload(original: Original, chosen: random.Random) -> Mutant | None:
    return _special(original, chosen, math.nan, None)


def _special(
    original: Original, chosen: random.Random, old: float, new: float | None
) -> Mutant | None:
    """Give an element two special values: the first in the original, the second in the mutant.

    Without a second it is the first with its last bit flipped.
    """
    found = _element(original, chosen, *_FLOATS)
    if found is None:
        return None
    code = _FLOATS[found.tensor.dtype]
    before = struct.pack(code, old)
    after = bytes([before[0] ^ 1]) + before[1:] if new is None else struct.pack(code, new)
    data = bytearray(original.records[found.record])
    data[found.start : found.start + found.size] = before
    base = Original(_with(original, found.record, bytes(data)), original.tensors)
    made = _changed_element(base, found, after)
    return None if made is None else made._replace(base=base.records)


# Code


def _in_code(pattern: str, change: Callable[[re.Match[str]], str]):
    compiled = re.compile(pattern, re.MULTILINE)

    def mutate(original: Original, chosen: random.Random) -> Mutant | None:
        for name in chosen.sample(original.code, len(original.code)):
            text = original.records[name].decode("utf-8", "surrogateescape")
            matches = compiled.finditer(_running(text), len(_HEAD.match(text)[0]))
            found = [match for match in matches if change(match) != match[0]]
            if found:
                return _replaced(original, name, text, chosen.choice(found), change)
        return None

    return mutate


def _running(text: str) -> str:
    """Blank the lines that a literal condition rules out, which mean nothing."""
    lines = text.split("\n")
    ruled_out: int | None = None  # lines that are indented deeper
    for number, line in enumerate(lines):
        depth = len(line) - len(line.lstrip(" "))
        if ruled_out is not None and (depth > ruled_out or not line):
            lines[number] = " " * len(line)
            continue
        ruled_out = depth if line.endswith("if False:") or _is_other(lines, number) else None
    return "\n".join(lines)


def _is_other(lines: list[str], number: int) -> bool:
    """Whether a line is the ``else`` of a condition that is always true."""
    line = lines[number]
    if not line.endswith("else:"):
        return False
    heads = (above for above in reversed(lines[:number]) if above.strip())
    start = line.removesuffix("else:")
    condition = next(above for above in heads if above.startswith(f"{start}if "))
    return condition == f"{start}if True:"


def _replaced(
    original: Original,
    name: str,
    text: str,
    match: re.Match[str],
    change: Callable[[re.Match[str]], str],
) -> Mutant:
    changed = text[: match.start()] + change(match) + text[match.end() :]
    where = changed[max(0, match.start() - 60) : match.end() + 40]
    records = _with(original, name, changed.encode("utf-8", "surrogateescape"))
    return Mutant(records, frozenset({"code"}), where=where)


def _next_float(match: re.Match[str]) -> str:
    return repr(math.nextafter(float(match[0]), math.inf))


def _flipped(match: re.Match[str]) -> str:
    return "False" if match[0] == "True" else "True"


_OPERATORS = "|".join(sorted(_ALIKE, key=len, reverse=True))


# Structure


def _attribute(original: Original, chosen: random.Random) -> Mutant | None:
    """Change a bool or a float that is the value of an attribute."""
    scalars = original.scalars
    if not scalars:
        return None
    name, place = chosen.choice(scalars)
    # NEWTRUE is 88, NEWFALSE is 89.
    records = _flipped_bit(original, place + 8 if name == "BINFLOAT" else place)
    return Mutant(records, frozenset({"structure"}), where=f"data.pkl, {place}")


def _scale(original: Original, chosen: random.Random) -> Mutant | None:
    """Change the scale of a quantized tensor, which is a value like those of its elements."""
    if not original.scales:
        return None
    records = _flipped_bit(original, chosen.choice(original.scales) + 8)
    return Mutant(records, frozenset({"weights"}), None)


def _flipped_bit(original: Original, place: int) -> Records:
    data = bytearray(original.records["data.pkl"])
    data[place] ^= 1
    return _with(original, "data.pkl", bytes(data))


def _is_key(before: str, opcode: str) -> bool:
    """Whether an opcode ends the name of an attribute; ``before`` is the one before it."""
    is_kept = opcode in ("BINPUT", "LONG_BINPUT") and before == "BINUNICODE"
    return is_kept or opcode in ("BINUNICODE", "BINGET", "LONG_BINGET")


def _renamed_module(original: Original, chosen: random.Random) -> Mutant | None:
    """Rename all submodules of one name."""
    texts = {name: original.records[name].decode() for name in original.code}
    declared = re.compile(r"^  ([a-z]\w*) : __torch__\.", re.MULTILINE)
    names = sorted({match[1] for text in texts.values() for match in declared.finditer(text)})
    chosen.shuffle(names)
    for name in names:
        made = _renamed(original, texts, name)
        if made is not None:
            return made
    return None


def _renamed(original: Original, texts: Mapping[str, str], name: str) -> Mutant | None:
    uses = re.compile(
        rf"(?<=^  ){name}(?= : __torch__\.)|(?<=\bself\.){name}(?!\w)(?!\()", re.MULTILINE
    )
    others = re.compile(
        rf"""(?<!\bself)\.{name}(?!\w)|self\.{name}\(|["']{name}["']|^  {name} : (?!__torch__\.)""",
        re.MULTILINE,
    )
    new = f"{name}_of_mutant"
    if any(others.search(text) for text in texts.values()):
        return None
    old = b"X" + struct.pack("<I", len(name)) + name.encode()
    data = original.records["data.pkl"]
    if old not in data:
        return None
    changed = {
        **{record: uses.sub(new, text).encode() for record, text in texts.items()},
        "data.pkl": data.replace(old, b"X" + struct.pack("<I", len(new)) + new.encode()),
    }
    has_tensors = any(name in tensor.split(".")[:-1] for tensor in original.tensors)
    parts = {"code", "structure"} | ({"weights"} if has_tensors else set())
    return Mutant({**original.records, **changed}, frozenset(parts), None, name)


# Shapes, modules and methods

_ROOT = re.compile(rb"c(__torch__[^\n]*)\n([^\n]+)\n")
_LENGTH = re.compile(rb"\(K([\x02-\xff])t(?=\(K\x01t)", re.DOTALL)
_LAST = re.compile(rb"ub(q.|r.{4})?\.\Z", re.DOTALL)
_OF_MUTANT = b"c__torch__.of_mutant\nAdded\n)\x81}b"
_CLASS = b"class Added(Module):\n  __parameters__ = []\n  __buffers__ = []\n"


def _shorter(original: Original, chosen: random.Random) -> Mutant | None:
    """Leave out the last element of a vector that is no list of the scales of channels."""
    data = original.records["data.pkl"]
    found = [*_LENGTH.finditer(data)]
    if not found or any("qint" in info.dtype for info in original.tensors.values()):
        return None
    place = chosen.choice(found).start(1)
    shorter = data[:place] + bytes([data[place] - 1]) + data[place + 1 :]
    parts = frozenset({"structure", "weights"})
    return Mutant(_with(original, "data.pkl", shorter), parts, None, f"data.pkl, {place}")


def _other_dtype(original: Original, chosen: random.Random) -> Mutant | None:
    """Take all float32 elements for int32, which have no gradient."""
    data = original.records["data.pkl"]
    used = {tensor.dtype for tensor in original.tensors.values()}
    if b"ctorch\nFloatStorage\n" not in data or used != {"float32"} or original.has_gradients:
        return None
    other = data.replace(b"ctorch\nFloatStorage\n", b"ctorch\nIntStorage\n")
    return Mutant(_with(original, "data.pkl", other), frozenset({"structure", "weights"}), None)


def _added_module(original: Original, chosen: random.Random) -> Mutant | None:
    """Add a module without anything in it to the root, as the last attribute."""
    return _added(original, "__torch__.of_mutant.Added", _OF_MUTANT)


def _added_attribute(original: Original, chosen: random.Random) -> Mutant | None:
    return _added(original, "int", b"K\x01")


def _added(original: Original, type_: str, value: bytes) -> Mutant | None:
    data, root = original.records["data.pkl"], _root(original)
    last = _LAST.search(data)
    if root is None or last is None:
        return None
    record, head = root
    text = original.records[record]
    end = re.compile(rb"^(?=  def |class |\Z)", re.MULTILINE).search(text, head.end()).start()
    line = f"  added : {type_}\n".encode()
    records = {
        **original.records,
        record: text[:end] + line + text[end:],
        "code/__torch__/of_mutant.py": _CLASS,
        "data.pkl": b"X\x05\x00\x00\x00added".join((data[: last.start()], value + last[0])),
    }
    return Mutant(records, frozenset({"code", "structure"}), where="added")


def _root(original: Original) -> tuple[str, re.Match[bytes]] | None:
    """Return the record of the class of the root, and the head of the class in it."""
    match = _ROOT.search(original.records["data.pkl"])
    if match is None:
        return None
    record = f"code/{match[1].decode().replace('.', '/')}.py"
    text = original.records.get(record, b"")
    found = re.search(rb"^class %b\(Module\):\n" % re.escape(match[2]), text, re.MULTILINE)
    return None if found is None else (record, found)


def _added_method(original: Original, chosen: random.Random) -> Mutant | None:
    """Add a method to the class of the root."""
    root, match = _root(original), _ROOT.search(original.records["data.pkl"])
    if root is None or match is None:
        return None
    record, head = root
    text = original.records[record]
    end = re.compile(rb"^(?=class |def |\Z)", re.MULTILINE).search(text, head.end()).start()
    lines = b"  def added(self: %b.%b) -> int:\n    return 1\n" % (match[1], match[2])
    records = _with(original, record, text[:end] + lines + text[end:])
    return Mutant(records, frozenset({"code"}), where="added")


def _removed(make: Callable[[Original, random.Random], Mutant | None]):
    """Return what makes the opposite mutants of those of another kind."""

    def mutate(original: Original, chosen: random.Random) -> Mutant | None:
        made = make(original, chosen)
        return None if made is None else made._replace(records=original.records, base=made.records)

    return mutate


def _two(original: Original, chosen: random.Random) -> Mutant | None:
    """Change an attribute, and an element of a tensor."""
    first = _attribute(original, chosen)
    if first is None:
        return None
    second = _last_bit(Original(first.records, original.tensors), chosen)
    return second and second._replace(changed=first.changed | second.changed, where=first.where)


# Extra files, and what means nothing


def _extra_file(original: Original, chosen: random.Random) -> Mutant:
    data = b"%d" % chosen.getrandbits(64)
    records = _with(original, "extra/note.txt", data)
    return Mutant(records, frozenset({"extra_files"}))


def _other_order(original: Original, chosen: random.Random) -> Mutant:
    """Write the records in another order, without debug records and serialization id."""
    names = [
        name
        for name in original.records
        if not name.endswith(".debug_pkl") and not name.startswith(".data/")
    ]
    chosen.shuffle(names)
    return Mutant({name: original.records[name] for name in names})


def _mangled(original: Original, chosen: random.Random) -> Mutant | None:
    """Give mangled names other numbers, as long as theirs, since texts in pickles have a length."""
    mangled = re.compile(rb"(?<=___torch_mangle_)\d+")
    if "bytecode.pkl" in original.records:
        return None
    named = [name for name in original.records if name.endswith((".py", ".pkl"))]
    numbers = {n for name in named for n in mangled.findall(original.records[name])}
    shift = chosen.randrange(1, 9)
    shifted: dict[bytes, bytes] = {}
    for number in numbers:
        first = 10 ** (len(number) - 1) if number[1:] else 0
        count = 10 ** len(number) - first
        shifted[number] = b"%d" % (first + (int(number) - first + shift) % count)

    def other(data: bytes) -> bytes:
        return mangled.sub(lambda match: shifted[match[0]], data)

    changed = {
        other(name.encode()).decode(): other(data) if name in named else data
        for name, data in original.records.items()
    }
    return Mutant(changed) if numbers else None


KINDS: dict[str, Callable[[Original, random.Random], Mutant | None]] = {
    "one ulp in a weight": _last_bit,
    "sign of zero": _sign_of_zero,
    "payload of NaN": _payload,
    "operator": _in_code(
        rf"(?<=torch\.)({_OPERATORS})(?=\([^()]*\))", lambda match: _ALIKE[match[0]]
    ),
    # A slice may end behind the last item, so its end may mean nothing.
    "operator added": _in_code(
        r"torch\.(relu|sigmoid|tanh)\([a-z]\w*\)", lambda match: f"torch.{match[1]}({match[0]})"
    ),
    "operator removed": _in_code(
        r"torch\.(?:relu|sigmoid|tanh)\(([a-z]\w*)\)", lambda match: match[1]
    ),
    "constant of a class": _in_code(
        r"(?<=: Final\[int\] = )\d+", lambda match: str(int(match[0]) + 1)
    ),
    "integer of code": _in_code(
        r"""(?<![\w.'":])\d+(?![\w.'"])""", lambda match: str(int(match[0]) + 1)
    ),
    "float of code": _in_code(r"(?<![\w.'\"])\d+\.\d+(e-?\d+)?(?![\w.'\"])", _next_float),
    "bool of code": _in_code(r"(?<=, )(True|False)(?=[,)])", _flipped),
    "default of a parameter": _in_code(
        r"(?<=: bool=)(True|False)|(?<=: int=)\d+",
        lambda match: str(int(match[0]) + 1) if match[0].isdigit() else _flipped(match),
    ),
    "order of arguments": _in_code(
        r"(?<=\()([a-z]\w*), ([a-z]\w*)(?=\))", lambda match: f"{match[2]}, {match[1]}"
    ),
    "scale of a quantizer": _scale,
    "value of an attribute": _attribute,
    "submodule renamed": _renamed_module,
    "shape of a tensor": _shorter,
    "dtype of tensors": _other_dtype,
    "submodule added": _added_module,
    "submodule removed": _removed(_added_module),
    "attribute added": _added_attribute,
    "attribute removed": _removed(_added_attribute),
    "method added": _added_method,
    "method removed": _removed(_added_method),
    "an attribute and an element": _two,
    "extra file": _extra_file,
    "other packing": _other_order,
    "other mangled numbers": _mangled,
}
