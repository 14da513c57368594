"""Lowering of higher-order operators, which take graphs or other operators, to control flow.

``torch.vmap`` in programs that are not decomposed is lowered here too: calls of Python functions
mark where a batch begins and ends, which tensors are split into rows and which results are stacked.
The nodes between become the body of a loop over the batch. Parts of torch's Python library that
programs use, such as contexts, are TorchScript classes and functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.context import no_constant
from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.graph import MAX_TRIP_COUNT, Block, Value
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.subtyping import unify
from tsarchive.ir.types import (
    BOOL,
    INT,
    NONE,
    STRING,
    TENSOR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    annotation,
)
from tsarchive.run.passes.alias_analysis import Aliases

from . import quantized_decomposed, schema
from .arguments import Values, argument_value, bind_results, operands
from .building import Body, Loop
from .operators import Target, call_with, given_arguments, operator_of

# The operator version of the texts.
_VERSION: Final = 10

_GRAD_MODE: Final = "__torch__.torch.autograd.grad_mode"
NO_GRAD: Final = f"{_GRAD_MODE}.no_grad"
WITH_GRAD: Final = f"{_GRAD_MODE}.enable_grad"
AUTOCAST: Final = "__torch__.torch.amp.autocast_mode.autocast"


def _grad_mode_class(name: str, is_enabled: bool) -> str:
    return f"""\
class {name}:
  prev : bool
  def __enter__(self: {_GRAD_MODE}.{name}) -> NoneType:
    self.prev = torch.is_grad_enabled()
    torch.set_grad_enabled({is_enabled})
    return None
  def __exit__(self: {_GRAD_MODE}.{name},
    exc_type: Any,
    exc_value: Any,
    traceback: Any) -> NoneType:
    prev = self.prev
    torch.set_grad_enabled(prev)
    return None
  def __init__(self: {_GRAD_MODE}.{name}) -> NoneType:
    self.prev = False
    return None
"""


_AUTOCAST_CLASS: Final = f"""\
class autocast:
  fast_dtype : int
  _enabled : bool
  device : str
  def __call__(self: {AUTOCAST},
    func: Tensor) -> Tensor:
    return func
  def __enter__(self: {AUTOCAST}) -> {AUTOCAST}:
    return self
  def __exit__(self: {AUTOCAST},
    exc_type: Any,
    exc_val: Any,
    exc_tb: Any) -> NoneType:
    return None
  def __init__(self: {AUTOCAST},
    device_type: str,
    dtype: Optional[int]=None,
    enabled: bool=True,
    cache_enabled: Optional[bool]=None) -> NoneType:
    device_type0 = unchecked_cast(str, device_type)
    if torch.__is__(dtype, None):
      _1 = torch.get_autocast_dtype(device_type0)
      _0 = _1
    else:
      _0 = unchecked_cast(int, dtype)
    self.fast_dtype = _0
    self._enabled = enabled
    self.device = device_type0
    return None
