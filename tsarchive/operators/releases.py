"""Releases of torch, and what code and files they read besides their operators.

Source: what ``torch.jit.load`` of each release does with archives of each form; the constants
``kMaxSupportedFileFormatVersion`` and ``kMinSupportedFileFormatVersion`` of its sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import total_ordering
from typing import Final

from tsarchive.errors import CallError

from .registry import listed_versions

# The newest format version that each release and those after it read. All read version 1.
_FORMATS: Final = {"1.4": 2, "1.5": 3, "1.6": 5, "1.9": 6, "1.11": 9, "1.12": 10}
_VERSION: Final = re.compile(r"(\d+\.\d+)(\.\d+\w*)?(\+\w+(\.\w+)*)?", re.ASCII)

# The first release that reads each construct, and its name for messages.
CONSTRUCTS: Final[Mapping[str, str]] = {
    "the method tolist()": "1.6",
    "a with statement": "1.6",
    "the type Any": "1.6",
    "an enum": "1.7",
    "a hook": "1.8",
    "the type Union": "1.10",
    "the type complex": "1.11",
    "the type Await": "2.1",
}


@total_ordering
@dataclass(frozen=True)
class Release:
    """A release of torch whose operators are known, such as "2.9"."""

    name: str

    def __str__(self) -> str:
        return self.name

    def __lt__(self, other: Release) -> bool:
        return self._place < other._place

    @property
    def _place(self) -> int:
        return listed_versions().index(self.name)

    def is_since(self, first: str) -> bool:
        """Return whether this is the release ``first``, or a later one."""
        return self >= Release(first)

    @property
    def newest_format(self) -> int:
        """The newest version of archives that this release reads."""
        return max(number for first, number in _FORMATS.items() if self.is_since(first))

    @property
    def operator_version(self) -> int:
        """The version of archives whose code means what code of this release means.

        torch 1.6 reads newer archives, and refuses to divide or fill as they do.
        """
        return self.newest_format if self.is_since("1.7") else 3

    @property
    def names_empty_types(self) -> bool:
        """Whether it reads ``NoneType`` and ``Tuple[()]``: ``None`` and ``Tuple[]`` before."""
        return self.is_since("1.9")

    @property
    def reads_functions_as_current(self) -> bool:
        """Whether the version of an archive says what operators mean in methods alone."""
        return not self.is_since("1.6") or self.is_since("1.11")

    @property
    def has_class_constants(self) -> bool:
        """Whether classes may have constants, which code does not need."""
        return self.is_since("1.5")

    @property
    def reads_type_tags(self) -> bool:
        """Whether pickles tell the types of lists and dicts."""
        return self.is_since("1.5")

    @property
    def reads_model_json(self) -> bool:
        """Whether it reads archives of before torch 1.3, in builds that are not for phones."""
        return not self.is_since("1.11")

    @property
    def packs_into_tensors(self) -> bool:
        """Whether packed weights may be tensors, as in code of torch 1.3 to 1.5."""
        return not self.is_since("1.12")

    @property
    def lists_buffers(self) -> bool:
        """Whether classes may have a list ``__buffers__``."""
        return self.is_since("1.6")

    @property
    def reads_text_tables(self) -> bool:
        """Whether debug records may have a table of texts; the process ends where they may not."""
        return self.is_since("1.11")


def newest_release() -> Release:
    """Return the newest release whose operators are known."""
    return Release(listed_versions()[-1])


def release_named(version: str) -> Release:
    """Return the release of a version such as "2.9", "2.9.1" or "2.9.1+cpu".

    Raises CallError for one whose operators are not known.
    """
    match, known = _VERSION.fullmatch(version), listed_versions()
    if match is None or match[1] not in known:
        raise CallError(
            f"the operators of torch {version} are not known",
            hint=f"Give a version from {known[0]} to {known[-1]}, such as 2.9",
        )
    return Release(match[1])
