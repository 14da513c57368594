"""Moving an archive to another device than it was saved on.

torch.jit moves tensors to ``map_location`` but leaves the devices in code: a model that was traced
on a GPU keeps creating its intermediate tensors there. Here the devices that code names are changed
in its text, so everything that reads the code sees the same.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tsarchive.analyses.devices import Devices, NamedDevice, Pinned, is_device_text
from tsarchive.analyses.program import Program
from tsarchive.container import ChangedContainer, Container
from tsarchive.errors import CallError, PickleError
from tsarchive.ir.types import UNKNOWN
from tsarchive.ir.values import TableConstant, is_device
from tsarchive.pickler import Value, dumps, loads

from .code_records import DEBUG_SUFFIX, NEWEST_VERSION
from .pickled import devices_in, move_devices, objects_of, replace_strings


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace bytes ``start`` to ``end`` of a record by ``text``."""

    start: int
    end: int
    text: bytes


class EditedText:
    """A code record after edits; nested edits are ignored. Offsets are in bytes."""

    def __init__(self, data: bytes, edits: Iterable[Edit]) -> None:
        self._edits: list[Edit] = []
        for edit in sorted(set(edits), key=lambda edit: (edit.start, -edit.end)):
            if not self._edits or edit.start >= self._edits[-1].end:
                self._edits.append(edit)
        self._starts = [edit.start for edit in self._edits]
        self._shifts = [0]
        parts, position = [], 0
        for edit in self._edits:
            parts += [data[position : edit.start], edit.text]
            position = edit.end
            self._shifts.append(self._shifts[-1] + len(edit.text) - (edit.end - edit.start))
        self.data = b"".join([*parts, data[position:]])

    def offset(self, before: int) -> int:
        """Map an offset to the edited text; a replaced byte maps to its replacement."""
        count = bisect_right(self._starts, before)
        if not count:
            return before
        last = self._edits[count - 1]
        if before < last.end:
            return last.start + self._shifts[count - 1]
        return before + self._shifts[count]


def move_debug_record(data: bytes, edited: EditedText, record: str) -> bytes:
    """Adjust the row offsets of a debug record to edited text.

    Works for all forms that torch has written: rows are (offset, place, tag). Raises PickleError.
    """
    value = loads(data, record=record)
    match value:
        case (str(form), texts, tuple(rows)):
            return dumps((form, texts, tuple(_row(row, edited, record) for row in rows)))
        case tuple(rows):
            return dumps(tuple(_row(row, edited, record) for row in rows))
    raise PickleError("the debug record is malformed", record=record)


def _row(row: Value, edited: EditedText, record: str) -> Value:
    match row:
        case (int(offset), *place):
            return (edited.offset(offset), *place)
    raise PickleError("the debug record is malformed", record=record)


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


_DATA, _CONSTANTS = "data.pkl", "constants.pkl"
# The second was used before torch 1.3.
_FOLDERS = ("code/", "libs/")
_HOST, _NOWHERE = "cpu", "meta"


@dataclass(frozen=True, slots=True)
class DeviceMap:
    """The mapping of devices: all to ``target``, except ``meta``, and ``cpu`` if ``keeps_cpu``.

    An archive that names a device other than these two means the CPU where it says so; in one that
    names no other, ``cpu`` is merely where the tensors were.
    """

    target: str
    keeps_cpu: bool = False

    def storage(self, device: str) -> str:
        """Map the device of a tensor: data on the CPU moves with the rest, as in torch.jit."""
        return device if device.partition(":")[0] == _NOWHERE else self.target

    def moved(self, device: str) -> str:
        type_ = device.partition(":")[0]
        stays = type_ == _NOWHERE or (type_ == _HOST and self.keeps_cpu)
        return device if stays or not is_device_text(device) else self.target


