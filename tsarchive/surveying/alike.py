"""Which releases load and run a file, told once for files that differ in their weights alone."""

from __future__ import annotations

from hashlib import sha256
from typing import Final, NamedTuple

from tsarchive.archive import archive_of
from tsarchive.compatibility import compatibility_of
from tsarchive.container import Container
from tsarchive.formats.base import Opened
from tsarchive.formats.records import Role
from tsarchive.formats.registry import format_of

# What these hold decides nothing: the version of the format, which is a note, counts by itself.
_WITHOUT_SAY: Final = frozenset({Role.TENSORS, Role.NOTES, Role.EXTRA})
_MOST_KNOWN: Final = 256


class Releases(NamedTuple):
    """The releases of torch that load a file, and those that also run it."""

    loads: tuple[str, ...]
    runs: tuple[str, ...]


_known: Final[dict[bytes, Releases]] = {}


def releases_of(opened: Opened) -> Releases:
    """Return what :func:`tsarchive.compat` tells of a file that is open. Raises as it does.

    Checkpoints of one network have the same code, and reading that as each release would takes
    longer than all else: of TorchScript, the answers for the last codes are kept.
    """
    format_ = format_of(opened)
    if not (isinstance(opened, Container) and format_.has_code):
        return _asked(opened)
    key = _key(opened)
    if key not in _known:
        answer = _asked(opened)
        while len(_known) >= _MOST_KNOWN:
            del _known[next(iter(_known))]
        _known[key] = answer
    return _known[key]


def _asked(opened: Opened) -> Releases:
    rows = compatibility_of(opened).rows
    return Releases(
        tuple(row.torch for row in rows if row.loads), tuple(row.torch for row in rows if row.runs)
    )


def _key(container: Container) -> bytes:
    """Return a digest of all that decides: names of records, and what those hold with a say."""
    format_ = format_of(container)
    table = format_.table(container)
    digest = sha256(f"{format_.kind} {archive_of(container).format_version}\n".encode())
    for name in sorted(container.records):
        held = b"" if table.role(name) in _WITHOUT_SAY else container.read(name)
        digest.update(_framed(name.encode("utf-8", "surrogateescape")))
        digest.update(_framed(held))
    return digest.digest()


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data
