"""Archives that contradict themselves: each is refused with a typed error that says where."""

from __future__ import annotations

import io
import itertools
import struct

import pytest

from tests.container.forging import (
    FORMS,
    HELLO,
    MAX32,
    descriptor,
    field,
    forge,
    member,
    pack,
    unknown_sizes,
)
from tsarchive.container import Container, caps
from tsarchive.errors import FormatError, UnsupportedError


def read_all(data):
    with Container.open(io.BytesIO(data)) as container:
        return {name: container.read(name) for name in container.records}


ACCEPTED = {
    "plain": forge(member()),
    "two members": forge(member(), member("root/b", b"hello")),
    "a comment": forge(member(), comment=b"packed by hand"),
    "the longest comment": forge(member(), comment=b"x" * 65535),
    "a comment with part of an end record": forge(member(), comment=b"PK\x05\x06 is not one"),
    "ZIP64 end": forge(member(), wide=True),
    "ZIP64 end with clamped fields": forge(
        member(),
        wide=True,
        end={"here": 0xFFFF, "entries": 0xFFFF, "dir_size": MAX32, "dir_offset": MAX32},
    ),
    "ZIP64 sizes": forge(
        member(
            stored=MAX32,
            size=MAX32,
            extra=field(1, struct.pack("<2Q", 5, 5)),
        )
    ),
    "ZIP64 offset": forge(
        member(central={"offset": MAX32, "extra": field(1, struct.pack("<Q", 0))})
    ),
    "other extra fields": forge(member(extra=field(0x5455, b"\1abcd") + field(0x7875, b"xyz"))),
    "padding that is no extra field": forge(member(local={"extra": b"\0\0\0"})),
    "the name once more": forge(member(central={"extra": field(0x7075, b"\1crc.root/a")})),
    "encoder flags of the local header": forge(member(local={"flags": 4}, central={"flags": 2})),
    "the longest name": forge(member("root/" + "a" * 4091)),
    "UTF-8 name": forge(member("root/é", flags=0x800)),
    "torch's ZIP64 local header": forge(
        member(
            **unknown_sizes(extra=field(1, struct.pack("<Q", 0))),
            descriptor=descriptor("64 bits"),
        )
    ),
    "sizes to come in the ZIP64 field": forge(
        member(
            **unknown_sizes(stored=MAX32, size=MAX32, extra=field(1, bytes(16))),
            descriptor=descriptor("64 bits"),
        )
    ),
    **{
        f"descriptor, {form}": forge(member(**unknown_sizes(), descriptor=descriptor(form)))
        for form in FORMS
    },
}


@pytest.mark.parametrize("form", ACCEPTED)
def test_unusual_but_sound_archives_are_read(form):
    assert set(read_all(ACCEPTED[form]).values()) == {b"hello"}