@dataclass(frozen=True, slots=True)
class MovedArchive:
    """A container with code and constants moved to another device; data.pkl is unchanged.

    ``devices`` maps the devices in data.pkl; ``attributes`` are (class, name) of the attributes in
    which strings name devices.
    """

    container: Container
    devices: DeviceMap
    attributes: frozenset[tuple[str, str]]

    def move_strings(self, data: Value) -> None:
        """Change the strings that name devices in the attributes of unpickled objects."""
        if not self.attributes:
            return
        for found in objects_of(data):
            if isinstance(found.state, dict):
                for name, value in found.state.items():
                    if (found.cls.qualified_name, name) in self.attributes:
                        found.state[name] = replace_strings(value, self._string, _DATA)

    def _string(self, text: str) -> str:
        return self.devices.moved(text) if is_device(text) else text


def moved_archive(
    container: Container, target: str, tensors_on: Collection[str] = ()
) -> MovedArchive:
    """Return the archive with the devices that it names moved to ``target``.

    ``tensors_on`` are devices that the archive names other than in code and pickles. The result
    owns the container. Raises CallError when ``target`` is not a device, SourceError for code that
    names devices and does not parse.
    """
    if not is_device_text(target):
        raise CallError(
            f"map_location {target!r} is not a device", hint="Pass one such as 'cpu' or 'cuda:0'"
        )
    type_ = target.partition(":")[0]
    names = [n for n in container.records if n.startswith(_FOLDERS) and n.endswith(".py")]
    code = {name: container.read(name) for name in names}
    places = places_in(code, only_others=type_ == _HOST)
    keeps_cpu = type_ not in (_HOST, _NOWHERE) and _names_another(container, places, tensors_on)
    devices = DeviceMap(target, keeps_cpu)
    changed = dict(_changed_code(container, code, _edits(places, devices)))
    if _CONSTANTS in container.records:
        constants = loads(container.read(_CONSTANTS), record=_CONSTANTS)
        if move_devices(constants, devices.storage, devices.moved):
            changed[_CONSTANTS] = dumps(constants)
    moved = ChangedContainer(container, changed) if changed else container
    return MovedArchive(moved, devices, places.attributes)


def _names_another(container: Container, places: Places, tensors_on: Collection[str]) -> bool:
    """Return whether code or data names a device that is neither ``cpu`` nor ``meta``."""
    present = (name for name in (_DATA, _CONSTANTS) if name in container.records)
    pickles = (loads(container.read(name), record=name) for name in present)
    named = [*tensors_on, *(place.device for place in places.devices)]
    named += [device for value in pickles for device in devices_in(value)]
    return any(device.partition(":")[0] not in (_HOST, _NOWHERE) for device in named)


def _edits(places: Places, devices: DeviceMap) -> dict[str, list[Edit]]:
    """Return the edits of each record that changes."""
    found: dict[str, list[Edit]] = {}
    for place in places.devices:
        if place.is_for_cpu and place.device == _HOST:
            continue
        device = devices.moved(place.device)
        if place.is_generator and device.partition(":")[0] == _NOWHERE:
            device = _HOST  # there are no random numbers without data
        if device != place.device:
            found.setdefault(place.text.record, []).extend(places.moved(place, device))
    for pinned in places.pinned:
        is_moved = pinned.device is not None and devices.moved(pinned.device) != pinned.device
        if is_moved or devices.target.partition(":")[0] in (_HOST, _NOWHERE):
            found.setdefault(pinned.text.record, []).extend(places.unpinned(pinned))
    return found


def _changed_code(
    container: Container, code: dict[str, bytes], edits: dict[str, list[Edit]]
) -> Iterator[tuple[str, bytes]]:
    for name, changes in edits.items():
        edited = EditedText(code[name], changes)
        yield name, edited.data
        # The second is the debug record's name before torch 1.3.
        old = f"debug/{name.removeprefix('code/').removesuffix('.py')}.pkl"
        for debug in (f"{name}{DEBUG_SUFFIX}", old):
            if debug in container.records:
                yield debug, move_debug_record(container.read(debug), edited, debug)