"""

# ``with torch.no_grad():`` in TorchScript code is an object of such a class.
_CONTEXT_MANAGERS: Final[Mapping[str, str]] = {
    "code/__torch__/torch/autograd/grad_mode.py": _grad_mode_class("no_grad", False)
    + _grad_mode_class("enable_grad", True),
    "code/__torch__/torch/amp/autocast_mode.py": _AUTOCAST_CLASS,
}


class Library:
    """Parses the texts; each class and function on first use."""

    def __init__(self, operators: Callable[[str], Sequence[FunctionSchema]]) -> None:
        self._code = CodeImporter(
            {**_CONTEXT_MANAGERS, **quantized_decomposed.files()},
            operators=operators,
            constant=no_constant,
            version=_VERSION,
            native_class=lambda name: None,
            evaluate=lambda schema: None,
        )

    def class_of(self, qualified_name: str) -> ClassType:
        found = self._code.find_class(qualified_name)
        assert isinstance(found, ClassType)
        return found

    def function(self, target: Target) -> Function | None:
        """Return the implementation of an operator that torch has in Python; None for others."""
        name = quantized_decomposed.FUNCTIONS.get(target)
        if name is None:
            return None
        found = self._code.find(name)
        assert isinstance(found, FunctionType)
        return found.function


class HigherOrderCall(NamedTuple):
    """A node that calls a higher-order operator, and the context of its translation.

    ``inline_graph`` appends the nodes of a graph to a body, and returns its results.
    """

    inline_graph: Callable[[Body, schema.Graph, Sequence[Value]], list[Value]]
    library: Library
    body: Body
    node: schema.Node
    values: Mapping[str, Value]

    def argument(self, position: int) -> schema.Argument:
        if position >= len(self.node.inputs):
            raise FormatError(f"its argument {position} is missing")
        return self.node.inputs[position].arg

    def literal(self, position: int, tag: str) -> Any:
        """Return the content of an argument that must be ``tag``."""
        argument = self.argument(position)
        if argument.tag != tag:
            raise FormatError(f"its argument {position} is {argument.tag}, not {tag}")
        return argument.value

    def graph(self, position: int) -> schema.Graph:
        found: schema.GraphArgument = self.literal(position, "as_graph")
        return found.graph

    def keywords(self) -> dict[str, schema.Argument]:
        """Return the named arguments. Raises FormatError for a duplicate name."""
        found: dict[str, schema.Argument] = {}
        for given in self.node.inputs:
            if given.name in found:
                raise FormatError(f"its argument {given.name!r} is given twice")
            if given.name:
                found[given.name] = given.arg
        return found

    def operands(self, position: int) -> list[Value]:
        """Return the values of one argument, which often is a list."""
        return operands(self.body, self.argument(position), self.values)

    def rest(self, position: int) -> list[Value]:
        """Return the values of all positional arguments from ``position`` on."""
        inputs = self.node.inputs[position:]
        given = [one.arg for one in inputs if one.kind != schema.ArgumentKind.KEYWORD]
        return [value for one in given for value in operands(self.body, one, self.values)]

    def inline(self, body: Body, position: int, given: Sequence[Value]) -> list[Value]:
        """Inline the graph argument at ``position`` into ``body``; return its results."""
        return self.inline_graph(body, self.graph(position), given)


def _cond(call: HigherOrderCall) -> list[Value]:
    (condition,) = _exactly(call.operands(0), 1, "conditions")
    node = call.body.append("prim::If", [call.body.truth(condition)])
    given = call.operands(3)
    blocks = [node.add_block(), node.add_block()]
    results = [
        call.inline(call.body.inside(block), position, given)
        for position, block in enumerate(blocks, start=1)
    ]
    if len(results[0]) != len(results[1]):
        raise FormatError(f"its branches give {len(results[0])} and {len(results[1])} results")
    for one, other in zip(*results, strict=True):
        type_ = unify(one.type, other.type)
        if type_ is None:
            shown = f"{annotation(one.type)} in one branch and {annotation(other.type)}"
            raise FormatError(f"a result is {shown} in the other")
        node.add_output(type_)
        blocks[0].add_return(one)
        blocks[1].add_return(other)
    return node.outputs


def _exactly(values: list[Value], count: int, what: str) -> list[Value]:
    if len(values) != count:
        raise FormatError(f"it has {len(values)} {what}, not {count}")
    return values


def _while_loop(call: HigherOrderCall) -> list[Value]:
    body, extra = call.body, call.operands(3)
    # Without iterations the results must not alias the inputs.
    carried = [
        body.value("aten::clone", value) if value.type == TENSOR else value
        for value in call.operands(2)
    ]

    def proceeds(inside: Body, carried: Sequence[Value]) -> Value:
        results = call.inline(inside, 0, [*carried, *extra])
        return inside.truth(_exactly(results, 1, "conditions")[0])

    loop = Loop(body, body.integer(MAX_TRIP_COUNT), proceeds(body, carried), carried)
    results = call.inline(loop.body, 1, [*loop.carried, *extra])
    return loop.end(proceeds(loop.body, results), results)


def _stacking(
    call: HigherOrderCall, initial: list[Value], over: list[Value], extra: list[Value]
) -> list[Value]:
    """Loop over the first dimension of tensors; return the carry and the stacked results."""
    body = call.body
    if not over:
        raise FormatError("it goes over no tensors")
    always = body.constant(True, BOOL)
    count = body.value("aten::size", over[0], body.integer(0))
    kept = len(call.graph(0).outputs) - len(initial)
    lists = [body.list_of(TENSOR, ()) for _ in range(kept)]
    loop = Loop(body, count, always, initial)
    inside = loop.body
    first = inside.integer(0)
    items = [inside.value("aten::select", value, first, loop.counter) for value in over]
    results = call.inline(inside, 0, [*loop.carried, *items, *extra])
    stacked = results[len(initial) :]
    for list_, value in zip(lists, _exactly(stacked, len(lists), "results"), strict=True):
        inside.call("aten::append", list_, value)
    carried = loop.end(inside.constant(True, BOOL), results[: len(initial)])
    return [*carried, *(body.value("aten::stack", list_, body.integer(0)) for list_ in lists)]


def _associative_scan(call: HigherOrderCall) -> list[Value]:
    """Combine each row with the result for all rows before it, sequentially."""
    body, over, extra = call.body, call.operands(1), call.operands(2)
    if not over:
        raise FormatError("it goes over no tensors")
    zero, one = body.integer(0), body.integer(1)
    first = [body.value("aten::select", value, zero, zero) for value in over]
    lists = [body.list_of(TENSOR, [value]) for value in first]
    count = body.value("aten::size", over[0], zero)
    loop = Loop(body, body.value("aten::sub", count, one), body.constant(True, BOOL), first)
    inside = loop.body
    index = inside.value("aten::add", loop.counter, inside.integer(1))
    rows = [inside.value("aten::select", value, inside.integer(0), index) for value in over]
    results = call.inline(inside, 0, [*loop.carried, *rows, *extra])
    for list_, value in zip(lists, _exactly(results, len(over), "results"), strict=True):
        inside.call("aten::append", list_, value)
    loop.end(inside.constant(True, BOOL), results)
    return [body.value("aten::stack", list_, zero) for list_ in lists]


def _set_grad_enabled(call: HigherOrderCall) -> list[Value]:
    name = WITH_GRAD if call.literal(0, "as_bool") else NO_GRAD
    return _in_context(call, name, [], 1, call.rest(2))


def _autocast(call: HigherOrderCall) -> list[Value]:
    types: tuple[Type, ...] = (STRING, OptionalType(INT), BOOL, OptionalType(BOOL))
    given = [
        argument_value(call.body, call.argument(position), call.values, type_)
        for position, type_ in enumerate(types)
    ]
    return _in_context(call, AUTOCAST, given, len(types), call.rest(len(types) + 1))


def _in_context(
    call: HigherOrderCall, name: str, arguments: list[Value], graph: int, given: list[Value]
) -> list[Value]:
    """Return the results of a graph that runs inside a context."""
    body, class_ = call.body, call.library.class_of(name)
    manager = body.append("prim::CreateObject", (), class_).output
    body.call_method(manager, "__init__", arguments)
    entered = class_.methods["__enter__"].schema.return_type
    body.append("prim::Enter", [manager], entered)
    results = call.inline(body, graph, given)
    body.append("prim::Exit", [manager])
    return results


def _plain(graph: int, first: int) -> Callable[[HigherOrderCall], list[Value]]:
    """Translate an operator that only calls its graph, with the arguments from ``first`` on."""

    def inline(call: HigherOrderCall) -> list[Value]:
        return call.inline(call.body, graph, call.rest(first))

    return inline


def _hints_wrapper(call: HigherOrderCall) -> list[Value]:
    if call.literal(2, "as_string_to_argument"):
        raise UnsupportedError("it has keyword arguments")
    return call.inline(call.body, 0, call.operands(1))


_PREFIX: Final = "torch._functorch.predispatch."
_COLLECTING: Final = "aten::append"
_HINT: Final = "Save what run_decompositions() of the exported program gives"


@dataclass(slots=True)
class _Batch:
    """One vmap.

    ``level`` is torch's number of it, known once a tensor is split; ``before`` are the names that
    were defined before it, and ``results`` the lists of rows from each iteration, the dimension
    along which they are stacked, and the outputs that they become.
    """

    outside: Body
    loop: Loop
    before: frozenset[str]
    level: int | None = None
    results: list[tuple[Value, Value, Sequence[schema.Argument]]] = field(default_factory=list)


class Batches:
    """The batches around the nodes of one graph, the innermost last; ``values`` are its names."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._open: list[_Batch] = []

    def takes(self, node: schema.Node) -> bool:
        return node.target.startswith(_PREFIX)

    def step(self, node: schema.Node, body: Body) -> Body:
        """Translate such a call; return the body to which the following nodes are appended.

        Raises UnsupportedError for other transformations, FormatError where batches overlap.
        """
        match node.target.removeprefix(_PREFIX), [given.arg for given in node.inputs]:
            case "lazy_load_decompositions", []:
                return body
            case "_vmap_increment_nesting", [size, randomness]:
                return self._begin(body, size, randomness)
            case "_add_batch_dim", [tensor, dim, level]:
                counter = self._innermost(level).loop.counter
                given = self._value(body, tensor, TENSOR)
                row = body.value("aten::select", given, self._value(body, dim, INT), counter)
                bind_results(body, node.outputs, [row], self._values)
                return body
            case "_remove_batch_dim", [tensor, level, _, dim]:
                batch = self._innermost(level)
                # A list of the rows, which is stacked where the batch ends, is created before the
                # loop that fills it.
                rows = batch.outside.list_of(TENSOR, ())
                nodes = batch.outside.block.nodes
                nodes.insert(nodes.index(batch.loop.node), nodes.pop())
                body.call(_COLLECTING, rows, self._value(body, tensor, TENSOR))
                place = self._value(batch.outside, dim, INT)
                batch.results.append((rows, place, node.outputs))
                return body
            case "_vmap_decrement_nesting", []:
                return self._end()
        raise UnsupportedError("this transformation of torch.func has no form here", hint=_HINT)

    def check_end(self) -> None:
        """Raise FormatError where a batch has no end."""
        if self._open:
            raise FormatError("a batch of torch.vmap does not end")

    def _value(self, body: Body, argument: schema.Argument, type_: Type) -> Value:
        return argument_value(body, argument, self._values, type_)

    def _begin(self, body: Body, size: schema.Argument, randomness: schema.Argument) -> Body:
        if self._value(body, randomness, STRING).node.attributes.get("value") != "error":
            raise UnsupportedError("torch.vmap draws random numbers here", hint=_HINT)
        count = body.as_type(self._value(body, size, INT), INT)
        loop = Loop(body, count, body.constant(True, BOOL), [])
        self._open.append(_Batch(body, loop, frozenset(self._values)))
        return loop.body

    def _innermost(self, level: schema.Argument) -> _Batch:
        if not self._open:
            raise FormatError("there is no batch here")
        batch = self._open[-1]
        if level.tag != "as_int" or batch.level not in (None, level.value):
            raise UnsupportedError("it is about a batch around the innermost one", hint=_HINT)
        batch.level = level.value
        return batch

    def _end(self) -> Body:
        if not self._open:
            raise FormatError("there is no batch here")
        batch = self._open.pop()
        batch.loop.end(batch.loop.body.constant(True, BOOL), ())
        _check_writes(batch.loop.block)
        for name in self._values.keys() - batch.before:
            del self._values[name]
        for rows, dim, outputs in batch.results:
            stacked = batch.outside.value("aten::stack", rows, dim)
            bind_results(batch.outside, outputs, [stacked], self._values)
        return batch.outside


