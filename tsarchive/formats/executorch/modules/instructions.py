"""Instructions of a method: kernel calls resolved to schemas, basic blocks, source locations.

Arguments are in the order of the schema, including those that are written to. They are followed by
the value that receives the result: one of them, except for operators that return numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

from tsarchive.errors import FormatError, UnsupportedError
from tsarchive.formats.executorch.content import RECORD
from tsarchive.formats.executorch.methods import (
    Instruction,
    JumpFalse,
    KernelCall,
    Method,
    Operator,
)
from tsarchive.formats.pt2.building import Operators
from tsarchive.formats.pt2.metadata import ProgramPlace
from tsarchive.formats.pt2.operators import PUBLIC_FORMS
from tsarchive.ir.schema import Argument, FunctionSchema, parse_schema
from tsarchive.ir.source_ranges import Range, Source, byte_length
from tsarchive.ir.types import BOOL, FLOAT, INT, NUMBER, TENSOR, ListType, Type
from tsarchive.run.natives.table import N, native

FindOverloads = Callable[[str], Sequence[FunctionSchema]]


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel call. ``args`` are indices of values, one for each argument of the schema.

    ``result`` is the value that receives a returned number. ``public_form`` names the internal
    operator that a public one replaces. ``functional`` is the overload that allocates its results,
    for an operator that returns a list: many of these do not resize the tensors they are given.
    """

    name: str
    schema: FunctionSchema
    args: tuple[int, ...]
    result: int | None = None
    public_form: str | None = None
    functional: FunctionSchema | None = None

    @property
    def is_own(self) -> bool:
        """True if the operator is implemented here for ExecuTorch alone."""
        return self.name in OWN

    @property
    def is_view(self) -> bool:
        """True if it makes its result a view of an argument, without writing to memory."""
        return self.name == "executorch_prim::et_view.default"

    def written(self) -> list[int]:
        """The values that are written to, including lists."""
        return [index for index, argument in self.pairs() if argument.is_write]

    def taken(self) -> list[int]:
        """The values that are inputs, rather than only ``out`` arguments."""
        return [index for index, argument in self.pairs() if not argument.is_out]

    def outs(self) -> list[int]:
        """The ``out`` arguments."""
        return [index for index, argument in self.pairs() if argument.is_out]

    def pairs(self) -> Iterator[tuple[int, Argument]]:
        """Yield each value with its argument of the schema."""
        return zip(self.args, self.schema.arguments, strict=True)


Step = Call | Instruction
"""An instruction, resolved to a Call where it calls an operator."""


class Calls:
    """Resolves the operators of one method. ``find`` gives the overloads of a name."""

    def __init__(self, method: Method, find: FindOverloads) -> None:
        self._method = method
        self._find = find
        self._schema = cache(self._found)

    def call(self, kernel: KernelCall) -> Call:
        """Resolve a kernel call.

        Raises UnknownOperatorError for an operator that is not registered in this process,
        FormatError for a wrong number of arguments.
        """
        operators = self._method.operators
        if not 0 <= kernel.operator < len(operators):
            raise FormatError(f"it calls operator {kernel.operator}, which is not there")
        operator = operators[kernel.operator]
        schema = self._schema(operator)
        name, count = operator.qualified_name, len(schema.arguments)
        is_out = any(argument.is_write for argument in schema.arguments)
        if len(kernel.args) != count + 1 and not (is_out and len(kernel.args) == count):
            raise FormatError(f"{name} has {len(kernel.args)} arguments, and takes {count + 1}")
        if is_out:
            args, form = kernel.args[:count], self._public_form(schema)
            return Call(name, schema, args, None, form, self._functional(schema))
        if len(schema.returns) != 1 or schema.returns[0].type not in _NUMBERS:
            message = f"{name} makes a result of its own, which no value has memory for"
            raise UnsupportedError(message)
        return Call(name, schema, kernel.args[:count], kernel.args[count])

    def _functional(self, schema: FunctionSchema) -> FunctionSchema | None:
        if [argument.type for argument in schema.arguments if argument.is_out] != [TENSORS]:
            return None
        found = self._without_outs(schema)
        is_list = found is not None and [result.type for result in found.returns] == [TENSORS]
        return found if is_list else None

    def _public_form(self, schema: FunctionSchema) -> str | None:
        """Return the internal operator behind an ``out`` overload that has a public replacement."""
        if schema.name not in _STEPS:
            return None
        found = self._without_outs(schema)
        return None if found is None or found.full_name not in PUBLIC_FORMS else found.full_name

    def _without_outs(self, schema: FunctionSchema) -> FunctionSchema | None:
        """Return the overload with the same inputs that allocates its results."""
        taken = [(a.name, a.type) for a in schema.arguments if not a.is_out]
        for found in self._find(schema.name):
            if [(a.name, a.type) for a in found.arguments] == taken and found is not schema:
                return found
        return None

    def _found(self, operator: Operator) -> FunctionSchema:
        own = OWN.get(operator.qualified_name)
        return own or Operators(self._find).overload(operator.name, operator.overload)


TENSORS: Final = ListType(TENSOR)
_STEPS: Final = frozenset(step.partition(".")[0] for step in PUBLIC_FORMS)
_NUMBERS: Final = frozenset({INT, FLOAT, BOOL, NUMBER})


