"""Methods as graphs: straight-line code, or a loop that dispatches to basic blocks.

A tensor of the plan is one object for all calls, which instructions write to, and a move makes two
values the same one. Values rebound by moves and by operators that return numbers keep their content
for the next call, as in the runtime: loops count in them. They are attributes of the module where a
call may read what an earlier one left there.

An operator writes to its planned result memory, through a tensor that keeps its sizes or one that
takes those of the result. Inputs that it might overwrite are copied first; results that might alias
each other are computed apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from tsarchive.errors import ArchiveError, FormatError, PolicyError, UnsupportedError
from tsarchive.formats.executorch.content import RECORD
from tsarchive.formats.executorch.methods import (
    NO_TENSOR,
    BoolList,
    DelegateCall,
    DoubleList,
    Free,
    IndexList,
    IntList,
    KernelCall,
    Method,
    Move,
    OptionalTensorList,
    Shape,
    Span,
    Tensor,
    TensorList,
    ValueList,
)
from tsarchive.formats.executorch.methods import Value as MethodValue
from tsarchive.formats.pt2.building import Body, Operators
from tsarchive.formats.pt2.operators import PUBLIC_FORMS
from tsarchive.ir.classes import Attribute, ClassType, Function
from tsarchive.ir.graph import MAX_TRIP_COUNT, Block, Value
from tsarchive.ir.schema import Argument, FunctionSchema, parse_schema
from tsarchive.ir.subtyping import is_subtype
from tsarchive.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    ListType,
    OptionalType,
    TupleType,
    Type,
    annotation,
)
from tsarchive.policy import Policy

from .instructions import (
    GLUE,
    BasicBlock,
    Call,
    Calls,
    FindOverloads,
    Numbered,
    Step,
    argument_fits,
    basic_blocks,
    instruction_place,
    result_type,
)
from .memory import Names

_TYPES: Final[Mapping[type, Type]] = {
    bool: BOOL, int: INT, float: FLOAT, str: STRING, type(None): NONE, Tensor: TENSOR,
}  # fmt: skip

NUMBERS: Final = frozenset({BOOL, INT, FLOAT})


# The constants count as one range.
_CONSTANT: Final = Span(-1, 0, 1)
# Larger groups of values joined by moves are assumed to alias without comparing them.
_MOST_COMPARED: Final = 100


class Slots:
    """The facts about values that are known statically.

    ``types`` are those of single values. ``rebound`` are the values that are rebound, and ``kept``
    those of them that a call may read before it sets them. Raises FormatError where an instruction
    sets a value to something it cannot hold.
    """

    def __init__(self, method: Method, blocks: Sequence[BasicBlock]) -> None:
        self.values = method.values
        self.types: dict[int, Type] = {
            index: _TYPES[type(value)]
            for index, value in enumerate(self.values)
            if type(value) in _TYPES
        }
        every = [numbered.instruction for block in blocks for numbered in block.instructions]
        self.rebound = frozenset(_rebound(every))
        self._given: set[int] = set()
        for step in every:
            self._type_results(step)
        has_jumps = any(block.condition is not None for block in blocks)
        self.kept = self.rebound if has_jumps else frozenset(self._read_early(method, every))
        self._groups = _groups(every)
        self._taken = frozenset(self._taken_by(every)).union(method.outputs)

    def value(self, index: int) -> MethodValue:
        """Return a value. Raises FormatError when there is none of this number."""
        if not 0 <= index < len(self.values):
            raise FormatError(f"it uses value {index}, which is not there")
        return self.values[index]

    def type_of(self, index: int) -> Type:
        """Return the type of a single value. Raises FormatError for lists."""
        self.value(index)
        found = self.types.get(index)
        if found is None:
            raise FormatError(f"it uses value {index}, which is a list, as a single one")
        return found

    def initial(self, index: int) -> MethodValue:
        """Return a value's content before the first call; None where its readers cannot use it."""
        value = self.value(index)
        return value if _TYPES.get(type(value)) == self.types.get(index) else None

    def is_read(self, index: int) -> bool:
        """Return whether an instruction reads a value, or the method returns it."""
        return index in self._taken

    def items(self, index: int) -> Iterator[int]:
        """Yield a value, or the tensors of a list."""
        value = self.value(index)
        if isinstance(value, TensorList | OptionalTensorList):
            yield from (item for item in value.items if item != NO_TENSOR)
        else:
            yield index

    def overlap(self, one: int, other: int) -> bool:
        """Return whether two tensors may share memory."""
        first, second = (self._groups.get(index, (index,)) for index in (one, other))
        if first is second or len(first) + len(second) > _MOST_COMPARED:
            return True
        spans = list(self._spans(second))
        return any(span.meets(found) for span in self._spans(first) for found in spans)

    def _spans(self, indices: Iterable[int]) -> Iterator[Span]:
        for index in indices:
            value = self.value(index)
            if isinstance(value, Tensor):
                alone = Span(-2 - index, 0, 1)
                yield value.span or (_CONSTANT if value.has_data else alone)

    def _type_results(self, step: Step) -> None:
        if isinstance(step, Move):
            self._set_type(step.target, self.type_of(step.source))
        elif isinstance(step, Call) and step.result is not None:
            operands = [self.types.get(index, NONE) for index in step.args]
            declared = self._element_type(step) or self.type_of(step.result)
            self._set_type(step.result, result_type(step, operands, declared))

    def _element_type(self, call: Call) -> Type | None:
        """Return the type of the number in a tensor, for a call that extracts it."""
        if call.name != "aten::_local_scalar_dense":
            return None
        tensor = self.value(call.args[0])
        if not isinstance(tensor, Tensor):
            return None
        if tensor.dtype == "bool":
            return BOOL
        return FLOAT if "float" in tensor.dtype else INT

    def _set_type(self, index: int, type_: Type) -> None:
        """Set the type of a number or None by its first assignment.

        Writers put the integer 0 where a comparison of sizes, or the item of a tensor, will be
        stored.
        """
        before = self.type_of(index)
        is_first = before in NUMBERS and type_ in NUMBERS and index not in self._given
        if is_first or before == NONE:
            self.types[index] = type_
        elif before != type_:
            holds, given = annotation(before), annotation(type_)
            raise FormatError(f"value {index} holds {holds}, and is given {given}")
        self._given.add(index)

    def _read_early(self, method: Method, steps: Iterable[Step]) -> Iterator[int]:
        """Yield values that a method without jumps reads before it sets them, or never sets."""
        is_set: set[int] = set()
        for step in steps:
            for index in self._reads(step):
                if index in self.rebound and index not in is_set:
                    yield index
            is_set.update(_rebound([step]))

    def _reads(self, step: Step) -> Iterator[int]:
        if isinstance(step, Move):
            yield step.source
        elif isinstance(step, Call):
            for index in step.args:
                yield from self._with_items(index)

    def _taken_by(self, steps: Iterable[Step]) -> Iterator[int]:
        for step in steps:
            if isinstance(step, Call):
                for index in step.taken():
                    yield from self._with_items(index)
            else:
                yield from self._reads(step)

    def _with_items(self, index: int) -> Iterator[int]:
        value = self.value(index)
        if isinstance(value, IndexList):
            yield from value.items
        else:
            yield index


