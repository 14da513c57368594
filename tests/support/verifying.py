"""What the tests of verifying share: archives taken apart, changed and packed again."""

from __future__ import annotations

import io
import zipfile
import zlib

import tsarchive
from tests.support.archives import ARCHIVES, records_of
from tsarchive.container import NewRecord, Packed, write_container

SEQUENTIAL = ARCHIVES / "sequential.pt"
FINGERPRINT = ".data/serialization_id"
METHODS = {
    "stored": zipfile.ZIP_STORED,
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


def records(path=SEQUENTIAL):
    return records_of(path.read_bytes())


def packed(members, root="m") -> bytes:
    """Records as torch packs them; the writer makes the fingerprint itself."""
    written = io.BytesIO()
    new = [NewRecord(name, data) for name, data in members.items() if name != FINGERPRINT]
    write_container(written, new, root=root)
    return written.getvalue()


def zipped(members, root="m", method=zipfile.ZIP_STORED) -> bytes:
    """Records as an archiver packs them."""
    written = io.BytesIO()
    prefix = f"{root}/" if root else ""
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(prefix + name), data, method)
    return written.getvalue()


def packed_as_deflate64(members) -> bytes:
    """Deflated data without matches is Deflate64 data, too."""
    written = io.BytesIO()
    new = [NewRecord(name, b"", packed=_deflate64(data)) for name, data in members.items()]
    write_container(written, [record for record in new if record.name != FINGERPRINT], root="m")
    return written.getvalue()


def _deflate64(data: bytes) -> Packed:
    encoder = zlib.compressobj(9, zlib.DEFLATED, -15, 8, zlib.Z_HUFFMAN_ONLY)
    payload = encoder.compress(data) + encoder.flush()
    return Packed(9, zlib.crc32(data), len(data), payload)


def changed(path=SEQUENTIAL, without=(), **records_by_name) -> bytes:
    """The archive with some records replaced, added or left out, packed as torch does."""
    members = {name: data for name, data in records(path).items() if name not in without}
    return packed(members | records_by_name)


def verified(data: bytes):
    return tsarchive.verify(io.BytesIO(data))


def first(data: bytes):
    """The report, and the worst of its findings."""
    report = verified(data)
    return report, report.findings[0]
