"""References to segments by number in the tables of a program."""

from __future__ import annotations

from collections.abc import Iterator

from .table_values import Values, set_scalar

_IN_SEGMENT = 1


def segment_users(root: Values) -> Iterator[tuple[Values, str]]:
    """Yield each table that refers to a segment, with the field of the number."""
    constants = root.get("constant_segment", {})
    if constants.get("offsets"):
        yield constants, "segment_index"
    for table in (*root.get("mutable_data_segments", ()), *root.get("named_data", ())):
        yield table, "segment_index"
    for plan in root.get("execution_plan", ()):
        for delegate in plan.get("delegates", ()):
            processed = delegate.get("processed", {})
            if processed.get("location", 0) == _IN_SEGMENT:
                yield processed, "index"


def renumber_segments(root: Values, dropped: int) -> None:
    """Renumber references after segment ``dropped`` was removed."""
    for table, field in segment_users(root):
        if table.get(field, 0) > dropped:
            set_scalar(table, field, table[field] - 1)
