"""Mutants of archives: one change each, and the parts of the fingerprint that it must change."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tsarchive.describing.contents import TensorInfo

# Operators of one arity, so that a program with another in its place still lowers.
_ALIKE = {
    "add": "sub", "sub": "mul", "mul": "add", "relu": "sigmoid", "sigmoid": "tanh", "tanh": "relu",
    "eq": "ne", "lt": "gt", "size": "stride",
}  # fmt: skip
_OPERATOR = re.compile(rf"(?<=torch\.)({'|'.join(_ALIKE)})(?=\()")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_ARGUMENTS = re.compile(r"(?<=\()([a-z]\w*), ([a-z]\w*)(?=\))")
# What torch writes at the start of old records and nobody reads.
_HEAD = re.compile(r"\Aop_version_set = \d+\n")

Records = Mapping[str, bytes]


class Mutant(NamedTuple):
    """The records of a mutant, and the fields of its fingerprint that differ."""

    records: Records
    changed: frozenset[str]
    tensor: str | None = None
    where: str = ""


class Original(NamedTuple):
    """The records of an archive, and its tensors by name."""

    records: Records
    tensors: Mapping[str, TensorInfo]

    @property
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


def mutants(original: Original, seed: int, count: int) -> Iterator[Mutant]:
    """Yield so many mutants of random kinds, fewer where there is nothing to change."""
    chosen = random.Random(seed)
    for _ in range(count):
        made = chosen.choice(_KINDS)(original, chosen)
        if made is not None:
            yield made


def _with(original: Original, name: str, data: bytes) -> Records:
    return {**original.records, name: data}


def _weight(original: Original, chosen: random.Random) -> Mutant | None:
    """Flip the last bit of one element."""
    candidates = [
        (name, info)
        for name, info in original.tensors.items()
        if info.elements
        and info.strides
        and info.storage in original.records
        and not info.storages[1:]
    ]
    if not candidates:
        return None
    name, info = chosen.choice(candidates)
    assert info.storage is not None
    itemsize = info.nbytes // info.elements
    place = [chosen.randrange(size) for size in info.shape]
    step = sum(index * stride for index, stride in zip(place, info.strides, strict=True))
    data = bytearray(original.records[info.storage])
    data[info.offset + step * itemsize] ^= 1
    return Mutant(_with(original, info.storage, bytes(data)), frozenset({"weights"}), name)


def _in_code(pattern: re.Pattern[str], change: Callable[[re.Match[str]], str]):
    def mutate(original: Original, chosen: random.Random) -> Mutant | None:
        name = chosen.choice(original.code)
        text = original.records[name].decode()
        start = len(_HEAD.match(text)[0]) if _HEAD.match(text) else 0
        found = [match for match in pattern.finditer(text, start) if change(match) != match[0]]
        if not found:
            return None
        match = chosen.choice(found)
        changed = text[: match.start()] + change(match) + text[match.end() :]
        where = changed[max(0, match.start() - 40) : match.end() + 40]
        return Mutant(_with(original, name, changed.encode()), frozenset({"code"}), where=where)

    return mutate


def _extra_file(original: Original, chosen: random.Random) -> Mutant:
    data = b"%d" % chosen.getrandbits(64)
    return Mutant(_with(original, "extra/note.txt", data), frozenset({"extra_files"}))


_KINDS = (
    _weight,
    _in_code(_OPERATOR, lambda match: _ALIKE[match[0]]),
    _in_code(_NUMBER, lambda match: str(int(match[0]) + 1)),
    _in_code(_ARGUMENTS, lambda match: f"{match[2]}, {match[1]}"),
    _extra_file,
)
