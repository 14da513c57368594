"""All code of an archive: its functions as graphs, what each names, and where values come from.

Values are followed against their direction, through control flow, calls and attributes. Text is
followed further, as far as it is written down: through string operators too, and through attributes
to the pickled state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, product
from typing import Any, Final, NamedTuple

from tsarchive.errors import ArchiveError
from tsarchive.findings import COMPUTED
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.context import EARLY_RETURN, UNKNOWN_NAME, UNREACHABLE, OpenWorld
from tsarchive.frontend.places import CodePlace
from tsarchive.frontend.splitting import check_code
from tsarchive.frontend.syntax import bounded
from tsarchive.ir.classes import ClassType, Function, FunctionType, InterfaceType
from tsarchive.ir.graph import PARAM, Node, Value, carried_values, nested_blocks, walk
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.subtyping import has_unknown
from tsarchive.ir.types import NamedType, Type
from tsarchive.operators.overloads import class_of, overloads_of
from tsarchive.operators.risks import FORMS, Risk, row_of

_REMOTE: Final = {name: f"prim::{name}" for name in ("rpc_sync", "rpc_async", "rpc_remote")}
# What a class may give meaning to by a method whose name begins and ends like this.
_MAGIC: Final = "__"
_NOT_BY_SYNTAX: Final = frozenset({"__init__", "__setstate__", "__getstate__"})
_CALLED: Final = ("__call__", "forward")
_LONGEST_NAME: Final = 200
# Bytes that are not UTF-8, and carriage returns, which are not line ends here: code with such
# bytes outside of strings does not run, and each is one byte for the parser.
_UNPARSABLE = re.compile("[\udc80-\udcff\r]")
_LINE_END = re.compile(rb"\n")
# What torch reads over at the start of a record, whatever is imported.
_IMPORTS = re.compile(r"\A(?:(?:import\b.*|op_version_set *= *\d+ *|#.*| *)\n)+")
# Where code is besides ``code/``: before torch 1.3, and in a torch.package.
_OTHER_FOLDER = re.compile(r"\A(libs|\.data/ts_code/code)/")


@dataclass(frozen=True, slots=True)
class NamedOperator:
    """An operator where it is named; ``is_certain`` is False where a method may be meant."""

    operator: str
    node: Node
    is_certain: bool = True

    @property
    def is_called(self) -> bool:
        """Return whether it is called, and not only named."""
        return self.node.is_written or self.node.kind.startswith("prim::")


@dataclass(slots=True)
class Facts:
    """The names that a function uses: ``leads_to`` are qualified names of functions of the archive,
    ``unknown`` the names that mean nothing, with their lines."""

    operators: list[NamedOperator] = field(default_factory=list)
    leads_to: set[str] = field(default_factory=set)
    unknown: list[tuple[str, int]] = field(default_factory=list)


class Program:
    """The code records of an archive, lowered in an open world.

    ``constant`` gives entry N of the constant table and its type, ``operators`` the overloads of a
    name, by default those of any release. Records of archives of before
    torch 1.3 hold the methods of a module without its class.
    """

    def __init__(
        self,
        records: Mapping[str, bytes],
        constant: Callable[[int], tuple[Any, Type]],
        version: int,
        operators: Callable[[str], Sequence[FunctionSchema]] = overloads_of,
    ) -> None:
        self.data = records
        # Qualified names lead to records in one folder.
        self.stored_as = {_OTHER_FOLDER.sub("code/", name): name for name in records}
        self.texts = {
            known: _IMPORTS.sub(_blank, _UNPARSABLE.sub(" ", _decoded(records[name])))
            for known, name in self.stored_as.items()
        }
        self.code = CodeImporter(
            self.texts,
            operators=operators,
            constant=constant,
            version=version,
            native_class=class_of,
            evaluate=lambda schema: None,
            open_world=True,
        )
        self.record_of: dict[str, str] = {}
        self._faults: list[ArchiveError] = []
        self._facts: dict[str, Facts] = {}
        self._types: dict[str, Mapping[str, NamedType]] = {}
        self._starts: dict[str, list[int]] = {}
        self.records: list[str] = []
        for record in self.texts:
            self._split(record)

    def _split(self, record: str) -> None:
        try:
            with bounded(record):
                names = self.code.definitions(record)
        except ArchiveError as error:
            self._faults.append(error)
        else:
            self.records.append(record)
            self.record_of |= dict.fromkeys(names, record)

    def check_syntax(self) -> None:
        """Note what is wrong in text that stands in no definition, or stands there twice."""
        for record, text in self.texts.items():
            try:
                with bounded(record):
                    check_code(text, record)
            except ArchiveError as error:
                self.world.refuse(error)

    def types_in(self, record: str) -> Mapping[str, NamedType]:
        """Return what a record defines, by qualified name; records as they are in ``texts``."""
        found = self._types.get(record)
        if found is None:
            found = self._types[record] = self.code.define_all(record)
        return found

    def functions_in(self, record: str) -> Iterator[Function]:
        """Yield the functions, methods and hooks of a record, if it can be cut into definitions."""
        if record in self.records:
            yield from _functions(self.types_in(record).values())

    def functions_mentioning(self, text: str) -> Iterator[Function]:
        """Yield the functions of records that contain a text."""
        for record, content in self.texts.items():
            if text in content:
                yield from self.functions_in(record)

    def offset(self, record: str, line: int, column: int) -> int:
        """Return the byte of a record that the frontend has at a column of a 1-based line."""
        starts = self._starts.get(record)
        if starts is None:
            data = self.data[self.stored_as[record]]
            starts = self._starts[record] = [0, *(m.end() for m in _LINE_END.finditer(data))]
        return starts[line - 1] + column

    def default(self, function: Function, parameter: str) -> Value | None:
        """Return the default of a parameter as it is written; None where there is none."""
        _ = function.schema
        return self.world.constants.get((function.qualified_name, parameter))

    @property
    def world(self) -> OpenWorld:
        """The world of the code, with all that is not known of it."""
        world = self.code.open
        assert world is not None
        return world

    @property
    def faults(self) -> tuple[ArchiveError, ...]:
        """The errors of lowering, once the facts of all functions are known."""
        return (*self._faults, *self.world.refused)

    @cached_property
    def types(self) -> Mapping[str, NamedType]:
        """The types that the records define."""
        found: dict[str, NamedType] = {}
        for record in self.records:
            found |= self.types_in(record)
        return found

    @cached_property
    def classes(self) -> Mapping[str, ClassType]:
        """The classes with methods that can run, by qualified name."""
        return {name: type_ for name, type_ in self.types.items() if isinstance(type_, ClassType)}

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """All functions, methods and hooks, by qualified name."""
        return {function.qualified_name: function for function in _functions(self.types.values())}

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


def _functions(types: Iterable[NamedType]) -> Iterator[Function]:
    for type_ in types:
        match type_:
            case FunctionType(function):
                yield function
            case ClassType():
                yield from (*type_.methods.values(), *type_.hooks())


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _blank(lines: re.Match[str]) -> str:
    return "\n" * lines[0].count("\n")


def line_of(node: Node) -> int:
    """Return the line of its record that a node stands on, 1-based."""
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
        self.found.operators.sort(key=lambda named: line_of(named.node))
        return self.found

    def _node(self, node: Node) -> None:
        match node.kind:
            case "prim::CallMethod":
                self._method(node)
            case "prim::GetAttr" if node.refusal is not None:
                self._by_name(node.name)
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
        if isinstance(type_, ClassType) and (type_.is_native or type_.is_revived):
            return  # methods of classes bound from C++, or that were once, are theirs
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
        elif not self._by_name(node.attributes.get("attribute", "")):
            self.found.unknown.append((node.name[:_LONGEST_NAME], line_of(node)))

    def _syntax(self, node: Node) -> None:
        """Note the methods by which classes may define operators of Python's syntax."""
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
    if node.is_written or node.kind in FORMS:
        return True
    is_operator = node.refusal is not None and not node.kind.startswith("prim::")
    return is_operator and row_of(node.kind).risk is not Risk.COMPUTE


