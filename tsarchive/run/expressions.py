"""Python expressions for the nodes of a graph, one method for each kind of node.

A value that is used once may become an expression inside another, and operators Python syntax.

A module keeps its ``__dict__`` as long as it lives. So a method asks for that once, and for a slot,
or the table that it is in, again wherever something may have changed it since: any call may.
Attributes of modules would take longer, because ``torch.nn.Module`` has a ``__getattr__``.
"""

from __future__ import annotations

import keyword
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any, Final, NamedTuple

import torch

from tsarchive.errors import ArchiveError, UnsupportedError
from tsarchive.ir.classes import ClassType, Function, FunctionType, is_forward, is_module
from tsarchive.ir.constants import EnumMember, TableConstant
from tsarchive.ir.graph import CONSTANT, RETURN, Node, Value, must_be_none
from tsarchive.ir.names import is_identifier, to_identifier
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    STRING,
    ListType,
    OptionalType,
    TupleType,
    Type,
    annotation,
    is_named,
)
from tsarchive.ir.values import necessary_arguments
from tsarchive.operators.effects import SCALAR_OVERLOADS
from tsarchive.operators.python_forms import (
    ANY_INT,
    EXACT_FORMS,
    EXACT_STATEMENTS,
    RANGED,
    RANGES,
    ExactForm,
    Range,
    exact_form,
)
from tsarchive.printer.literals import can_be_inferred

from .checks import enumerations, is_number_of, number_check
from .conversion import predicate, typed_dict, typed_list
from .linkage import Bound, DynamicCall, Linkage, NativeCall
from .modules import (
    call_module,
    checked,
    is_certain,
    is_plain,
    method_of,
    plain_members,
    read_slot,
)
from .natives import NATIVES, UPGRADERS
from .natives.conversions import wrap
from .natives.tensors import to_list
from .natives.values import enum_name, enum_value, submodule, tuple_item, tuple_slice
from .objects import as_number, unset_object
from .operators import UNSET, find_native, operator_schemas, schema_without_text
from .own_objects import own_member, own_value
from .passes.layers import Dims, Flag, Layer
from .passes.liveness import ALIASES, Wanted, called_function, known_result, wanted_of_call
from .passes.object_identity import makes_text, must_differ
from .passes.sizes import asks_truth, operands, operator_on_ints
from .slots import FINDERS, SlotKind, find_list, holds_list, slot_place

_LONGEST: Final = 60


@lru_cache(maxsize=4096)
def _base(candidate: str) -> str:
    base = to_identifier(candidate)[:_LONGEST].strip("_")
    return f"v{base}" if not base or base[0].isdigit() else base


class LocalNames:
    """Makes identifiers unique within one generated source."""

    def __init__(self) -> None:
        self._used: set[str] = set(keyword.kwlist)
        self._next: defaultdict[str, int] = defaultdict(lambda: 1)

    def unique(self, candidate: str) -> str:
        """A new identifier like ``candidate``, which may be any text.

        It does not start with an underscore: names that do may mean something to Python.
        """
        base = name = _base(candidate[:_LONGEST])
        while name in self._used:
            name = f"{base}_{self._next[base]}"
            self._next[base] += 1
        self._used.add(name)
        return name


