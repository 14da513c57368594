"""Tensors compared by what directories of files tell of their bytes, which are not read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from math import prod

from tsarchive.analyses.encoding import Plain, encode
from tsarchive.formats.contents import Checksum, Elements, TensorContent


class Checksums:
    """Tells whether tensors are alike from the CRC-32s and sizes of their storages.

    Those of unlike tensors may be equal, and a directory may tell wrong ones. ``have_told`` is True
    once anything was decided so.
    """

    have_told = False

    def are_alike(self, before: Elements, after: Elements) -> bool | None:
        """Return whether elements are the same, None where only reading them tells."""
        own, other = _checksum(before), _checksum(after)
        if own is None or other is None or _form(before) != _form(after):
            return None
        if own != other and not (_fills(before, own) and _fills(after, other)):
            return None  # the bytes that differ may be those of another tensor
        self.have_told = True
        return own == other

    def digest(self, tensors: Iterable[TensorContent]) -> Callable[[TensorContent], str] | None:
        """Return what gives a text for each tensor, the same where they are alike.

        None where checksums do not tell that for all of these tensors.
        """
        if any(_checksum(tensor.elements) is None and tensor.elements.nbytes for tensor in tensors):
            return None
        return self._digest

    def _digest(self, tensor: TensorContent) -> str:
        self.have_told = True
        form = encode([tensor.meaning, _form(tensor.elements)])
        return f"{shown(tensor.elements)} {hashlib.sha256(form).hexdigest()}"


def shown(elements: Elements) -> str:
    """Return the checksum of the storage of elements as text."""
    found = _checksum(elements)
    return "none" if found is None else f"crc32:{found.crc:08x}, {found.nbytes:,} bytes"


def _checksum(elements: Elements) -> Checksum | None:
    return None if elements.checksum is None else elements.checksum()


def _form(elements: Elements) -> list[Plain]:
    """Return how elements lie in their storage."""
    numbers = elements.offset, elements.itemsize, elements.unit
    return [[*elements.shape], [*elements.strides], *numbers, elements.is_swapped]


def _fills(elements: Elements, checksum: Checksum) -> bool:
    """Return whether each byte of a storage is of one element."""
    if prod(elements.shape) * elements.itemsize != checksum.nbytes:
        return False
    dimensions = zip(elements.strides, elements.shape, strict=True)
    expected = elements.itemsize
    for step, size in sorted(pair for pair in dimensions if pair[1] > 1):
        if step != expected:
            return False
        expected *= size
    return True
