"""What records are for, by their names."""

from __future__ import annotations

import re

TENSORS = "tensors"
# The first row that fits counts.
_RULES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (group, re.compile(pattern))
    for group, pattern in (
        ("extra", r"extra/"),
        ("debug", r".*\.debug_pkl\Z|debug/|mobile_debug_handles\.pkl\Z|callstack_debug_map\.pkl\Z"),
        ("code", r"(.*/)?code/|libs/|bytecode\.pkl\Z"),
        ("constants", r"constants(/|\.pkl\Z)"),
        (TENSORS, r"data/\d+\Z|tensors/"),
        ("objects", r"data\.pkl\Z|attributes\.pkl\Z|model\.json\Z"),
        ("other", r""),
    )
)
GROUPS = tuple(group for group, _ in _RULES)

_METHODS = {0: "stored", 8: "deflated", 9: "deflate64"}


def group_of(name: str) -> str:
    """The purpose of the record of this name, one of GROUPS."""
    return next(group for group, pattern in _RULES if pattern.match(name))


def method_name(method: int) -> str:
    """A zip compression method in words."""
    return _METHODS.get(method, f"method {method}")