def result_type(call: Call, operands: Sequence[Type], declared: Type) -> Type:
    """Return the type of the number that a call returns; ``declared`` is that of its value."""
    type_ = call.schema.returns[0].type
    if type_ != NUMBER:
        return type_
    given = [kind for kind in operands if kind in (INT, FLOAT)]
    if not given:
        return declared  # the number in a tensor
    return FLOAT if FLOAT in given else INT


def argument_fits(given: Type, argument: Argument) -> bool:
    """Return whether torch converts a number of this type implicitly."""
    return given in (INT, BOOL) and argument.type in _NUMBERS - {BOOL}


@dataclass(frozen=True, slots=True)
class Numbered:
    """An instruction with its index in its chain."""

    chain: int
    index: int
    instruction: Step

    @property
    def place(self) -> str:
        """The instruction's name in errors, for methods with a single chain, as all have."""
        return f"instruction {self.index}" + (f" of chain {self.chain}" if self.chain else "")


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions without jumps between them.

    The block ``following`` runs next, or the block ``otherwise`` where the value ``condition`` is
    false; the number of blocks stands for the end of the method.
    """

    instructions: tuple[Numbered, ...]
    following: int
    condition: int | None = None
    otherwise: int = 0


def basic_blocks(method: Method) -> tuple[BasicBlock, ...]:
    """Return the blocks of all chains, which run one after the other.

    Raises FormatError for a method without a chain, and for a jump beyond the end of its chain.
    """
    if not method.chains:
        raise FormatError(f"method {method.name!r}: it has no chain of instructions")
    instructions = tuple(
        Numbered(number, index, instruction)
        for number, chain in enumerate(method.chains)
        for index, instruction in enumerate(chain.instructions)
    )
    targets = dict(_targets(method, instructions))
    starts = {0, len(instructions), *targets.values(), *(at + 1 for at in targets)}
    ordered = sorted(starts)
    numbers = {start: number for number, start in enumerate(ordered)}
    return tuple(
        _block(instructions, begin, end, targets, numbers) for begin, end in pairwise(ordered)
    )


def _block(
    instructions: tuple[Numbered, ...],
    begin: int,
    end: int,
    targets: dict[int, int],
    numbers: dict[int, int],
) -> BasicBlock:
    last = instructions[end - 1].instruction
    if not isinstance(last, JumpFalse):
        return BasicBlock(instructions[begin:end], numbers[end])
    inner, otherwise = instructions[begin : end - 1], numbers[targets[end - 1]]
    return BasicBlock(inner, numbers[end], last.condition, otherwise)


def _targets(method: Method, instructions: tuple[Numbered, ...]) -> Iterator[tuple[int, int]]:
    """Yield (jump, target), both counted from the first instruction of the first chain."""
    for at, numbered in enumerate(instructions):
        jump = numbered.instruction
        if isinstance(jump, JumpFalse):
            target = jump.destination
            if not 0 <= target <= len(method.chains[numbered.chain].instructions):
                place = f"instruction {numbered.index}"
                message = f"{place} jumps to {target}, behind the end of its chain"
                raise FormatError(f"method {method.name!r}: {message}")
            yield at, at - numbered.index + target


def instruction_place(method: Method, numbered: Numbered) -> ProgramPlace:
    """Return the location of an instruction of a method."""
    frames = method.chains[numbered.chain].frames
    stack = frames[numbered.index] if numbered.index < len(frames) else ()
    found = None
    if stack:
        frame = stack[-1]
        shown = frame.context.strip() or frame.file
        found = Range(Source(shown, frame.file, frame.line), 0, byte_length(shown))
    return ProgramPlace(f"{RECORD}: {method.name}, {numbered.place}", found)


# The schemas of the operators that programs of ExecuTorch have and torch lacks.
OWN: Final[dict[str, FunctionSchema]] = {
    # torch has these under other names.
    "aten::sym_size.int": parse_schema("aten::size.int(Tensor self, int dim) -> int"),
    "aten::sym_stride.int": parse_schema("aten::stride.int(Tensor self, int dim) -> int"),
    "aten::sym_numel": parse_schema("aten::numel(Tensor self) -> int"),
    "aten::_local_scalar_dense": parse_schema("aten::_local_scalar_dense(Tensor self) -> Scalar"),
    # Its function is that of ``executorch_prim::et_view`` in GLUE, which takes one argument more.
    "executorch_prim::et_view.default": parse_schema(
        "executorch_prim::et_view.default(Tensor(b) self, int[] size, Tensor(a!) out) -> Tensor(a!)"
    ),
}
# Those that graphs of methods put between them, and that no file can name.
GLUE: Final[dict[str, FunctionSchema]] = {}


def own(*schemas: str) -> Callable[[N], N]:
    """Register the decorated function for operators that programs call, by their schemas."""
    return _into(OWN, schemas)


def glue(schema: str) -> Callable[[N], N]:
    """Register the decorated function for an operator that graphs of methods alone call."""
    return _into(GLUE, (schema,))


def _into(table: dict[str, FunctionSchema], texts: tuple[str, ...]) -> Callable[[N], N]:
    schemas = {schema.full_name: schema for schema in map(parse_schema, texts)}
    table |= schemas
    return native(*schemas)
