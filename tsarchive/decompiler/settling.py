"""Code in which reads of attributes stand where they are used.

An attribute that no code sets has one value, wherever it is read. TorchScript reads it where it
likes: ``for layer in self.layers`` reads all layers before it calls the first, and a trace reads
what it never uses. Such reads are written anew, each right before the one operation that uses it.

So are items of tuples, lists and tuples that one operation uses, and values that are never read.

Nor does it mean anything where a list of constants is made before it is used, or where a tensor is
made a number, if nothing changes in between. Nor whether a list that was just made is copied, if
nothing else has it; which type is known of a value, or None has; or whether an exception has no
class, which is raised as a RuntimeError.

Nor that all rows of a tensor are taken, where rows or columns of these are.
Nor that an int is put into a tensor, as tracing does, and taken out again.
Nor whether code says that a tensor becomes a number, or passes it where a number is wanted.

Nor which of torch's own functions passes its arguments on to an operator, as ``F.pad`` does to
``aten::pad``, or whether defaults at the end of a call to torch's code are given: later releases
have more arguments. Nor whether a tensor of ints is said to be one of int64, or a list that one
operator is given is made anew or the default of an argument.

An operator of an older release has the name of what stands for it today. ``Union[number]`` is what
torch.jit makes of ``int | float | complex``, which is a number.

What stands beside a branch that raises stands behind it: it runs where nothing was raised. What
stands behind an exception never runs. Branches on the opposite of a condition are the other ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tsarchive.analyses.encoding import Plain
from tsarchive.diffing.plain_values import is_same
from tsarchive.diffing.routines import typed, walk
from tsarchive.formats.contents import Body, Definition, Operation, Outline, Routine
from tsarchive.operators.effects import schema_may_write
from tsarchive.operators.upgraders import OLDER
from tsarchive.run.operators import operator_schemas

_OLDER_MEANING: Final = "older meaning"
_READ: Final = "prim::GetAttr"
_SET: Final = "prim::SetAttr"
_CASTS: Final = frozenset({"prim::unchecked_cast", "prim::unchecked_unwrap_optional"})
_UNSET: Final = "prim::Uninitialized"
_FREE: Final = frozenset({_UNSET, "prim::TupleIndex"})
_LIST: Final = "prim::ListConstruct"
_DISPLAYS: Final = frozenset({_LIST, "prim::TupleConstruct"})
_RAISE: Final = "prim::RaiseException"
_IF: Final = "prim::If"
_OPPOSITES: Final = {
    "aten::__isnot__": "aten::__is__",
    **{
        f"aten::ne.{kind}": f"aten::eq.{kind}"
        for kind in ("int", "float", "int_float", "float_int", "bool", "str", "device")
    },
    "aten::le.int": "aten::gt.int",
    "aten::ge.int": "aten::lt.int",
}
_SAME: Final = {
    "aten::IntImplicit": "aten::Int.Tensor",
    "aten::FloatImplicit": "aten::Float.Tensor",
    "aten::ComplexImplicit": "aten::Complex.Tensor",
    "aten::ScalarImplicit": "aten::item",
    "aten::index.Tensor_hacked_twin": "aten::index.Tensor",
    "aten::index_put.hacked_twin": "aten::index_put",
    "aten::index_put_.hacked_twin": "aten::index_put_",
}
"""Operators by others that do the same with what these are given."""
_OF_TORCH: Final = "__torch__.torch."
_CALL_METHOD: Final = "prim::CallMethod"
_CALL_FUNCTION: Final = "prim::CallFunction"
_CALLS: Final = frozenset({_CALL_METHOD, _CALL_FUNCTION})
_OF_LIST: Final = "aten::tensor"
_ADAPTIVE: Final = {
    f"__torch__.torch.nn.functional.adaptive_avg_pool{n}d": f"aten::adaptive_avg_pool{n}d"
    for n in (2, 3)
}
"""Functions that put the sizes of a tensor in the place of None among the sizes that they get, and
the operators that they call then."""
_DTYPES: Final = {"int": 4, "bool": 11}
"""The numbers of dtypes that tensors have whose elements are of these types."""
_OF_NUMBER: Final = "prim::NumToTensor.Scalar"
_OF_INT: Final = "aten::tensor.int"
_DEFAULTS: Final[Sequence[Plain]] = [["NoneType", None], ["NoneType", None], ["bool", False]]
_TO_NUMBER: Final = frozenset(
    {"aten::Int.Tensor", "aten::item", "aten::IntImplicit", "aten::ScalarImplicit"}
)
_NUMBERS: Final = frozenset({"aten::Int.Tensor", "aten::Float.Tensor", "aten::Bool.Tensor"})
_FRESH: Final = frozenset({_LIST, "prim::DictConstruct"})
_QUIET: Final = frozenset({_READ, *_CASTS, *_DISPLAYS, *_FREE, *_NUMBERS, *_FRESH})
"""Operations that change nothing, besides all that is free to stand anywhere."""
_CALCULATING: Final = frozenset(
    f"aten::{name}{overload}"
    for name in ("add", "sub", "mul", "div", "floor_divide", "remainder", "eq", "floor")
    for overload in ("", ".Tensor", ".Scalar")
)
"""Operators that neither change a tensor nor keep it."""
_TO_DTYPE: Final = "aten::to.dtype"
_SLICE: Final = "aten::slice.Tensor"
_TAKING: Final = frozenset({_SLICE, "aten::select.int"})
_ENDS: Final[Sequence[Plain]] = (["int", 0], ["int", 2**63 - 1])
"""The first and the last row of a tensor, as a slice has them that leaves out neither."""
_ALL: Final[Sequence[Plain]] = [["NoneType", None], ["NoneType", None], ["int", 1]]
"""The bounds and the step of a slice that leaves out nothing."""
_NOT: Final = "aten::__not__"
_CONDITIONS: Final = frozenset({_NOT, *_OPPOSITES, *_OPPOSITES.values()})
_NONE: Final[Plain] = ["NoneType", None]
_TRUE: Final[Plain] = ["bool", True]
_FALSE: Final[Plain] = ["bool", False]
_RUNTIME_ERROR: Final[Plain] = ["str", "builtins.RuntimeError"]
_COPY: Final = "aten::list.t"
_TENSORS: Final = "List[Optional[Tensor]]"
_PLAIN_TENSORS: Final = "List[Tensor]"
_MAKING: Final = frozenset(
    {
        "aten::size", "aten::stride", "aten::chunk", "aten::split.Tensor", "aten::split.sizes",
        "aten::unbind.int",
        *(
            f"aten::{name}.{key}"
            for name in ("keys", "values", "items")
            for key in ("str", "int", "bool", "float", "complex", "Tensor")
        ),
    }
)  # fmt: skip
"""Operators that always return a new list."""


def names_set(bodies: Iterable[Body]) -> Iterator[str]:
    """Yield the names of the attributes that code sets, of whatever class."""
    for operation in chain.from_iterable(map(walk, bodies)):
        if operation.operator == _SET:
            yield str(operation.attributes["name"])


def names_read(bodies: Iterable[Body]) -> Iterator[str]:
    """Yield the names of the attributes that code reads or sets, of whatever class."""
    for operation in chain.from_iterable(map(walk, bodies)):
        if operation.operator in (_READ, _SET):
            yield str(operation.attributes["name"])


def bodies_of(outline: Outline) -> Iterator[Body]:
    """Yield the bodies of all functions and methods."""
    for definition in _definitions(outline):
        yield from (routine.body for routine in definition.routines.values())


def routines_of_torch(outline: Outline) -> dict[str, Routine]:
    """Return torch's own functions and methods in a program, by qualified name."""
    return {
        f"{definition.name}.{name}".removesuffix("."): routine
        for definition in _definitions(outline)
        if definition.name.startswith(_OF_TORCH)
        for name, routine in definition.routines.items()
    }


