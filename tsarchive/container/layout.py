"""The byte layout of a zip archive: signatures, fixed headers, flags, methods.

Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5. Integers are little-endian. The
defaults of each header are the values that torch writes.
"""

# Annotations are types here, not their text: NamedTuple would compile each of them.
from struct import Struct
from typing import NamedTuple

LOCAL_SIGNATURE = b"PK\x03\x04"
CENTRAL_SIGNATURE = b"PK\x01\x02"
DESCRIPTOR_SIGNATURE = b"PK\x07\x08"
END_SIGNATURE = b"PK\x05\x06"
END64_SIGNATURE = b"PK\x06\x06"
LOCATOR64_SIGNATURE = b"PK\x06\x07"

LOCAL = Struct("<4s5H3L2H")
CENTRAL = Struct("<4s6H3L5H2L")
END = Struct("<4s4H2LH")
END64 = Struct("<4sQ2H2L4Q")
LOCATOR64 = Struct("<4sLQL")
# Signature, CRC-32, stored size, size.
DESCRIPTOR = Struct("<4s3L")
DESCRIPTOR64 = Struct("<4sL2Q")

# Marks a 16 or 32 bit field whose real value stands in a ZIP64 structure.
MAX16 = 0xFFFF
MAX32 = 0xFFFFFFFF

FLAG_ENCRYPTED = 1 << 0
# Compression level hints; readers ignore them.
FLAGS_OF_ENCODER = 1 << 1 | 1 << 2
FLAG_DESCRIPTOR = 1 << 3
FLAG_PATCHED = 1 << 5
FLAG_STRONG_ENCRYPTION = 1 << 6
FLAG_UTF8 = 1 << 11
FLAG_MASKED = 1 << 13

ZIP64_FIELD = 0x0001
UNICODE_PATH_FIELD = 0x7075
# Torch's own extra field, filled with "Z" so that the data begins at a multiple of ALIGNMENT.
PADDING_FIELD = b"FB"
ALIGNMENT = 64

STORED = 0
DEFLATED = 8
DEFLATE64 = 9
BZIP2 = 12
LZMA = 14

METHOD_NAMES = {
    STORED: "stored",
    1: "shrunk",
    2: "reduced (factor 1)",
    3: "reduced (factor 2)",
    4: "reduced (factor 3)",
    5: "reduced (factor 4)",
    6: "imploded",
    DEFLATED: "deflated",
    DEFLATE64: "Deflate64",
    10: "PKWARE imploded",
    BZIP2: "bzip2",
    LZMA: "LZMA",
    93: "Zstandard",
    94: "MP3",
    95: "xz",
    96: "JPEG",
    97: "WavPack",
    98: "PPMd",
    99: "AES encrypted",
}

# "Version needed to extract" by method. 0 for stored is torch's value; readers take it as 1.0.
VERSION_NEEDED = {STORED: 0, DEFLATED: 20, DEFLATE64: 21, BZIP2: 46, LZMA: 63}


class LocalHeader(NamedTuple):
    """The header before the data of an entry, followed by the name and the extra fields."""

    signature: bytes = LOCAL_SIGNATURE
    version_needed: int = 0
    flags: int = 0
    method: int = STORED
    time: int = 0
    date: int = 0
    crc: int = 0
    stored_size: int = 0
    size: int = 0
    name_length: int = 0
    extra_length: int = 0


class CentralHeader(NamedTuple):
    """One entry of the directory, followed by the name, the extra fields and a comment."""

    signature: bytes = CENTRAL_SIGNATURE
    made_by: int = 0
    version_needed: int = 0
    flags: int = 0
    method: int = STORED
    time: int = 0
    date: int = 0
    crc: int = 0
    stored_size: int = 0
    size: int = 0
    name_length: int = 0
    extra_length: int = 0
    comment_length: int = 0
    disk: int = 0
    internal_attributes: int = 0
    external_attributes: int = 0
    header_offset: int = 0


class EndRecord(NamedTuple):
    """The record that locates the directory, followed by a comment that ends the file."""

    signature: bytes = END_SIGNATURE
    disk: int = 0
    directory_disk: int = 0
    disk_entries: int = 0
    entries: int = 0
    directory_size: int = 0
    directory_offset: int = 0
    comment_length: int = 0


class End64Record(NamedTuple):
    """The end record in 64 bit form. ``record_size`` does not count its own first 12 bytes."""

    signature: bytes = END64_SIGNATURE
    record_size: int = END64.size - 12
    made_by: int = 0x031E
    version_needed: int = 45
    disk: int = 0
    directory_disk: int = 0
    disk_entries: int = 0
    entries: int = 0
    directory_size: int = 0
    directory_offset: int = 0


class Locator64(NamedTuple):
    """The locator of the ZIP64 end record, directly before the end record."""

    signature: bytes = LOCATOR64_SIGNATURE
    disk: int = 0
    end_offset: int = 0
    disks: int = 1
