"""The table of what each operator does, by name. Torch is not needed to ask."""

from __future__ import annotations

from functools import cache

from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.operators.risks import Group, Row

__all__ = ["groups", "row_of", "rows"]


def row_of(operator: str) -> Row:
    """Return the most specific row for an operator, with or without its overload, or for a class.

    A class bound from C++ is named with or without ``__torch__.torch.classes.`` before it.
    There is always one: ``*`` stands for whatever no other row names.
    """
    name = operator.removeprefix(NATIVE_PREFIX)
    known, beginnings = _index()
    pattern = name
    if pattern not in known and "::" in name:
        pattern = name.partition(".")[0]
    if pattern not in known:
        pattern = next(found for found in beginnings if name.startswith(found[:-1]))
    return known[pattern]


@cache
def groups() -> tuple[Group, ...]:
    """Return the whole table, as it is written."""
    from tsarchive.operators.risk_table_effects import EFFECTS
    from tsarchive.operators.risk_table_libraries import CLASSES, LIBRARIES
    from tsarchive.operators.risk_table_private import PRIVATE
    from tsarchive.operators.risk_table_public import COMPUTING

    return (*COMPUTING, *EFFECTS, *PRIVATE, *LIBRARIES, *CLASSES)


@cache
def rows() -> tuple[Row, ...]:
    """Return the whole table, one row a pattern."""
    return tuple(row for group in groups() for row in group.rows())


@cache
def _index() -> tuple[dict[str, Row], tuple[str, ...]]:
    """Rows by pattern, and the patterns that are beginnings, the longest first."""
    known = {row.pattern: row for row in rows()}
    beginnings = [pattern for pattern in known if pattern.endswith("*")]
    return known, tuple(sorted(beginnings, key=len, reverse=True))