# The archive, the error, a part of its message.
REFUSED = {
    # Between the two headers of an entry.
    "other local name": (forge(member(local={"name": b"root/b"})), FormatError, "another name"),
    "longer local name": (forge(member(local={"name": b"root/ab"})), FormatError, "another name"),
    "other local method": (
        forge(member(local={"method": 8})),
        FormatError,
        "method 8 in the local",
    ),
    "other local flags": (forge(member(local={"flags": 1})), FormatError, "flags 1 in the local"),
    "other local size": (forge(member(local={"size": 4})), FormatError, "size 4 in the local"),
    "other local stored size": (forge(member(local={"stored": 4})), FormatError, "stored size 4"),
    "other local CRC": (forge(member(local={"crc": 4})), FormatError, "CRC-32 4 in the local"),
    "no local sizes and no descriptor": (
        forge(member(local={"stored": 0, "size": 0, "crc": 0})),
        FormatError,
        "CRC-32 0 in the local",
    ),
    "wide local sizes without the field": (
        forge(member(local={"stored": MAX32, "size": MAX32})),
        FormatError,
        "0 bytes where 16 are needed",
    ),
    "wrong local size before a descriptor": (
        forge(member(**unknown_sizes(size=6), descriptor=descriptor("32 bits"))),
        FormatError,
        "size 6 in the local",
    ),
    "local extra fields that reach too far": (
        forge(member(local={"extra_n": 50})),
        FormatError,
        "runs into",
    ),
    "no local header": (
        forge(member(local={"sig": b"PK\x03\x05"})),
        FormatError,
        "no local header",
    ),
    **{
        f"wrong descriptor: {form} {wrong}": (
            forge(member(**unknown_sizes(), descriptor=descriptor(form, **wrong))),
            FormatError,
            "descriptor",
        )
        for form, wrong in itertools.product(FORMS, [{"crc": 1}, {"stored": 6}, {"size": 6}])
    },
    "cut descriptor": (
        forge(member(**unknown_sizes(), descriptor=descriptor("32 bits")[:-1])),
        FormatError,
        "descriptor",
    ),
    "no descriptor": (forge(member(**unknown_sizes())), FormatError, "runs into"),
    # Data.
    "wrong CRC": (forge(member(crc=HELLO ^ 1)), FormatError, "does not match its CRC-32"),
    "wrong CRC of nothing": (forge(member(data=b"", crc=1)), FormatError, "does not match"),
    "stored, with two sizes": (forge(member(size=6)), FormatError, "6 bytes take 5"),
    "encrypted": (forge(member(flags=1)), UnsupportedError, "encrypted"),
    "strongly encrypted": (forge(member(flags=0x40)), UnsupportedError, "encrypted"),
    "masked": (forge(member(flags=0x2000)), UnsupportedError, "masked"),
    "patch": (forge(member(flags=0x20)), UnsupportedError, "patch"),
    "unknown method": (forge(member(method=93)), UnsupportedError, "Zstandard"),
    # Where entries lie.
    "two entries of one place": (
        forge(member(), member("root/b", central={"offset": 0})),
        FormatError,
        "another record begins at byte 0 too",
    ),
    "an entry inside another": (
        forge(member(data=forge(member("root/b"))), member("root/b", central={"offset": 36})),
        FormatError,
        "runs into",
    ),
    "an entry beyond the file": (
        forge(member(), member("root/b", central={"offset": 5000})),
        FormatError,
        "runs into",
    ),
    "an entry in the directory": (
        forge(member(), member("root/b", central={"offset": 45})),
        FormatError,
        "runs into",
    ),
    "data beyond the file": (
        forge(member(stored=5000, size=5000)),
        FormatError,
        "runs into what begins",
    ),
    # Names.
    "one name twice": (forge(member(), member()), FormatError, "two records have this name"),
    "absolute": (forge(member("/root/a")), FormatError, "absolute"),
    "absolute with backslash": (forge(member("\\root\\a")), FormatError, "absolute"),
    "absolute below the root": (forge(member("root//etc/hosts")), FormatError, "absolute"),
    "drive": (forge(member("C:/a")), FormatError, "drive"),
    "drive below the root": (forge(member("root/C:/a")), FormatError, "drive"),
    "parent": (forge(member("root/../../a")), FormatError, "steps out"),
    "parent with backslash": (forge(member("root/..\\..\\a")), FormatError, "steps out"),
    "parent as root": (forge(member("../a")), FormatError, "steps out"),
    "NUL": (forge(member("root/a\0.txt")), FormatError, "control"),
    "newline": (forge(member("root/a\n")), FormatError, "control"),
    "very long": (forge(member("root/" + "a" * 4092)), FormatError, "4096"),
    "not UTF-8": (forge(member(b"root/\xff", flags=0x800)), FormatError, "UTF-8"),
    "not ASCII": (forge(member("root/é")), FormatError, "not marked as UTF-8"),
    "surrogate": (forge(member(b"root/\xed\xa0\x80", flags=0x800)), FormatError, "UTF-8"),
    "two names": (
        forge(member(central={"extra": field(0x7075, b"\1crc.root/b")})),
        FormatError,
        "second, different name",
    ),
    "two roots": (forge(member(), member("other/b")), FormatError, "not in the folder 'root'"),
    "a record beside the root": (forge(member(), member("b")), FormatError, "not in the folder"),
    "a record named as the root": (
        forge(member(), member("root")),
        FormatError,
        "not in the folder",
    ),
    "a folder with data": (forge(member(), member("root/b/")), FormatError, "like a folder"),
    # Extra fields of the directory.
    "short extra field": (forge(member(central={"extra": b"abc"})), FormatError, "cut short"),
    "long extra field": (
        forge(member(central={"extra": b"\1\0\x09\0" + bytes(8)})),
        FormatError,
        "longer than",
    ),
    "double extra field": (
        forge(member(central={"extra": field(7, b"") * 2})),
        FormatError,
        "occurs twice",
    ),
    "wide size without the field": (forge(member(size=MAX32)), FormatError, "0 bytes where 8"),
    "ZIP64 field with too much": (
        forge(member(central={"offset": MAX32, "extra": field(1, bytes(16))})),
        FormatError,
        "16 bytes where 8",
    ),
    # The directory.
    "no entries": (forge(), FormatError, "no records"),
    "fewer entries than said": (
        forge(member(), end={"here": 2, "entries": 2}),
        FormatError,
        "do not fit",
    ),
    "one entry too many": (
        forge(member("root/" + "a" * 60), end={"here": 2, "entries": 2}),
        FormatError,
        "ends inside an entry",
    ),
    "more entries than said": (
        forge(member(), member("root/b"), end={"here": 1, "entries": 1}),
        FormatError,
        "belong to no entry",
    ),
    "entry with a wrong signature": (
        forge(member(central={"sig": b"PK\x01\x03"})),
        FormatError,
        "wrong signature",
    ),
    "name longer than the directory": (
        forge(member(central={"name_n": 5000})),
        FormatError,
        "ends inside an entry",
    ),
    "directory too small": (forge(member(), end={"dir_size": 50}), FormatError, "should end at"),
    "directory elsewhere": (forge(member(), end={"dir_offset": 3}), FormatError, "should end at"),
    "directory beyond the file": (
        forge(member(), end={"dir_offset": 2**31}),
        FormatError,
        "should end at",
    ),
    "bytes in front": (b"#!/bin/sh\n" + forge(member()), FormatError, "in front of the archive"),
    "bytes in front of a ZIP64 archive": (
        b"#!/bin/sh\n" + forge(member(), wide=True),
        FormatError,
        "points at no ZIP64",
    ),
    # The end.
    "bytes behind": (forge(member()) + b"junk", FormatError, "4 bytes follow the end record"),
    "a byte behind": (forge(member()) + b"\n", FormatError, "1 bytes follow the end record"),
    "zeros behind": (forge(member()) + bytes(600), FormatError, "600 bytes follow"),
    "short comment": (
        forge(member(), comment=b"packed by hand")[:-4],
        FormatError,
        "lacks 4 bytes",
    ),
    "two ends": (
        forge(member(), comment=forge(member("root/b"))),
        FormatError,
        "two end records",
    ),
    "volume": (forge(member(), end={"disk": 1}), UnsupportedError, "volumes"),
    "directory in another volume": (
        forge(member(), end={"dir_disk": 1}),
        UnsupportedError,
        "volumes",
    ),
    "entries in other volumes": (forge(member(), end={"entries": 2}), UnsupportedError, "volumes"),
    "entry in another volume": (forge(member(central={"disk": 1})), UnsupportedError, "volume"),
    "ZIP64 volumes": (
        forge(member(), wide=True, locator={"disks": 2}),
        UnsupportedError,
        "volumes",
    ),
    "locator to nowhere": (
        forge(member(), wide=True, locator={"offset": 2**60}),
        FormatError,
        "points at no ZIP64",
    ),
    "ZIP64 end of another length": (
        forge(member(), wide=True, end64={"n": 45}),
        FormatError,
        "wrong length",
    ),
    **{
        f"ends that differ in {name}": (
            forge(member(), wide=True, end={name: 3}),
            FormatError,
            "two end records contradict",
        )
        for name in ("disk", "dir_disk", "here", "entries", "dir_size", "dir_offset")
    },
}