def _rebound(steps: Iterable[Step]) -> Iterator[int]:
    for step in steps:
        if isinstance(step, Move):
            yield step.target
        elif isinstance(step, Call) and step.result is not None:
            yield step.result


def _groups(steps: Iterable[Step]) -> Mapping[int, frozenset[int]]:
    """Map each value that may come to share memory to all others in its group."""
    found: dict[int, set[int]] = {}
    for step in steps:
        for one, other in _shared(step):
            first, second = found.get(one, {one}), found.get(other, {other})
            if first is not second:
                small, large = sorted((first, second), key=len)
                large |= small
                found.update(dict.fromkeys(small, large))
                found.update(dict.fromkeys((one, other), large))
    frozen = {id(group): frozenset(group) for group in found.values()}
    return {index: frozen[id(group)] for index, group in found.items()}


def _shared(step: Step) -> Iterator[tuple[int, int]]:
    if isinstance(step, Move):
        yield step.source, step.target
    elif isinstance(step, Call) and step.is_view:
        yield step.args[0], step.args[-1]


_LESS: Final = parse_schema("aten::lt.int(int a, int b) -> bool")
_CLONE: Final = parse_schema("aten::clone(Tensor self, *, int? memory_format=None) -> Tensor")
_ELEMENTS: Final[Mapping[type, Type]] = {
    IntList: INT, DoubleList: FLOAT, BoolList: BOOL, TensorList: TENSOR,
    OptionalTensorList: OptionalType(TENSOR),
}  # fmt: skip