def _check_writes(turn: Block) -> None:
    """Refuse writes to tensors outside a batch, which torch performs once for all rows."""
    nodes = frozenset(node for node in turn.nodes if node.kind != _COLLECTING)
    aliases = Aliases(turn, nodes)
    for node in nodes:
        for place in aliases.written(node):
            if not (isinstance(place, Value) and place.node in nodes):
                raise UnsupportedError("torch.vmap writes to a tensor around it", hint=_HINT)


# torch's names for the arguments that describe a view of a base.
_VIEW_PARTS: Final = (
    "base_index", "alias", "slice_dim", "slice_start", "slice_end", "size", "stride",
    "storage_offset",
)  # fmt: skip


class _Base(NamedTuple):
    """A tensor of which arguments are views, and its copy that is written to."""

    copied: Value
    original: Value

    def strided(self, body: Body, size: Value, stride: Value, offset: Value) -> Value:
        """Return a view of the copy with the layout that the original view has."""
        strides = [body.value("aten::stride", tensor) for tensor in self]
        body.raise_unless(
            body.value("aten::eq", *strides), "a tensor with gaps between its elements is written"
        )
        start = body.value("aten::storage_offset", self.original)
        return body.value(
            "aten::as_strided", self.copied, size, stride, body.value("aten::sub", offset, start)
        )