class Globals:
    """The objects that a generated source refers to, by name."""

    def __init__(self, names: LocalNames) -> None:
        self.values: dict[str, Any] = {}
        self._names = names
        self._known: dict[int, str] = {}
        self._made: dict[Hashable, str] = {}

    def name(self, candidate: str, value: Any) -> str:
        """The name of ``value``; the same object gets one name."""
        found = self._known.get(id(value))
        if found is None:
            found = self._known[id(value)] = self._names.unique(candidate)
            self.values[found] = value
        return found

    def made(self, key: Hashable, candidate: str, make: Callable[[], Any]) -> str:
        """The name of the result of ``make``, which is called once for each ``key``."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self.name(candidate, make())
        return found


SCALARS: Final = frozenset({BOOL, INT, FLOAT, STRING, NONE})
"""Types whose values do not change and hold no memory to be given up."""

HELPERS: Final[Mapping[str, Any]] = {
        "abs": abs, "append": list.append, "chr": chr, "divmod": divmod, "float": float,
        "device": torch.device, "int": int, "isascii": str.isascii, "len": len, "list": list,
        "ord": ord, "str": str, "tensors": (torch.Tensor, torch.nn.Parameter), "type": type,
        "wrap": wrap,
    }  # fmt: skip
"""Functions that exact forms call, by the name in braces; ``native`` is the operator itself."""

# Natives that take the name of the static type of the elements of a list, float without it.
_TAKING_ELEMENT = frozenset({"aten::tensor", "aten::as_tensor.list"})
_LONG_TUPLE = 20
_FEW_DIMS: Final = 5
_BOUNDS: Final = (INT, NONE)
_FIRST, _LAST = ("", "0"), ("", str((1 << 63) - 1))
# Types of constants that Python writes as torch does; those of floats and strings need a look.
_WRITTEN: Final = {int: INT, bool: BOOL}
_NAME_OF_ITEMS: Final = {int: "ints", bool: "flags"}
# A binding that is called as it is; it keeps none of the lists that it is given.
_UNGUARDED: Final = (BuiltinFunctionType, MethodDescriptorType)
_MARK: Final = "\0"
LIST: Final = "prim::ListConstruct"
_TOLIST_ELEMENTS: dict[Type, int] = {INT: 0, FLOAT: 1, BOOL: 2, COMPLEX: 3}
NAME_OF_KIND: Final = {
    "prim::Param": "argument",
    "prim::ListConstruct": "items",
    "prim::DictConstruct": "mapping",
    "prim::TupleConstruct": "pair",
    "prim::If": "chosen",
    "prim::Loop": "carried",
    "prim::CallFunction": "result",
    "prim::CreateObject": "made",
    "prim::TupleUnpack": "item",
    "prim::TupleIndex": "item",
    "prim::ListUnpack": "item",
}
"""Names of the results of nodes that have none of their own."""


class _Pattern(NamedTuple):
    """The text of calls of an operator that differ in variables alone.

    ``order`` are the variables, as ``text`` has them. ``is_pure`` marks what may stand elsewhere.
    """

    text: str
    order: Sequence[int]
    is_pure: bool

    @classmethod
    def of(cls, text: str, is_pure: bool) -> _Pattern:
        """Read a text in which marks stand around the numbers of variables."""
        pieces = text.split(_MARK)
        fixed = (piece.replace("%", "%%") for piece in pieces[::2])
        return cls("%s".join(fixed), list(map(int, pieces[1::2])), is_pure)


class Expressions:
    """Texts of the values of one function, and the names of what its source refers to.

    ``live_values`` are those that running code uses, ``ending`` those that end with the node at
    hand, and ``on_numbers`` nodes of traces that work on numbers instead of tensors. ``folded``
    holds expressions that stand where their values are used; texts of ``pure`` nodes may stand
    elsewhere in their block. ``ranges`` are the known bounds of ints, ``constant_lists`` make lists
    of constants.
    """

    def __init__(self, function: Function, linkage: Linkage, bound: Bound) -> None:
        self.linkage = linkage
        self.dispatch = linkage.dispatch
        self.names = LocalNames()
        self.globals = Globals(self.names)
        self.text: dict[Value, str] = {}
        self.live_values: set[Value] = set()
        self.ending: Collection[Value] = ()
        self.passed_on: set[Value] = set()
        self._wide = self.names.unique("wide")
        self.folded: dict[Value, str] = {}
        self.pure: set[Node] = set()
        self.ranges: dict[Value, Range] = {}
        self.function = function
        self.own_members = ""
        self.own_tables: dict[SlotKind, str] = {}
        self._table = self.names.unique("table")
        self.unchanged: set[Node] = set()
        self.on_numbers: set[Node] = set()
        self._patterns: dict[tuple[Any, ...], _Pattern] = {}
        self._have_patterns: dict[int, bool] = {}
        self._take_numbers: set[int] = set()
        self.constant_lists: set[Node] = set()
        self._allowed: dict[tuple[str, ...], bool] = {}
        self.known: dict[Value, Any] = {
            function.graph.params[position]: tensor for position, tensor in bound
        }

    def use(self, value: Value) -> str:
        """The text that stands for ``value`` where it is used."""
        found = self.text.get(value)
        if found is None:
            assert value.node.is_constant, value
            found = self.text[value] = self._constant(value)
        return found

    def call(self, function: Callable[..., Any], *arguments: str) -> str:
        """The text of a call of a function of this library."""
        return f"{self.globals.name(function.__name__, function)}({', '.join(arguments)})"

    def define(self, value: Value) -> str:
        """A new local variable for ``value``."""
        candidate, node = value.name, value.node
        if not candidate and "name" in node.attributes:
            candidate = node.name
        candidate = candidate or NAME_OF_KIND.get(node.kind) or node.kind.rpartition("::")[2]
        name = self.text[value] = self.names.unique(candidate)
        return name

    def expression(self, node: Node) -> str:
        if node in self.unchanged:
            return self.use(node.inputs[0])
        write = _BY_KIND.get(node.kind)
        return self._patterned(node) if write is None else self._apart(node, write(self, node))

    def _apart(self, node: Node, text: str) -> str:
        """The text of a node, whose strings are told apart where code may ask for that."""
        if makes_text(node) and self._keeps_apart:
            return self.call(own_value, text)
        return text

    def _constant(self, value: Value) -> str:
        type_, content = value.type, value.node.attributes["value"]
        if _WRITTEN.get(type(content)) is type_:
            return repr(content)
        if type(content) is TableConstant:
            return self.globals.name("constant", self.linkage.objects.constant(value.node))
        if isinstance(type_, FunctionType):
            raise UnsupportedError(
                f"{self.function.qualified_name} takes the function "
                f"{type_.function.qualified_name} for a value"
            )
        if must_be_none(value):
            return "None"
        constant = value.node.attributes["value"]
        if type_ == FLOAT and isinstance(constant, int):
            constant = float(constant)
        keeps_apart = isinstance(constant, str | EnumMember) and self._keeps_apart
        if is_literal(constant) and not (is_named(type_) or keeps_apart):
            return ascii(constant)
        made = self.linkage.objects.constant(value.node)
        if keeps_apart and isinstance(made, str):
            made = self.linkage.analyses.comparisons.text(made)
        elif keeps_apart:
            made = own_member(made)
        return self.globals.name("constant", made)

    @cached_property
    def _keeps_apart(self) -> bool:
        """Return whether code may compare strings and enum members by ``is``, unseen by tracers."""
        return self.dispatch.inlines and self.linkage.analyses.compares(self.function)

    def uninitialized(self) -> str:
        """The text of a value that no path reads; programs with both branches give it one."""
        return self.globals.name("unset", UNSET) if self.dispatch.opens_blocks else "None"

    def known_tensor(self, value: Value) -> Any:
        """The tensor that ``value`` always is when this code runs; None if unknown."""
        if value in self.known:
            return self.known[value]
        if value.node.is_constant and isinstance(value.node.attributes["value"], TableConstant):
            return self.linkage.objects.constant(value.node)
        return None

    def function_name(self, function: Function, bound: Bound = (), wanted: Wanted = None) -> str:
        owner, _, name = function.qualified_name.rpartition(".")
        compiled = self.linkage.function(function, bound, wanted)
        return self.globals.name(f"{owner.rpartition('.')[2]}_{name}", compiled)

    def _bound(self, arguments: Iterable[Value]) -> Bound:
        return tuple(
            (position, tensor)
            for position, value in enumerate(arguments)
            if as_number(tensor := self.known_tensor(value)) is not None
        )

    def _tuple(self, node: Node) -> str:
        type_ = node.output.type
        assert isinstance(type_, TupleType)
        name = self.class_name(type_) if type_.qualified_name else ""
        comma = "," if len(node.inputs) == 1 and not name else ""
        # None stands for an item of a result that the caller does not want.
        items = (
            self.use(value) if value.node.is_constant or value in self.live_values else "None"
            for value in node.inputs
        )
        return f"{name}({', '.join(items)}{comma})"

    def _tuple_index(self, node: Node) -> str:
        values, index = map(self.use, node.inputs)
        if node.inputs[1].node.is_constant:
            return f"{values}[{index}]"
        return self.call(tuple_item, values, index)

    def _tuple_slice(self, node: Node) -> str:
        bounds = (str(int(node.attributes[name])) for name in ("beg", "end"))
        return self.call(tuple_slice, self.use(node.input), *bounds)

    def _list(self, node: Node) -> str:
        return self._typed(node, typed_list, f"[{', '.join(map(self.use, node.inputs))}]")

    def _dict(self, node: Node) -> str:
        pairs = zip(node.inputs[::2], node.inputs[1::2], strict=True)
        items = ", ".join(f"{self.use(k)}: {self.use(v)}" for k, v in pairs)
        return self._typed(node, typed_dict, f"{{{items}}}")

    def _typed(self, node: Node, make: Callable[..., Any], items: str) -> str:
        """Return ``items``, or what ``make`` makes of them.

        It keeps the type where a later isinstance may ask for one that the elements do not show.
        """
        type_, uses = node.output.type, node.output.uses
        element = type_.parts()[-1]
        shows = node.inputs and (element in SCALARS or can_be_inferred(element))
        if shows or all(_keeps_type(user, offset, node.output) for user, offset in uses):
            return items
        made = self.globals.made(type_, f"new_{annotation(type_)}", lambda: partial(make, type_))
        return f"{made}({items if node.inputs else ''})"

    def _create_object(self, node: Node) -> str:
        name, type_ = self.class_name(node.output.type), node.output.type
        if isinstance(type_, ClassType) and type_.is_module:
            return self.call(unset_object, name)
        return f"{name}.__new__({name})"

    def _call_function(self, node: Node) -> str:
        callee, *arguments = node.inputs
        assert isinstance(callee.type, FunctionType)
        wanted = wanted_of_call(node, self.live_values)
        name = self.function_name(callee.type.function, self._bound(arguments), wanted)
        return f"{name}({self.passed(arguments)})"

    def _call_method(self, node: Node) -> str:
        receiver = node.input
        type_ = receiver.type
        function = called_function(node)
        if function is None:
            name = self.dynamic_name(type_, node.name, node)
        else:
            wanted = wanted_of_call(node, self.live_values)
            name = self.function_name(function, self._bound(node.inputs), wanted)
        if isinstance(type_, ClassType) and is_forward(type_, node.name):
            name = self._unless_hooked(name, receiver, node.name)
            return f"{name}({self.passed(node.inputs)})"
        class_ = self.class_to_check(receiver)
        if class_ is not None:
            text = self.use(receiver)
            other = self.call(method_of, text, class_, ascii(node.name), name)
            name = f"({name} if {self.is_of(text, class_)} else {other})"
        return f"{name}({self.passed(node.inputs)})"

    def callee_name(self, node: Node) -> str:
        """The name of the function that a call of a method of a known class runs."""
        function = called_function(node)
        assert function is not None
        wanted = wanted_of_call(node, self.live_values)
        return self.function_name(function, self._bound(node.inputs), wanted)

    def layer_text(self, node: Node, layer: Layer) -> str | None:
        """The operator of a layer, for a call of its method; None where it cannot be written so.

        It reads slots in ``layer_members`` and ``layer_tables``.
        """
        if self._keeps_apart or self._bound(node.inputs) or not self._may_stand(layer):
            return None
        self._name_operands(node, layer)
        if any(read.output not in self.text for read in layer.reads):
            return None
        try:
            return self._patterned(layer.operator)
        except ArchiveError:
            return None  # to be raised where the method runs

    def _may_stand(self, layer: Layer) -> bool:
        """Return whether the policy allows all that the method of a layer names.

        What is refused is refused where the method runs.
        """
        found = self._allowed.get(layer.named)
        if found is None:
            enforcement = self.linkage.enforcement
            found = self._allowed[layer.named] = not any(map(enforcement.refuses, layer.named))
            for name in layer.named if found else ():
                enforcement.check_allowed(name)
        return found

    def _name_operands(self, node: Node, layer: Layer) -> None:
        """Let what the operator of a layer is given, and its conditions ask for, have texts."""
        called = called_function(node)
        assert called is not None
        params = called.original.graph.params
        self.text.update(zip(params, map(self.use, node.inputs), strict=True))
        for read in layer.reads:
            self.text.pop(read.output, None)
            text = self._layer_slot(read, self.use(node.input))
            if text is not None:
                self.text[read.output] = text
        for made in layer.lists:
            self.constant_lists.add(made)
            self.text[made.output] = f"[{', '.join(map(self.use, made.inputs))}]"
        for condition in layer.conditions:
            if isinstance(condition, Dims):
                value = condition.measured.input
                self.text[value] = self.use(layer.source(value))

    def layer_conditions(self, layer: Layer) -> str:
        """The test of what must hold beside, for the operator of a layer to stand for a call."""
        tests = [
            f"not {self.text[one.read.output]}" if isinstance(one, Flag)
            else f"{self._patterned(one.measured)} {'==' if one.has else '!='} {one.rank}"
            for one in layer.conditions
        ]  # fmt: skip
        return " and ".join(tests)

    @cached_property
    def layer_members(self) -> str:
        """The variable for the ``__dict__`` of a layer."""
        return self.names.unique("own")

    @cached_property
    def layer_tables(self) -> Mapping[SlotKind, str]:
        """The variables for the tables of tensors of a layer."""
        return {kind: self.names.unique(kind.value[1:]) for kind in FINDERS}

    def _layer_slot(self, read: Node, module: str) -> str | None:
        """A slot of a layer that is of its own class; None for one that needs more than a look."""
        kind, key = self.slot(read)
        if _holds_list(read) or kind is SlotKind.MODULE:
            return None
        if kind is SlotKind.PLAIN:
            return f"{self.layer_members}[{key!a}]"
        other = self.call(FINDERS[kind], module, ascii(read.name))
        table = self.layer_tables[kind]
        return f"({table}[{key!a}] if {key!a} in {table} else {other})"

    def method_name(self, node: Node, name: str) -> str:
        """The function that a method of the input of ``node`` is called by."""
        type_ = node.input.type
        if isinstance(type_, ClassType) and not type_.is_native:
            return self.function_name(type_.methods[name])
        return self.dynamic_name(type_, name, node)

    def dynamic_name(self, type_: Type, name: str, node: Node) -> str:
        """The name of a function that calls a method of an interface or a class bound from C++."""
        shown = f"call_{name}"
        if isinstance(type_, ClassType):
            self.linkage.enforcement.check_allowed(type_.qualified_name, self.function, node)
            return self.globals.made((type_, name), shown, lambda: NativeCall(type_, name))
        return self.globals.made((name, False), shown, lambda: DynamicCall(name, self.linkage))

    def _unless_hooked(self, name: str, receiver: Value, method: str) -> str:
        """The compiled function, or a call through the hooks that Python code registered."""
        return f"({name} if {self.is_as_written(receiver)} else {self._through_hooks(method)})"

    def is_as_written(self, receiver: Value) -> str:
        """A test whether a module is exactly of its class, without hooks."""
        check = plain_members if self.dispatch.inlines else is_plain
        return self.call(check, self.use(receiver), self.class_name(receiver.type))

    def _through_hooks(self, method: str) -> str:
        """The function that calls a module, or an overload of its ``forward``, with its hooks."""
        if method == "forward":
            return self.globals.name("call_module", call_module)
        overload = partial(call_module, method=method)
        return self.globals.made((method, call_module), f"call_{method}", lambda: overload)

    def call_through_hooks(self, node: Node) -> str:
        """The call of a module's ``forward`` with its hooks."""
        return f"{self._through_hooks(node.name)}({self.passed(node.inputs)})"

    def _isinstance(self, node: Node) -> str:
        types = tuple(node.attributes["types"])
        shown = "is_" + "_or_".join(map(annotation, types))
        name = self.globals.made(types, shown, lambda: predicate(types))
        return f"{name}({self.use(node.input)})"

    def _identity(self, node: Node) -> str:
        first, second = node.inputs
        if must_differ(first, second, self.function.graph):
            return ascii(node.kind == "aten::__isnot__")
        if must_be_none(second):
            self.linkage.enforcement.check_allowed(node.kind, self.function, node)
            return f"{self.use(first)} {'is not' if node.kind == 'aten::__isnot__' else 'is'} None"
        return self._operator(node)

    def _unless_known(self, node: Node) -> str:
        result = known_result(node)
        return self._operator(node) if result is None else str(result)

    def _ceiling(self, node: Node) -> str:
        return self.use(node.input) if node.input.type == INT else self._operator(node)

    def _same(self, node: Node) -> str:
        return self.use(node.input)

    def _to_list(self, node: Node) -> str:
        depth, leaf = nesting(node.output.type)
        arguments = f"{self.use(node.input)}, {depth}, {_TOLIST_ELEMENTS[leaf]}"
        function = self.dispatch.metered(schema_without_text(node), to_list)
        return f"{self.globals.name('tolist', function)}({arguments})"

    def _patterned(self, node: Node) -> str:
        """The text of an operator, from that of an earlier call of the same form if there is one.

        The types of its operands decide over it, and the values of constants.
        """
        numbers = self._decided_by(node)
        if numbers is None:
            return self._apart(node, self._operator(node))
        key: list[Any] = [id(node.schema), *numbers]
        variables: list[str] = []
        for value in node.inputs:
            made, text = value.node, self.text.get(value) or self.use(value)
            if made.kind == CONSTANT and type(made.attributes["value"]) is not TableConstant:
                key += (text, id(value.type))
            elif made in self.constant_lists:
                if not text.startswith("["):  # it may be changed
                    return self._apart(node, self._operator(node))
                key.append(text)
            elif made.kind == LIST and text.startswith("["):
                key.append(LIST)
                variables.append(text[1:-1])
            else:
                key.append(id(value.type))
                variables.append(text)
        pattern = self._patterns.get(found := tuple(key))
        if pattern is None:
            pattern = self._patterns[found] = self._pattern(node)
        if pattern.is_pure:
            self.pure.add(node)
        return pattern.text % tuple([variables[position] for position in pattern.order])

    def _decided_by(self, node: Node) -> Sequence[Any] | None:
        """What decides over the text of an operator beside the types and constants it is given.

        It is the number in a constant tensor. None where more does.
        """
        schema = node.schema
        if schema is None or node.upgrader is not None or node in self.on_numbers:
            return None
        found = self._have_patterns.get(id(schema))
        if found is None:
            key = schema.full_name
            gives_list = any(isinstance(result.type, ListType) for result in schema.returns)
            found = not (gives_list or key in RANGED or key in EXACT_STATEMENTS)
            self._have_patterns[id(schema)] = found
            if key in SCALAR_OVERLOADS:
                self._take_numbers.add(id(schema))
        if not found or node.stand_in is not None:
            return None
        if id(schema) not in self._take_numbers:
            return ()
        number = self.second_number(node)
        if number is None or isinstance(number, int):
            return () if number is None else (int, number)
        return float, id(self.known_tensor(node.inputs[1]))

    def _pattern(self, node: Node) -> _Pattern:
        texts: list[str] = []
        count = 0
        for value in node.inputs:
            made, text = value.node, self.use(value)
            is_text = made.is_constant and type(made.attributes["value"]) is not TableConstant
            if is_text or made in self.constant_lists:
                texts.append(text)
                continue
            mark = f"{_MARK}{count}{_MARK}"
            texts.append(f"[{mark}]" if made.kind == LIST and text.startswith("[") else mark)
            count += 1
        text = self._apart(node, self._operator(node, texts))
        return _Pattern.of(text, node in self.pure)

    def _operator(self, node: Node, given: Sequence[str] | None = None) -> str:
        """The text of an operator; ``given`` are those of its operands, if others than usual."""
        schema = node.schema or schema_without_text(node)
        self.linkage.enforcement.check_allowed(schema.full_name, self.function, node)
        if node in self.on_numbers:
            return self._on_numbers(node)
        if node.stand_in is not None:
            return f"{self.function_name(node.stand_in)}({self.passed(node.inputs)})"
        kinds = enumerations(schema)
        given = [self.use(value) for value in node.inputs] if given is None else given
        texts = [
            self._argument(value, text, kinds.get(i))
            for i, (value, text) in enumerate(zip(node.inputs, given, strict=True))
        ]
        if node.upgrader is not None:
            upgrader = self.dispatch.metered(schema, UPGRADERS[node.upgrader])
            return f"{self.globals.name(node.upgrader, upgrader)}({_all_arguments(schema, texts)})"
        inlined = self.inlined(schema, node, texts) or self._sliced(node, texts)
        if inlined is not None:
            return inlined
        return self._called_operator(schema, node, texts)

    def _sliced(self, node: Node, texts: Sequence[str]) -> str | None:
        """A slice in Python's syntax, where torch does the same with it; else None."""
        index = None if self.dispatch.direct_call is None else slice_index(node, texts)
        if index is None or node.schema is None:
            return None
        tensor, dim = texts[0], node.inputs[1].constant
        kind, class_ = (self.globals.name(v.__name__, v) for v in (type, torch.Tensor))
        test = f"{kind}({tensor}) is {class_}"
        if dim:
            test += f" and {self.globals.name('dim', torch.Tensor.dim)}({tensor}) > {dim}"
        other = self._called_operator(node.schema, node, list(texts))
        return f"{tensor}[{index}] if {test} else {other}"

    def _called_operator(self, schema: FunctionSchema, node: Node, texts: list[str]) -> str:
        """The call of an operator: through a binding, or by its overload."""
        number = self.number_operand(node)
        if number is not None:
            schema = scalar_form(schema)
            texts[1] = self._number(node.inputs[1], number)
        name = schema.full_name.replace("::", "_")
        direct = self.dispatch.direct_call if schema is node.schema else None
        call = None if direct is None else direct(node, texts)
        if call is not None:
            binding, passed = call
            if isinstance(binding, _UNGUARDED):
                pairs = zip(node.inputs, passed, strict=False)
                passed = [self._constant_list(*pair) for pair in pairs]
            return f"{self.globals.name(name, binding)}({_all_arguments(schema, passed)})"
        run = self.globals.made(
            ("run", id(schema)), name, lambda: self.dispatch.implementation(schema)
        )
        return f"{run}({self._arguments(schema, node, texts)})"

    def _constant_list(self, value: Value, text: str) -> str:
        """The text of an argument of a binding: a tuple made once for a list of numbers."""
        if value.node not in self.constant_lists or not text.startswith("["):
            return text
        items = tuple(item.node.attributes["value"] for item in value.node.inputs)
        kinds = set(map(type, items))
        name = _NAME_OF_ITEMS.get(kinds.pop()) if len(kinds) == 1 else None
        return text if name is None else self.globals.made((name, items), name, lambda: items)

    def _argument(self, value: Value, text: str, kind: str | None) -> str:
        """The text of an argument; numbers of dtypes, layouts and memory formats are checked."""
        if kind is None or (
            value.node.is_constant and is_number_of(kind, value.node.attributes["value"])
        ):
            return text
        return self.call(number_check(kind), text)

    def _number(self, value: Value, number: int | float | complex) -> str:
        """The text of the number that a constant tensor acts as.

        Code names what may be a weight, and has it beside its text, where it is found by its place.
        """
        if is_literal(number) and (isinstance(number, int) or not self.dispatch.inlines):
            return ascii(number)
        tensor = self.known_tensor(value)
        noted = self.linkage.objects.noted_number
        return self.globals.made(("number", id(tensor)), "number", lambda: noted(tensor, number))

    def number_operand(self, node: Node) -> int | float | complex | None:
        if node.schema is None or node.schema.full_name not in SCALAR_OVERLOADS:
            return None
        return self.second_number(node)

    def second_number(self, node: Node) -> int | float | complex | None:
        return self.known_number(node.inputs[1])

    def known_number(self, value: Value) -> int | float | complex | None:
        """The number that a constant tensor acts as."""
        return as_number(self.known_tensor(value))

    def _on_numbers(self, node: Node) -> str:
        """The text of a node that works on the numbers in tensors, with those of its operands."""
        key = operator_on_ints(node)
        if key is None:
            self.ranges[node.output] = self._range(node.input)
            self.pure.add(node)
            text = self.use(node.input)
            return f"{text} != 0" if asks_truth(node) else text
        texts, ranges = zip(*map(self._number_operand, operands(node)), strict=True)
        ranged = exact_form(key, ranges, self._wide) if key in RANGED else None
        form = ranged or EXACT_FORMS[key]
        self.ranges[node.output] = form.range
        if form.is_pure:
            self.pure.add(node)
        return form.text.format(*texts, **{name: self._called(name, key) for name in form.names})

    def _number_operand(self, value: Value) -> tuple[str, Range]:
        number = self.known_number(value)
        if isinstance(number, int):
            return str(number), (number, number)
        return self.use(value), self._range(value)

    def _arguments(self, schema: FunctionSchema, node: Node, texts: list[str]) -> str:
        """The arguments of a call: all for natives; torch fills in defaults itself."""
        if find_native(schema) is None:
            count, outs = necessary_arguments(schema, node.inputs)
            return _all_arguments(schema, texts, range(count, len(texts) - outs))
        arguments = _all_arguments(schema, texts)
        element = told_element(schema, node)
        return arguments if element is None else f"{arguments}, element={element!a}"

    def class_name(self, type_: Type) -> str:
        class_ = self.linkage.table.python_class(type_)
        return self.globals.name(class_.__name__, class_)

    def receiver(self, value: Value) -> str:
        """Like ``use``, with a check of its class, for a value whose member is accessed."""
        text = self.use(value)
        class_ = self.class_to_check(value)
        if class_ is None:
            return text
        return f"({text} if {self.is_of(text, class_)} else {self.call(checked, text, class_)})"

    def class_to_check(self, value: Value) -> str | None:
        """The name of the class to check a value against; None where its class is certain."""
        type_ = value.type
        if not isinstance(type_, ClassType) or type_.is_native or is_certain(value, self.function):
            return None
        return self.class_name(type_)

    def is_of(self, text: str, class_: str) -> str:
        """A test whether a value is exactly of this class."""
        if not self.dispatch.inlines:
            return f"{text}.__class__ is {class_}"
        return f"{self.globals.name('type', type)}({text}) is {class_}"

    def get_attr(self, node: Node) -> str:
        own, is_there = self._own_slot(node)
        class_ = self.class_to_check(node.input)
        tests = [] if class_ is None else [self.is_of(self.use(node.input), class_)]
        tests += [is_there] if is_there else []
        if not tests:
            return own
        text = self.use(node.input)
        # A slot of an object of another class, or a tensor that Python code moved elsewhere.
        if class_ is None:
            other = self.call(FINDERS[self.slot(node)[0]], text, ascii(node.name))
        else:
            other = self.call(read_slot, text, class_, ascii(node.name))
        return f"({own} if {' and '.join(tests)} else {other})"

    def _own_slot(self, node: Node) -> tuple[str, str]:
        """The text of a slot of an object of its own class, and its condition; "" for none."""
        kind, key = self.slot(node)
        if not self.reads_members(node):
            text = self.use(node.input)
            find = find_list if _holds_list(node) else FINDERS.get(kind)
            if find is not None:
                return self.call(find, text, ascii(key)), ""
            return f"{text}.{kind.value}[{key!a}]", ""
        members = self.members(node.input)
        if kind is SlotKind.PLAIN:
            return f"{members}[{key!a}]", ""
        known = self.own_tables.get(kind) if node.input is self.own_module() else None
        table = known or f"{members}[{kind.value!a}]"
        if known and kind is not SlotKind.MODULE:
            return f"{known}[{key!a}]", f"{key!a} in {known}"
        if kind is SlotKind.MODULE:
            return f"{table}[{key!a}]", ""
        return f"{self._table}[{key!a}]", f"{key!a} in ({self._table} := {table})"

    def reads_members(self, node: Node) -> bool:
        """Return whether a node reads a slot straight from the dictionary of a module.

        Tracers do better with attributes.
        """
        if not (self.dispatch.inlines and node.kind == "prim::GetAttr"):
            return False
        return is_module(node.input.type) and not _holds_list(node)

    def members(self, module: Value) -> str:
        """The ``__dict__`` of a module."""
        if self.own_members and module is self.own_module():
            return self.own_members
        return f"{self.use(module)}.__dict__"

    def own_module(self) -> Value | None:
        """The first argument of a method of modules, which is certain to be of its class."""
        params = self.function.graph.params
        if not params or not is_module(params[0].type):
            return None
        return params[0] if is_certain(params[0], self.function) else None

    def slot(self, node: Node) -> tuple[SlotKind, str]:
        """The table and the key of the slot that a GetAttr or SetAttr names."""
        owner = node.inputs[0].type
        assert isinstance(owner, ClassType)
        return slot_place(owner, owner.attributes[node.name])

    def inlined(self, schema: FunctionSchema, node: Node, texts: Sequence[str]) -> str | None:
        """The operator as syntax; None where a function must run it, as limits and tracers need."""
        key = schema.full_name
        form = self._form(key, node) if self.dispatch.inlines else None
        if form is None or self.dispatch.implementation(schema) is not NATIVES[key]:
            return None
        if form.is_pure and all(value.type in SCALARS for value in node.inputs):
            self.pure.add(node)
        names = {name: self._called(name, key) for name in form.names}
        return form.text.format(*texts, **names)

    def _called(self, name: str, key: str) -> str:
        if name == "native":
            return self.globals.name(key.replace("::", "_"), NATIVES[key])
        return self.globals.name(name, HELPERS[name])

    def _form(self, key: str, node: Node) -> ExactForm | None:
        if key in EXACT_STATEMENTS:
            is_used = any(output in self.live_values for output in node.outputs)
            return None if is_used else EXACT_STATEMENTS[key]
        if key not in RANGED:
            return EXACT_FORMS.get(key)
        form = exact_form(key, [self._range(value) for value in node.inputs], self._wide)
        if form is not None:
            self.ranges[node.output] = form.range
        return form

    def _range(self, value: Value) -> Range:
        """The known bounds of an int."""
        node = value.node
        if node.is_constant:
            number = int(node.attributes["value"])
            return number, number
        if value not in self.ranges and node.schema is not None:
            return RANGES.get(node.schema.full_name, ANY_INT)
        return self.ranges.get(value, ANY_INT)

    def passed(self, values: Sequence[Value]) -> str:
        """The arguments of a call of archive code, which takes over values that end with it.

        So the callee can free a tensor as soon as it has used it, as torch does.
        """
        texts = [self.use(value) for value in values]
        for position, value in enumerate(values if self.dispatch.inlines else ()):
            text = texts[position]
            if value in self.ending and texts.count(text) == 1:
                texts[position] = f"({text}, {text} := None)[0]"
                self.passed_on.add(value)
        return ", ".join(texts)

    def fold(self, value: Value, text: str, here: Container[Node | None]) -> bool:
        """Fold ``text`` into the one place that uses ``value``; false where that is impossible.

        ``here`` are the nodes of the same block: code of an inner one may run many times.
        """
        if len(value.uses) != 1:
            return False
        ((user, position),) = value.uses
        is_final = user.kind == RETURN
        if user not in here or not (is_final or self._reads_once(user, position)):
            return False
        if self._wide in text and not is_final:
            return False
        self.folded[value] = text
        self.text[value] = f"({text})"
        return True

    def whole(self, value: Value) -> str:
        """The text of ``value`` without parentheses, for a place where it stands alone."""
        return self.folded.get(value) or self.use(value)

    def _reads_once(self, user: Node, position: int) -> bool:
        if user.schema is None:
            return user.kind not in ALIASES
        form = self._form(user.schema.full_name, user)
        return form is None or form.text.count(f"{{{position}}}") == 1


