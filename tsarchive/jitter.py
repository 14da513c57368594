"""No jitter: a module that is saved, loaded and saved again gives the same bytes."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from tsarchive.container import Container

if TYPE_CHECKING:
    import torch

_SHOWN = 32


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """The first byte in which a record of the two saves differs.

    ``first`` and ``second`` show up to 32 bytes from there on; None when the record is missing.
    """

    record: str
    offset: int
    first: bytes | None
    second: bytes | None


@dataclass(frozen=True, slots=True)
class JitterReport:
    """``stable`` when both files are equal byte for byte; ``records`` says where they differ.

    ``nbytes`` is the size of the first save. Files may differ outside of all records (headers,
    padding, order): ``stable`` is then False and ``records`` empty.
    """

    stable: bool
    nbytes: int
    records: tuple[RecordDifference, ...]


def check_jitter(
    source: str | os.PathLike[str] | BinaryIO | torch.nn.Module,
    *,
    map_location: str | torch.device | None = None,
) -> JitterReport:
    """Save, load and save again; compare the two saves.

    ``source`` is an archive (path or binary file object), which is loaded first, or a module:
    scripted, traced, or one that ``tsarchive.load`` gave. torch.jit loads nothing here.
    ``map_location`` is where archives are loaded to, as for ``load``.
    Raises what ``load`` and ``save`` raise.
    """
    from tsarchive.loading import load

    is_file = isinstance(source, str | os.PathLike) or hasattr(source, "read")
    module = load(source, map_location=map_location) if is_file else source  # type: ignore[arg-type]
    first = _saved(module)  # type: ignore[arg-type]
    second = _saved(load(io.BytesIO(first), map_location=map_location))
    return JitterReport(first == second, len(first), tuple(differences(first, second)))


def _saved(module: torch.nn.Module) -> bytes:
    from tsarchive.saving import save

    buffer = io.BytesIO()
    save(module, buffer)
    return buffer.getvalue()


def differences(first: bytes, second: bytes) -> Iterator[RecordDifference]:
    """The records in which two archives differ, in the order of the first."""
    if first == second:
        return
    with Container.open(io.BytesIO(first)) as one, Container.open(io.BytesIO(second)) as two:
        for name in dict.fromkeys([*one.records, *two.records]):
            left = one.read(name) if name in one.records else None
            right = two.read(name) if name in two.records else None
            if left != right:
                yield _difference(name, left, right)


def _difference(name: str, left: bytes | None, right: bytes | None) -> RecordDifference:
    if left is None or right is None:
        return RecordDifference(name, 0, left and left[:_SHOWN], right and right[:_SHOWN])
    pairs = enumerate(zip(left, right, strict=False))
    shorter = min(len(left), len(right))
    at = next((index for index, (a, b) in pairs if a != b), shorter)
    return RecordDifference(name, at, left[at : at + _SHOWN], right[at : at + _SHOWN])