def _with_effects(call: HigherOrderCall) -> list[Value]:
    """Call an operator with an effect token; nodes here keep their order anyway."""
    token = call.operands(0)
    named = call.body.operators.overload(*operator_of(call.literal(1, "as_operator")))
    given = given_arguments(call.body, named, call.node.inputs[2:], call.values)
    results = call_with(call.body, named, given)
    return [*token, *(results or [call.body.none()])]


def _auto_functionalized(call: HigherOrderCall) -> list[Value]:
    """Call a mutating operator on copies of its arguments, which become further results."""
    given = call.keywords()
    copies: dict[str, Value] = {}

    def made(argument: Argument) -> Value:
        value = argument_value(call.body, _taken(given, argument.name), call.values, argument.type)
        copies[argument.name] = copied = _copied(call.body, value)
        return copied

    return [*_on_copies(call, given, made), *copies.values()]


def _copied(body: Body, value: Value) -> Value:
    if isinstance(value.type, ListType):
        raise UnsupportedError("it writes to a list of tensors")
    return value if value.type == NONE else body.value("aten::clone", value)


def _on_bases(call: HigherOrderCall) -> list[Value]:
    """Call a mutating operator on views: their bases are copied, and become further results."""
    given = call.keywords()
    originals = operands(call.body, _taken(given, "_all_bases"), call.values)
    bases = [_Base(_copied(call.body, base), base) for base in originals]

    def made(argument: Argument) -> Value:
        prefix = f"_{argument.name}"
        if _element_type(argument) is None:
            return _view(call, given, prefix, bases)
        length = _number(_taken(given, f"{prefix}_length"))
        if length is None:
            return call.body.none()
        views = [_view(call, given, f"{prefix}_{index}", bases) for index in range(length)]
        return call.body.list_of(_element_type(argument) or TENSOR, views)

    return [*_on_copies(call, given, made), *(base.copied for base in bases)]