def _holds_list(node: Node) -> bool:
    owner = node.input.type
    assert isinstance(owner, ClassType)
    return holds_list(owner, owner.attributes[node.name])


def _all_arguments(
    schema: FunctionSchema, texts: Sequence[str], left_out: Container[int] = ()
) -> str:
    """Arguments by position, those after ``*`` by name."""
    parts = []
    for offset, text in enumerate(texts):
        if offset in left_out:
            continue
        is_named = offset < len(schema.arguments) and schema.arguments[offset].kwarg_only
        parts.append(_named(schema.arguments[offset].name, text) if is_named else text)
    return ", ".join(parts)


def _named(name: str, text: str) -> str:
    if is_identifier(name) and not keyword.iskeyword(name):
        return f"{name}={text}"
    return f"**{{{name!a}: {text}}}"


def slice_index(node: Node, texts: Sequence[str]) -> str | None:
    """What stands in brackets for a slice along one of the first dimensions.

    torch leaves out slices of all items behind the first dimension, so these are none.
    """
    if node.operator != "aten::slice.Tensor":
        return None
    _, dim, start, end, step = node.inputs
    if not (dim.node.is_constant and step.node.is_constant and step.constant >= 1):
        return None
    if not all(bound.type in _BOUNDS for bound in (start, end)):
        return None
    first, last = (
        "" if bound.type == NONE else text
        for bound, text in zip((start, end), texts[2:4], strict=True)
    )
    takes_all = first in _FIRST and last in _LAST and step.constant == 1
    if not 0 <= dim.constant < _FEW_DIMS or (takes_all and dim.constant):
        return None
    behind = "" if step.constant == 1 else f":{step.constant}"
    return f"{':, ' * dim.constant}{first}:{last}{behind}"


