"""The places in code that name a device, and the strings that flow into ``torch.device(d)``.

Devices that code compares with move like those that it uses, so equality is preserved. Tests of the
device type, ``x.is_cuda`` and ``x.device.type == "cuda"``, stay and reflect the actual device.
Strings that are only compared with one that names a device are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tsarchive.frontend.context import UNLOWERED
from tsarchive.frontend.places import CodePlace
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.graph import PARAM, Node, Value, closure, walk
from tsarchive.ir.values import is_device

from .program import CALLS, Flow, Origin, Program

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


@dataclass(slots=True)
class Devices:
    """The devices that code names; ``attributes`` are (class, name) of strings that do, too."""

    program: Program
    named: dict[NamedDevice, None] = field(default_factory=dict)
    pinned: dict[Pinned, None] = field(default_factory=dict)
    attributes: set[tuple[str, str]] = field(default_factory=set)
    _flow: Flow = field(init=False)
    _seen: set[Value] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._flow = Flow(self.program, most=None)

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