def _definitions(outline: Outline) -> Iterator[Definition]:
    yield from (module.definition for module in outline.modules.values())
    yield from outline.definitions


def settled(
    routine: Routine,
    assigned: Container[str],
    of_torch: Mapping[str, Routine] = MappingProxyType({}),
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> Routine:
    """Return a function whose reads of attributes stand where they are used.

    Names that are ``assigned`` are left where they stand. Those that are ``renamed`` get other
    names. ``of_torch`` are the routines of the program that are :func:`routines_of_torch`.
    """
    settling = _Settling(assigned, renamed, of_torch, routine.body)
    arguments: Sequence[Any] = routine.arguments
    named = [[name, _as_number(type_), default] for name, type_, default in arguments]
    body = settling.body(routine.body)
    params = [*map(_as_number, body.params)]
    return routine._replace(arguments=named, body=body._replace(params=params))


def _as_number(type_: Plain) -> str:
    return str(type_).replace("Union[number]", "number")


def _operator_called(called: Routine, given: Sequence[Plain]) -> Operation | None:
    """Return the operator that is all of a function, with the arguments of a call; None where there
    is more in the function, or it uses an argument twice."""
    match called.body:
        case Body(_, [Operation(bodies=[]) as only], [int() as result]) if len(only.outputs) == 1:
            used = [use for use in only.inputs if isinstance(use, int)]
            is_own = result == len(given) and len({*used}) == len(used)
            if is_own and not only.operator.startswith("prim::"):
                inputs = [given[use] if isinstance(use, int) else use for use in only.inputs]
                return only._replace(inputs=inputs, place=None)
    return None


def _without_defaults(called: Routine, given: Sequence[Plain]) -> Sequence[Plain]:
    """Return the arguments of a call, those at the end aside that are defaults of the function."""
    arguments: Sequence[Any] = called.arguments
    kept = len(given)
    while kept and _is_default(arguments[kept - 1][2], given[kept - 1]):
        kept -= 1
    return given[:kept]


def _is_default(default: Sequence[Plain], use: Plain) -> bool:
    return bool(default) and is_same(default, _content(use))


def _content(use: Plain) -> Sequence[Plain]:
    """Return the value of a constant as the default of an argument is written."""
    return [] if isinstance(use, int) else [typed(use)[1]]


def _uses(body: Body) -> Iterator[Plain]:
    for operation in body.operations:
        yield from operation.inputs
        for inner in operation.bodies:
            yield from _uses(inner)
    yield from body.results


def _uses_at_most_once(body: Body) -> Iterator[int]:
    """Yield what runs at most once for each run of a body uses: the body itself, and branches."""
    for operation in body.operations:
        yield from (use for use in operation.inputs if isinstance(use, int))
        for inner in operation.bodies if operation.operator == _IF else ():
            yield from _uses_at_most_once(inner)
    yield from (use for use in body.results if isinstance(use, int))


def _bounds_left_out(inputs: Sequence[Plain]) -> Sequence[Plain]:
    """Return the arguments of a slice without bounds that bound nothing."""
    tensor, dim, *bounds, step = inputs
    left = (_NONE if use == own else use for use, own in zip(bounds, _ENDS, strict=True))
    return [tensor, dim, *left, step]


def _takes_all(operation: Operation) -> bool:
    return operation.operator == _SLICE and _bounds_left_out(operation.inputs)[2:] == _ALL


def _passed_on_whole(body: Body) -> Iterator[int]:
    """Yield the tensors that are all rows of another, and of which a part is taken before anything
    may change the other, along a dimension that is not before theirs.

    With any dimension before, the slice might fail where what takes the part does not.
    """
    dims: dict[int, int] = {}
    for operation, output in _numbered(body):
        dim = _dim_of(operation)
        if dim is None:
            dims = dims if dims and _changes_nothing(operation) else {}
            continue
        first = operation.inputs[0]
        if isinstance(first, int) and first in dims and dims[first] <= dim:
            yield first
        if _takes_all(operation):
            dims[output] = dim


def _dim_of(operation: Operation) -> int | None:
    """Return the dimension that a part is taken along, where it is known and counted from 0."""
    if operation.operator not in _TAKING or isinstance(operation.inputs[1], int):
        return None
    dim: Any = typed(operation.inputs[1])[1]
    return dim if dim >= 0 else None


def _changes_nothing(operation: Operation) -> bool:
    if operation.operator.startswith("prim::"):
        return operation.operator in _QUIET
    schemas = operator_schemas(operation.operator.partition(".")[0])
    own = [schema for schema in schemas if schema.full_name == operation.operator]
    return bool(own) and not any(map(schema_may_write, own))


def _numbered(body: Body, first: int = 0) -> Iterator[tuple[Operation, int]]:
    """Yield the operations of a body, and those in them, with the number of their first result."""
    first += len(body.params)
    for operation in body.operations:
        end = first + sum(map(_count, operation.bodies))
        yield operation, end
        for inner in operation.bodies:
            yield from _numbered(inner, first)
            first += _count(inner)
        first = end + len(operation.outputs)


def _gives_condition(branch: Operation, own: Sequence[int]) -> bool:
    """Return whether all that an if gives by ``own`` results is what its condition is."""
    is_idle = all(each.operator == _UNSET for body in branch.bodies for each in body.operations)
    results = [[body.results[i] for i in own] for body in branch.bodies]
    return is_idle and results == [[_TRUE], [_FALSE]]


def _held(bodies: Iterable[Body]) -> Iterator[Plain]:
    """Yield the values that anything does more with than to calculate."""
    for body in bodies:
        yield from body.results
        for operation in body.operations:
            if not _only_calculates(operation):
                yield from operation.inputs
            yield from _held(operation.bodies)


def _only_calculates(operation: Operation) -> bool:
    """Return whether an operation neither changes nor keeps a tensor of an int.

    Of another dtype it is another tensor.
    """
    if operation.operator == _TO_DTYPE:
        dtype = operation.inputs[1]
        return not isinstance(dtype, int) and typed(dtype)[1] != _DTYPES["int"]
    return operation.operator in _TO_NUMBER | _CALCULATING


def _calls_torch(operation: Operation) -> bool:
    called = operation.inputs[:1] if operation.operator == _CALL_FUNCTION else ()
    return any(not isinstance(f, int) and typed(f)[0].startswith(_OF_TORCH) for f in called)


def _given(body: Body) -> Iterator[Plain]:
    """Yield what operators are given that are no syntax, and functions of torch."""
    for operation in walk(body):
        if not operation.operator.startswith("prim::") or _calls_torch(operation):
            yield from operation.inputs


def _count(body: Body) -> int:
    """Return how many values are made in a body."""
    return len(body.params) + sum(map(_count_of, body.operations))


def _count_of(operation: Operation) -> int:
    return sum(map(_count, operation.bodies)) + len(operation.outputs)


def _raises(body: Body) -> bool:
    """Return whether control never gets to the end of a body."""
    return any(map(_always_raises, body.operations))


def _always_raises(operation: Operation) -> bool:
    is_if = operation.operator == _IF
    return operation.operator == _RAISE or (is_if and all(map(_raises, operation.bodies)))


class _Passing:
    """Finds the values that come out of branches and are those of outside, whichever runs.

    A branch that leaves the function or raises gives values that nothing reads.
    """

    def __init__(self, body: Body) -> None:
        self.found: dict[int, Plain] = {}
        self.types: list[str] = []
        self._unset: set[int] = set()
        self._next = 0
        self._body(body)

    def _body(self, body: Body) -> None:
        self._made(body.params)
        for operation in body.operations:
            self._operation(operation)

    def _operation(self, operation: Operation) -> None:
        first = self._next
        for body in operation.bodies:
            self._body(body)
        if operation.operator in _CASTS:
            self.found[self._next] = self._of(operation.inputs[0])
        elif operation.operator == _UNSET:
            self._unset.add(self._next)
        elif operation.operator == _IF:
            paths = [body.results for body in operation.bodies if not _raises(body)]
            for output in range(len(operation.outputs)):
                self._result(self._next + output, [results[output] for results in paths], first)
        self._made(operation.outputs)

    def _made(self, types: Sequence[Plain]) -> None:
        self.types += map(str, types)
        self._next += len(types)

    def _result(self, output: int, results: Iterable[Plain], first: int) -> None:
        """Note what a branch gives; what is outside of it is numbered below ``first``."""
        given = [use for use in map(self._of, results) if not self._is_unset(use)]
        if not given:
            self._unset.add(output)
            return
        is_outside = not isinstance(given[0], int) or given[0] < first
        if is_outside and all(use == given[0] for use in given):
            self.found[output] = given[0]

    def _of(self, use: Plain) -> Plain:
        return self.found.get(use, use) if isinstance(use, int) else use

    def _is_unset(self, use: Plain) -> bool:
        return isinstance(use, int) and use in self._unset


class _Constant(NamedTuple):
    """A constant that a value was cast from."""

    content: Plain


class _Waiting:
    """An operation that is written before what uses its result: its number is None until then."""

    __slots__ = ("number", "operation")

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.number: int | None = None


_Settled = int | Operation | _Constant | _Waiting


class _Settling:
    """Writes one function anew: the values before by number, as numbers after or as reads."""

    def __init__(
        self,
        assigned: Container[str],
        renamed: Mapping[str, str],
        of_torch: Mapping[str, Routine],
        body: Body,
    ) -> None:
        self._assigned = assigned
        self._renamed = renamed
        self._of_torch = of_torch
        self._values: dict[int, _Settled] = {}
        self._next = 0
        self._count = 0
        self._used = Counter(use for use in _uses(body) if isinstance(use, int))
        self._here: frozenset[int] = frozenset()
        self._whole = {*_passed_on_whole(body)}
        self._made: set[int] = set()
        self._waiting: list[_Waiting] = []
        passing = _Passing(body)
        self._passed, self._types = passing.found, passing.types
        self._given = {use for use in _given(body) if isinstance(use, int)}
        self._held = {use for use in _held([body]) if isinstance(use, int)}

    def body(self, body: Body) -> Body:
        outer, self._here = self._here, frozenset(_uses_at_most_once(body))
        written: list[Operation] = []
        self._write(body, written)
        self._write_waiting(self._awaited(body.results), written)
        results = [] if _raises(body) else [self._use(use, written) for use in body.results]
        self._here = outer
        return Body(body.params, written, results)

    def _write(self, body: Body, written: list[Operation]) -> None:
        """Write the operations of a body up to the first that raises."""
        end = self._next + _count(body)
        self._define(len(body.params))
        for operation in map(self._named, body.operations):
            if self._waiting and not self._waits(operation):
                self._write_waiting(self._awaited(_uses(Body([], [operation], []))), written)
                if operation.operator not in _QUIET:
                    self._write_waiting(self._numbers_waiting(), written)
            self._operation(operation, written)
            if _always_raises(operation):
                break
        self._next = end

    def _named(self, operation: Operation) -> Operation:
        if operation.operator == _LIST and operation.outputs == [_TENSORS]:
            return operation._replace(outputs=[_PLAIN_TENSORS])
        if operation.operator in _CALLS:
            return self._called(operation)
        if operation.operator == _OF_LIST:
            return self._with_dtype(operation)
        if operation.operator == _OF_INT and [*operation.inputs[1:]] == _DEFAULTS:
            return operation._replace(operator=_OF_NUMBER, inputs=operation.inputs[:1])
        if operation.operator in _SAME:
            return operation._replace(operator=_SAME[operation.operator])
        if _OLDER_MEANING in operation.attributes:
            attributes = {**operation.attributes}
            name = attributes.pop(_OLDER_MEANING)
            return operation._replace(operator=f"{OLDER}::{name}", attributes=attributes)
        if operation.operator == _SLICE:
            return operation._replace(inputs=_bounds_left_out(operation.inputs))
        name = operation.attributes.get("name")
        if operation.operator not in (_READ, _SET) or name not in self._renamed:
            return operation
        attributes = {**operation.attributes, "name": self._renamed[str(name)]}
        return operation._replace(attributes=attributes)

    def _called(self, call: Operation) -> Operation:
        """Return what stands for a call: of torch's code, what it comes to in any release."""
        first, *given = call.inputs
        if call.operator == _CALL_METHOD:
            called = self._of_torch.get(f"{self._type_of(first)}.{call.attributes['name']!s}")
            kept = [] if called is None else _without_defaults(called, call.inputs)
            return call._replace(inputs=kept or call.inputs)
        called = self._of_torch.get(self._type_of(first))
        if called is None:
            return call
        if self._type_of(first) in _ADAPTIVE and self._type_of(given[1]) == "List[int]":
            return call._replace(operator=_ADAPTIVE[self._type_of(first)], inputs=given)
        return _operator_called(called, given) or call._replace(
            inputs=[first, *_without_defaults(called, given)]
        )

    def _with_dtype(self, operation: Operation) -> Operation:
        """Return the operator that makes a tensor of a list, with the dtype that its items tell."""
        values, dtype, *rest = operation.inputs
        element = self._type_of(values).replace("List[", "").rstrip("]")
        if dtype != _NONE or element not in _DTYPES:
            return operation
        return operation._replace(inputs=[values, ["int", _DTYPES[element]], *rest])

    def _is_free(self, operation: Operation) -> bool:
        if operation.operator in _DISPLAYS or operation.operator in _CONDITIONS:
            return self._is_used_once()
        if operation.operator == _OF_NUMBER:
            return self._is_int(operation.inputs[0]) and self._next not in self._held
        if operation.operator in _FREE:
            return True
        return operation.operator == _READ and operation.attributes["name"] not in self._assigned

    def _passes_on(self, operation: Operation) -> bool:
        """Return whether an operation only copies a list that nothing else uses, or passes on
        all of a tensor of which a part is taken."""
        if _takes_all(operation):
            return self._used[self._next] == 1 and self._next in self._whole
        is_copy = operation.operator == _COPY and operation.inputs[0] in self._made
        return is_copy or operation.operator in _CASTS

    def _is_used_once(self) -> bool:
        """Return whether the next value has one use, which runs once for each time it is made."""
        return self._used[self._next] == 1 and self._next in self._here

    def _is_int(self, use: Plain) -> bool:
        return self._type_of(use) == "int"

    def _type_of(self, use: Plain) -> str:
        return self._types[use] if isinstance(use, int) else typed(use)[0]

    def _number(self, operation: Operation) -> _Settled | None:
        """Return the int that an operation takes out of the tensor that it was put into."""
        if operation.operator not in _TO_NUMBER:
            return None
        found = self._settled(operation.inputs[0])
        if isinstance(found, Operation) and found.operator == _OF_NUMBER:
            return self._settled(found.inputs[0])
        return None

    def _settled(self, use: Plain) -> _Settled:
        return self._values[use] if isinstance(use, int) else _Constant(use)

    def _define(self, count: int) -> None:
        """Give the next values of the function the next numbers."""
        for _ in range(count):
            self._note(self._count)
            self._count += 1

    def _note(self, value: _Settled) -> None:
        self._values[self._next] = value
        self._next += 1

    def _constant_list(self, operation: Operation) -> _Constant | None:
        """Return the list that is made of constants, for one operator that is given it."""
        is_given = self._next in self._given and self._is_used_once()
        if operation.operator != _LIST or not is_given:
            return None
        items = [_content(use) for use in operation.inputs]
        if not all(items):
            return None
        return _Constant([operation.outputs[0], {"list": [item for (item,) in items]}])

    def _waits(self, operation: Operation) -> bool:
        """Return whether an operation may stand anywhere before what uses its result: it makes a
        list or dict of constants, or a number out of a tensor."""
        if operation.operator in _FRESH:
            return not any(isinstance(use, int) for use in operation.inputs)
        return operation.operator in _NUMBERS

    def _awaited(self, uses: Iterable[Plain]) -> list[_Waiting]:
        """Return what waits for one of these uses."""
        found = (self._values.get(use) for use in uses if isinstance(use, int))
        return [value for value in found if isinstance(value, _Waiting)]

    def _numbers_waiting(self) -> list[_Waiting]:
        return [each for each in self._waiting if each.operation.operator in _NUMBERS]

    def _write_waiting(self, ready: Iterable[_Waiting], written: list[Operation]) -> None:
        """Write operations that have waited, each once."""
        for each in ready:
            if each.number is None:
                self._waiting.remove(each)
                each.number = self._read(each.operation, written)

    def _operation(self, operation: Operation, written: list[Operation]) -> None:
        known = self._number(operation)
        if known is None:
            known = self._constant_list(operation)
        if known is not None:
            self._note(known)
        elif self._is_free(operation):
            self._note(operation)
        elif self._passes_on(operation):
            self._note(self._settled(operation.inputs[0]))
        elif operation.operator == _IF:
            self._if(operation, written)
        elif self._waits(operation):
            self._waiting.append(_Waiting(operation))
            self._note(self._waiting[-1])
        else:
            self._keep(operation, written)

    def _keep(self, operation: Operation, written: list[Operation]) -> None:
        inputs = [self._use(use, written) for use in operation.inputs]
        if operation.operator == _RAISE:
            inputs = [inputs[0], *(_RUNTIME_ERROR if use == _NONE else use for use in inputs[1:])]
        bodies = [*map(self.body, operation.bodies)]
        if operation.operator in _MAKING and self._is_used_once():
            self._made.add(self._next)
        self._define(len(operation.outputs))
        written.append(operation._replace(inputs=inputs, bodies=bodies))

    def _if(self, branch: Operation, written: list[Operation]) -> None:
        starts = [self._next, self._next + _count(branch.bodies[0])]
        end = starts[1] + _count(branch.bodies[1])
        outputs = range(end, end + len(branch.outputs))
        own = [i for i, output in enumerate(outputs) if output not in self._passed]
        if _gives_condition(branch, own):
            self._next = end
            self._pass(outputs, self._settled(branch.inputs[0]))
            return
        condition, is_opposite = self._condition(branch.inputs[0], written)
        paths = [*zip(branch.bodies, starts, strict=True)]
        if is_opposite:
            paths.reverse()
        kept = [index for index, (body, _) in enumerate(paths) if _raises(body)][:1]
        own = [] if kept else own
        bodies = [Body([], [], []), Body([], [], [])]
        for index in kept or range(len(paths)):
            body, self._next = paths[index]
            bodies[index] = self.body(body._replace(results=[body.results[i] for i in own]))
        types = [branch.outputs[i] for i in own]
        written.append(branch._replace(inputs=[condition], bodies=bodies, outputs=types))
        self._next = end
        if kept:
            self._follow(*paths[1 - kept[0]], outputs, written)
        else:
            self._pass(outputs, None)

    def _pass(self, outputs: range, own: _Settled | None) -> None:
        """Note what a branch gives: what it passes on, and else ``own`` or values of its own."""
        for output in outputs:
            if output in self._passed:
                self._note(self._settled(self._passed[output]))
            elif own is not None:
                self._note(own)
            else:
                self._define(1)

    def _follow(self, body: Body, start: int, outputs: range, written: list[Operation]) -> None:
        """Write a body here whose results are the values numbered ``outputs``."""
        pairs = [*zip(body.results, outputs, strict=True)]
        for result, output in pairs:
            if isinstance(result, int):
                self._used[result] += self._used[output] - 1
        outer = self._here
        here = {result for result, output in pairs if output in outer and isinstance(result, int)}
        self._here = outer | here | {*_uses_at_most_once(body._replace(results=[]))}
        self._next = start
        self._write(body, written)
        self._here = outer
        self._next = outputs.start
        for result in () if _raises(body) else body.results:
            self._note(self._settled(result))
        self._next = outputs.stop

    def _condition(self, use: Plain, written: list[Operation]) -> tuple[Plain, bool]:
        """Return what stands for a condition, and whether it is the opposite that is written."""
        found = self._settled(use)
        if isinstance(found, Operation) and found.operator == _NOT:
            condition, is_opposite = self._condition(found.inputs[0], written)
            return condition, not is_opposite
        if isinstance(found, Operation) and found.operator in _OPPOSITES:
            opposite = found._replace(operator=_OPPOSITES[found.operator])
            return self._read(opposite, written), True
        return self._use(use, written), False

    def _use(self, use: Plain, written: list[Operation]) -> Plain:
        """Return what stands for an operand; what reads it is written."""
        if not isinstance(use, int):
            return _NONE if typed(use)[1] is None else use
        found = self._values[use]
        if isinstance(found, _Constant):
            return self._use(found.content, written)
        if isinstance(found, _Waiting):
            assert found.number is not None
            return found.number
        return self._read(found, written) if isinstance(found, Operation) else found

    def _read(self, operation: Operation, written: list[Operation]) -> int:
        inputs = [self._use(each, written) for each in operation.inputs]
        written.append(operation._replace(inputs=inputs))
        self._count += 1
        return self._count - 1
