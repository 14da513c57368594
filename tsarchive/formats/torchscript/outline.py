"""Plain data of a program as an outline: modules by path, definitions, operations with places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from tsarchive.analyses.encoding import Plain, written_nodes
from tsarchive.formats.contents import (
    Body,
    Definition,
    ModuleContent,
    Operation,
    Outline,
    Place,
    Routine,
)
from tsarchive.frontend.places import CodePlace, RecordPlaces
from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.graph import Block, Node, walk
from tsarchive.ir.names import unmangled_text
from tsarchive.ir.source_ranges import Location
from tsarchive.ir.types import NamedType

from .debug_records import DebugRecords

_MODULE: Final = object()
# Names of types stand here, beside what users write.
_NAMING: Final = ("class", "enum", "function", "type")


class Outlining:
    """Makes an outline. ``types`` are what the code defines, by its canonical names."""

    def __init__(self, types: Mapping[str, NamedType], debug: DebugRecords) -> None:
        self._types = types
        self._places = _Places(debug)
        self._constants: dict[str, Plain] = {}

    def outline(self, structure: Plain, code: Sequence[Any]) -> Outline:
        """Return the outline of these parts of the contents."""
        found = {name: self._definition(name, plain) for name, plain in code}
        modules = _Modules(found)
        modules.add_root(structure)
        told = {id(module.definition) for module in modules.found.values()}
        told |= {id(found[name]) for name in found if self._is_hook(name)}
        others = [each for each in found.values() if id(each) not in told]
        return Outline(modules.found, others, self._constants)

    def _is_hook(self, name: str) -> bool:
        """Return whether a function is a hook of a class, which calls name like a function."""
        named = self._types[name]
        return isinstance(named, FunctionType) and named.function in self._hooks

    @cached_property
    def _hooks(self) -> frozenset[Function]:
        classes = (type_ for type_ in self._types.values() if isinstance(type_, ClassType))
        return frozenset(hook for class_ in classes for hook in class_.hooks())

    def _definition(self, name: str, plain: Sequence[Any]) -> Definition:
        own, named = unmangled_text(name), self._types[name]
        match plain:
            case ["module" | "class" as kind, attributes, constants, *members]:
                assert isinstance(named, ClassType)
                traits, routines = self._members(members, named)
                slots = {key: [unmangled_text(type_), *roles] for key, type_, *roles in attributes}
                values = {key: self._typed(constant) for key, *constant in constants}
                return Definition(own, {"kind": kind, **traits}, slots, values, routines)
            case ["function", function]:
                assert isinstance(named, FunctionType)
                routine = self._routine(function, named.function)
                return Definition(own, {"kind": "function"}, {}, {}, {"": routine})
            case ["interface", is_module, methods]:
                signatures = {key: self._signature(method) for key, method in methods}
                traits = {"kind": "interface", "of modules": is_module, **signatures}
                return Definition(own, traits, {}, {}, {})
            case ["enum", type_, members]:
                values = {key: self._typed([type_, value]) for key, value in members}
                return Definition(own, {"kind": "enum"}, {}, values, {})
            case ["named tuple", fields, types]:
                slots = {key: [unmangled_text(t)] for key, t in zip(fields, types, strict=True)}
                return Definition(own, {"kind": "named tuple"}, slots, {}, {})
        return Definition(own, {"kind": plain[0]}, {}, {}, {})

    def _members(
        self, members: Sequence[Any], class_: ClassType
    ) -> tuple[dict[str, Plain], dict[str, Routine]]:
        methods, before, after, hooks = members
        functions = [*methods, *hooks]
        routines = {key: self._routine(plain, class_.function(key)) for key, plain in functions}
        return {"forward pre-hooks": before, "forward hooks": after}, routines

    def _routine(self, plain: Sequence[Any], function: Function) -> Routine:
        signature, block = plain
        arguments, returns = self._signature(signature)
        graph = function.graph
        body = self._body(block, graph)
        return Routine(arguments, returns, body, lambda: self._places.lines(graph))

    def _signature(self, plain: Sequence[Any]) -> tuple[Sequence[Plain], Sequence[Plain]]:
        arguments, returns = plain
        shown = [
            [name, unmangled_text(type_), [*map(self._value, default)]]
            for name, type_, default in arguments
        ]
        return shown, [*map(unmangled_text, returns)]

    def _body(self, plain: Sequence[Any], block: Block) -> Body:
        params, nodes, results = plain
        rows = zip(nodes, written_nodes(block), strict=True)
        operations = [self._operation(*row) for row in rows]
        return Body([*map(unmangled_text, params)], operations, [*map(self._use, results)])

    def _operation(self, plain: Sequence[Any], node: Node) -> Operation:
        operator, upgrader, inputs, attributes, blocks, outputs = plain
        named = {name: self._attribute(name, value) for name, value in attributes.items()}
        if upgrader is not None:
            named["older meaning"] = upgrader
        inner = [block for block in (*node.blocks, node.attributes.get("subgraph")) if block]
        return Operation(
            operator,
            [*map(self._use, inputs)],
            named,
            [self._body(*row) for row in zip(blocks, inner, strict=True)],
            [*map(unmangled_text, outputs)],
            self._places.of(node),
        )

    def _attribute(self, name: str, value: Any) -> Plain:
        return [*map(unmangled_text, value)] if name == "types" else self._value(value)

    def _use(self, plain: Any) -> Plain:
        return plain if isinstance(plain, int) else self._typed(plain)

    def _typed(self, plain: Sequence[Any]) -> Plain:
        type_, value = plain
        return [unmangled_text(type_), self._value(value)]

    def _value(self, value: Any) -> Plain:
        """Return a constant without numbers of mangling; one of the table by its name."""
        match value:
            case {"constant": [str(name), content]}:
                self._constants[name] = content
                return {"constant": name}
            case {"enum": str(name)} | {"function": str(name)}:
                return {**value, next(iter(value)): unmangled_text(name)}
            case dict():
                return {key: self._value(item) for key, item in value.items()}
            case list():
                return [*map(self._value, value)]
        return value  # type: ignore[no-any-return]


class _Modules:
    """Finds the modules of a structure by path."""

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self.found: dict[str, ModuleContent] = {}
        self._definitions = definitions
        self._paths: list[str] = []

    def add_root(self, structure: Plain) -> None:
        """Add the root, whatever it is, and all modules below."""
        if self._slot(structure, "") is not _MODULE:
            self.found[""] = ModuleContent(Definition("", {}, {}, {}, {}), {"": structure})

    def _slot(self, plain: Any, path: str) -> Any:
        """Return the value of an attribute, or _MODULE for a module, which is added."""
        if not isinstance(plain, dict) or "class" not in plain:
            return self._value(plain, path)
        definition = self._definitions[plain["class"]]
        if path and definition.traits["kind"] != "module":
            return self._value(plain, path)
        self._paths.append(path)
        own: dict[str, Plain] = {}
        slots = [*_slots_of(plain)]
        self.found[path] = ModuleContent(definition, own, [name for name, _ in slots])
        for name, item in slots:
            value = self._slot(item, f"{path}.{name}" if path else name)
            if value is not _MODULE:
                own[name] = value
        return _MODULE

    def _value(self, plain: Any, path: str) -> Plain:
        match plain:
            case {"class": str(name)}:
                self._paths.append(path)
                slots = [
                    [key, self._value(item, f"{path}.{key}")] for key, item in _slots_of(plain)
                ]
                return {"class": unmangled_text(name), "attributes": slots}
            case {"object": int(number)}:
                return {"object": self._paths[number]}
            case dict():
                return {
                    key: unmangled_text(item)
                    if key in _NAMING and isinstance(item, str)
                    else self._value(item, path)
                    for key, item in plain.items()
                }
            case list() | tuple():
                return [self._value(item, path) for item in plain]
        return plain  # type: ignore[no-any-return]


def _slots_of(plain: Mapping[str, Any]) -> Iterator[tuple[str, Plain]]:
    yield from plain["attributes"] if "attributes" in plain else [("__getstate__", plain["state"])]


class _Places:
    """Places in code records, with the lines of the user from debug records."""

    def __init__(self, debug: DebugRecords) -> None:
        self._debug = debug
        self._records: dict[str, RecordPlaces] = {}
        self._texts: dict[tuple[str, int], str] = {}

    def of(self, node: Node) -> Place | None:
        """Return the place of a node; None for one that no text stands for."""
        place = node.place
        if not isinstance(place, CodePlace):
            return None
        places = self._record(place)
        origin = _Origin(places, place.line, place.column)
        return Place(self._text(places, place.line), origin, place.line)

    def _text(self, places: RecordPlaces, line: int) -> str:
        """Return the text of a line, which all operations on it share."""
        key = places.record, line
        known = self._texts.get(key)
        if known is None:
            known = self._texts[key] = _line(places, line).strip()
        return known

    def lines(self, graph: Block) -> Sequence[Place]:
        """Return the lines of the text of a function, from that which names it on."""
        found = (node.place for node in walk(graph.nodes))
        place = next((place for place in found if isinstance(place, CodePlace)), None)
        if place is None:
            return ()
        places = self._record(place)
        first, last = _extent(places.lines, place.line)
        return [
            Place(text, _Origin(places, number, len(text) - len(text.lstrip())), number)
            for number, text in enumerate(places.lines[first - 1 : last], first)
        ]

    def _record(self, place: CodePlace) -> RecordPlaces:
        """Return the places of a record, with its debug record."""
        own = place.places
        if own.record not in self._records:
            self._records[own.record] = RecordPlaces(own.record, lambda: own.text(), self._debug)
        return self._records[own.record]


class _Origin:
    """Finds the line of the user, when it is called."""

    __slots__ = ("_column", "_line", "_places")

    def __init__(self, places: RecordPlaces, line: int, column: int) -> None:
        self._places, self._line, self._column = places, line, column

    def __call__(self) -> Location | None:
        found = self._places.range_at(self._line, self._column)
        return None if found is None else found.location


def _line(places: RecordPlaces, number: int) -> str:
    lines = places.lines
    return lines[number - 1] if number <= len(lines) else ""


def _extent(lines: Sequence[str], inside: int) -> tuple[int, int]:
    """Return the first and last line, from 1, of the function around a line."""
    first = last = min(inside, len(lines))
    while first > 1 and not lines[first - 1].lstrip().startswith("def "):
        first -= 1
    depth = _depth(lines[first - 1])
    while last < len(lines) and lines[last].strip() and _depth(lines[last]) > depth:
        last += 1
    return first, last


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
