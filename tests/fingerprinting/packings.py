"""The same model packed otherwise: files that must have its fingerprint, and no difference."""

from __future__ import annotations

import io
import random
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

import torch

import tsarchive
from tests.support.verifying import FINGERPRINT, METHODS, packed, zipped
from tsarchive.container import Container, NewRecord
from tsarchive.container.writer import write_records
from tsarchive.diffing.report import Part

Records = Mapping[str, bytes]
Make = Callable[[bytes, Records, random.Random], bytes | None]
"""Gives another file for a file and its records; None where there is none of this kind."""

# What tells of the packing, and of the source of the code.
_NOTES = ("byteorder", FINGERPRINT, ".storage_alignment", ".format_version")
_DEBUG = ".debug_pkl"
_TORCHSCRIPT = "constants.pkl"


def _by_zipfile(method: int) -> Make:
    return lambda data, records, chosen: zipped(records, method=method)


def _mixed_methods(data: bytes, records: Records, chosen: random.Random) -> bytes:
    """Compress each record by a method of its own."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in records.items():
            archive.writestr(f"m/{name}", content, chosen.choice([*METHODS.values()]))
    return written.getvalue()


def _deflated_by_us(data: bytes, records: Records, chosen: random.Random) -> bytes:
    written = io.BytesIO()
    new = [NewRecord(name, content, deflate=True) for name, content in _kept(records)]
    write_records(written, new, "m")
    return written.getvalue()


def _other_order(data: bytes, records: Records, chosen: random.Random) -> bytes:
    names = chosen.sample([*records], len(records))
    return packed({name: records[name] for name in names})


def _other_root(data: bytes, records: Records, chosen: random.Random) -> bytes:
    return packed(records, root=chosen.choice(["archive", "a model (2)", "ü", "x" * 150]))


def _zip64(data: bytes, records: Records, chosen: random.Random) -> bytes:
    """Give members of more than some bytes, and behind them, the form of those above 4 GiB."""
    written = io.BytesIO()
    new = [NewRecord(name, content) for name, content in _kept(records)]
    write_records(written, new, "m", chosen.choice([0, 64, 1024]))
    return written.getvalue()


def _other_headers(data: bytes, records: Records, chosen: random.Random) -> bytes:
    """Give members times, permissions and comments, and folders entries of their own."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(zipfile.ZipInfo("m/"), b"")
        for name, content in records.items():
            info = zipfile.ZipInfo(f"m/{name}", (2001, 2, 3, 4, 5, 6))
            info.external_attr = chosen.choice([0o644, 0o600, 0o755]) << 16
            info.comment = b"of a member"
            archive.writestr(info, content)
    return written.getvalue()


def _other_alignment(data: bytes, records: Records, chosen: random.Random) -> bytes:
    """Align data to 4 KiB instead of 64 bytes, by an extra field as torch does."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in records.items():
            info = zipfile.ZipInfo(f"m/{name}")
            missing = -(written.tell() + 34 + len(info.filename.encode())) % 4096
            info.extra = b"FB" + missing.to_bytes(2, "little") + b"Z" * missing
            archive.writestr(info, content)
    return written.getvalue()


def _packed_by_macos(data: bytes, records: Records, chosen: random.Random) -> bytes:
    return zipped({**records, ".DS_Store": b"\0\0\0\1Bud1"}, method=zipfile.ZIP_DEFLATED)


def _without_notes(data: bytes, records: Records, chosen: random.Random) -> bytes | None:
    if records.get("byteorder") == b"big":
        return None
    left = {name: content for name, content in records.items() if name not in _NOTES}
    return zipped(left) if len(left) < len(records) else None


def _without_debug(data: bytes, records: Records, chosen: random.Random) -> bytes | None:
    left = {name: content for name, content in records.items() if not name.endswith(_DEBUG)}
    return packed(left) if len(left) < len(records) else None


def _saved_again(*, canonical: bool) -> Make:
    def make(data: bytes, records: Records, chosen: random.Random) -> bytes:
        written = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tsarchive.save(tsarchive.load(io.BytesIO(data)), written, canonical=canonical)
        return written.getvalue()

    return make


def _saved_again_by_torch(data: bytes, records: Records, chosen: random.Random) -> bytes | None:
    if _TORCHSCRIPT not in records:
        return None
    written = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.load(io.BytesIO(data)), written)
    return written.getvalue()


def _kept(records: Records) -> list[tuple[str, bytes]]:
    """Return all but the record that the writer makes itself."""
    return [(name, content) for name, content in records.items() if name != FINGERPRINT]


PACKINGS: dict[str, Make] = {
    **{f"all members {name}": _by_zipfile(method) for name, method in METHODS.items()},
    "methods mixed": _mixed_methods,
    "all members deflated, aligned": _deflated_by_us,
    "other alignment": _other_alignment,
    "other order": _other_order,
    "other root": _other_root,
    "zip64": _zip64,
    "times, permissions, folders": _other_headers,
    "packed by macOS": _packed_by_macos,
    "without notes": _without_notes,
    "without debug records": _without_debug,
    "saved again": _saved_again(canonical=False),
    "canonical": _saved_again(canonical=True),
    "saved again by torch": _saved_again_by_torch,
}


RESAVES = frozenset({"saved again", "canonical", "saved again by torch"})
"""What is made by loading: extra files are given to a save, so these may lack them."""


def is_same(data: bytes, other: bytes, kind: str) -> bool:
    """Compare two files by both verbs, which must agree."""
    parts: tuple[Part, ...] = get_args(Part)
    only = [part for part in parts if kind not in RESAVES or part != "extra files"]
    report = tsarchive.diff(io.BytesIO(data), io.BytesIO(other), only=only)
    prints = [tsarchive.fingerprint(io.BytesIO(one)) for one in (data, other)]
    same = prints[0].model == prints[1].model
    if kind not in RESAVES:
        same = prints[0] == prints[1]
    assert report.same == same, kind
    return same


def records_in(data: bytes) -> Records:
    """Return the records of a file by name, of one without a root folder too."""
    with Container.open(io.BytesIO(data)) as container:
        return {name: container.read(name) for name in container.records}


def archives(folders: list[Path]) -> list[Path]:
    """Return the files below the folders, those with results of calls aside."""
    found = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    return sorted(path for path in found if ".io" not in path.name)
