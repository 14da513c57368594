"""A program as an outline: what it takes and gives, its weights, and its nodes as operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias

from tsarchive.analyses.encoding import Plain
from tsarchive.formats.contents import Body, Definition, ModuleContent, Operation, Place, Routine
from tsarchive.ir.source_ranges import Location

from . import schema
from .listing import argument, expression, name, statement, type_of_tensor
from .metadata import frames, modules, operator_and_overload

_FORWARD: Final = "forward"
# Constants of these are told by the names that torch has for them.
_NAMED: Final = frozenset({"as_scalar_type", "as_layout", "as_memory_format", "as_device"})

_CONSTANT: Final = "constant"
Names: TypeAlias = Mapping[str, int]
"""The numbers of values by the names that can be used in a graph."""


class _Made(NamedTuple):
    """A value that a graph makes or takes."""

    name: str
    type: str


class _Taken(NamedTuple):
    """An argument: what is used in it, how that is nested, and the graphs that it is."""

    uses: Sequence[Plain]
    form: Plain
    graphs: Sequence[schema.Graph]


class ProgramOutline:
    """Makes the outline of a program.

    ``constant`` gives the plain data of an argument of an operator that holds no values, ``text``
    that of a type with symbols in it.
    """

    def __init__(
        self,
        program: schema.ExportedProgram,
        constant: Callable[[str, schema.Tagged], Plain],
        text: Callable[[str], str],
    ) -> None:
        self._program = program
        self._module = program.graph_module
        self._constant, self._text = constant, text
        self._numbers = count()
        self._lines = count(1)
        self._places: list[Place] = []

    def module(
        self, model: str, payloads: Mapping[str, Plain], structure: Mapping[str, Plain]
    ) -> ModuleContent:
        """Return the program as a module, with what its structure has beside inputs."""
        body = self._body()
        traits = {"kind": "program", **self._inputs(), **structure}
        routine = Routine([], [], body, lambda: self._places)
        return ModuleContent(Definition(model, traits, {}, {}, {_FORWARD: routine}), payloads)

    # What goes in and comes out

    @property
    def _labeled(self) -> Iterator[tuple[str, schema.InputSpec, schema.Argument]]:
        """The inputs by name: those of the user by number, as names in the graph mean nothing."""
        numbers = count()
        specs = self._module.signature.input_specs
        for spec, value in zip(specs, self._module.graph.inputs, strict=False):
            is_given = spec.tag in ("user_input", "constant_input")
            yield spec.target or (str(next(numbers)) if is_given else spec.tag), spec, value

    def _inputs(self) -> dict[str, Plain]:
        """Return the types of inputs, which are also those of weights."""
        graph, found = self._module.graph, dict[str, Plain]()
        for label, _, value in self._labeled:
            meta = graph.tensor_values.get(value.name or "")
            if meta is not None:
                found[f"input {label}"] = self._text(_type(meta))
        return found

    def _body(self) -> Body:
        graph, names = self._module.graph, dict[str, int]()
        operations = [self._input(*row, names) for row in self._labeled]
        operations += [self._node(node, graph, names) for node in graph.nodes]
        specs = self._module.signature.output_specs
        operations += [self._output(*row, names) for row in zip(specs, graph.outputs, strict=False)]
        return Body([], operations, [])

    def _input(
        self, label: str, spec: schema.InputSpec, value: schema.Argument, names: dict[str, int]
    ) -> Operation:
        is_kept = getattr(spec.value, "persistent", True)
        attributes = {
            "name": label,
            "kind": spec.tag if is_kept else f"{spec.tag}, not persistent",
            "described": _described(spec, value),
        }
        place = self._place(f"{argument(value)} = {label}  # {attributes['kind']}")
        given = [] if value.name is not None else self._taken(value, names).uses
        return Operation("input", given, attributes, [], self._define([value], names), place)

    def _output(self, spec: schema.OutputSpec, value: schema.Argument, names: Names) -> Operation:
        changed = spec.changed
        label = spec.tag if changed is None else f"{spec.tag} {changed[1]}"
        place = self._place(f"{label} = {argument(value)}")
        taken = self._taken(value, names)
        described = _described(spec, value)
        attributes: dict[str, Plain] = {"name": label, "form": taken.form, "described": described}
        return Operation("output", taken.uses, attributes, [], [], place)

    # Nodes

    def _node(self, node: schema.Node, graph: schema.Graph, names: dict[str, int]) -> Operation:
        place = self._place(statement(node, graph), node)
        taken = [self._taken(given.arg, names, node.target) for given in node.inputs]
        bodies = [self._nested(inner, names) for each in taken for inner in each.graphs]
        attributes: dict[str, Plain] = {
            "arguments": [
                [given.name, each.form] for given, each in zip(node.inputs, taken, strict=True)
            ],
            "results": [_form(value) for value in node.outputs if value.name is None],
        }
        uses = [use for each in taken for use in each.uses]
        outputs = self._define(node.outputs, names)
        return Operation(_operator(node.target), uses, attributes, bodies, outputs, place)

    def _nested(self, graph: schema.Graph, names: Names) -> Body:
        own = dict(names)
        params = self._define(graph.inputs, own)
        operations = [self._node(node, graph, own) for node in graph.nodes]
        results = [use for value in graph.outputs for use in self._taken(value, own).uses]
        return Body(params, operations, results)

    def _define(self, values: Sequence[schema.Argument], names: dict[str, int]) -> list[Plain]:
        """Give numbers to the values that are made, and return their types."""
        types: list[Plain] = []
        for value in values:
            for leaf in _leaves(value):
                if isinstance(leaf, _Made):
                    names[leaf.name] = next(self._numbers)
                    types.append(leaf.type)
        return types

    def _taken(self, value: schema.Argument, names: Names, target: str = "") -> _Taken:
        """Return the values in an argument, and constants between them."""
        if value.tag == "as_graph":
            return _Taken([], "graph", [value.value.graph])
        form = _form(value)
        if form is _CONSTANT:
            return _Taken([[value.tag, self._value(value, target)]], None, [])
        return _Taken([self._use(leaf, names) for leaf in _leaves(value)], form, [])

    def _use(self, leaf: _Made | schema.Tagged, names: Names) -> Plain:
        if isinstance(leaf, _Made):
            return names.get(leaf.name, ["value", leaf.name])
        return [leaf.tag, self._constant("", leaf)]

    def _value(self, value: schema.Argument, target: str) -> Plain:
        if value.tag == "as_none":
            return None
        return argument(value) if value.tag in _NAMED else self._constant(target, value)

    def _place(self, text: str, node: schema.Node | None = None) -> Place:
        found = Place(text, partial(_origin, node), next(self._lines), _module(node))
        self._places.append(found)
        return found


def _leaves(value: Any) -> Iterator[_Made | schema.Tagged]:
    """Yield the values and literals in an argument."""
    match value:
        case schema.TensorArgument(own):
            yield _Made(own, "Tensor")
        case schema.CustomObjArgument(own, class_name):
            yield _Made(own, class_name)
        case schema.Tagged("as_name", str(own)):
            yield _Made(own, _NUMBERS[type(value)])
        case schema.Tagged(_, list() | dict() as items):
            yield from _leaves(items)
        case schema.Tagged(_, schema.Tagged() | schema.TensorArgument() as item):
            yield from _leaves(item)
        case schema.Tagged(_, schema.CustomObjArgument() as item):
            yield from _leaves(item)
        case schema.Tagged():
            yield value
        case list():
            for item in value:
                yield from _leaves(item)
        case dict():
            yield from _leaves([*value.values()])


_NUMBERS: Final[Mapping[type, str]] = {
    schema.SymIntArgument: "int",
    schema.SymFloatArgument: "float",
    schema.SymBoolArgument: "bool",
}


def _form(value: Any) -> Plain:
    """Return how values are nested in an argument, _CONSTANT where there are none."""
    if not any(isinstance(leaf, _Made) for leaf in _leaves(value)):
        return _CONSTANT
    match value:
        case schema.Tagged(_, list() | dict() | schema.Tagged() as items):
            return _form(items)
        case list():
            return [_form(item) for item in value]
        case dict():
            return {key: _form(item) for key, item in value.items()}
    return None


def _type(meta: schema.TensorMeta) -> str:
    """Return the type of an input, with the sizes that symbols had in the example."""
    found = type_of_tensor(meta)
    for size in meta.sizes:
        if size.tag == "as_expr" and size.value.hint is not None:
            found += f", {expression(size.value.expr_str)} = {size.value.hint.value}"
    return f"{found}, with gradient" if meta.requires_grad else found


def _described(spec: schema.InputSpec | schema.OutputSpec, value: schema.Argument) -> str | None:
    """Return what the signature says that a value of the graph is, where it is another one."""
    given = spec.value
    own = given.value if spec.tag == "constant_input" else given.arg
    shown = argument(own) if isinstance(own, schema.Tagged) else name(own.name)
    return None if shown == argument(value) else shown


def _operator(target: str) -> str:
    """Return ``aten::add.Tensor``; what names no operator of a library as it is."""
    found = operator_and_overload(target)
    return target if found is None else ".".join(filter(None, found))


def _module(node: schema.Node | None) -> str:
    """Return the path of the innermost module that a node was recorded in, "" for the root."""
    found = modules(node) if node is not None else ()
    return found[-1].path if found else ""


def _origin(node: schema.Node | None) -> Location | None:
    """Return the innermost line of the user that a node comes from."""
    found = frames(node) if node is not None else ()
    return Location(found[-1].file, found[-1].line, found[-1].text) if found else None
