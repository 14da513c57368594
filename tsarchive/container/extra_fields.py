"""Extra fields of zip headers: 16 bit id, 16 bit length, contents."""

from __future__ import annotations

from struct import Struct, pack, unpack

from .faults import Faults, Place
from .layout import MAX32, ZIP64_FIELD

_FIELD = Struct("<2H")


def parse_extra(extra: bytes, at: Place, faults: Faults) -> dict[int, bytes]:
    """Return the contents of each field by id. Truncated and duplicate fields are faults."""
    fields: dict[int, bytes] = {}
    position = 0
    while position < len(extra):
        start = position + _FIELD.size
        if start > len(extra):
            faults.report("zip-extra-field", "an extra field is cut short", at)
            break
        field_id, length = _FIELD.unpack_from(extra, position)
        position = start + length
        if position > len(extra):
            problem = f"extra field {field_id:#06x} is longer than its header says"
            faults.report("zip-extra-field", problem, at)
            break
        if field_id in fields:
            faults.report("zip-extra-field", f"extra field {field_id:#06x} occurs twice", at)
        fields[field_id] = extra[start:position]
    return fields


def apply_zip64(
    fields: dict[int, bytes], values: tuple[int, ...], at: Place, faults: Faults
) -> tuple[int, ...]:
    """Replace each 0xFFFFFFFF, in order, by the 64 bit numbers of the ZIP64 field."""
    missing = values.count(MAX32)
    if not missing:
        return values
    field = fields.get(ZIP64_FIELD, b"")
    if len(field) != 8 * missing:
        faults.report(
            "zip-field64",
            f"the ZIP64 field has {len(field)} bytes where {8 * missing} are needed",
            at,
        )
        return values
    wide = iter(unpack(f"<{missing}Q", field))
    return tuple(next(wide) if value == MAX32 else value for value in values)


def zip64_field(*numbers: int) -> bytes:
    """Encode a ZIP64 field; empty when there are no numbers."""
    if not numbers:
        return b""
    return pack(f"<2H{len(numbers)}Q", ZIP64_FIELD, 8 * len(numbers), *numbers)
