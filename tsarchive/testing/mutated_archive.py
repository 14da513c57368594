"""Mutation of archives: headers, records by kind, or any bytes; and a small sound one as a seed.

Headers lie, and entries overlap, are doubled or come from other archives. For this an archive is
split into parts, each of which can be changed before it is written again.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from random import Random
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from tsarchive.container import NewRecord, layout, write_container
from tsarchive.container.directory import find_directory
from tsarchive.container.faults import STRICT
from tsarchive.container.layout import CentralHeader, End64Record, EndRecord, LocalHeader, Locator64
from tsarchive.container.source import Source
from tsarchive.pickler import Global, MarkedTuple, Object, PersistentId, Reduce, Value, dumps

from .mutated_records import boundary, mutate_bytes, mutate_code, mutate_json, mutate_pickle

# Names that leave their folder, that readers confuse with each other, or that are empty.
NAMES: Final = (
    b"", b"/", b"..", b"../x", b"a/../../x", b"/etc/passwd", b"C:\\x", b"\\\\host\\x", b"a//b",
    b"./data.pkl", b"DATA.PKL", b"data.pkl/", b"data.pkl\0.txt", b"data\\0", b"\xff\xfe", b"a\nb",
    "data.pk\u0142".encode(), "cafe\u0301".encode(), "caf\u00e9".encode(), b"x" * 300, b"x" * 5000,
    b"CON", b"code/__torch__.py", b"version", b".data/version", b"data/0", b"data/00", b"data/+0",
    b"model.json", b"extra/x", b"constants.pkl", b"archive_format",
    b"code/__torch__/a.py.debug_pkl",
)  # fmt: skip
METHODS: Final = (0, 1, 6, 8, 9, 12, 14, 93, 95, 97, 99, 0xFFFF)
_OTHER_FORMATS = (b"#!/bin/sh\n", b"\x80\x02N.", b"\x7fELF", b"\n", bytes(22), b"GIF89a")
_LARGEST = 1 << 20


_CHANCE_OF_BLIND_CHANGE = 0.1


def mutate_archive(data: bytes, random: Random, *, donors: Sequence[bytes] = ()) -> bytes:
    """Return the sound archive ``data``, as torch and tsarchive write it, after a few changes.

    Records may come from ``donors``, also sound archives.
    """
    if random.random() < _CHANCE_OF_BLIND_CHANGE:
        return mutate_bytes(data, random)
    draft = take_apart(data).copy()
    if random.random() < 0.3:
        _change_content(draft, random)
    for _ in range(random.randint(1, 3)):
        random.choice(_CHANGES)(draft, random)
    if donors and random.random() < 0.1:
        _splice(draft, random, take_apart(random.choice(donors)))
    written = draft.written()
    if random.random() < 0.15:
        written = random.choice((_cut, mutate_bytes, _double))(written, random)
    return written


_Change: TypeAlias = Callable[["Draft", Random], None]


def _pick(draft: Draft, random: Random) -> int:
    return random.randrange(len(draft.members))


def _change_content(draft: Draft, random: Random) -> None:
    """Mutate a record according to its kind; sizes and CRC-32 agree with the new content."""
    index = _pick(draft, random)
    member = draft.members[index]
    if member.central.method == layout.STORED:
        content = _mutate_record(member.record, member.payload, random)
        draft.members[index] = member.with_content(content, content, layout.STORED)


def _lie(draft: Draft, random: Random) -> None:
    """Change one field of one header."""
    kind = random.choice((*("local", "central") * 3, "end", "end64", "locator"))
    index = _pick(draft, random) if kind in ("local", "central") else 0
    draft.wide |= kind in ("end64", "locator")
    name, bits = random.choice(HEADERS[kind])
    near = draft.true_value(kind, index, name)
    value = boundary(random, near, bits)
    if name == "flags":
        value = near ^ (1 << random.randrange(16))
    elif name == "method":
        value = random.choice(METHODS)
    draft.lies[kind, index, name] = value


def _lie_twice(draft: Draft, random: Random) -> None:
    """Make both headers of an entry agree on a wrong value."""
    index = _pick(draft, random)
    name, bits = random.choice(
        (("method", 16), ("flags", 16), ("crc", 32), ("size", 32), ("stored_size", 32))
    )
    near = draft.true_value("central", index, name)
    value = random.choice(METHODS) if name == "method" else boundary(random, near, bits)
    draft.lies["local", index, name] = draft.lies["central", index, name] = value


def _overlap(draft: Draft, random: Random) -> None:
    """Let an entry claim the place of another, or one beside it."""
    target = draft.offset(_pick(draft, random)) + random.choice((0, 0, 1, -1, 30))
    draft.lies["central", _pick(draft, random), "header_offset"] = target & layout.MAX32


def _duplicate(draft: Draft, random: Random) -> None:
    member = draft.members[_pick(draft, random)]
    draft.members.insert(random.randint(0, len(draft.members)), member)


def _drop(draft: Draft, random: Random) -> None:
    if len(draft.members) > 1:
        del draft.members[_pick(draft, random)]


def _swap(draft: Draft, random: Random) -> None:
    one, other = _pick(draft, random), _pick(draft, random)
    draft.members[one], draft.members[other] = draft.members[other], draft.members[one]


def _swap_content(draft: Draft, random: Random) -> None:
    """Swap the data of two records."""
    one, other = _pick(draft, random), _pick(draft, random)
    first, second = draft.members[one], draft.members[other]
    draft.members[one] = second.renamed(first.name, first.central_name)
    draft.members[other] = first.renamed(second.name, second.central_name)


def _rename(draft: Draft, random: Random) -> None:
    index = _pick(draft, random)
    member = draft.members[index]
    name = random.choice(NAMES)
    if random.random() < 0.7:
        name = member.name.partition(b"/")[0] + b"/" + name
    local, central = random.choice(((name, name), (name, member.name), (member.name, name)))
    draft.members[index] = member.renamed(local, central)


def _rename_slightly(draft: Draft, random: Random) -> None:
    """Give entries names that differ only by case, separators or a folder."""
    index = _pick(draft, random)
    name = draft.members[_pick(draft, random)].name
    changed = random.choice(
        (name, name.upper(), name.replace(b"/", b"\\"), name.replace(b"/", b"/./", 1), name + b" ")
    )
    draft.members[index] = draft.members[index].renamed(changed, changed)


def _extra(draft: Draft, random: Random) -> None:
    index = _pick(draft, random)
    member = draft.members[index]
    number = random.choice((layout.ZIP64_FIELD, layout.UNICODE_PATH_FIELD, 0x5455, 0x4246, 0x9901))
    content = random.randbytes(random.choice((0, 4, 5, 8, 9, 16, 24, 28)))
    if number == layout.ZIP64_FIELD and random.random() < 0.5:
        numbers = [boundary(random, len(member.payload), 64) for _ in range(random.randint(1, 3))]
        content = b"".join(number.to_bytes(8, "little") for number in numbers)
        draft.lies["central", index, random.choice(("size", "stored_size"))] = layout.MAX32
    length = len(content) if random.random() < 0.8 else boundary(random, len(content), 16)
    field = struct.pack("<2H", number, length) + content
    draft.members[index] = member.with_extra(field, random.choice(("local", "central", "both")))


def _repack(draft: Draft, random: Random) -> None:
    """Compress the data, rightly or wrongly, or declare another inflated size."""
    index = _pick(draft, random)
    member = draft.members[index]
    if member.central.method != layout.STORED:
        return
    method = random.choice(tuple(_PACKERS))
    packed = _packed(member.payload, method)
    if random.random() < 0.3:
        packed = mutate_bytes(packed, random)
    draft.members[index] = member.with_content(member.payload, packed, method)
    if random.random() < 0.3:
        size = boundary(random, len(member.payload), 32)
        draft.lies["local", index, "size"] = draft.lies["central", index, "size"] = size


def _bomb(draft: Draft, random: Random) -> None:
    """Insert few bytes that inflate to many."""
    index = _pick(draft, random)
    method = random.choice(tuple(_PACKERS))
    zeros = bytes(random.choice((1 << 14, 1 << 17, _LARGEST)))
    packed = _packed(zeros, method)
    draft.members[index] = draft.members[index].with_content(zeros, packed, method)


def _damage(draft: Draft, random: Random) -> None:
    index = _pick(draft, random)
    member = draft.members[index]
    draft.members[index] = member._replace(payload=mutate_bytes(member.payload, random))


def _descriptor(draft: Draft, random: Random) -> None:
    """Move sizes to a descriptor behind the data, in one of its forms, or drop it."""
    index = _pick(draft, random)
    member = draft.members[index]
    crc, stored, size = (
        getattr(member.central, name) if random.random() < 0.9 else boundary(random, 0, 32)
        for name in ("crc", "stored_size", "size")
    )
    form = random.choice((layout.DESCRIPTOR, layout.DESCRIPTOR64))
    descriptor = form.pack(layout.DESCRIPTOR_SIGNATURE, crc, stored, size)
    cut = random.choice((0, 0, 4, 5))
    draft.members[index] = member._replace(descriptor=descriptor[cut:])
    if random.random() < 0.7:
        flags = member.central.flags | layout.FLAG_DESCRIPTOR
        draft.lies["local", index, "flags"] = draft.lies["central", index, "flags"] = flags


def _surround(draft: Draft, random: Random) -> None:
    """Add bytes before, between and after: other formats, a second end, a second archive."""
    place = random.choice(("prefix", "gap", "comment", "trailer"))
    added = random.choice(("other format", "second end", "whole archive"))
    if added == "other format":
        data = random.choice(_OTHER_FORMATS)
    elif added == "second end":
        data = layout.END.pack(*EndRecord(entries=random.choice((0, 1)), directory_size=46))
    else:
        data = draft.written()[: 1 << 15]
    setattr(draft, place, data)


def _widen(draft: Draft, random: Random) -> None:
    draft.wide = not draft.wide
    if random.random() < 0.5:
        name, bits = random.choice(HEADERS["end"])
        draft.lies["end", 0, name] = (1 << bits) - 1


def _splice(draft: Draft, random: Random, donor: Draft) -> None:
    """Add a record of another archive, beside or in place of one of the same kind."""
    given = random.choice(donor.members)
    index = _pick(draft, random)
    root = draft.members[0].name.partition(b"/")[0]
    name = root + b"/" + given.name.partition(b"/")[2]
    same = [i for i, member in enumerate(draft.members) if member.name == name]
    if same:
        draft.members[same[0]] = given.renamed(name, name)
    else:
        draft.members.insert(index, given.renamed(name, name))


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def _double(data: bytes, random: Random) -> bytes:
    place = random.randrange(len(data))
    return data[:place] + data[random.randrange(len(data)) :]


def _lzma(data: bytes) -> bytes:
    """Compress as zip holds LZMA: a version, the properties with their length, the stream."""
    alone = lzma.compress(data, lzma.FORMAT_ALONE)
    return b"\x09\x04\x05\x00" + alone[:5] + alone[13:]


_PACKERS: dict[int, Callable[[bytes], bytes]] = {
    layout.DEFLATED: lambda data: zlib.compress(data, 9)[2:-4],
    layout.BZIP2: bz2.compress,
    layout.LZMA: _lzma,
}


@lru_cache(maxsize=4096)
def _packed(data: bytes, method: int) -> bytes:
    return _PACKERS[method](data)


_CHANGES: tuple[_Change, ...] = (
    *(_lie,) * 5,
    *(_lie_twice, _rename, _repack, _extra, _descriptor, _surround) * 2,
    *(_overlap, _duplicate, _drop, _swap, _swap_content, _rename_slightly, _damage, _widen, _bomb),
)


def _fields(names: tuple[str, ...], layout_: Struct) -> tuple[tuple[str, int], ...]:
    """Return the numeric fields of a header, with their widths in bits."""
    widths = {"H": 16, "L": 32, "Q": 64}
    numbers = re.findall(r"(\d*)([A-Z])", layout_.format.removeprefix("<4s"))
    codes = "".join(letter * int(count or 1) for count, letter in numbers)
    return tuple((name, widths[code]) for name, code in zip(names[1:], codes, strict=True))


_LAYOUTS: Final[dict[str, tuple[Any, Struct]]] = {
    "local": (LocalHeader, layout.LOCAL),
    "central": (CentralHeader, layout.CENTRAL),
    "end": (EndRecord, layout.END),
    "end64": (End64Record, layout.END64),
    "locator": (Locator64, layout.LOCATOR64),
}
HEADERS: Final = {kind: _fields(of._fields, layout_) for kind, (of, layout_) in _LAYOUTS.items()}


class Member(NamedTuple):
    """One entry: both its headers with the names and fields after them, and its data as stored."""

    local: LocalHeader
    central: CentralHeader
    name: bytes
    central_name: bytes
    local_extra: bytes
    central_extra: bytes
    payload: bytes
    descriptor: bytes

    @property
    def record(self) -> str:
        """The name without the root folder."""
        return self.name.partition(b"/")[2].decode("utf-8", "replace")

    def renamed(self, local: bytes, central: bytes) -> Member:
        """Return the entry with these names in its two headers."""
        return self._replace(name=local, central_name=central)

    def with_extra(self, field: bytes, where: str) -> Member:
        """Return the entry with an extra field in its header ``where``; in both for ``both``."""
        return self._replace(
            local_extra=self.local_extra + (field if where != "central" else b""),
            central_extra=self.central_extra + (field if where != "local" else b""),
        )

    def with_content(self, content: bytes, packed: bytes, method: int) -> Member:
        """Return the entry with other data, and all its headers updated to match."""
        truth: dict[str, Any] = {
            "method": method,
            "crc": zlib.crc32(content),
            "stored_size": len(packed),
            "size": len(content),
            "flags": self.central.flags & ~layout.FLAG_DESCRIPTOR,
        }
        return self._replace(
            local=self.local._replace(**truth),
            central=self.central._replace(**truth),
            local_extra=b"",
            payload=packed,
            descriptor=b"",
        )


@dataclass(slots=True)
class Draft:
    """The parts of an archive in file order.

    ``lies`` replaces fields of headers when they are written, by kind of header, number of the
    entry and name of the field; all other fields are truthful.
    """

    members: list[Member]
    prefix: bytes = b""
    gap: bytes = b""
    comment: bytes = b""
    trailer: bytes = b""
    wide: bool = False
    lies: dict[tuple[str, int, str], int] = field(default_factory=dict)

    def copy(self) -> Draft:
        """Return a draft that can be changed without changing this one."""
        return Draft(self.members.copy(), wide=self.wide)

    def offset(self, index: int) -> int:
        """Return the offset of an entry's local header."""
        before = self.members[:index]
        return len(self.prefix) + sum(map(_length, before))

    def true_value(self, kind: str, index: int, name: str) -> int:
        """Return the truthful value of a header field; 0 for headers of the end."""
        if kind not in ("local", "central"):
            return 0
        value: int = getattr(getattr(self.members[index], kind), name)
        return value

    def written(self) -> bytes:
        """Return the bytes of the archive."""
        parts, directory = [self.prefix], []
        position = len(self.prefix)
        for index, member in enumerate(self.members):
            local = self._entry("local", index, member.name, member.local_extra)
            parts += (local, member.payload, member.descriptor)
            name, extra = member.central_name, member.central_extra
            directory.append(self._entry("central", index, name, extra, header_offset=position))
            position += _length(member)
        directory_bytes = b"".join(directory)
        end = self._end(position + len(self.gap), len(directory_bytes))
        return b"".join((*parts, self.gap, directory_bytes, end, self.comment, self.trailer))

    def _entry(self, kind: str, index: int, name: bytes, extra: bytes, **told: int) -> bytes:
        """Return a header of an entry, ``local`` or ``central``, with its name and extra fields."""
        header = getattr(self.members[index], kind)._replace(
            name_length=len(name) & layout.MAX16, extra_length=len(extra) & layout.MAX16, **told
        )
        return self._packed(kind, index, header) + name + extra

    def _end(self, offset: int, size: int) -> bytes:
        entries = len(self.members)
        end = EndRecord(
            disk_entries=entries,
            entries=entries,
            directory_size=size,
            directory_offset=offset,
            comment_length=len(self.comment) & layout.MAX16,
        )
        narrow = self._packed("end", 0, end)
        if not self.wide:
            return narrow
        end64 = End64Record(
            disk_entries=entries, entries=entries, directory_size=size, directory_offset=offset
        )
        locator = Locator64(end_offset=offset + size)
        wide = self._packed("end64", 0, end64) + self._packed("locator", 0, locator)
        return wide + narrow

    def _packed(self, kind: str, index: int, header: Any) -> bytes:
        """Return the bytes of a header, with the lies about it."""
        lies = {name: v for (k, i, name), v in self.lies.items() if k == kind and i == index}
        return _LAYOUTS[kind][1].pack(*header._replace(**lies))


