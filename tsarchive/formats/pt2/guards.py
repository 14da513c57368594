"""Guards on the arguments of a program, as nodes that raise.

The checks are those that torch makes before it runs an exported program: fixed sizes, sizes that
depend on each other, ranges, constants, and conditions that the program holds as text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import count
from math import inf
from typing import Any

from tsarchive.errors import FormatError
from tsarchive.ir.graph import Value
from tsarchive.ir.types import INT, NONE, TENSOR

from .building import Body
from .scalars import lower
from .schema import ExportedProgram, RangeConstraint, SymInt
from .signature import Input, Parameter
from .symbols import (
    Expression,
    Guard,
    Number,
    Operation,
    Source,
    Symbol,
    canonical,
    free_symbols,
    parse,
    read_guard,
)

# Whether bounds imply a comparison with a number: ``x > 5`` holds from 6 on.
_BOUNDED: Mapping[str, Callable[[float, float, int], bool]] = {
    "Gt": lambda least, most, number: least > number,
    "Ge": lambda least, most, number: least >= number,
    "Lt": lambda least, most, number: most < number,
    "Le": lambda least, most, number: most <= number,
    "Ne": lambda least, most, number: not least <= number <= most,
}


class SizeFacts:
    """Known equalities and bounds of sources, which are texts such as ``x.size()[0]``."""

    def __init__(self) -> None:
        self._equal: set[frozenset[str | int]] = set()
        self._bounds: dict[str, tuple[float, float]] = {}

    def add_equal(self, source: str, other: str | int) -> None:
        self._equal.add(frozenset((source, other)))
        if isinstance(other, int):
            self._bounds[source] = other, other

    def add_bounds(self, source: str, least: int | None, most: int | None) -> None:
        low, high = self._bounds.get(source, (-inf, inf))
        self._bounds[source] = (
            low if least is None else max(low, least),
            high if most is None else min(high, most),
        )

    def implies(self, condition: Expression, sources: Mapping[str, str]) -> bool:
        """Return whether a condition is known to hold; ``sources`` are those of its symbols."""
        if not isinstance(condition, Operation) or len(condition.arguments) != 2:
            return False
        one, other = (_term(argument, sources) for argument in condition.arguments)
        if one is None or other is None:
            return False
        if condition.function == "Eq":
            return one == other or frozenset((one, other)) in self._equal
        bounded = _BOUNDED.get(condition.function)
        if bounded is None or not (isinstance(one, str) and isinstance(other, int)):
            return False
        return one in self._bounds and bounded(*self._bounds[one], other)


def _term(expression: Expression, sources: Mapping[str, str]) -> str | int | None:
    if isinstance(expression, Symbol):
        return sources[expression.name]
    if isinstance(expression, Number) and type(expression.value) is int:
        return expression.value
    return None


# torch accepts sizes 0 and 1 whatever the range says, unless its minimum is above 2.
_GREATEST_UNCHECKED_MINIMUM = 2


class Checks:
    """Appends the checks of one program to the graph of its ``forward``.

    ``leaves`` are the arguments in flattened order. Errors do not name the record.
    """

    def __init__(
        self, body: Body, program: ExportedProgram, inputs: Sequence[Input], leaves: Sequence[Value]
    ) -> None:
        self._body = body
        self._program = program
        self._inputs = inputs
        self._leaves = {one.place: leaf for one, leaf in zip(inputs, leaves, strict=True)}
        self._sources: dict[str, Value] = {}
        self._symbols: dict[str, Value] = {}
        # The place where each symbol was first bound, for messages.
        self._places: dict[str, str] = {}
        self._facts = SizeFacts()
        self._ranges = {
            canonical(parse(text)): constraint
            for text, constraint in program.range_constraints.items()
        }

    def append(self, parameters: Sequence[Parameter]) -> None:
        """Append all checks.

        Raises FormatError for malformed expressions, UnsupportedError for those that cannot be
        checked.
        """
        numbers = self._program.graph_module.graph.sym_int_values
        sizes: list[tuple[Source, Expression]] = []
        for input_ in self._inputs:
            leaf = self._leaves[input_.place]
            if input_.name is None:
                self._check_constant(input_, leaf)
            elif input_.type == TENSOR:
                sizes += self._check_tensor(input_, leaf)
            elif input_.type == INT and input_.name in numbers:
                sizes.append((Source(input_.place), self._size(numbers[input_.name])))
        self._check_sizes(sizes)
        places = dict(_places(parameters, self._inputs))
        for text in self._program.guards_code:
            self._check_guard(read_guard(text), places)

    # Single arguments

    def _check_constant(self, input_: Input, leaf: Value) -> None:
        if input_.type == NONE:
            return  # the type has no other value
        body, value = self._body, input_.constant
        if isinstance(value, float) and math.isnan(value):
            fits = body.value("aten::isnan", leaf)
        else:
            fits = body.value("aten::eq", leaf, body.constant(value, input_.type))
        self._body.raise_unless(fits, f"{input_.place} must be {value!r}, but is {{}}", leaf)

    def _check_tensor(self, input_: Input, leaf: Value) -> Iterator[tuple[Source, Expression]]:
        """Check rank and fixed sizes; yield the dynamic sizes."""
        meta = self._program.graph_module.graph.tensor_values.get(input_.name or "")
        if meta is None:
            raise FormatError(f"nothing says what the tensor {input_.name!r} is")
        sizes = [self._size(size) for size in meta.sizes]
        fixed = [size.value for size in sizes if isinstance(size, Number)]
        if len(fixed) == len(sizes):
            self._check_whole_size(input_, leaf, fixed)
            return
        body, rank = self._body, len(sizes)
        held = body.value("aten::dim", leaf)
        dimensions = "1 dimension" if rank == 1 else f"{rank} dimensions"
        message = f"{input_.place} must have {dimensions}, but has {{}}"
        self._body.raise_unless(body.value("aten::eq", held, body.integer(rank)), message, held)
        for index, size in enumerate(sizes):
            source = Source(input_.place, "size", index)
            if isinstance(size, Number):
                self._check_equal(source, self._value(source), body.integer(int(size.value)))
                self._facts.add_equal(str(source), int(size.value))
            else:
                yield source, size

    def _check_whole_size(self, input_: Input, leaf: Value, sizes: Sequence[Any]) -> None:
        body = self._body
        held = body.value("aten::size", leaf)
        wanted = body.list_of(INT, [body.integer(size) for size in sizes])
        message = f"{input_.place} must have the size {list(sizes)}, but has {{}}"
        self._body.raise_unless(body.value("aten::eq", held, wanted), message, held)
        for index, size in enumerate(sizes):
            self._facts.add_equal(str(Source(input_.place, "size", index)), int(size))

    def _size(self, size: SymInt) -> Expression:
        if size.tag == "as_int":
            return Number(size.value)
        return canonical(parse(size.value.expr_str))

    # Sizes that depend on symbols

    def _check_sizes(self, sizes: Sequence[tuple[Source, Expression]]) -> None:
        """Bind the symbols in sizes and check the sizes that are then determined.

        Symbols that are a size by themselves come first, then those that can be solved for.
        """
        rest = [pair for pair in sizes if not self._bind(*pair)]
        unsolved = [pair for pair in rest if not self._solve(*pair)]
        for source, size in unsolved:
            if isinstance(size, Number):
                self._check_equal(source, self._value(source), lower(self._body, size, {}))
            elif free_symbols(size) <= self._symbols.keys():
                wanted = lower(self._body, size, self._symbols)
                if isinstance(size, Symbol):
                    self._facts.add_equal(str(source), self._places[size.name])
                names = sorted(free_symbols(size))
                why = ", ".join(f"{name} is {self._places[name]}" for name in names)
                self._check_equal(source, self._value(source), wanted, f" ({size}, where {why})")
        for source, size in sizes:
            constraint = self._ranges.get(size)
            if constraint is not None:
                self._check_range(source, constraint)

    def _bind(self, source: Source, size: Expression) -> bool:
        if not isinstance(size, Symbol) or size.name in self._symbols:
            return False
        self._symbols[size.name] = self._value(source)
        self._places[size.name] = str(source)
        return True

    def _solve(self, source: Source, size: Expression) -> bool:
        """Bind the only unbound symbol of a linear expression by solving for it."""
        linear = _linear(size)
        if linear is None or linear[0] in self._symbols:
            return False
        name, factor, offset = linear
        body, given = self._body, self._value(source)
        scaled = body.value(
            "aten::mul",
            body.value("aten::sub", given, body.integer(offset)),
            body.integer(factor.denominator),
        )
        numerator = body.integer(factor.numerator)
        if factor.numerator != 1:
            rest = body.value("aten::remainder", scaled, numerator)
            message = f"{source} must be {size} for some integer {name}, but is {{}}"
            self._body.raise_unless(body.value("aten::eq", rest, body.integer(0)), message, given)
        self._symbols[name] = body.value("aten::floordiv", scaled, numerator)
        self._places[name] = f"what makes {size} of {source}"
        return True

    def _check_equal(self, source: Source, held: Value, wanted: Value, why: str = "") -> None:
        fits = self._body.value("aten::eq", held, wanted)
        self._body.raise_unless(
            fits, f"{source} must be {{}}{_escape_braces(why)}, but is {{}}", wanted, held
        )

    def _check_range(self, source: Source, constraint: RangeConstraint) -> None:
        body, held = self._body, self._value(source)
        least, most = constraint.min_val, constraint.max_val
        if least is not None and least <= _GREATEST_UNCHECKED_MINIMUM:
            least = None
        for kind, bound, word in (("aten::ge", least, "least"), ("aten::le", most, "most")):
            if bound is not None:
                fits = body.value(kind, held, lower(body, Number(bound), {}))
                body.raise_unless(fits, f"{source} must be {bound} at {word}, but is {{}}", held)
        self._facts.add_bounds(str(source), least, most)

    # Guards given as text

    def _check_guard(self, guard: Guard, places: Mapping[str, int]) -> None:
        sources: dict[str, Source] = {}
        for name, source in guard.sources.items():
            position = places.get(source.place)
            if position is None:
                raise FormatError(f"a guard names {source.place!r}, which is no argument")
            place = self._inputs[position].place
            sources[name] = Source(place, source.method, source.index)
        texts = {name: str(source) for name, source in sources.items()}
        if self._facts.implies(guard.condition, texts):
            return
        values = {name: self._value(source) for name, source in sources.items()}
        condition = self._body.truth(lower(self._body, guard.condition, values))
        self._body.raise_unless(
            condition, f"the arguments must be such that {_escape_braces(guard.text)}"
        )

    # Values and errors

    def _value(self, source: Source) -> Value:
        known, body = self._sources.get(str(source)), self._body
        if known is not None:
            return known
        leaf = self._leaves[source.place]
        if source.method is None:
            return leaf
        if leaf.type != TENSOR:
            raise FormatError(f"{source.place} is no tensor")
        index = () if source.index is None else (body.integer(source.index),)
        found = self._sources[str(source)] = body.value(f"aten::{source.method}", leaf, *index)
        return found


def _escape_braces(text: str) -> str:
    """Escape braces, which are placeholders in messages."""
    return text.replace("{", "(").replace("}", ")")


def _linear(size: Expression) -> tuple[str, Fraction, int] | None:
    """Return ``(s, a, b)`` for an expression ``a*s + b``; None for others."""
    terms = _parts("Add", size)
    offset = sum(int(term.value) for term in terms if isinstance(term, Number))
    others = [term for term in terms if not isinstance(term, Number)]
    if len(others) != 1:
        return None
    factor = Fraction(1)
    names = []
    for part in _parts("Mul", others[0]):
        if isinstance(part, Number) and isinstance(part.value, int | Fraction):
            factor *= part.value
        elif isinstance(part, Symbol):
            names.append(part.name)
        else:
            return None
    if len(names) != 1 or not factor:
        return None
    return names[0], factor, offset


def _parts(function: str, expression: Expression) -> Sequence[Expression]:
    if isinstance(expression, Operation) and expression.function == function:
        return expression.arguments
    return (expression,)


def _places(parameters: Sequence[Parameter], inputs: Sequence[Input]) -> Iterator[tuple[str, int]]:
    """Yield every text that names a leaf of the arguments, with its index."""
    position = 0
    for index in range(len(inputs)):
        yield f"flat_args[{index}]", index
    for parameter in parameters:
        base, _, number = parameter.name.rpartition("_")
        names = [parameter.name]
        if base and number.isdecimal():  # an item of *xs
            names.append(f"{base}[{number}]")
        for name in names:
            yield from zip(parameter.tree.leaf_places(name), count(position), strict=False)
        position += parameter.tree.leaves