def scalar_form(schema: FunctionSchema) -> FunctionSchema:
    """The overload for a tensor and a number in place of that for two tensors."""
    wanted = SCALAR_OVERLOADS[schema.full_name]
    return next(form for form in operator_schemas(schema.name) if form.full_name == wanted)


def is_literal(value: Any) -> bool:
    """Return whether the text of the Python constant gives the same value back."""
    if type(value) is tuple:
        return len(value) < _LONG_TUPLE and all(map(_is_scalar, value))
    return _is_scalar(value)


def _is_scalar(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)


def nesting(type_: Type) -> tuple[int, Type]:
    """Return how deeply lists are nested, and the type of the innermost elements."""
    depth = 0
    while isinstance(type_, ListType):
        depth, type_ = depth + 1, type_.element
    return depth, type_


def told_element(schema: FunctionSchema, node: Node) -> str | None:
    """Return the element type to name to the native of ``node``; None for the default."""
    if schema.full_name not in _TAKING_ELEMENT:
        return None
    leaf = nesting(node.input.type)[1]
    return annotation(leaf) if leaf != FLOAT else None


def _keeps_type(user: Node, offset: int, value: Value) -> bool:
    """Return whether the user of ``value`` declares its type exactly, and not as Any or Union."""
    function = called_function(user)
    if function is not None:
        offset -= user.kind == "prim::CallFunction"
        return function.schema.arguments[offset].type == value.type
    if user.schema is None or offset >= len(user.schema.arguments):
        return user.kind == "prim::ListUnpack"
    return isinstance(user.schema.arguments[offset].type, type(value.type) | OptionalType)