def _length(member: Member) -> int:
    around = layout.LOCAL.size + len(member.name) + len(member.local_extra)
    return around + len(member.payload) + len(member.descriptor)


@lru_cache(maxsize=1024)
def take_apart(data: bytes) -> Draft:
    """Split a sound archive of one volume, as torch, tsarchive and zip tools write it.

    The draft is cached for calls with the same bytes: copy it before changing it.
    """
    offset, size, entries = find_directory(Source(memoryview(data)), STRICT)
    centrals = _centrals(data, offset, entries)
    starts = sorted(header.header_offset for header, _, _ in centrals)
    after = dict(zip(starts, [*starts[1:], offset], strict=True))
    members = [_member(data, *central, after[central[0].header_offset]) for central in centrals]
    return Draft(members, wide=data[offset + size :].startswith(layout.END64_SIGNATURE))


def _centrals(data: bytes, offset: int, entries: int) -> list[tuple[CentralHeader, bytes, bytes]]:
    found = []
    for _ in range(entries):
        header = CentralHeader(*layout.CENTRAL.unpack_from(data, offset))
        name = offset + layout.CENTRAL.size
        extra = name + header.name_length
        comment = extra + header.extra_length
        found.append((header, data[name:extra], data[extra:comment]))
        offset = comment + header.comment_length
    return found