@pytest.mark.parametrize("fault", REFUSED)
def test_contradictions_are_refused(fault):
    data, kind, message = REFUSED[fault]
    with pytest.raises(kind) as caught:
        read_all(data)
    assert message in str(caught.value)


def test_a_narrow_descriptor_of_a_large_record_is_refused(monkeypatch):
    monkeypatch.setattr(caps, "FREE_INFLATED_BYTES", 2**33)
    wide_size = {"size": MAX32, "extra": field(1, struct.pack("<Q", 2**32 + 5))}
    large = member(**unknown_sizes(), method=8, central=wide_size, descriptor=descriptor("32 bits"))
    with pytest.raises(FormatError, match="descriptor"):
        read_all(forge(large))


def test_bytes_before_the_first_entry_are_refused():
    """The offsets count the bytes in front, as in a self-extracting archive."""
    data = forge(member("root/hidden"), member("root/b"))
    directory = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", directory + 1)
    size = data.index(b"PK\x05\x06") - second
    end = pack("end", sig=b"PK\x05\x06", here=1, entries=1, dir_size=size, dir_offset=directory)
    with pytest.raises(FormatError, match="46 bytes stand before the first record"):
        read_all(data[:directory] + data[second : second + size] + end)


def test_a_refusal_says_where():
    with pytest.raises(FormatError) as caught:
        read_all(forge(member(), member("root/b", crc=1)))
    assert caught.value.record == "b"
    assert caught.value.offset == 41 + 36
    with pytest.raises(FormatError) as caught:
        read_all(forge(member(), member("root/b", local={"method": 8})))
    assert (caught.value.record, caught.value.offset) == ("b", 41)
    with pytest.raises(FormatError) as caught:
        read_all(forge(member(), member("root/b", central={"sig": b"what"})))
    assert caught.value.offset == 41 + 41 + 52
    with pytest.raises(FormatError) as caught:
        read_all(forge(member(), end={"here": 0, "entries": 0}))
    assert caught.value.offset == 41
    with pytest.raises(FormatError) as caught:
        read_all(forge(member(data=bytes(100_000))) + b"junk")
    assert caught.value.offset == 36 + 100_000 + 52
