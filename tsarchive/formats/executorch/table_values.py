"""Tables as dicts, for editing and encoding."""

from __future__ import annotations

from typing import Any, TypeAlias

from tsarchive.errors import UnsupportedError

from .flatbuffer import Table
from .schema import TEXT, Slot

Values: TypeAlias = dict[str, Any]
"""A table by the names of its fields, without those that are absent. Nested tables are dicts,
vectors of tables lists, of bytes memoryviews, of other numbers tuples; members of unions are pairs
of a table's name and a dict.
"""


def table_values(table: Table) -> Values:
    """Return the contents of a table, without fields that are left to their defaults.

    Raises UnsupportedError for a field that the schema does not know, which would be lost.
    """
    _require_known(table)
    slots = table.buffer.schema.slots[table.name]
    found = {field: _value(table, slot) for field, slot in slots.items()}
    return {field: value for field, value in found.items() if value is not None}


def set_scalar(values: Values, field: str, value: int, default: int = 0) -> None:
    """Set a scalar as writers do: omit it if it equals its default."""
    if value == values.get(field, default):
        return
    if value == default:
        del values[field]
    else:
        values[field] = value


def _require_known(table: Table) -> None:
    known = table.buffer.schema.places[table.name]
    for place in range(known, table.places):
        if table.is_set(place):
            raise UnsupportedError(
                f"{table.path} has a field of a later version", record=table.buffer.record,
                offset=table.buffer.start + table.position,
                hint="It would be lost. The file can be read and copied, but not edited",
            )  # fmt: skip


def _value(table: Table, slot: Slot) -> Any:
    field = slot.field.name
    if slot.is_union:
        member = table.member(field)
        return None if member is None else (member.name, table_values(member))
    if slot.is_vector:
        return _vector(table, slot)
    if slot.element == TEXT:
        return table.text(field)
    if slot.element in table.buffer.schema.tables:
        inner = table.table(field)
        return None if inner is None else table_values(inner)
    return table.scalar(field) if table.has(field) else None


def _vector(table: Table, slot: Slot) -> Any:
    field = slot.field.name
    if slot.element == "u8":
        return table.data(field)
    if slot.element in table.buffer.schema.tables:
        inner = table.tables(field)
        return None if inner is None else [table_values(each) for each in inner]
    return table.numbers(field)
