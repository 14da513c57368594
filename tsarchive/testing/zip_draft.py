"""A zip archive split into parts, each of which can be changed before it is written again."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

from tsarchive.container import layout
from tsarchive.container.layout import (
    CentralHeader,
    End64Record,
    EndRecord,
    LocalHeader,
    Locator64,
)


def _fields(names: tuple[str, ...], layout_: Struct) -> tuple[tuple[str, int], ...]:
    """Return the numeric fields of a header, with their widths in bits."""
    widths = {"H": 16, "L": 32, "Q": 64}
    codes: list[str] = []
    digits = ""
    for letter in layout_.format.removeprefix("<4s"):
        if letter.isdigit():
            digits += letter
        else:
            codes += letter * int(digits or 1)
            digits = ""
    return tuple((name, widths[code]) for name, code in zip(names[1:], codes, strict=True))


HEADERS: Final = {
    "local": _fields(LocalHeader._fields, layout.LOCAL),
    "central": _fields(CentralHeader._fields, layout.CENTRAL),
    "end": _fields(EndRecord._fields, layout.END),
    "end64": _fields(End64Record._fields, layout.END64),
    "locator": _fields(Locator64._fields, layout.LOCATOR64),
}


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
        """Return the entry with an extra field added to its ``local`` or ``central`` header, or
        both.
        """
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
            parts += (self._local(index, member), member.payload, member.descriptor)
            directory.append(self._central(index, member, position))
            position += _length(member)
        directory_bytes = b"".join(directory)
        end = self._end(position + len(self.gap), len(directory_bytes))
        return b"".join((*parts, self.gap, directory_bytes, end, self.comment, self.trailer))

    def _local(self, index: int, member: Member) -> bytes:
        header = member.local._replace(
            name_length=len(member.name) & layout.MAX16,
            extra_length=len(member.local_extra) & layout.MAX16,
        )
        fixed = layout.LOCAL.pack(*self._told("local", index, header))
        return fixed + member.name + member.local_extra

    def _central(self, index: int, member: Member, position: int) -> bytes:
        header = member.central._replace(
            name_length=len(member.central_name) & layout.MAX16,
            extra_length=len(member.central_extra) & layout.MAX16,
            header_offset=position,
        )
        fixed = layout.CENTRAL.pack(*self._told("central", index, header))
        return fixed + member.central_name + member.central_extra

    def _end(self, offset: int, size: int) -> bytes:
        entries = len(self.members)
        end = EndRecord(
            disk_entries=entries,
            entries=entries,
            directory_size=size,
            directory_offset=offset,
            comment_length=len(self.comment) & layout.MAX16,
        )
        narrow = layout.END.pack(*self._told("end", 0, end))
        if not self.wide:
            return narrow
        end64 = End64Record(
            disk_entries=entries, entries=entries, directory_size=size, directory_offset=offset
        )
        wide = layout.END64.pack(*self._told("end64", 0, end64))
        locator = Locator64(end_offset=offset + size)
        return wide + layout.LOCATOR64.pack(*self._told("locator", 0, locator)) + narrow

    def _told(self, kind: str, index: int, header: Any) -> Any:
        if not self.lies:
            return header
        told = {name: v for (k, i, name), v in self.lies.items() if k == kind and i == index}
        return header._replace(**told) if told else header


def _length(member: Member) -> int:
    around = layout.LOCAL.size + len(member.name) + len(member.local_extra)
    return around + len(member.payload) + len(member.descriptor)


@lru_cache(maxsize=1024)
def take_apart(data: bytes) -> Draft:
    """Split a sound archive of one volume, as torch, tsarchive and zip tools write it.

    The draft is cached for calls with the same bytes: copy it before changing it.
    """
    position = data.rindex(layout.END_SIGNATURE)
    end = EndRecord(*layout.END.unpack_from(data, position))
    offset, entries = end.directory_offset, end.entries
    locator = position - layout.LOCATOR64.size
    wide = data[locator : locator + 4] == layout.LOCATOR64_SIGNATURE
    if wide:
        (_, _, place, _) = layout.LOCATOR64.unpack_from(data, locator)
        end64 = End64Record(*layout.END64.unpack_from(data, place))
        offset, entries = end64.directory_offset, end64.entries
    centrals = _centrals(data, offset, entries)
    starts = sorted(header.header_offset for header, _, _ in centrals)
    after = dict(zip(starts, [*starts[1:], offset], strict=True))
    members = [_member(data, *central, after[central[0].header_offset]) for central in centrals]
    return Draft(members, wide=wide)


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
