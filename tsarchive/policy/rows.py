"""The row of the table for an operator, by its name. Torch is not needed to ask."""

from __future__ import annotations

from functools import cache

from tsarchive.policy.risks import NATIVE_PREFIX, Group, Row

__all__ = ["row_of", "rows"]


def row_of(operator: str) -> Row:
    """The most specific row for an operator, with or without its overload, or for a class.

    A class bound from C++ is named with or without ``__torch__.torch.classes.`` before it.
    There is always one: ``*`` stands for whatever no other row names.
    """
    name = operator.removeprefix(NATIVE_PREFIX)
    groups, beginnings = _index()
    pattern = name
    if pattern not in groups and "::" in name:
        pattern = name.partition(".")[0]
    if pattern not in groups:
        pattern = next(found for found in beginnings if name.startswith(found[:-1]))
    return groups[pattern].row(pattern)


@cache
def rows() -> tuple[Row, ...]:
    """The whole table."""
    from tsarchive.policy.table import TABLE

    return tuple(group.row(pattern) for group in TABLE for pattern in group.patterns())


@cache
def _index() -> tuple[dict[str, Group], tuple[str, ...]]:
    """Groups by pattern, and the patterns that are beginnings, the longest first."""
    from tsarchive.policy.table import TABLE

    groups = {pattern: group for group in TABLE for pattern in group.patterns()}
    beginnings = [pattern for pattern in groups if pattern.endswith("*")]
    return groups, tuple(sorted(beginnings, key=len, reverse=True))
