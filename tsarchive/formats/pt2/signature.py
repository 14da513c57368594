"""The calling convention of a program: its arguments, its state, its results, and their types.

Inputs of the graph are parameters, buffers and constants, and the user's arguments in flattened
order; outputs are the user's results, and new values of mutated state. Trees of arguments and
results become TorchScript types: a list or dict whose items are of several types holds ``Any``; a
deque is a list, every mapping a dict, a registered object a tuple of its flattened items.

A program has one graph and no modules, but its state has dotted names: each module that they name
becomes a class that declares its attributes, without methods; the root's has ``forward``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn

from tsarchive.errors import ArchiveError, FormatError, UnsupportedError
from tsarchive.formats.torchscript.pickled import MAX_DEPTH
from tsarchive.ir.classes import Attribute, ClassType
from tsarchive.ir.graph import Value
from tsarchive.ir.names import to_identifier, to_type_name, unmangled, untaken_name
from tsarchive.ir.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    STRING,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
)

from . import schema
from .arguments import LITERALS, SYMBOLIC, type_of_argument
from .building import Body
from .pytrees import LEAF, MAPPINGS, Kind, Tree, read_tree
from .records import CONSTANTS, WEIGHTS

_KEY_TYPES = {str: STRING, int: INT, float: FLOAT, bool: BOOL}
_LISTS = frozenset({Kind.LIST, Kind.DEQUE})


@dataclass(frozen=True, slots=True)
class TypedTree:
    """A tree with the type of each of its nodes."""

    tree: Tree
    type: Type
    children: tuple[TypedTree, ...] = ()

    def places(self, place: str) -> Iterator[tuple[str, TypedTree]]:
        """Yield each child with its place in a tree that stands at ``place``."""
        for (step, _), child in zip(self.tree.places(), self.children, strict=True):
            yield place + step, child


class NamedTuples:
    """The named tuple types of one program: one for each name and types of fields."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...], tuple[Type, ...]], TupleType] = {}
        self._taken: set[str] = set()

    def type_of(self, tree: Tree, elements: tuple[Type, ...]) -> TupleType:
        name = to_type_name(tree.name or "")
        key = name, tree.fields, elements
        found = self._known.get(key)
        if found is None:
            fields = tree.fields or tuple(f"field_{i}" for i in range(len(elements)))
            qualified = untaken_name(f"__torch__.{name}", self._taken)
            found = self._known[key] = TupleType(elements, qualified, fields)
        return found

    @property
    def names(self) -> frozenset[str]:
        """The qualified names in use."""
        return frozenset(self._taken)

    def find(self, qualified_name: str) -> TupleType | None:
        """Return the type of that name; None when there is none."""
        types = self._known.values()
        return next((type_ for type_ in types if type_.qualified_name == qualified_name), None)


def typed_tree(tree: Tree, leaves: Iterator[Type], named: NamedTuples) -> TypedTree:
    """Return the tree with types; ``leaves`` are the types of its leaves in order.

    Raises UnsupportedError for a dict that TorchScript has no type for.
    """
    if tree.kind is Kind.LEAF:
        return TypedTree(tree, next(leaves))
    children = tuple([typed_tree(child, leaves, named) for child in tree.children])
    types = tuple([child.type for child in children])
    return TypedTree(tree, _type_of(tree, types, named), children)


def _type_of(tree: Tree, types: tuple[Type, ...], named: NamedTuples) -> Type:
    if tree.kind in _LISTS:
        return ListType(common_type(types))
    if tree.kind in MAPPINGS:
        kinds = {type(key) for key in tree.keys} or {str}
        key_type = _KEY_TYPES.get(kinds.pop())
        if kinds or key_type is None:
            raise UnsupportedError("a dict among arguments or results has keys of several types")
        return DictType(key_type, common_type(types))
    if tree.kind is Kind.NAMED_TUPLE:
        return named.type_of(tree, types)
    return TupleType(types)


def common_type(types: Iterable[Type]) -> Type:
    """Return the type of the items of a list or dict."""
    found = dict.fromkeys(types)
    has_none = NONE in found
    found.pop(NONE, None)
    if len(found) > 1:
        return ANY
    type_ = next(iter(found), TENSOR)
    if has_none and type_ != ANY and not isinstance(type_, OptionalType):
        return OptionalType(type_)
    return type_


def unpack(body: Body, value: Value, typed: TypedTree) -> Iterator[Value]:
    """Append nodes that unpack a value; yield its leaves in order."""
    if value.type != typed.type and typed.type != NONE:
        value = body.append("prim::unchecked_cast", [value], typed.type).output
    if typed.tree.kind is Kind.LEAF:
        yield value
        return
    for part, child in zip(_parts(body, value, typed), typed.children, strict=True):
        yield from unpack(body, part, child)