def _element_type(argument: Argument) -> Any:
    """Return the element type of a list argument; None for others."""
    type_ = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
    return type_.element if isinstance(type_, ListType) else None


def _on_copies(
    call: HigherOrderCall, given: dict[str, schema.Argument], make: Callable[[Argument], Value]
) -> list[Value]:
    """Return the results of the operator, its mutated arguments being made by ``make``."""
    named = call.body.operators.overload(*operator_of(call.literal(0, "as_operator")))
    made = {argument.name: make(argument) for argument in named.arguments if argument.is_write}
    rest = [schema.NamedArgument(name, value) for name, value in given.items() if name not in made]
    arguments = given_arguments(call.body, named, rest, call.values, made)
    results = call_with(call.body, named, arguments)
    return results or [call.body.none()]


def _view(
    call: HigherOrderCall, given: dict[str, schema.Argument], prefix: str, bases: list[_Base]
) -> Value:
    """Return an argument as its view of one of the bases."""
    parts = {
        part: given.pop(f"{prefix}_{part}") for part in _VIEW_PARTS if f"{prefix}_{part}" in given
    }
    index = _number(_taken(parts, "base_index"))
    if index is None:
        return call.body.none()
    if index not in range(len(bases)):
        raise FormatError(f"it has {len(bases)} bases, and none of number {index}")
    base = bases[index]

    def part(name: str) -> Value:
        return argument_value(call.body, _taken(parts, name), call.values, None)

    if "storage_offset" in parts:
        return base.strided(call.body, *map(part, ("size", "stride", "storage_offset")))
    if "slice_dim" in parts:
        bounds = map(part, ("slice_dim", "slice_start", "slice_end"))
        return call.body.value("aten::slice", base.copied, *bounds)
    return base.copied


def _taken(given: dict[str, schema.Argument], name: str) -> schema.Argument:
    found = given.pop(name, None)
    if found is None:
        raise FormatError(f"its argument {name!r} is missing")
    return found


def _number(argument: schema.Argument) -> int | None:
    if argument.tag not in ("as_int", "as_none"):
        raise FormatError(f"an argument is {argument.tag}, not as_int")
    return None if argument.tag == "as_none" else int(argument.value)


def _call_torchbind(call: HigherOrderCall) -> list[Value]:
    """Call a method of an object of a class bound from C++."""
    (receiver,) = call.operands(0)
    given = [argument_value(call.body, one.arg, call.values, None) for one in call.node.inputs[2:]]
    result = call.body.call_method(receiver, call.literal(1, "as_string"), given)
    if isinstance(result.type, TupleType):
        return call.body.append("prim::TupleUnpack", [result], *result.type.elements).outputs
    return [result]


HIGHER_ORDER: Final[Mapping[str, Callable[[HigherOrderCall], list[Value]]]] = {
    "associative_scan": _associative_scan,
    "auto_functionalized": _auto_functionalized,
    "auto_functionalized_v2": _on_bases,
    "call_torchbind": _call_torchbind,
    "cond": _cond,
    "hints_wrapper": _hints_wrapper,
    "invoke_subgraph": _plain(0, 2),
    "map_impl": lambda call: _stacking(call, [], call.operands(1), call.operands(2)),
    "run_const_graph": _plain(0, 1),
    "scan": lambda call: _stacking(call, call.operands(1), call.operands(2), call.operands(3)),
    "strict_mode": _plain(0, 1),
    "tag_activation_checkpoint": _plain(0, 1),
    "while_loop": _while_loop,
    "with_effects": _with_effects,
    "wrap": _plain(0, 1),
    "wrap_with_autocast": _autocast,
    "wrap_with_set_grad_enabled": _set_grad_enabled,
}
