"""All code of an archive: its functions as graphs, what each names, and what it leads to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from tsarchive.errors import ArchiveError
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.open_world import UNKNOWN_NAME, UNREACHABLE
from tsarchive.frontend.places import CodePlace
from tsarchive.frontend.syntax import bounded
from tsarchive.ir.classes import ClassType, Function, FunctionType, InterfaceType
from tsarchive.ir.graph import Node, Value, nested_blocks
from tsarchive.ir.subtyping import has_unknown
from tsarchive.ir.types import NamedType, Type
from tsarchive.operators.overloads import class_of, overloads_of
from tsarchive.operators.risks import Risk, row_of

# Functions with a bare name that are more than arithmetic; the latter have no place in archives.
_FORMS: Final = frozenset({"prim::Print", "prim::fork", "prim::awaitable", "prim::tolist"})
_REMOTE: Final = {name: f"prim::{name}" for name in ("rpc_sync", "rpc_async", "rpc_remote")}
# What a class may give meaning to by a method whose name begins and ends like this.
_MAGIC: Final = "__"
_NOT_BY_SYNTAX: Final = frozenset({"__init__", "__setstate__", "__getstate__"})
_CALLED: Final = ("__call__", "forward")
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class NamedOperator:
    """An operator where it is named; ``is_certain`` is False where a method may be meant."""

    operator: str
    node: Node
    is_certain: bool = True

    @property
    def is_called(self) -> bool:
        """Whether it is called there, and not only named."""
        return self.node.is_written or self.node.kind.startswith("prim::")

    @property
    def line(self) -> int:
        """The line of its record, 1-based."""
        return line_of(self.node)


@dataclass(slots=True)
class Facts:
    """What a function names: ``leads_to`` are qualified names of functions of the archive,
    ``unknown`` the names that mean nothing, with their lines, ``assigned`` the attributes that it
    assigns, as qualified name of the class and name."""

    operators: list[NamedOperator] = field(default_factory=list)
    leads_to: set[str] = field(default_factory=set)
    unknown: list[tuple[str, int]] = field(default_factory=list)
    assigned: set[tuple[str, str]] = field(default_factory=set)


class Program:
    """The code records of an archive, lowered in an open world.

    ``constant`` gives entry N of the constant table and its type; ``stored_as`` tells which records
    have another name in the archive. Records of archives of before torch 1.3 hold the methods of a
    module without its class.
    """

    def __init__(
        self,
        records: Mapping[str, str],
        constant: Callable[[int], tuple[Any, Type]],
        version: int,
        stored_as: Mapping[str, str],
    ) -> None:
        self.code = CodeImporter(
            records,
            operators=overloads_of,
            constant=constant,
            version=version,
            native_class=class_of,
            evaluate=lambda schema: None,
            open_world=True,
        )
        self.stored_as = stored_as
        self.record_of: dict[str, str] = {}
        self._faults: list[ArchiveError] = []
        self._facts: dict[str, Facts] = {}
        for record in records:
            self._split(record)

    def _split(self, record: str) -> None:
        try:
            with bounded(record):
                names = self.code.definitions(record)
        except ArchiveError as error:
            self._faults.append(error)
        else:
            self.record_of |= dict.fromkeys(names, record)

    @property
    def faults(self) -> tuple[ArchiveError, ...]:
        """What could not be lowered, once the facts of all functions are known."""
        world = self.code.context.open
        assert world is not None
        return (*self._faults, *world.refused)

    @cached_property
    def types(self) -> Mapping[str, NamedType]:
        """What the records define."""
        found: dict[str, NamedType] = {}
        for record in dict.fromkeys(self.record_of.values()):
            found |= self.code.define_all(record)
        return found

    @cached_property
    def classes(self) -> Mapping[str, ClassType]:
        """The classes with methods that can run, by qualified name."""
        return {name: type_ for name, type_ in self.types.items() if isinstance(type_, ClassType)}

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """All functions, methods and hooks, by qualified name."""
        found: dict[str, Function] = {}
        for type_ in self.types.values():
            match type_:
                case FunctionType(function):
                    found[function.qualified_name] = function
                case ClassType():
                    inner = (*type_.methods.values(), *type_.hooks())
                    found |= {function.qualified_name: function for function in inner}
        return found

    @cached_property
    def by_last_name(self) -> Mapping[str, Collection[str]]:
        """The qualified names of functions by their last part."""
        found: dict[str, list[str]] = {}
        for name, function in self.functions.items():
            found.setdefault(function.name, []).append(name)
        return found

    def facts(self, name: str) -> Facts:
        """Return what a function names. Its graph is not kept, but where an operator needs it."""
        found = self._facts.get(name)
        if found is None:
            function = self.functions[name]
            found = self._facts[name] = _Reading(self).read(function)
            if all(row_of(named.operator).risk is Risk.COMPUTE for named in found.operators):
                function.drop_graph()
        return found

    def place_of(self, function: str) -> str:
        """Return the record that a function stands in, by its name in the archive."""
        known = self.record_of.get(function) or self.record_of[function.rpartition(".")[0]]
        return self.stored_as.get(known, known)


def line_of(node: Node) -> int:
    """Return the line of its record that a node stands on."""
    return node.place.line if isinstance(node.place, CodePlace) else 1


def reachable_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes and those inside of them, but for what a literal condition rules out."""
    for node in nodes:
        yield node
        if not (node.kind == UNREACHABLE and node.attributes["is_literal"]):
            for block in nested_blocks(node):
                yield from reachable_nodes(block.nodes)