def _parts(body: Body, value: Value, typed: TypedTree) -> Sequence[Value]:
    if not typed.children:
        return ()
    if typed.tree.kind in _LISTS:
        return body.unpacked(value, len(typed.children))
    if isinstance(typed.type, DictType):
        keys, type_ = typed.tree.keys, typed.type.key
        return [body.value("aten::__getitem__", value, body.constant(key, type_)) for key in keys]
    types = [child.type for child in typed.children]
    return body.append("prim::TupleUnpack", [value], *types).outputs


def build(body: Body, typed: TypedTree, leaves: Iterator[Value]) -> Value:
    """Build a value from these leaves. Raises FormatError if it is not of the declared type."""
    if typed.tree.kind is Kind.LEAF:
        return next(leaves)
    parts = [build(body, child, leaves) for child in typed.children]
    if isinstance(typed.type, ListType):
        return body.list_of(typed.type.element, parts)
    if isinstance(typed.type, DictType):
        key_type = typed.type.key
        keys = [body.constant(key, key_type) for key in typed.tree.keys]
        pairs = [value for pair in zip(keys, parts, strict=True) for value in pair]
        return body.append("prim::DictConstruct", pairs, typed.type).output
    for part, child in zip(parts, typed.children, strict=True):
        if part.type != child.type:
            raise FormatError("a result is not of the type that its place says")
    return body.append("prim::TupleConstruct", parts, typed.type).output


ClassOf = Callable[[str], Type]

_CONSTANT_TYPES = {"as_none": NONE, **LITERALS}


