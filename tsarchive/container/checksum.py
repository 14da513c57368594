"""CRC-32, the checksum of zip; computed by isal where it is installed, which is faster."""

from __future__ import annotations

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
