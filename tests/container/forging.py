"""Zip archives laid out byte by byte, with any field of any header replaced."""

from __future__ import annotations

import struct
import zlib

FIELDS = {
    "local": ("<4s5H3L2H", "sig needed flags method time date crc stored size name_n extra_n"),
    "central": (
        "<4s6H3L5H2L",
        "sig made needed flags method time date crc stored size name_n extra_n comment_n disk "
        "internal external offset",
    ),
    "end": ("<4s4H2LH", "sig disk dir_disk here entries dir_size dir_offset comment_n"),
    "end64": ("<4sQ2H2L4Q", "sig n made needed disk dir_disk here entries dir_size dir_offset"),
    "locator": ("<4sLQL", "sig disk offset disks"),
}


def pack(kind, **values):
    layout, names = FIELDS[kind]
    return struct.pack(layout, *(values.get(name, 0) for name in names.split()))


def member(name="root/a", data=b"hello", *, local=None, central=None, **both):
    """One entry: shared header fields, and those that one of the two headers has its own way.

    ``local``/``central`` may also have ``name`` and ``extra``; ``both`` may have ``descriptor``.
    """
    raw = name.encode() if isinstance(name, str) else name
    values = {"crc": zlib.crc32(data), "stored": len(data), "size": len(data), "name": raw}
    values.update(both)
    return {
        "data": data,
        "descriptor": values.pop("descriptor", b""),
        "local": {**values, **(local or {})},
        "central": {**values, **(central or {})},
    }


def header(kind, signature, values):
    name, extra = values["name"], values.get("extra", b"")
    lengths = {"sig": signature, "name_n": len(name), "extra_n": len(extra)}
    return pack(kind, **{**lengths, **values}) + name + extra


def forge(*members, end=None, end64=None, locator=None, comment=b"", gap=b"", wide=False):
    """Lay out members, the directory and the end, with any field of them replaced."""
    body, directory = b"", b""
    for entry in members:
        central = {"offset": len(body), **entry["central"]}
        body += header("local", b"PK\x03\x04", entry["local"])
        body += entry["data"] + entry["descriptor"]
        directory += header("central", b"PK\x01\x02", central)
    body += gap
    place = {"here": len(members), "entries": len(members)}
    place.update(dir_size=len(directory), dir_offset=len(body))
    tail = b""
    if wide:
        where = len(body) + len(directory)
        tail += pack("end64", **{"sig": b"PK\x06\x06", "n": 44, **place, **(end64 or {})})
        values = {"sig": b"PK\x06\x07", "offset": where, "disks": 1}
        tail += pack("locator", **{**values, **(locator or {})})
    values = {"sig": b"PK\x05\x06", "comment_n": len(comment), **place}
    return body + directory + tail + pack("end", **{**values, **(end or {})}) + comment


def field(number, contents):
    return struct.pack("<2H", number, len(contents)) + contents


HELLO = zlib.crc32(b"hello")
MAX32 = 0xFFFFFFFF
FORMS = ["32 bits", "32 bits unsigned", "64 bits", "64 bits unsigned"]


def descriptor(form, crc=HELLO, stored=5, size=5):
    numbers = struct.pack("<L2Q" if form.startswith("64") else "<3L", crc, stored, size)
    return numbers if form.endswith("unsigned") else b"PK\x07\x08" + numbers


def unknown_sizes(**local):
    return {"flags": 8, "local": {"crc": 0, "stored": 0, "size": 0, **local}}
