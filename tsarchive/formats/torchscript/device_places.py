"""The places in code that name a device.

Devices that code compares with move like those that it uses, so equality is preserved. Tests of the
device type, ``x.is_cuda`` and ``x.device.type == "cuda"``, stay and reflect the actual device.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from .device_strings import DeviceStrings
from .edits import Edit
from .program_text import FunctionText, ProgramText, RecordText, dotted

# Any device type: it may come from an extension of torch.
_DEVICE = re.compile(r"[a-z][a-z0-9_]*(?::\d+)?")
# A record without any of these names no device.
_MENTIONS = re.compile(
    rb'torch\.(?:device|cuda|_?pin_memory)\(|pin_memory=True|torch\.Generator\(device="'
)
# The same, ignoring devices of the types cpu and meta.
_MENTIONS_OTHERS = re.compile(
    rb'torch\.device\((?!"(?:cpu|meta)"\))|torch\.(?:cuda|_?pin_memory)\(|pin_memory=True'
    rb'|torch\.Generator\(device="(?!cpu")'
)


def is_device_text(text: str) -> bool:
    """Return whether a text has the form of a device: ``cuda``, ``cuda:0``."""
    return _DEVICE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class DevicePlace:
    """A place in a code record and the device that it names.

    ``write`` returns the edits that change the device. ``is_for_cpu`` marks lengths of packed
    sequences, which must stay on the CPU; ``is_generator`` marks random number generators.
    """

    record: str
    device: str
    write: Callable[[str], tuple[Edit, ...]]
    is_for_cpu: bool = False
    is_generator: bool = False


@dataclass(frozen=True, slots=True)
class PinnedPlace:
    """A call that pins CPU memory; ``device`` is the device that the call names, if any."""

    record: str
    device: str | None
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """All places in the code; ``attributes`` are (class, name) of strings that name devices."""

    devices: tuple[DevicePlace, ...]
    pinned: tuple[PinnedPlace, ...]
    attributes: frozenset[tuple[str, str]]


def places_in(code: Mapping[str, bytes], *, only_others: bool) -> Places:
    """Find the places in code records.

    With ``only_others``, records whose only devices are ``cpu`` and ``meta`` may be skipped. Raises
    SourceError for a record that names devices and does not parse.
    """
    mentions = _MENTIONS_OTHERS if only_others else _MENTIONS
    program = ProgramText(code)
    finder = _Finder(program)
    for record in program.records.values():
        if mentions.search(record.data):
            finder.record(record)
    strings = DeviceStrings(program)
    for function, argument in finder.unknown:
        strings.follow(function, argument)
    found = (
        DevicePlace(s.record, s.device, _literal(*s.span)) for s in dict.fromkeys(strings.strings)
    )
    return Places((*finder.devices, *found), tuple(finder.pinned), frozenset(strings.attributes))


class _Finder:
    """Collects the places in records; ``unknown`` are arguments of torch.device to trace."""

    def __init__(self, program: ProgramText) -> None:
        self.program = program
        self.devices: list[DevicePlace] = []
        self.pinned: list[PinnedPlace] = []
        self.unknown: list[tuple[FunctionText, ast.expr]] = []

    def record(self, record: RecordText) -> None:
        on_cpu = {call for f in record.functions for call in _calls_for_lengths(f)}
        for node in _all_nodes(record.tree):
            if isinstance(node, ast.Call):
                self._call(record, node, is_for_cpu=node in on_cpu)
        for function in record.functions:
            for call in function.calls:
                if dotted(call.func) == "torch.device":
                    self._unknown(function, call)

    def _call(self, record: RecordText, node: ast.Call, *, is_for_cpu: bool) -> None:
        name = dotted(node.func)
        match name, node.args:
            case "torch.device", [ast.Constant(str() as text), *_] if is_device_text(text):
                write = _literal(*record.span(node.args[0], node.args[-1]))
                self.devices.append(DevicePlace(record.name, text, write, is_for_cpu))
            case "torch.cuda", [_]:
                self.devices.append(DevicePlace(record.name, "cuda", _to_cuda(record, node)))
            case "torch.pin_memory" | "torch._pin_memory", [_, *_]:
                edits = _without_pinning(record, node)
                self.pinned.append(PinnedPlace(record.name, None, edits))
        if name.startswith(("torch.", "ops.")):
            self._keywords(record, node, is_generator=name == "torch.Generator")

    def _keywords(self, record: RecordText, node: ast.Call, *, is_generator: bool) -> None:
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        device = given.get("device")
        match device:
            case ast.Constant(str() as text) if is_generator and is_device_text(text):
                write = _literal(*record.span(device))
                place = DevicePlace(record.name, text, write, is_generator=True)
                self.devices.append(place)
        match given.get("pin_memory"):
            case ast.Constant(True) as pinned:
                edits = (Edit(*record.span(pinned), b"False"),)
                self.pinned.append(PinnedPlace(record.name, _device_of(device), edits))

    def _unknown(self, function: FunctionText, call: ast.Call) -> None:
        """Handle a device whose type is computed. With an index beside it, both are rewritten."""
        match call.args:
            case [ast.expr() as type_] if not isinstance(type_, ast.Constant):
                self.unknown.append((function, type_))
            case [type_, index] if not isinstance(type_, ast.Constant):
                write = _literal(*function.record.span(type_, index))
                self.devices.append(DevicePlace(function.record.name, "cuda", write))


def _all_nodes(tree: list[ast.stmt]) -> Iterator[ast.AST]:
    return chain.from_iterable(map(ast.walk, tree))


def _device_of(node: ast.expr | None) -> str | None:
    """Return the device that ``torch.device("cuda:0")`` names."""
    match node:
        case ast.Call(_, [ast.Constant(str() as text), *_]):
            return text
    return None


def _literal(start: int, end: int) -> Callable[[str], tuple[Edit, ...]]:
    return lambda device: (Edit(start, end, b'"%s"' % device.encode()),)


def _to_cuda(record: RecordText, node: ast.Call) -> Callable[[str], tuple[Edit, ...]]:
    """Rewrite ``torch.cuda(x)`` to ``torch.to(x, torch.device("cpu"))``."""
    _, name_end = record.span(node.func)
    _, argument_end = record.span(node.args[0])
    start, end = name_end - len(b"cuda"), record.span(node)[1] - 1
    comma = b" " if b"," in record.data[argument_end:end] else b", "
    return lambda device: (
        Edit(start, name_end, b"to"),
        Edit(end, end, b'%storch.device("%s")' % (comma, device.encode())),
    )


def _without_pinning(record: RecordText, node: ast.Call) -> tuple[Edit, ...]:
    """Rewrite ``torch.pin_memory(x)`` to ``(x)``."""
    argument_end, call_end = record.span(node.args[0])[1], record.span(node)[1]
    return (Edit(*record.span(node.func), b""), Edit(argument_end, call_end - 1, b""))


def _calls_for_lengths(function: FunctionText) -> Iterator[ast.Call]:
    """Yield calls that make the lengths of packed sequences, which are always on the CPU."""
    pending = [
        call.args[1]
        for call in function.calls
        if dotted(call.func) == "torch._pack_padded_sequence" and len(call.args) > 1
    ]
    seen: set[ast.expr] = set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        match node:
            case ast.Name(name):
                pending += function.assigned.get(name, [])
            case ast.Call():
                yield node
                pending += [*node.args, *(keyword.value for keyword in node.keywords)]
