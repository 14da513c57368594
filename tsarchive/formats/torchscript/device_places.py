"""The places in code that name a device, as edits of its text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tsarchive.analyses.devices import Devices, NamedDevice, Pinned
from tsarchive.analyses.program import Program
from tsarchive.ir.types import UNKNOWN
from tsarchive.ir.values import TableConstant

from .code_records import NEWEST_VERSION
from .edits import Edit

# A record without any of these names no device.
_MENTIONS = re.compile(
    rb'torch\.(?:device|cuda|_?pin_memory)\(|pin_memory=True|torch\.Generator\(device="'
)
# The same, ignoring devices of the types cpu and meta.
_MENTIONS_OTHERS = re.compile(
    rb'torch\.device\((?!"(?:cpu|meta)"\))|torch\.(?:cuda|_?pin_memory)\(|pin_memory=True'
    rb'|torch\.Generator\(device="(?!cpu")'
)


@dataclass(frozen=True, slots=True)
class Places:
    """All places in the code; ``attributes`` are (class, name) of strings that name devices."""

    code: Mapping[str, bytes]
    devices: tuple[NamedDevice, ...] = ()
    pinned: tuple[Pinned, ...] = ()
    attributes: frozenset[tuple[str, str]] = frozenset()

    def moved(self, place: NamedDevice, device: str) -> tuple[Edit, ...]:
        """Return the edits that put another device in a place."""
        text, call = place.text, place.call
        if call is None:
            return (Edit(text.start, text.end, b'"%s"' % device.encode()),)
        # ``torch.cuda(x)`` to ``torch.to(x, torch.device("cpu"))``
        data, end = self.code[text.record], call.end - 1
        name_end = data.rindex(b"cuda", call.start, text.start) + len(b"cuda")
        comma = b" " if b"," in data[text.end : end] else b", "
        return (
            Edit(name_end - len(b"cuda"), name_end, b"to"),
            Edit(end, end, b'%storch.device("%s")' % (comma, device.encode())),
        )

    def unpinned(self, place: Pinned) -> tuple[Edit, ...]:
        """Return the edits after which memory is not pinned."""
        text, call = place.text, place.call
        if call is None:
            return (Edit(text.start, text.end, b"False"),)
        # ``torch.pin_memory(x)`` to ``(x)``
        name_end = self.code[text.record].index(b"(", call.start)
        return Edit(call.start, name_end, b""), Edit(text.end, call.end - 1, b"")


def places_in(code: Mapping[str, bytes], *, only_others: bool) -> Places:
    """Find the places in code records.

    With ``only_others``, records whose only devices are ``cpu`` and ``meta`` may be skipped. Raises
    SourceError for a record that names devices and does not parse.
    """
    mentions = _MENTIONS_OTHERS if only_others else _MENTIONS
    records = [name for name, data in code.items() if mentions.search(data)]
    if not records:
        return Places(code)
    program = Program(code, lambda index: (TableConstant(index), UNKNOWN), NEWEST_VERSION)
    found = Devices(program)
    for known, name in program.stored_as.items():
        if name in records:
            found.look_into(known)
    return Places(code, (*found.named,), (*found.pinned,), frozenset(found.attributes))