class _Reading:
    """Reads the graph of one function."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.found = Facts()

    def read(self, function: Function) -> Facts:
        seen: set[Node] = set()  # the body of a closure stands where it is defined, and forked
        for node in reachable_nodes(function.graph.nodes):
            if node not in seen:
                seen.add(node)
                self._node(node)
        self.found.operators.sort(key=lambda named: named.line)
        return self.found

    def _node(self, node: Node) -> None:
        match node.kind:
            case "prim::CallMethod":
                self._method(node)
            case "prim::GetAttr" if node.refusal is not None:
                self._by_name(node.name)
            case "prim::SetAttr" if isinstance(node.input.type, ClassType):
                self.found.assigned.add((node.input.type.qualified_name, node.name))
            case "prim::CreateObject":
                self._lead_to_method(node.output.type, "__init__")
            case "prim::Enter" | "prim::Exit":
                self._lead_to_method(node.input.type, f"__{node.kind[6:].lower()}__")
            case "prim::Constant" if isinstance(node.attributes["value"], Function):
                self._lead_to(node.attributes["value"].qualified_name)
            case kind if kind == UNKNOWN_NAME:
                self._unknown(node)
            case kind if _is_operator(node):
                self.found.operators.append(NamedOperator(kind, node))
        if node.refusal is not None:
            self._syntax(node)

    def _method(self, node: Node) -> None:
        type_ = node.input.type
        if not has_unknown(type_) and self._lead_to_method(type_, node.name):
            return
        if isinstance(type_, ClassType) and type_.is_native:
            return  # methods of classes bound from C++ are theirs
        if node.name == "__call__":
            for name in _CALLED:
                self._by_name(name)
            return
        operator = "prim::tolist" if node.name == "tolist" else f"aten::{node.name}"
        is_certain = not self._by_name(node.name)
        if "is_forked" in node.attributes and not is_certain:
            return  # operators are not forked
        self.found.operators.append(NamedOperator(operator, node, is_certain))

    def _lead_to_method(self, type_: Type, name: str) -> bool:
        """Note the method that a value of a type runs; return whether there is one."""
        match type_:
            case ClassType() if name in type_.methods:
                return self._lead_to(type_.methods[name].qualified_name)
            case InterfaceType() if name in type_.methods:
                return self._by_name(name)
        return False

    def _lead_to(self, function: str) -> bool:
        is_known = function in self.program.functions
        if is_known:
            self.found.leads_to.add(function)
        return is_known

    def _by_name(self, name: str) -> bool:
        """Note all functions of a name, which may be meant; return whether there is any."""
        same_name = self.program.by_last_name.get(name, ())
        self.found.leads_to.update(same_name)
        return bool(same_name)

    def _unknown(self, node: Node) -> None:
        if node.name in _REMOTE:
            self.found.operators.append(NamedOperator(_REMOTE[node.name], node))
        else:
            self.found.unknown.append((node.name[:_LONGEST_NAME], line_of(node)))

    def _syntax(self, node: Node) -> None:
        """Operators of Python's syntax, which classes may define by methods."""
        for value in node.inputs:
            if has_unknown(value.type):
                self._magic_of(self.program.classes.values())
            elif isinstance(value.type, ClassType):
                self._magic_of([value.type])

    def _magic_of(self, classes: Iterable[ClassType]) -> None:
        for class_ in classes:
            for name, method in class_.methods.items():
                if name.startswith(_MAGIC) and name not in _NOT_BY_SYNTAX:
                    self._lead_to(method.qualified_name)


def _is_operator(node: Node) -> bool:
    """Return whether a node is an operator that the text names, or one to know of."""
    if node.is_written or node.kind in _FORMS:
        return True
    is_operator = node.refusal is not None and not node.kind.startswith("prim::")
    return is_operator and row_of(node.kind).risk is not Risk.COMPUTE


def owner_of(value: Value) -> str | None:
    """Return the qualified name of the class that a value is an object of."""
    return value.type.qualified_name if isinstance(value.type, ClassType) else None