class StateKind(Enum):
    """The kind of a state by the tag of its input; the value is its name in errors."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    TENSOR_CONSTANT = "tensor constant"
    CUSTOM_OBJ = "custom object"


@dataclass(frozen=True, slots=True)
class State:
    """An input of the graph that the module holds under the dotted name ``target``."""

    name: str
    target: str
    kind: StateKind
    is_persistent: bool = True
    class_fqn: str | None = None

    @property
    def folder(self) -> str:
        """The folder in which it is stored."""
        is_weight = self.kind is StateKind.PARAMETER or (
            self.kind is StateKind.BUFFER and self.is_persistent
        )
        return WEIGHTS if is_weight else CONSTANTS


@dataclass(frozen=True, slots=True)
class Input:
    """A leaf of the arguments: the value ``name`` of the graph, or a constant that it must equal.

    ``place`` is the path to it, such as ``x['key'][0]``.
    """

    place: str
    type: Type
    name: str | None
    constant: Any = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument of ``forward``."""

    name: str
    tree: Tree
    is_keyword: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a program. ``results`` are the leaves of ``out_tree``.

    ``mutations`` are pairs: a value of the graph, and the input that it is copied into.
    A program that computes gradients returns a tuple of its result and them.
    """

    parameters: tuple[Parameter, ...]
    inputs: tuple[Input, ...]
    states: tuple[State, ...]
    tokens: tuple[str, ...]
    mutations: tuple[tuple[str, str], ...]
    results: tuple[schema.Argument, ...]
    result_types: tuple[Type, ...]
    out_tree: Tree

    def typed_parameters(self, named: NamedTuples) -> tuple[TypedTree, ...]:
        """Return the typed trees of the arguments."""
        types = iter([input_.type for input_ in self.inputs])
        return tuple([typed_tree(one.tree, types, named) for one in self.parameters])

    def typed_result(self, named: NamedTuples) -> TypedTree:
        """Return the typed tree of the result."""
        return typed_tree(self.out_tree, iter(self.result_types), named)


def read_signature(module: schema.GraphModule, record: str, class_of: ClassOf) -> Signature:
    """Return the calling convention of a program; ``class_of`` finds a C++ class by its name.

    Raises FormatError where parts of it contradict each other, and what ``class_of`` raises.
    """
    try:
        return _Reader(module, class_of).signature()
    except ArchiveError as error:
        error.record = error.record or record
        raise


class _Reader:
    def __init__(self, module: schema.GraphModule, class_of: ClassOf) -> None:
        self._module = module
        self._class_of = class_of
        self._specs: schema.GraphSignature = module.signature

    def signature(self) -> Signature:
        call = self._call()
        in_tree = self._tree(call.in_spec)
        parameters = tuple(_parameters(in_tree, call.forward_arg_names, self._names(in_tree)))
        places = [place for one in parameters for place in one.tree.leaf_places(one.name)]
        out_tree = self._tree(call.out_spec)
        results = tuple(self._specs.results)
        gradients, mutations = self._changes()
        if len(results) != out_tree.leaves:
            _fail(f"there are {len(results)} results for {out_tree.leaves} places")
        if gradients:
            results = (*results, *gradients)
            out_tree = Tree(Kind.TUPLE, (out_tree, *[LEAF] * len(gradients)))
        return Signature(
            parameters=parameters,
            inputs=tuple(self._inputs(places)),
            states=tuple(_states(self._specs.input_specs)),
            tokens=tuple(s.value.arg.name for s in self._specs.input_specs if s.tag == "token"),
            mutations=tuple(mutations),
            results=results,
            result_types=tuple(map(self._result_type, results)),
            out_tree=out_tree,
        )

    def _call(self) -> schema.ModuleCallSignature:
        for entry in self._module.module_call_graph:
            if entry.fqn == "" and entry.signature is not None:
                return entry.signature
        raise FormatError("the calling convention of the program is missing")

    def _tree(self, text: str) -> Tree:
        if not text:  # torch 2.4 writes none for a result of None
            return LEAF
        return read_tree(text, self._module.treespec_namedtuple_fields)

    def _names(self, tree: Tree) -> list[str | None]:
        """Return the names of the inputs of the graph that are arguments themselves."""
        leaves = iter(self._specs.user_inputs)
        names: list[str | None] = []
        for argument in _arguments(tree)[0]:
            found = [next(leaves, None) for _ in range(argument.leaves)]
            first = found[0] if argument is LEAF else None
            named: Any = None
            if first is not None:
                named = first.value if first.tag == "constant_input" else first.value.arg
            names.append(None if named is None else named.name)
        return names

    def _inputs(self, places: Sequence[str]) -> Iterator[Input]:
        specs = self._specs.user_inputs
        if len(specs) != len(places):
            _fail(f"there are {len(specs)} inputs for {len(places)} arguments")
        yield from map(self._input, specs, places)

    def _input(self, spec: schema.InputSpec, place: str) -> Input:
        argument = spec.value.value if spec.tag == "constant_input" else spec.value.arg
        if argument.tag == "as_tensor":
            return Input(place, TENSOR, argument.name)
        if argument.tag == "as_custom_obj":
            return Input(place, self._class_of(argument.value.class_fqn), argument.name)
        if argument.tag in SYMBOLIC:
            constant = argument.value.value if argument.name is None else None
            return Input(place, SYMBOLIC[argument.tag], argument.name, constant)
        if argument.tag in _CONSTANT_TYPES:
            value = None if argument.tag == "as_none" else argument.value
            return Input(place, _CONSTANT_TYPES[argument.tag], None, value)
        raise UnsupportedError(f"the argument {place} is given as {argument.tag}")

    def _changes(self) -> tuple[list[schema.Argument], list[tuple[str, str]]]:
        """Return gradients and mutations."""
        names = {(s.kind, s.target): s.name for s in _states(self._specs.input_specs)}
        gradients: list[schema.Argument] = []
        mutations: list[tuple[str, str]] = []
        for spec in self._specs.output_specs:
            value = spec.value
            if spec.tag in ("buffer_mutation", "parameter_mutation"):
                kind = StateKind(spec.tag.removesuffix("_mutation"))
                target = getattr(value, f"{kind.value}_name")
                if (kind, target) not in names:
                    _fail(f"{target!r} is changed, and no input")
                mutations.append((value.arg.name, names[kind, target]))
            elif spec.tag == "user_input_mutation":
                mutations.append((value.arg.name, value.user_input_name))
            elif spec.changed is not None:
                gradients.append(schema.Argument("as_tensor", value.arg))
        return gradients, mutations

    def _result_type(self, argument: schema.Argument) -> Type:
        if argument.tag == "as_none":
            return NONE
        if isinstance(argument.value, schema.CustomObjArgument):
            return self._class_of(argument.value.class_fqn)
        return type_of_argument(argument)


def _fail(message: str) -> NoReturn:
    raise FormatError(f"the signature of the program: {message}")


def _arguments(tree: Tree) -> tuple[tuple[Tree, ...], Tree]:
    """Return the trees of positional arguments, and that of the keywords."""
    match tree.children:
        case (positional, keywords) if (
            tree.kind is Kind.TUPLE
            and positional.kind is Kind.TUPLE
            and keywords.kind is Kind.DICT
            and all(isinstance(key, str) for key in keywords.keys)
        ):
            return positional.children, keywords
    _fail("the arguments are not a tuple of positional ones and a dict of keywords")


def _parameters(
    tree: Tree, given: Sequence[str] | None, graph_names: Sequence[str | None]
) -> Iterator[Parameter]:
    """Yield the arguments by name; torch before 2.7 did not write those of positional ones."""
    positional, keywords = _arguments(tree)
    count = len(positional) + len(keywords.children)
    if given and len(given) != count:
        _fail(f"{len(given)} names are given for {count} arguments")
    taken = {str(key) for key in keywords.keys}
    for position, (argument, graph_name) in enumerate(zip(positional, graph_names, strict=True)):
        name = given[position] if given else graph_name or f"arg_{position}"
        if name in taken:
            _fail(f"two arguments are called {name!r}")
        taken.add(name)
        yield Parameter(name, argument, is_keyword=False)
    for key, argument in zip(keywords.keys, keywords.children, strict=True):
        yield Parameter(str(key), argument, is_keyword=True)


def _states(specs: Sequence[schema.InputSpec]) -> Iterator[State]:
    for spec in specs:
        if spec.target is not None:
            value, kind = spec.value, StateKind[spec.tag.upper()]
            is_persistent = getattr(value, "persistent", True)
            class_fqn = getattr(value.arg, "class_fqn", None)
            yield State(value.arg.name, spec.target, kind, is_persistent, class_fqn)


TRAINING = Attribute("training", BOOL)
_UNKNOWN = "torch.nn.modules.module.Module"
_ROOT = "torch.export.ExportedProgram"
_CLASS_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_][A-Za-z_0-9]*)*", re.ASCII)
# Keywords of TorchScript that no atom of a qualified name may be.
_TORCH = "__torch__"


@dataclass(slots=True)
class Module:
    """A module with its class; ``states`` are its own attributes by name."""

    type: ClassType = field(init=False)
    children: dict[str, Module] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)


def module_of(
    states: Iterable[State],
    types: Mapping[str, Type],
    class_names: Mapping[str, str],
    taken: Iterable[str],
    record: str,
) -> Module:
    """Return the root module.

    ``types`` are those of custom objects by dotted name, ``class_names`` those of modules by dotted
    name, ``taken`` qualified names that are in use. Raises FormatError for names that cannot form
    one tree of modules.
    """
    root = Module()
    for state in states:
        _place(root, state, record)
    _Classes(types, class_names, taken).assign("", root)
    return root


def _place(root: Module, state: State, record: str) -> None:
    *path, name = state.target.split(".")
    if not all((*path, name)) or len(path) > MAX_DEPTH:
        raise FormatError(f"{state.target[:200]!r} is no name of an attribute", record=record)
    found = root
    for depth, part in enumerate(path, 1):
        if part in found.states:
            raise FormatError(f"{'.'.join(path[:depth])!r} is a module and a tensor", record=record)
        found = found.children.setdefault(part, Module())
    known = found.states.get(name)
    if name in found.children or (known is not None and known.kind is not state.kind):
        raise FormatError(f"{state.target!r} stands for two things", record=record)
    found.states[name] = state


class _Classes:
    """Makes the classes of one program. Modules with equal declarations share one."""

    def __init__(
        self, types: Mapping[str, Type], class_names: Mapping[str, str], taken: Iterable[str]
    ) -> None:
        self._types = types
        self._class_names = class_names
        self._taken = set(taken)
        self._known: dict[tuple[str, tuple[Attribute, ...]], ClassType] = {}

    def assign(self, path: str, module: Module) -> None:
        """Give the module of a dotted name, and those in it, their classes."""
        for name, child in module.children.items():
            self.assign(f"{path}.{name}" if path else name, child)
        attributes = [TRAINING]
        attributes += [self._attribute(name, state) for name, state in module.states.items()]
        attributes += [Attribute(name, child.type) for name, child in module.children.items()]
        # A torch module's own declarations come first.
        unique = {attribute.name: attribute for attribute in attributes}
        module.type = self._class(path, tuple(unique.values()))

    def _attribute(self, name: str, state: State) -> Attribute:
        if state.kind is StateKind.CUSTOM_OBJ:
            return Attribute(name, self._types[state.target])
        return Attribute(
            name,
            TENSOR,
            is_parameter=state.kind is StateKind.PARAMETER,
            is_buffer=state.kind is StateKind.BUFFER,
        )

    def _class(self, path: str, attributes: tuple[Attribute, ...]) -> ClassType:
        given = self._class_names.get(path, _UNKNOWN if path else _ROOT)
        # Programs exported from modules of an archive have its class names.
        given = unmangled(given).removeprefix(f"{_TORCH}.")
        name = to_type_name(given if _CLASS_NAME.fullmatch(given) else to_identifier(given))
        key = name, attributes
        found = self._known.get(key) if path else None
        if found is None:
            qualified = untaken_name(f"{_TORCH}.{name}", self._taken)
            found = ClassType(qualified, is_module=True)
            found.attributes.update({attribute.name: attribute for attribute in attributes})
            self._known[key] = found
        return found