def append(body: Body, schema: FunctionSchema, *inputs: Value, type_: Type | None = None) -> Value:
    """Append an operator; return its result, None where it has none."""
    outputs = [result.type for result in schema.returns]
    if type_ is not None:
        outputs = [type_]
    node = body.append(schema.name, inputs, *outputs, schema=schema)
    node.has_effects = any(argument.is_write for argument in schema.arguments)
    return node.outputs[0] if outputs else body.none()


def glue(body: Body, name: str, *inputs: Value, type_: Type | None = None) -> Value:
    """Append an operator of our own between those of the file."""
    return append(body, GLUE[f"executorch::{name}"], *inputs, type_=type_)


def _cloned(body: Body, value: Value) -> Value:
    return append(body, _CLONE, value, body.none())


def emit(frame: _GraphBuilder, call: Call) -> None:
    """Append a kernel call. Raises FormatError for arguments of the wrong type."""
    if call.result is not None:
        _number(frame, call, call.result)
    elif call.public_form is not None:
        _Emission(frame, call).public_form(call.public_form)
    elif call.functional is not None:
        _Emission(frame, call).call_functional(call.functional)
    else:
        _Emission(frame, call).call_out()


def _number(frame: _GraphBuilder, call: Call, result: int) -> None:
    values = [argument_of(frame, index, argument) for index, argument in call.pairs()]
    type_ = result_type(call, [value.type for value in values], frame.slots.type_of(result))
    if call.name == "aten::_local_scalar_dense":
        kind = frame.body.string(annotation(type_))
        frame.write(result, glue(frame.body, "item", values[0], kind, type_=type_))
        return
    frame.write(result, append(frame.body, call.schema, *values, type_=type_))


class _Emission:
    """One call that writes to tensors. ``after`` are the nodes that follow it."""

    def __init__(self, frame: _GraphBuilder, call: Call) -> None:
        self._frame = frame
        self._body = frame.body
        self._call = call
        self._after: list[Callable[[], Any]] = []
        slots = frame.slots
        self._written = [item for index in call.written() for item in slots.items(index)]
        self._is_apart = any(
            one == other or slots.overlap(one, other)
            for position, one in enumerate(self._written)
            for other in self._written[:position]
        )

    def call_out(self) -> None:
        """Call the operator itself, with its results in their planned memory."""
        schema = self._call.schema
        values = [self._given(index, argument) for index, argument in self._call.pairs()]
        if self._call.is_view:
            schema = GLUE["executorch_prim::et_view"]
            fixed = self._body.constant(self._is_fixed(self._call.args[-1]), BOOL)
            values.insert(-1, fixed)
        outputs = [result.type for result in schema.returns]
        node = self._body.append(schema.name, values, *outputs, schema=schema)
        node.has_effects = True
        for follow in self._after:
            follow()

    def public_form(self, step: str) -> None:
        """Call the public operator of an internal one, and copy its results into their memory."""
        given = {a.name: self._given(i, a) for i, a in self._call.pairs() if not a.is_out}
        results = PUBLIC_FORMS[step](self._body, given)
        for index, result in zip(self._call.outs(), results, strict=False):
            if result.type == TENSOR:
                glue(self._body, "store", self._place(index), result)
            elif self._frame.slots.is_read(index):
                raise UnsupportedError(f"{self._call.name} does not compute value {index} here")
        for follow in self._after:
            follow()

    def call_functional(self, schema: FunctionSchema) -> None:
        """Call the functional overload, and copy its results into their memory."""
        pairs = self._call.pairs()
        values = [argument_of(self._frame, i, a) for i, a in pairs if not a.is_out]
        made = append(self._body, schema, *values)
        (index,) = self._call.outs()
        places = [self._place(item) for item in self._frame.slots.items(index)]
        glue(self._body, "store_all", self._body.list_of(TENSOR, places), made)

    def _given(self, index: int, argument: Argument) -> Value:
        if not argument.is_write:
            return argument_of(self._frame, index, argument, self._copied)
        if isinstance(self._frame.slots.value(index), TensorList):
            items = [self._target(item, argument) for item in self._frame.slots.items(index)]
            return self._body.list_of(TENSOR, items)
        return self._target(index, argument)

    def _copied(self, index: int, value: Value) -> Value:
        """Copy an argument if the operator might overwrite it."""
        slots = self._frame.slots
        is_at_risk = any(index == out or slots.overlap(index, out) for out in self._written)
        return _cloned(self._body, value) if is_at_risk and not self._call.is_view else value

    def _slot(self, index: int) -> Value:
        if not isinstance(self._frame.slots.value(index), Tensor):
            raise FormatError(f"{self._call.name} writes to value {index}, which is no tensor")
        return self._frame.read(index)

    def _place(self, index: int) -> Value:
        """Return the tensor to copy a result to, which resizes only if its slot may."""
        slot = self._slot(index)
        return glue(self._body, "fixed", slot) if self._is_fixed(index) else slot

    def _is_fixed(self, index: int) -> bool:
        value = self._frame.slots.value(index)
        return isinstance(value, Tensor) and value.dynamism == Shape.STATIC

    def _target(self, index: int, argument: Argument) -> Value:
        """Return the tensor that the operator writes to."""
        slot, body = self._slot(index), self._body
        is_own = self._call.is_own
        if self._is_apart and not is_own:
            apart = glue(body, "apart", slot) if argument.is_out else _cloned(body, slot)
            self._after.append(lambda: glue(body, "store", self._place(index), apart))
            return apart
        if self._call.is_view:
            return slot
        if is_own or not argument.is_out:
            is_slot = is_own and not self._is_fixed(index)
            return slot if is_slot else glue(body, "fixed", slot)
        made = glue(body, "bounded", slot)
        is_fixed = body.constant(self._is_fixed(index), BOOL)
        self._after.append(lambda: glue(body, "adopt", slot, made, is_fixed))
        return made