CALLS: Final = frozenset({"prim::CallFunction", "prim::CallMethod"})
_MOST_PLACES: Final = 32


class Origin(NamedTuple):
    """A value, and the function in whose graph it stands."""

    function: Function
    value: Value


@dataclass(eq=False)
class Flow:
    """Goes one step back at a time; ``most`` bounds the callers and writers that are looked at."""

    program: Program
    most: int | None = _MOST_PLACES
    # The node around each block of a graph, by the node of the block's parameters.
    _around: dict[Function, dict[Node, Node]] = field(default_factory=dict)

    def through_control(self, origin: Origin) -> list[Origin]:
        """Return what a result of control flow, or a value inside of it, may be."""
        function, value = origin
        node = value.node
        index = node.outputs.index(value)
        found: Sequence[Value] = ()
        if node.kind == "prim::If":
            returns = [block.returns for block in node.blocks]
            found = [values[index] for values in returns if index < len(values)]
        elif node.kind == "prim::Loop":
            found = _carried(node, index)
        elif node.kind == PARAM and node is not function.graph.param_node:
            around = self._node_around(function, node)
            if around is not None and around.kind == "prim::Loop":
                found = _carried(around, index - 1) if index else ()
            elif around is not None:  # what a closure takes from around it
                found = around.inputs[index : index + 1]
        return [Origin(function, value) for value in found]

    def _node_around(self, function: Function, param: Node) -> Node | None:
        if function not in self._around:
            nodes = walk(function.graph.nodes)
            self._around[function] = {b.param_node: n for n in nodes for b in nested_blocks(n)}
        return self._around[function].get(param)

    def through_calls(self, origin: Origin) -> list[Origin]:
        """Return what a parameter may be: its default, and what calls give."""
        function, value = origin
        index = function.graph.params.index(value)
        found: list[Origin] = []
        default = self.program.default(function, value.name or "")
        if default is not None:
            found.append(Origin(function, default))
        calls = (
            (caller, node)
            for caller in self.program.functions_mentioning(function.name)
            for node in walk(caller.graph.nodes)
            if node.kind in CALLS and self.callee(node) is function
        )
        for caller, call in islice(calls, self.most):
            place = index + (call.kind == "prim::CallFunction")
            if place < len(call.inputs):
                found.append(Origin(caller, call.inputs[place]))
        return found

    def through_result(self, call: Node) -> list[Origin]:
        """Return what a call of a function of the archive may give."""
        function = self.callee(call) if call.kind in CALLS else None
        if function is None:
            return []
        early = (node.input for node in walk(function.graph.nodes) if node.kind == EARLY_RETURN)
        return [Origin(function, value) for value in (*function.graph.returns, *early)]

    def through_attribute(self, owner: ClassType, attribute: str) -> list[Origin]:
        """Return what code assigns to an attribute of a class."""
        writes = (
            Origin(writer, node.inputs[1])
            for writer in self.program.functions_mentioning(attribute)
            for node in walk(writer.graph.nodes)
            if node.kind == "prim::SetAttr" and node.name == attribute and node.input.type is owner
        )
        return list(islice(writes, self.most))

    def callee(self, call: Node) -> Function | None:
        """Return the function or method that a call certainly runs."""
        if call.kind == "prim::CallFunction":
            value = call.input.node.attributes.get("value")
            return value if isinstance(value, Function) else None
        type_ = call.input.type
        return type_.methods.get(call.name) if isinstance(type_, ClassType) else None