def _member(data: bytes, central: CentralHeader, name: bytes, extra: bytes, end: int) -> Member:
    local = LocalHeader(*layout.LOCAL.unpack_from(data, central.header_offset))
    own_name = central.header_offset + layout.LOCAL.size
    own_extra = own_name + local.name_length
    payload = own_extra + local.extra_length
    descriptor = payload + central.stored_size
    return Member(
        local,
        central._replace(comment_length=0),
        data[own_name:own_extra],
        name,
        data[own_extra:payload],
        extra,
        data[payload:descriptor],
        data[descriptor:end],
    )


def _mutate_record(name: str, content: bytes, random: Random) -> bytes:
    """Mutate the content of a record according to its kind, which its name tells."""
    if name.endswith((".pkl", ".debug_pkl")):
        return mutate_pickle(content, random)
    if name.endswith(".py"):
        # Mutated text may hold lone surrogates, which no file can.
        return mutate_code(content.decode(), random).encode("utf-8", "replace")
    if name.endswith(".json"):
        return mutate_json(content, random)
    return mutate_bytes(content, random)


_CODE = """\
class Model(Module):
  __parameters__ = ["weight", ]
  __buffers__ = []
  weight : Tensor
  training : bool
  names : List[str]
  scale : Optional[float]
  def forward(self: __torch__.Model,
    x: Tensor,
    n: int=2) -> Tensor:
    weight = self.weight
    y = torch.add(torch.mul(x, weight), CONSTANTS.c0, alpha=n)
    for i in range(n):
      if torch.gt(i, 0):
        y0 = torch.relu(y)
      else:
        y0 = torch.neg(y)
      y = y0
    return (self).scaled(y, )
  def scaled(self: __torch__.Model,
    y: Tensor) -> Tensor:
    scale = self.scale
    if torch.__is__(scale, None):
      z = y
    else:
      z = torch.mul(y, unchecked_cast(float, scale))
    return z
"""


