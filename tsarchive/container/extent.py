"""How much of a file is there, in words that are the same for every format."""

from __future__ import annotations

from typing import Final, NamedTuple

from tsarchive.errors import AGAIN

_MIB: Final = 1 << 20
# Smaller files are told in bytes.
_IN_MIB_FROM: Final = 10 * _MIB

CUT_SHORT: Final = "file-cut-short"
"""The rule that a file which ends too early breaks."""
RESCUE: Final = f"{AGAIN}, or save what is left: 'tsarchive tensors FILE --salvage OUT.safetensors'"


class Extent(NamedTuple):
    """The bytes that a file has, and those that it had when it was whole.

    ``total`` is the least that it had, unless ``is_exact``.
    """

    present: int
    total: int
    is_exact: bool

    @property
    def missing(self) -> int:
        return self.total - self.present

    @property
    def message(self) -> str:
        """Say that the file is cut short, and by how much."""
        return f"it is cut short: {self.text}"

    @property
    def text(self) -> str:
        """Say how much is there, and how much is missing."""
        least = "" if self.is_exact else "at least "
        verb = "is" if self.missing == 1 and self.is_exact else "are"
        plural = "" if self.missing == 1 else "s"
        missing = f"{least}{self.missing:,} byte{plural} {verb} missing"
        return f"{self._share(least)} are here, {missing}"

    def _share(self, least: str) -> str:
        if self.total < _IN_MIB_FROM:
            return f"{self.present:,} of {least}{self.total:,} bytes"
        # Rounded away from each other: they never look the same.
        return f"{self.present // _MIB:,} of {least}{-(-self.total // _MIB):,} MiB"