def _carried(loop: Node, index: int) -> Sequence[Value]:
    if len(loop.outputs) != len(loop.inputs) - 2:
        return ()  # it was refused before it was whole
    carried = list(carried_values(loop))[index]
    return carried.first, carried.last


# Text of attributes by class and attribute, as the pickles hold it.
PickledText = Mapping[tuple[str, str], Iterable[str]]
_MOST_TEXTS: Final = 8
# Letters of a text: systems take no longer names, and texts that are joined grow.
_LONGEST: Final = 4096
_MOST_VALUES: Final = 32
_DEPTH: Final = 12
_JOINING: Final = frozenset({"aten::add", "aten::add_", "aten::__add__"})
_PASSING: Final = frozenset({"aten::format", "aten::percentFormat", "prim::unchecked_cast"})


class Texts:
    """Looks for text in the functions of a program."""

    def __init__(self, program: Program, pickled: PickledText) -> None:
        self.program = program
        self.pickled = pickled
        self.flow = Flow(program)
        self._known: dict[Value, list[str]] = {}

    def given_to(self, function: str, call: Node) -> tuple[str, ...]:
        """Return the texts in the arguments of a call; ``COMPUTED`` where nothing is known."""
        given = [v for v in call.inputs if not (v.node.is_constant and v.node.place is None)]
        origins = [Origin(self.program.functions[function], value) for value in given]
        found = [text for origin in origins for text in self._texts(origin, _DEPTH)]
        known = dict.fromkeys(text for text in found if text != COMPUTED)
        return tuple(known)[:_MOST_TEXTS] or (COMPUTED,)

    def _texts(self, origin: Origin, depth: int) -> list[str]:
        """Return the texts that a value may be; each value is looked at once."""
        if depth == 0:
            return [COMPUTED]
        found = self._known.get(origin.value)
        if found is None:
            self._known[origin.value] = [COMPUTED]  # while it is being looked at
            texts = dict.fromkeys(text[:_LONGEST] for text in self._all_texts(origin, depth - 1))
            found = self._known[origin.value] = list(texts)[:_MOST_TEXTS]
        return found

    def _all_texts(self, origin: Origin, depth: int) -> Iterator[str]:
        node = origin.value.node
        if node.is_constant and isinstance(node.attributes["value"], str):
            yield node.attributes["value"]
        elif node.kind in _JOINING and len(node.inputs) >= 2:
            yield from self._joined(origin, depth)
        elif node.kind in _PASSING and node.inputs:
            yield from self._texts(origin._replace(value=node.input), depth)
        elif node.kind == "prim::GetAttr" and isinstance(node.input.type, ClassType):
            slot = node.input.type.qualified_name, node.name
            yield from islice(self.pickled.get(slot, ()), _MOST_VALUES)
            yield from self._all(self.flow.through_attribute(node.input.type, node.name), depth)
            yield COMPUTED
        elif node.kind == PARAM and node is origin.function.graph.param_node:
            yield from self._all(self.flow.through_calls(origin), depth)
            yield COMPUTED
        else:
            origins = self.flow.through_control(origin)
            yield from self._all(origins, depth)
            if not origins:
                yield COMPUTED

    def _all(self, origins: Iterable[Origin], depth: int) -> Iterator[str]:
        for origin in origins:
            yield from self._texts(origin, depth)

    def _joined(self, origin: Origin, depth: int) -> Iterator[str]:
        parts = [origin._replace(value=value) for value in origin.value.node.inputs[:2]]
        for combination in product(*(self._texts(part, depth) for part in parts)):
            text = "".join(combination)
            yield COMPUTED if set(text) <= set(COMPUTED) else text