def small_code() -> str:
    """Return the code record, ``code/__torch__.py``, of :func:`small_archive`."""
    return _CODE


@cache
def small_pickle() -> bytes:
    """Return the ``data.pkl`` of :func:`small_archive`."""
    state: dict[Value, Value] = {
        "weight": _reduced("torch._utils", "_rebuild_parameter", _vector("0"), True, _no_hooks()),
        "training": False,
        "names": _reduced("torch.jit._pickle", "restore_type_tag", ["a", "b"], "List[str]"),
        "scale": 0.5,
    }
    return dumps(Object(Global("__torch__", "Model"), state))


@cache
def small_archive() -> bytes:
    """Return an archive of a module with a parameter, a constant, two methods and control flow."""
    numbers = struct.pack("<4f", 1, 2, 3, 4)
    records = {
        "data.pkl": small_pickle(),
        "code/__torch__.py": _CODE.encode(),
        "data/0": numbers,
        "constants/0": numbers,
        "constants.pkl": dumps((_vector("0"),)),
        "version": b"3\n",
    }
    written = io.BytesIO()
    write_container(written, [NewRecord(name, data) for name, data in records.items()])
    return written.getvalue()


def _vector(key: str) -> Reduce:
    """Return a vector of four float32."""
    storage = PersistentId(("storage", Global("torch", "FloatStorage"), key, "cpu", 4))
    arguments = (storage, 0, MarkedTuple((4,)), MarkedTuple((1,)), False, _no_hooks())
    return _reduced("torch._utils", "_rebuild_tensor_v2", *arguments)


def _no_hooks() -> Reduce:
    return _reduced("collections", "OrderedDict")


def _reduced(module: str, name: str, *arguments: Value) -> Reduce:
    return Reduce(Global(module, name), MarkedTuple(arguments))
