"""Moving an archive to another device than it was saved on.

torch.jit moves tensors to ``map_location`` but leaves the devices in code: a model that was traced
on a GPU keeps creating its intermediate tensors there. Here the devices that code names are changed
in its text, so everything that reads the code sees the same.

Devices that code compares with move like those that it uses, so equality is preserved. Tests of the
device type, ``x.is_cuda`` and ``x.device.type == "cuda"``, stay and reflect the actual device.
Strings that flow into ``torch.device(d)`` are followed to where they are written; those that are
only compared with one that names a device are not.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from tsarchive.analyses.program import CALLS, Flow, Origin, Program
from tsarchive.container import ChangedContainer, Container
from tsarchive.errors import CallError, PickleError
from tsarchive.frontend.context import UNLOWERED
from tsarchive.frontend.places import CodePlace
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.constants import TableConstant, is_device
from tsarchive.ir.graph import PARAM, Node, Value, closure, walk
from tsarchive.ir.types import UNKNOWN
from tsarchive.pickler import Value as PickleValue
from tsarchive.pickler import dumps, loads

from .code_records import NEWEST_VERSION
from .debug_records import DEBUG_SUFFIX
from .pickled import devices_in, move_devices, objects_of, replace_strings

# Any device type: it may come from an extension of torch.
_DEVICE = re.compile(r"[a-z][a-z0-9_]*(?::\d+)?")
# String composition in code; the device type is in the first argument.
_COMPOSING: Final = frozenset({"aten::add", "aten::format", "aten::percentFormat", "aten::join"})
_TEMPLATES: Final = frozenset({"{}", "{}:{}", "%s:%d"})
_FILLING: Final = frozenset({"aten::append", "aten::insert", "aten::_set_item", "aten::extend"})
_GATHERING: Final = frozenset(
    {"prim::DictConstruct", "prim::ListConstruct", "prim::TupleConstruct"}
)
_TAKING: Final = frozenset(
    {
        "aten::__getitem__", "aten::slice", "prim::ListUnpack", "prim::TupleIndex",
        "prim::TupleSlice", "prim::TupleUnpack", "prim::unchecked_cast",
    }
)  # fmt: skip
_PASSING: Final = CALLS | {"prim::ListUnpack", "prim::TupleUnpack"}
_PURE: Final = _COMPOSING | {"aten::len"}
_NAMED = re.compile(r"""[\w.]+\(\s*(["'])(.*?)\1""", re.DOTALL)


def is_device_text(text: str) -> bool:
    """Return whether a text has the form of a device: ``cuda``, ``cuda:0``."""
    return _DEVICE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes ``start`` to ``end`` of a code record, by the name that it has in the archive."""

    record: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class NamedDevice:
    """A device where it is written.

    ``text`` is what names it: to be replaced by another device in quotes. With ``call`` there is
    no such text: that is ``torch.cuda(x)``, and ``text`` is x. ``is_for_cpu`` marks lengths of
    packed sequences, which must stay on the CPU; ``is_generator`` random number generators.
    """

    device: str
    text: Span
    call: Span | None = None
    is_for_cpu: bool = False
    is_generator: bool = False


@dataclass(frozen=True, slots=True)
class Pinned:
    """A call that pins CPU memory, and the device that it names, if any.

    ``text`` is the word True, or with ``call`` the argument x of ``torch.pin_memory(x)``.
    """

    device: str | None
    text: Span
    call: Span | None = None


@dataclass
class Devices:
    """The devices that code records name; ``attributes`` are (class, name) of strings that do."""

    code: Mapping[str, bytes]
    named: dict[NamedDevice, None] = field(default_factory=dict)
    pinned: dict[Pinned, None] = field(default_factory=dict)
    attributes: set[tuple[str, str]] = field(default_factory=set)
    _seen: set[Value] = field(default_factory=set)

    @cached_property
    def program(self) -> Program:
        """The code as graphs, made only where it may name a device."""
        return Program(self.code, lambda index: (TableConstant(index), UNKNOWN), NEWEST_VERSION)

    @cached_property
    def _flow(self) -> Flow:
        return Flow(self.program, most=None)

    def look_into(self, record: str) -> None:
        """Find the devices in a record. Raises ArchiveError for code that does not parse."""
        for type_ in self.program.types_in(record).values():
            is_class = isinstance(type_, ClassType) and not type_.is_native
            if is_class and self.program.world.is_open(type_):
                raise self.program.world.refused[-1]
        for function in self.program.functions_in(record):
            nodes = [*walk(function.graph.nodes)]
            for node in nodes:
                if node.kind == UNLOWERED and node.place is None and node.refusal is not None:
                    raise node.refusal
            on_cpu = self._made_for_lengths(function, nodes)
            for node in nodes:
                self._call(function, node, is_for_cpu=node in on_cpu)
            _ = function.schema  # reads the defaults of parameters
        for value in self.program.world.constants.values():
            for made_of in closure([value], lambda value: value.node.inputs):
                self._call(None, made_of.node, is_for_cpu=False)

    def _call(self, function: Function | None, node: Node, *, is_for_cpu: bool) -> None:
        arguments = node.attributes.get("arguments")
        if not arguments or not isinstance(node.place, CodePlace):
            return
        plain = [place for name, place in arguments if name is None]
        match node.kind:
            case "aten::device" if plain:
                self._device(function, node, plain, is_for_cpu)
            case "aten::cuda" if len(arguments) == 1:
                call = self._span(node.place)
                self.named[NamedDevice("cuda", self._span(plain[0]), call)] = None
            case "aten::pin_memory" | "aten::_pin_memory" if plain:
                self.pinned[Pinned(None, self._span(plain[0]), self._span(node.place))] = None
        self._keywords(node, {name: place for name, place in arguments if name is not None})

    def _device(
        self, function: Function | None, node: Node, plain: list[CodePlace], is_for_cpu: bool
    ) -> None:
        """``torch.device("cuda", 1)``; where its type is computed, it is followed, or replaced
        together with the index beside it."""
        given = node.input
        text = given.node.attributes.get("value") if given.node.place == plain[0] else None
        whole = self._span(plain[0], plain[-1])
        if isinstance(text, str):
            if is_device_text(text):
                self.named[NamedDevice(text, whole, is_for_cpu=is_for_cpu)] = None
        elif len(plain) == 1 and function is not None:
            closure([Origin(function, given)], self._visit)
        elif len(plain) > 1:
            self.named[NamedDevice("cuda", whole)] = None

    def _keywords(self, node: Node, given: dict[str, CodePlace]) -> None:
        device = given.get("device")
        if device is not None and node.kind == "aten::Generator":
            text = self._text(device)[1:-1]
            if is_device_text(text):
                found = NamedDevice(text, self._span(device), is_generator=True)
                self.named[found] = None
        pinned = given.get("pin_memory")
        if pinned is not None and self._text(pinned) == "True":
            name = None if device is None else _NAMED.match(self._text(device))
            self.pinned[Pinned(name[2] if name else None, self._span(pinned))] = None

    def _made_for_lengths(self, function: Function, nodes: Iterable[Node]) -> set[Node]:
        """Return what makes the lengths of packed sequences, which are always on the CPU."""
        lengths = [
            Origin(function, node.inputs[1])
            for node in nodes
            if node.kind == "aten::_pack_padded_sequence" and len(node.inputs) > 1
        ]

        def made_of(origin: Origin) -> list[Origin]:
            node = origin.value.node
            passed = node.inputs if node.is_written or node.kind in _PASSING else ()
            inputs = [Origin(function, value) for value in passed]
            return [*self._flow.through_control(origin), *inputs]

        return {origin.value.node for origin in closure(lengths, made_of)}

    def _visit(self, origin: Origin) -> list[Origin]:
        """Note a text that names a device; return what it is made of where it is not written."""
        function, value = origin
        if value in self._seen:
            return []
        self._seen.add(value)
        found: list[Origin] = []
        node = value.node
        if node.is_constant:
            text = node.attributes["value"]
            if isinstance(text, str) and is_device(text) and isinstance(node.place, CodePlace):
                self.named[NamedDevice(text, self._span(node.place))] = None
        elif node.kind in _COMPOSING and isinstance(node.place, CodePlace):
            device = self._leading_device(origin, set())
            if device and _is_pure(value, node.place):
                self.named[NamedDevice(device, self._span(node.place))] = None
        elif node.kind in _GATHERING:
            found += [Origin(function, part) for part in node.inputs]
        elif node.kind in _TAKING:
            found.append(Origin(function, node.input))
        elif node.kind == "prim::GetAttr" and isinstance(node.input.type, ClassType):
            slot = node.input.type.qualified_name, node.name
            self.attributes.add(slot)
            found += self._flow.through_attribute(node.input.type, node.name)
        elif node.kind == PARAM and node is function.graph.param_node:
            found += self._flow.through_calls(origin)
        else:
            found += self._flow.through_control(origin)
            found += self._flow.through_result(node)
        for user, offset in value.uses:
            if offset == 0 and user.kind in _FILLING:
                found.append(Origin(function, user.inputs[-1]))
        return found

    def _leading_device(self, origin: Origin, seen: set[Value]) -> str:
        """Return the device type at the start of a composed string, empty if unknown."""
        if origin.value in seen:
            return ""
        seen.add(origin.value)
        node = origin.value.node
        if node.is_constant:
            type_ = str(node.attributes["value"]).partition(":")[0]
            return type_ if is_device(type_) else ""
        if node.kind in _COMPOSING and node.inputs:
            first = node.inputs[0]
            is_template = first.node.attributes.get("value") in _TEMPLATES
            value = node.inputs[1] if is_template and len(node.inputs) > 1 else first
            return self._leading_device(origin._replace(value=value), seen)
        if node.kind == PARAM and node is origin.function.graph.param_node:
            return ""
        found = (self._leading_device(o, seen) for o in self._flow.through_control(origin))
        return next(filter(None, found), "")

    def _span(self, first: CodePlace, last: CodePlace | None = None) -> Span:
        end = last or first
        record = self.program.stored_as[first.record]
        start = self.program.offset(first.record, first.line, first.column)
        return Span(record, start, self.program.offset(end.record, end.end_line, end.end_column))

    def _text(self, place: CodePlace) -> str:
        span = self._span(place)
        data = self.program.data[span.record][span.start : span.end]
        return data.decode("utf-8", "surrogateescape")


def _is_pure(value: Value, place: CodePlace) -> bool:
    """Return whether the text of an expression can be dropped without losing side effects."""
    pending = [value]
    while pending:
        node = pending.pop().node
        inner = node.place
        if (
            isinstance(inner, CodePlace)
            and inner.record == place.record
            and (inner.line, inner.column) >= (place.line, place.column)
            and (inner.end_line, inner.end_column) <= (place.end_line, place.end_column)
        ):
            if node.kind in CALLS | {UNLOWERED} or (node.is_written and node.kind not in _PURE):
                return False
            pending += node.inputs
    return True


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


def _row(row: PickleValue, edited: EditedText, record: str) -> PickleValue:
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


def devices_named(code: Mapping[str, bytes], *, only_others: bool) -> Devices:
    """Find the devices that code records name.

    With ``only_others``, records whose only devices are ``cpu`` and ``meta`` may be skipped. Raises
    SourceError for a record that names devices and does not parse.
    """
    mentions = _MENTIONS_OTHERS if only_others else _MENTIONS
    found = Devices(code)
    records = [name for name, data in code.items() if mentions.search(data)]
    for known, name in found.program.stored_as.items() if records else ():
        if name in records:
            found.look_into(known)
    return found


def _moved(data: bytes, place: NamedDevice, device: str) -> tuple[Edit, ...]:
    """Return the edits that put another device in a place."""
    text, call = place.text, place.call
    if call is None:
        return (Edit(text.start, text.end, b'"%s"' % device.encode()),)
    # ``torch.cuda(x)`` to ``torch.to(x, torch.device("cpu"))``
    end = call.end - 1
    name_end = data.rindex(b"cuda", call.start, text.start) + len(b"cuda")
    comma = b" " if b"," in data[text.end : end] else b", "
    return (
        Edit(name_end - len(b"cuda"), name_end, b"to"),
        Edit(end, end, b'%storch.device("%s")' % (comma, device.encode())),
    )


def _unpinned(data: bytes, place: Pinned) -> tuple[Edit, ...]:
    """Return the edits after which memory is not pinned."""
    text, call = place.text, place.call
    if call is None:
        return (Edit(text.start, text.end, b"False"),)
    # ``torch.pin_memory(x)`` to ``(x)``
    name_end = data.index(b"(", call.start)
    return Edit(call.start, name_end, b""), Edit(text.end, call.end - 1, b"")


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

    def move_strings(self, data: PickleValue) -> None:
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
    found = devices_named(code, only_others=type_ == _HOST)
    keeps_cpu = type_ not in (_HOST, _NOWHERE) and _names_another(container, found, tensors_on)
    devices = DeviceMap(target, keeps_cpu)
    changed = dict(_changed_code(container, code, _edits(found, devices)))
    if _CONSTANTS in container.records:
        constants = loads(container.read(_CONSTANTS), record=_CONSTANTS)
        if move_devices(constants, devices.storage, devices.moved):
            changed[_CONSTANTS] = dumps(constants)
    moved = ChangedContainer(container, changed) if changed else container
    return MovedArchive(moved, devices, frozenset(found.attributes))


def _names_another(container: Container, found: Devices, tensors_on: Collection[str]) -> bool:
    """Return whether code or data names a device that is neither ``cpu`` nor ``meta``."""
    present = (name for name in (_DATA, _CONSTANTS) if name in container.records)
    pickles = (loads(container.read(name), record=name) for name in present)
    named = [*tensors_on, *(place.device for place in found.named)]
    named += [device for value in pickles for device in devices_in(value)]
    return any(device.partition(":")[0] not in (_HOST, _NOWHERE) for device in named)


def _edits(found: Devices, devices: DeviceMap) -> dict[str, list[Edit]]:
    """Return the edits of each record that changes."""
    edits: dict[str, list[Edit]] = {name: [] for name in found.code}
    for place in found.named:
        record = place.text.record
        if place.is_for_cpu and place.device == _HOST:
            continue
        device = devices.moved(place.device)
        if place.is_generator and device.partition(":")[0] == _NOWHERE:
            device = _HOST  # there are no random numbers without data
        if device != place.device:
            edits[record] += _moved(found.code[record], place, device)
    for pinned in found.pinned:
        record = pinned.text.record
        is_moved = pinned.device is not None and devices.moved(pinned.device) != pinned.device
        if is_moved or devices.target.partition(":")[0] in (_HOST, _NOWHERE):
            edits[record] += _unpinned(found.code[record], pinned)
    return {name: changes for name, changes in edits.items() if changes}


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
