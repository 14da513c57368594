"""Random values of a schema of FlatBuffers, and the same with the library of FlatBuffers."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from tsarchive.formats.executorch.schema import SCALARS, Schema, Slot

_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
SCALAR_VALUES = {
    "bool": st.booleans(),
    "f64": st.floats(allow_nan=False),
    **{
        name: st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for name, bits in _BITS.items()
    },
    **{f"u{bits}": st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}


def values_of(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    """Values of the root table, each field there or not."""
    return _table(schema, schema.root)


def _table(schema: Schema, name: str) -> st.SearchStrategy[dict[str, Any]]:
    fields = {field: _field(schema, slot) for field, slot in schema.slots[name].items()}
    return st.fixed_dictionaries({}, optional=fields)


def _field(schema: Schema, slot: Slot) -> st.SearchStrategy[Any]:
    if slot.is_union:
        members = schema.unions[slot.element]
        return st.one_of(*(st.tuples(st.just(one), _table(schema, one)) for one in members))
    if slot.element == "text":
        return st.text(max_size=9)
    if slot.element not in SCALARS:
        inner = _table(schema, slot.element)
        return st.lists(inner, max_size=2) if slot.is_vector else inner
    if slot.is_vector and slot.element == "u8":
        return st.binary(max_size=40)
    one = SCALAR_VALUES[slot.element]
    return st.lists(one, max_size=4).map(tuple) if slot.is_vector else one


def plain(value: Any) -> Any:
    """What was read, as it was drawn."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, tuple) and value and isinstance(value[-1], dict):
        return value[0], plain(value[1])
    return value


class Packer:
    """Tables as what flatc generates for Python packs them, with the library itself."""

    def __init__(self, schema: Schema) -> None:
        import flatbuffers
        from flatbuffers import number_types

        self.schema = schema
        self.builder = flatbuffers.Builder()
        self.flags = {
            letter: getattr(number_types, f"{name}Flags")
            for letter, name in {
                "?": "Bool", "b": "Int8", "B": "Uint8", "h": "Int16", "H": "Uint16", "i": "Int32",
                "I": "Uint32", "q": "Int64", "Q": "Uint64", "d": "Float64",
            }.items()
        }  # fmt: skip

    def packed(self, values: dict[str, Any]) -> bytes:
        root = self.table(self.schema.root, values)
        self.builder.Finish(root, file_identifier=self.schema.identifier)
        return bytes(self.builder.Output())

    def table(self, name: str, values: dict[str, Any]) -> int:
        slots = [slot for field, slot in self.schema.slots[name].items() if field in values]
        found = [(slot, self.child(slot, values[slot.field.name])) for slot in slots]
        self.builder.StartObject(self.schema.places[name])
        for slot, child in found:
            value = values[slot.field.name]
            if slot.is_union:
                tag = self.schema.unions[slot.element].index(value[0]) + 1
                self.builder.PrependUint8Slot(slot.place - 1, tag, 0)
            if child is not None:
                self.builder.PrependUOffsetTRelativeSlot(slot.place, child, 0)
            else:
                self.builder.Prepend(self.flags[SCALARS[slot.element]], value)
                self.builder.Slot(slot.place)
        return self.builder.EndObject()

    def child(self, slot: Slot, value: Any) -> int | None:
        if slot.is_union:
            return self.table(*value)
        if slot.element == "text":
            return self.builder.CreateString(value)
        if slot.element in SCALARS:
            return self.vector(slot, value) if slot.is_vector else None
        if not slot.is_vector:
            return self.table(slot.element, value)
        places = [self.table(slot.element, inner) for inner in value]
        self.builder.StartVector(4, len(places), 4)
        for place in reversed(places):
            self.builder.PrependUOffsetTRelative(place)
        return self.builder.EndVector()

    def vector(self, slot: Slot, value: Any) -> int:
        letter = SCALARS[slot.element]
        width = struct.calcsize(f"<{letter}")
        self.builder.StartVector(width, len(value), max(width, slot.field.align))
        for item in reversed(value):
            self.builder.Prepend(self.flags[letter], item)
        return self.builder.EndVector()