def _calling(function: Callable[..., Any]) -> Callable[[Expressions, Node], str]:
    """The expression that calls ``function`` with the inputs of a node."""
    return lambda self, node: self.call(function, *map(self.use, node.inputs))


_BY_KIND: dict[str, Callable[[Expressions, Node], str]] = {
    "prim::Uninitialized": lambda writer, _: writer.uninitialized(),
    "prim::TupleConstruct": Expressions._tuple,
    "prim::TupleIndex": Expressions._tuple_index,
    "prim::TupleSlice": Expressions._tuple_slice,
    "prim::ListConstruct": Expressions._list,
    "prim::DictConstruct": Expressions._dict,
    "prim::CreateObject": Expressions._create_object,
    "prim::GetAttr": Expressions.get_attr,
    "prim::CallFunction": Expressions._call_function,
    "prim::CallMethod": Expressions._call_method,
    "prim::ModuleContainerIndex": _calling(submodule),
    "prim::isinstance": Expressions._isinstance,
    "prim::EnumValue": _calling(enum_value),
    "prim::EnumName": _calling(enum_name),
    "prim::unchecked_cast": Expressions._same,
    "prim::unchecked_unwrap_optional": Expressions._same,
    "prim::tolist": Expressions._to_list,
    "aten::ceil": Expressions._ceiling,
    "aten::eq": Expressions._unless_known,
    "aten::len": Expressions._unless_known,
    "aten::ne": Expressions._unless_known,
    "aten::__is__": Expressions._identity,
    "aten::__isnot__": Expressions._identity,
}