Copy = Callable[[int, Value], Value]


def argument_of(
    frame: _GraphBuilder, index: int, argument: Argument, copied: Copy = lambda _, value: value
) -> Value:
    """Return the value of an argument; ``copied`` may substitute a tensor.

    Raises FormatError for one of another type.
    """
    value = frame.slots.value(index)
    wanted = argument.type
    if isinstance(value, ValueList):
        found = _list(frame, value, wanted, copied)
    else:
        found = _item(frame, index, copied)
    if not (is_subtype(found.type, wanted) or argument_fits(found.type, argument)):
        shown, given = annotation(wanted), annotation(found.type)
        message = f"the argument {argument.name} is {shown}, and value {index} is {given}"
        raise FormatError(message)
    return found


def _list(frame: _GraphBuilder, value: ValueList, wanted: Type, copied: Copy) -> Value:
    body = frame.body
    element = _ELEMENTS[type(value)]
    if not isinstance(value, IndexList):
        return body.list_of(element, [body.constant(item, element) for item in value.items])
    inner = wanted.element if isinstance(wanted, OptionalType) else wanted
    if isinstance(inner, ListType) and inner.element in (OptionalType(TENSOR), NUMBER):
        element = inner.element
    items = [_item(frame, item, copied) for item in value.items]
    return body.list_of(element, items)


def _item(frame: _GraphBuilder, index: int, copied: Copy) -> Value:
    if index == NO_TENSOR:
        return frame.body.none()
    found = frame.read(index)
    return copied(index, found) if found.type == TENSOR else found


def tensor_inputs(method: Method) -> list[int]:
    """Return the inputs that are tensors; the others are fixed when a program is exported."""
    for index in method.inputs:
        if not 0 <= index < len(method.values):
            message = f"method {method.name!r}: value {index} is not there"
            raise FormatError(message, record=RECORD)
    return [index for index in method.inputs if isinstance(method.values[index], Tensor)]


def function_of(
    owner: ClassType, method: Method, result: Type, define: Callable[[], Block]
) -> Function:
    """Return the function of a method; ``define`` makes its graph on first use."""
    given = [Argument(f"input_{number}", TENSOR) for number in range(len(tensor_inputs(method)))]
    arguments = (Argument("self", owner), *given)
    schema = FunctionSchema(method.name, "", arguments, (Argument("", result),))
    return Function(f"{owner.qualified_name}.{method.name}", schema, define)


