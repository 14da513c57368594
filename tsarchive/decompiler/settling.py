"""Code in which reads of attributes stand where they are used.

An attribute that no code sets has one value, wherever it is read. TorchScript reads it where it
likes: ``for layer in self.layers`` reads all layers before it calls the first, and a trace reads
what it never uses. Such reads are written anew, each right before the one operation that uses it.

So are items of tuples, lists and tuples that one operation uses, and values that are never read.

Nor does it mean anything whether a list that was just made is copied, if nothing else has it; which
type is known of a value, or None has; or whether an exception has no class, which is raised as a
RuntimeError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

from tsarchive.analyses.encoding import Plain
from tsarchive.diffing.routines import typed
from tsarchive.formats.contents import Body, Operation, Outline, Routine

_READ: Final = "prim::GetAttr"
_SET: Final = "prim::SetAttr"
_CASTS: Final = frozenset({"prim::unchecked_cast", "prim::unchecked_unwrap_optional"})
_FREE: Final = frozenset({"prim::Uninitialized", "prim::TupleIndex"})
_DISPLAYS: Final = frozenset({"prim::ListConstruct", "prim::TupleConstruct"})
_RAISE: Final = "prim::RaiseException"
_NONE: Final[Plain] = ["NoneType", None]
_RUNTIME_ERROR: Final[Plain] = ["str", "builtins.RuntimeError"]
_COPY: Final = "aten::list.t"
_MAKING: Final = frozenset(
    {
        "aten::size", "aten::stride",
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
    for body in bodies:
        for operation in body.operations:
            if operation.operator == _SET:
                yield str(operation.attributes["name"])
            yield from names_set(operation.bodies)


def names_read(bodies: Iterable[Body]) -> Iterator[str]:
    """Yield the names of the attributes that code reads or sets, of whatever class."""
    for body in bodies:
        for operation in body.operations:
            if operation.operator in (_READ, _SET):
                yield str(operation.attributes["name"])
            yield from names_read(operation.bodies)


def bodies_of(outline: Outline) -> Iterator[Body]:
    """Yield the bodies of all functions and methods."""
    definitions = [module.definition for module in outline.modules.values()]
    for definition in (*definitions, *outline.definitions):
        yield from (routine.body for routine in definition.routines.values())


def settled(
    routine: Routine,
    assigned: Container[str],
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> Routine:
    """Return a function whose reads of attributes stand where they are used.

    Names that are ``assigned`` are left where they stand. Those that are ``renamed`` get other
    names.
    """
    settling = _Settling(assigned, renamed, routine.body)
    return routine._replace(body=settling.body(routine.body))


def _uses(body: Body) -> Iterator[Plain]:
    for operation in body.operations:
        yield from operation.inputs
        for inner in operation.bodies:
            yield from _uses(inner)
    yield from body.results


def _own_uses(body: Body) -> Iterator[int]:
    """Yield what is used by a body itself, and not by those in it."""
    uses = chain(*(operation.inputs for operation in body.operations), body.results)
    return (use for use in uses if isinstance(use, int))


class _Constant(NamedTuple):
    """A constant that a value was cast from."""

    content: Plain


class _Settling:
    """Writes one function anew: the values before by number, as numbers after or as reads."""

    def __init__(self, assigned: Container[str], renamed: Mapping[str, str], body: Body) -> None:
        self._assigned = assigned
        self._renamed = renamed
        self._values: list[int | Operation | _Constant] = []
        self._count = 0
        self._used = Counter(use for use in _uses(body) if isinstance(use, int))
        self._here: frozenset[int] = frozenset()
        self._made: set[int] = set()

    def body(self, body: Body) -> Body:
        self._define(len(body.params))
        outer, self._here = self._here, frozenset(_own_uses(body))
        written: list[Operation] = []
        for operation in map(self._rename, body.operations):
            if self._is_free(operation):
                self._values.append(operation)
            elif self._is_copy(operation) or operation.operator in _CASTS:
                self._values.append(self._copied(operation))
            else:
                self._operation(operation, written)
        results = [self._use(use, written) for use in body.results]
        self._here = outer
        return Body(body.params, written, results)

    def _rename(self, operation: Operation) -> Operation:
        name = operation.attributes.get("name")
        if operation.operator not in (_READ, _SET) or name not in self._renamed:
            return operation
        attributes = {**operation.attributes, "name": self._renamed[str(name)]}
        return operation._replace(attributes=attributes)

    def _is_free(self, operation: Operation) -> bool:
        if operation.operator in _DISPLAYS:
            number = len(self._values)
            return self._used[number] == 1 and number in self._here
        if operation.operator in _FREE:
            return True
        return operation.operator == _READ and operation.attributes["name"] not in self._assigned

    def _is_copy(self, operation: Operation) -> bool:
        """Return whether an operation copies a list that nothing else uses."""
        return operation.operator == _COPY and operation.inputs[0] in self._made

    def _copied(self, copy: Operation) -> int | Operation | _Constant:
        (source,) = copy.inputs
        return self._values[source] if isinstance(source, int) else _Constant(source)

    def _define(self, count: int) -> None:
        self._values += range(self._count, self._count + count)
        self._count += count

    def _operation(self, operation: Operation, written: list[Operation]) -> None:
        inputs = [self._use(use, written) for use in operation.inputs]
        if operation.operator == _RAISE:
            inputs = [inputs[0], *(_RUNTIME_ERROR if use == _NONE else use for use in inputs[1:])]
        bodies = [*map(self.body, operation.bodies)]
        if operation.operator in _MAKING and self._used[len(self._values)] == 1:
            self._made.add(len(self._values))
        self._define(len(operation.outputs))
        written.append(operation._replace(inputs=inputs, bodies=bodies))

    def _use(self, use: Plain, written: list[Operation]) -> Plain:
        """Return what stands for an operand; what reads it is written."""
        if not isinstance(use, int):
            return _NONE if typed(use)[1] is None else use
        found = self._values[use]
        if isinstance(found, _Constant):
            return self._use(found.content, written)
        if not isinstance(found, Operation):
            return found
        read = found._replace(inputs=[self._use(each, written) for each in found.inputs])
        written.append(read)
        self._count += 1
        return self._count - 1