class MethodGraph:
    """The graph of a method, built on first use.

    ``find`` gives the overloads of an operator. Building raises FormatError where an instruction
    breaks a rule, UnknownOperatorError for an operator that is not registered, UnsupportedError for
    a part that only a backend can run, PolicyError for a forbidden backend.
    """

    def __init__(
        self,
        method: Method,
        names: Names,
        owner: ClassType,
        find: FindOverloads,
        policy: Policy,
    ) -> None:
        self.method = method
        self._policy = policy
        self._names = names
        self._owner = owner
        self.find = find
        with _locate_errors(method.name):
            calls = Calls(method, find)
            self.blocks = [
                replace(block, instructions=tuple(self._steps(calls, block.instructions)))
                for block in basic_blocks(method)
            ]
            self.slots = Slots(method, self.blocks)
            self._results = [self.slots.type_of(index) for index in method.outputs]

    def attributes(self) -> Iterator[Attribute]:
        """Yield the attributes that the method needs besides buffers."""
        yield Attribute(self._names.tensors, ListType(TENSOR))
        for index in sorted(self.slots.kept):
            yield Attribute(self._names.kept(index), self.slots.type_of(index))

    def function(self) -> Function:
        return function_of(self._owner, self.method, _joined(self._results), self._graph)

    def _steps(self, calls: Calls, instructions: Iterable[Numbered]) -> Iterator[Numbered]:
        """Yield instructions with each call of a kernel resolved."""
        for numbered in instructions:
            instruction = numbered.instruction
            with _locate_errors(self.method.name, numbered):
                if isinstance(instruction, DelegateCall):
                    raise self._delegated(instruction)
                if isinstance(instruction, KernelCall):
                    numbered = replace(numbered, instruction=calls.call(instruction))
            yield numbered

    def _delegated(self, call: DelegateCall) -> ArchiveError:
        delegates = self.method.delegates
        if not 0 <= call.delegate < len(delegates):
            return FormatError(f"it calls delegate {call.delegate}, which is not there")
        backend = delegates[call.delegate].backend
        name = f"delegate::{backend}"
        row = self._policy.refusal(name)
        if row is not None:
            return PolicyError(
                f"the backend {backend} runs a part of it, which the policy refuses: {row.reason}",
                operator=name,
                hint=f'If you trust the file with that: policy.allow("{name}")',
            )
        return UnsupportedError(
            f"the backend {backend} runs a part of it, and none is here",
            hint='pip install "tsarchive[executorch]" brings the runtime that has it',
        )

    def _graph(self) -> Block:
        with _locate_errors(self.method.name):
            return _GraphBuilder(self._owner, self._names, self).graph()


def _joined(types: Sequence[Type]) -> Type:
    """Return the type of a result of several values."""
    if len(types) == 1:
        return types[0]
    return TupleType(tuple(types)) if types else NONE


class _GraphBuilder:
    """Builds the graph of a method. ``body`` appends to the current block."""

    def __init__(self, owner: ClassType, names: Names, source: MethodGraph) -> None:
        self._source = source
        self._names = names
        self._block = Block()
        self.slots = source.slots
        self.body = Body(self._block, Operators(source.find))
        self._self = self._block.add_param(owner, "self")
        self._tensors: dict[int, Value] = {}
        self._now: dict[int, Value] = {}

    def graph(self) -> Block:
        method = self._source.method
        inputs = tensor_inputs(method)
        given = [self._block.add_param(TENSOR, f"input_{n}") for n in range(len(inputs))]
        self._name_tensors()
        for index, value in zip(inputs, given, strict=True):
            tensor = self.slots.value(index)
            assert isinstance(tensor, Tensor)
            order = self.body.list_of(INT, [self.body.integer(dim) for dim in tensor.dim_order])
            glue(self.body, "give", self.read(index), value, order)
        if any(block.condition is not None for block in self._source.blocks):
            self._loop()
        else:
            for number in range(len(self._source.blocks)):
                self._instructions(number)
        self._block.add_return(self._result())
        return self._block

    def read(self, index: int) -> Value:
        """Return the content of a single value at this point."""
        type_ = self.slots.type_of(index)
        if index in self.slots.rebound:
            found = self._now.get(index)
            if found is None and index in self.slots.kept:
                found = self._now[index] = self._attribute(self._names.kept(index), type_)
            if found is not None:
                return found
        if type_ == TENSOR:
            return self._tensors[index]
        return self.body.constant(self.slots.value(index), type_)

    def write(self, index: int, value: Value) -> None:
        """Rebind a value, also for later calls if they may read it."""
        self._now[index] = value
        if index in self.slots.kept:
            name = self._names.kept(index)
            self.body.append("prim::SetAttr", [self._self, value], name=name)

    def _attribute(self, name: str, type_: Type) -> Value:
        return self.body.append("prim::GetAttr", [self._self], type_, name=name).output

    def _name_tensors(self) -> None:
        if self._names.planned:
            held = self._attribute(self._names.tensors, ListType(TENSOR))
            tensors = self.body.unpacked(held, len(self._names.planned))
            self._tensors.update(zip(self._names.planned, tensors, strict=True))
        named: dict[str, Value] = {}
        for index, name in self._names.constants.items():
            if name not in named:
                named[name] = self._attribute(name, TENSOR)
            self._tensors[index] = named[name]

    def _result(self) -> Value:
        outputs = self._source.method.outputs
        values = map(self.read, outputs)
        results = [glue(self.body, "take", v) if v.type == TENSOR else v for v in values]
        if len(results) == 1:
            return results[0]
        if not results:
            return self.body.none()
        type_ = _joined([result.type for result in results])
        return self.body.append("prim::TupleConstruct", results, type_).output

    def _instructions(self, number: int) -> None:
        for numbered in self._source.blocks[number].instructions:
            self.body.place = instruction_place(self._source.method, numbered)
            with _locate_errors(self._source.method.name, numbered):
                self._step(numbered.instruction)
        self.body.place = None

    def _step(self, step: Step) -> None:
        if isinstance(step, Call):
            emit(self, step)
        elif isinstance(step, Move):
            self.write(step.target, self.read(step.source))
        else:
            assert isinstance(step, Free)  # planned memory is never freed

    # Jumps

    def _loop(self) -> None:
        """Emit a loop that runs blocks from the first on, until the end is next."""
        body, zero = self.body, self.body.integer(0)
        count, proceed = body.integer(MAX_TRIP_COUNT), body.constant(True, BOOL)
        loop = body.append("prim::Loop", [count, proceed, zero, zero], INT, INT)
        inner = loop.add_block()
        inner.add_param(INT, "turn")
        current, done = inner.add_param(INT, "block"), inner.add_param(INT, "done")
        with self._inside(inner):
            following, done = self._dispatched(current, done, 0, len(self._source.blocks))
            end = self.body.integer(len(self._source.blocks))
            proceed = append(self.body, _LESS, following, end)
        for value in (proceed, following, done):
            inner.add_return(value)
        self._now = {}

    def _dispatched(self, current: Value, done: Value, low: int, high: int) -> tuple[Value, Value]:
        """Dispatch by binary search to a block in a range; return the next block, and the count."""
        if high - low == 1:
            return self._run(done, low)
        middle = (low + high) // 2
        is_first = append(self.body, _LESS, current, self.body.integer(middle))
        choice = self.body.append("prim::If", [is_first], INT, INT)
        for begin, end in ((low, middle), (middle, high)):
            branch = choice.add_block()
            with self._inside(branch):
                for value in self._dispatched(current, done, begin, end):
                    branch.add_return(value)
        return choice.outputs[0], choice.outputs[1]

    def _run(self, done: Value, number: int) -> tuple[Value, Value]:
        block = self._source.blocks[number]
        jumps = int(block.condition is not None)
        more = self.body.integer(len(block.instructions) + jumps)
        done = glue(self.body, "count", done, more)
        self._instructions(number)
        following = self.body.integer(block.following)
        if block.condition is None:
            return following, done
        condition = self._condition(block.condition)
        choice = self.body.append("prim::If", [condition], INT)
        for target in (block.following, block.otherwise):
            branch = choice.add_block()
            branch.add_return(self.body.inside(branch).integer(target))
        return choice.output, done

    def _condition(self, index: int) -> Value:
        value = self.read(index)
        if value.type == TENSOR:
            return glue(self.body, "holds", value)
        if value.type != BOOL:
            raise FormatError(f"it jumps by value {index}, which is no bool")
        return value

    @contextmanager
    def _inside(self, block: Block) -> Iterator[None]:
        """Append to a nested block; values that are set there are unknown outside it."""
        body, now = self.body, self._now
        self.body, self._now = body.inside(block), {}
        yield
        self.body, self._now = body, now


@contextmanager
def _locate_errors(method: str, numbered: Numbered | None = None) -> Iterator[None]:
    """Add the method and the instruction to errors."""
    try:
        yield
    except ArchiveError as error:
        if error.record is None:
            where = "" if numbered is None else f", {numbered.place}"
            error.message = f"method {method!r}{where}: {error.message}"
            error.record = RECORD
        raise
