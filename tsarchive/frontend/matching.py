"""Arguments of a call against the schemas it may mean, and the choice among overloads.

The choice looks at static types only; the conversions that a match needs are returned as
steps, and turned into nodes by :class:`Conversions` once the choice is made. The rules are those of
torch's schema matcher.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tsarchive.errors import UnknownOperatorError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.constants import Device, EnumMember, is_device
from tsarchive.ir.graph import Node, Value
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.subtyping import (
    Bindings,
    bind,
    fits_list,
    has_unknown,
    has_variables,
    is_subtype,
    substitute,
)
from tsarchive.ir.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    UNKNOWN,
    ListType,
    OptionalType,
    SimpleType,
    TupleType,
    Type,
    UnionType,
    VarType,
    annotation,
)
from tsarchive.ir.values import Builder
from tsarchive.operators.libraries import last_with, unregistered
from tsarchive.operators.removed import TRIED_FIRST, removed
from tsarchive.operators.upgraders import ANY_AGE, Age, Candidate, candidates, of_version

from .places import filled
from .references import Typed, typed


class Step(NamedTuple):
    """One conversion of an argument into ``type``.

    ``kind`` is the operator that converts, or: ``retype`` (an empty list literal), ``repeat``
    (a scalar, ``times`` times, for a broadcasting list), ``unpack`` (a tuple into a list),
    ``elements`` (``parts`` holds the steps for each element of a tuple).
    """

    kind: str
    type: Type
    times: int = 0
    parts: tuple[tuple[Step, ...], ...] = ()


class Input(NamedTuple):
    """One input of the node: its source, and what to do with it.

    The source is the position of an argument of the call, or the argument of the schema that the
    call leaves out. A tuple of inputs is gathered into a list of ``element`` type.
    """

    source: int | Argument | tuple[Input, ...]
    steps: tuple[Step, ...] = ()
    element: Type | None = None


class Match(NamedTuple):
    """The inputs and result types of a node; ``written`` is how many arguments, of those before
    ``out``, the call spells out. It is 0 where a call has more arguments than the schema."""

    inputs: list[Input]
    returns: list[Type]
    written: int


class Plan(NamedTuple):
    """What a call of an operator with positional arguments of certain types becomes: a node with
    these inputs and then constants, the ``defaults``.

    ``last_default`` is the default of the last argument that is given, or NO_DEFAULT.
    """

    schema: FunctionSchema
    defaults: tuple[Argument, ...]
    result: Type
    last_default: Any


class Mismatch(NamedTuple):
    """Why a schema does not fit; ``parts`` fill the places of ``text``."""

    text: str
    parts: tuple[object, ...] = ()

    def __str__(self) -> str:
        return filled(self.text, self.parts)


# torch keeps these overloads out of scripts: an int cannot be told from a dtype there.
BLOCKED = frozenset({"aten::view.dtype", "aten::max.unary_out", "aten::min.unary_out"})

_FROM_TENSOR = {
    FLOAT: "aten::FloatImplicit", INT: "aten::IntImplicit", COMPLEX: "aten::ComplexImplicit",
    NUMBER: "aten::ScalarImplicit",
}  # fmt: skip
_IMPLICIT: dict[Type, dict[Type, str]] = {
    TENSOR: _FROM_TENSOR,  # type: ignore[dict-item]
    NUMBER: {FLOAT: "aten::Float", INT: "aten::Int", COMPLEX: "aten::Complex"},
    BOOL: {FLOAT: "aten::Float", INT: "aten::Int", NUMBER: "aten::Int"},
    STRING: {DEVICE: "aten::device"},
}


_NOWHERE: Final = Node("prim::Uninitialized")


class Call:
    """The arguments of one call, as written: positional, by keyword, and ``self``.

    ``values`` are all of them, in this order; :class:`Input` counts in it.
    """

    __slots__ = ("keywords", "positional", "target", "values")

    def __init__(
        self,
        positional: Sequence[Typed],
        keywords: Mapping[str, Typed] = MappingProxyType({}),
        target: Typed | None = None,
    ) -> None:
        self.positional = positional
        self.keywords = keywords
        self.target = target
        self.values = [*positional, *keywords.values()]
        if target is not None:
            self.values.append(target)

    @property
    def shape(self) -> Hashable:
        """The key that decides the choice among overloads; None where types are not short."""
        for _, type_, _ in self.values:
            if type(type_) is not SimpleType:
                inner = type_.element if isinstance(type_, ListType | OptionalType) else type_
                if type(inner) is not SimpleType:
                    return None
        return self.types

    @property
    def types(self) -> Hashable:
        """The types of all arguments, and how they are given."""
        types = [value[1:] for value in self.values]
        return (*types, len(self.positional), *self.keywords)

    def of_types(self) -> Call:
        """Return a call with values of the same types, which belong to no program."""
        return self.with_values(
            [value._replace(value=Value(_NOWHERE, value.type)) for value in self.values]
        )

    def with_values(self, given: Sequence[Typed]) -> Call:
        """Return a call with other values in the places of these."""
        count = len(self.positional)
        keywords = dict(zip(self.keywords, given[count:], strict=False))
        return Call(given[:count], keywords, None if self.target is None else given[-1])

    def select(self, candidates: Sequence[Candidate]) -> tuple[Candidate, Match] | list[Mismatch]:
        """Return the first match: without implicit conversions if there is one, else with them.

        When none fits, the reasons, one for each candidate.
        """
        mismatches: list[Mismatch] = []
        for convert in (True,) if len(candidates) == 1 else (False, True):
            mismatches.clear()
            for candidate in candidates:
                if candidate.schema.full_name in BLOCKED:
                    mismatches.append(Mismatch("this overload is not available to scripts"))
                    continue
                found = self.match(candidate.schema, convert=convert)
                if isinstance(found, Match):
                    return candidate, found
                mismatches.append(found)
        return mismatches

    def match(self, schema: FunctionSchema, *, convert: bool) -> Match | Mismatch:
        return _Matcher(self, schema, convert).run()


class Question(NamedTuple):
    """A call of which was asked what it means in code of an archive version."""

    kind: str
    version: int | None
    call: Call


class Overloads:
    """The overloads of operators, and which of them calls mean.

    ``operators`` gives the overloads of an operator kind in the order of selection, ``age``
    what of old and new archives they are chosen by. ``asked`` keeps the calls that were asked for,
    one for each kind, version and types, where it is a dict.
    """

    def __init__(
        self,
        operators: Callable[[str], Sequence[FunctionSchema]],
        age: Age = ANY_AGE,
    ) -> None:
        self._operators = operators
        self.age = age
        self.asked: dict[Hashable, Question] | None = None
        self._candidates: dict[tuple[str, int | None], tuple[Candidate, ...]] = {}
        self._chosen: dict[Hashable, tuple[Candidate, Match]] = {}
        self._plans: dict[int | None, dict[Hashable, Plan | None]] = {}

    def plans(self, version: int | None) -> dict[Hashable, Plan | None]:
        """Return the plans of calls in code of an archive version, by operators and types.

        None stands for calls that have none.
        """
        return self._plans.setdefault(version, {})

    def choose(self, kind: str, version: int | None, call: Call) -> tuple[Candidate, Match]:
        """Return the overload that a call means in code of an archive version.

        Calls of one shape mean the same. Raises UnknownOperatorError where none fits.
        """
        shape = call.shape
        if shape is None:
            return self._select(kind, version, call)
        key = kind, version, shape
        found = self._chosen.get(key)
        if found is None:
            found = self._chosen[key] = self._select(kind, version, call)
        return found

    def _select(self, kind: str, version: int | None, call: Call) -> tuple[Candidate, Match]:
        if self.asked is not None:
            question = Question(kind, version, call.of_types())
            self.asked.setdefault((kind, version, question.call.types), question)
        key = kind, version
        known = self._candidates.get(key)
        if known is None:
            known = self._candidates[key] = candidates(self._operators(kind), version, self.age)
        if kind in TRIED_FIRST and self.age.revives:
            written = len(call.values)
            old = [c for c in removed(kind) if len(c.schema.arguments) == written]
            found = call.select(old)
            if isinstance(found, tuple):
                return found
        found = call.select(known)
        return found if isinstance(found, tuple) else self._select_removed(key, found, call)

    def _select_removed(
        self, key: tuple[str, int | None], mismatches: list[Mismatch], call: Call
    ) -> tuple[Candidate, Match]:
        """Return the overload that a call of an older torch means."""
        (kind, version), known = key, self._candidates[key]
        old = of_version(removed(kind), version) if self.age.revives else ()
        if not (known or old):
            raise unregistered(kind)
        found = call.select(old)
        if not isinstance(found, list):
            return found
        by_tensors = _select_by_tensors((*known, *old), call)
        if by_tensors is not None:
            return by_tensors
        reasons = no_overload(kind, (*known, *old), (*mismatches, *found), call)
        raise UnknownOperatorError.of(kind, reasons)


_PACKED: Final = f"{NATIVE_PREFIX}quantized."


def is_packed(type_: Type) -> bool:
    """Return whether a type is that of packed weights, a class bound from C++."""
    return isinstance(type_, ClassType) and type_.qualified_name.startswith(_PACKED)


def _select_by_tensors(known: Sequence[Candidate], call: Call) -> tuple[Candidate, Match] | None:
    """Return the match that packed weights have as tensors, on both sides.

    In code of torch 1.3 to 1.5 they were tensors; the canonical form has no version of its own for
    it. torch 2.13 refuses such code.
    """
    given = [value._replace(type=_as_tensor(value.type)) for value in call.values]
    like = [_with_tensors(candidate) for candidate in known]
    found = call.with_values(given).select(like)
    if isinstance(found, list):
        return None
    return known[like.index(found[0])], found[1]


def _with_tensors(candidate: Candidate) -> Candidate:
    schema = candidate.schema
    arguments = tuple(a._replace(type=_as_tensor(a.type)) for a in schema.arguments)
    return candidate._replace(schema=schema._replace(arguments=arguments))


def _as_tensor(type_: Type) -> Type:
    return TENSOR if is_packed(type_) else type_


def refused(candidate: Candidate) -> UnknownOperatorError:
    """Return the error for an overload that torch removed, and nothing stands for."""
    kind = candidate.schema.full_name
    message = f"torch has the operator {kind} no more, and nothing stands for it: "
    hint = last_with(candidate.schema)
    error = UnknownOperatorError.of(kind, message + candidate.refusal, hint=hint)
    error.is_removed = True
    return error


class _Matcher:
    def __init__(self, call: Call, schema: FunctionSchema, convert: bool) -> None:
        self.values = call.values
        self.count = len(call.positional)
        self.keywords = {name: place for place, name in enumerate(call.keywords, self.count)}
        self.schema = schema
        self.convert = convert
        self.bindings: Bindings = {}
        self.next_positional = 0
        self.used: set[str] = set()
        self.target = None if call.target is None else len(call.values) - 1

    def run(self) -> Match | Mismatch:
        inputs: list[Input] = []
        for index in range(len(self.schema.arguments)):
            found = self._argument(index)
            if isinstance(found, Mismatch):
                return found
            inputs.append(found)
        written = _written(self.schema, inputs)
        rest = range(self.next_positional, self.count)
        if rest and not self.schema.is_vararg:
            counts = (self.next_positional, self.count)
            return Mismatch("takes {} positional arguments, not {}", counts)
        inputs += map(Input, rest)
        for name in [name for name in self.keywords if name not in self.used]:
            is_known = any(argument.name == name for argument in self.schema.arguments)
            what = "is given twice" if is_known else "is unknown"
            return Mismatch("keyword argument '{}' {}", (name, what))
        returns: list[Type] = []
        for result in self.schema.returns:
            bound = substitute(result.type, self.bindings)
            if bound is None:
                return Mismatch("its result type {} cannot be inferred", (result.type,))
            returns.append(bound)
        return Match(inputs, returns, 0 if rest else written)

    def _argument(self, index: int) -> Input | Mismatch:
        argument = self.schema.arguments[index]
        if argument.name == "self" and self.target is not None:
            place, self.target = self.target, None
            return self._fit(argument, place)
        if not argument.kwarg_only and self.next_positional < self.count:
            place = self.next_positional
            if self.convert and self._takes_the_rest(index, self.values[place].type):
                return self._gather(argument)
            self.next_positional += 1
            return self._fit(argument, place)
        keyword = self._keyword_for(argument)
        if keyword is not None:
            self.used.add(keyword)
            return self._fit(argument, self.keywords[keyword])
        if argument.has_default:
            return Input(argument)
        return Mismatch("argument '{}' is missing", (argument.name,))

    def _keyword_for(self, argument: Argument) -> str | None:
        if argument.name in self.keywords:
            return argument.name
        # The functions of torch call `self` of an operator `input`.
        is_renamed = argument.name == "self" and self.schema.name.startswith("aten::")
        return "input" if is_renamed and "input" in self.keywords else None

    def _takes_the_rest(self, index: int, given: Type) -> bool:
        """Return whether ``zeros(1, 2)`` may stand for ``zeros([1, 2])`` at this argument."""
        arguments = self.schema.arguments
        formal = arguments[index]
        is_last = index + 1 == len(arguments) or arguments[index + 1].kwarg_only
        if not is_last or not isinstance(formal.type, ListType) or formal.repeat is not None:
            return False
        if isinstance(formal.type.element, VarType) or isinstance(given, ListType):
            return False
        return not fits_list(given, formal.type)

    def _gather(self, argument: Argument) -> Input | Mismatch:
        assert isinstance(argument.type, ListType)
        element = argument.type.element
        inner: list[Input] = []
        for place in range(self.next_positional, self.count):
            found = self._fit(Argument(argument.name, element), place)
            if isinstance(found, Mismatch):
                return found
            inner.append(found)
        self.next_positional = self.count
        return Input(tuple(inner), element=element)

    def _fit(self, argument: Argument, place: int) -> Input | Mismatch:
        _, actual, is_empty_list = self.values[place]
        if actual == argument.type and not is_empty_list and not has_variables(actual):
            return Input(place)
        steps: tuple[Step, ...] = ()
        if _repeats(argument, actual):
            actual = ListType(actual)
            steps = (Step("repeat", actual, argument.repeat or 0),)
        wanted: Type | None = argument.type
        if has_variables(argument.type):
            if not bind(argument.type, actual, self.bindings):
                return _unfit(argument, actual)
            wanted = substitute(argument.type, self.bindings)
        if wanted is None:
            text = "the type of argument '{}' cannot be inferred from {}"
            return Mismatch(text, (argument.name, actual))
        more, reached = conversions(actual, wanted, is_empty_list, convert=self.convert)
        if not is_subtype(reached, wanted):
            return _unfit(argument, actual)
        return Input(place, steps + more)


def _written(schema: FunctionSchema, inputs: Sequence[Input]) -> int:
    count = len(inputs)
    while count and schema.arguments[count - 1].is_out:
        count -= 1
    while count and isinstance(inputs[count - 1].source, Argument):
        count -= 1
    return count


def _unfit(argument: Argument, actual: Type) -> Mismatch:
    text = "argument '{}' must be {}, not {}"
    return Mismatch(text, (argument.name, argument.type, actual))


def _repeats(argument: Argument, actual: Type) -> bool:
    """Return whether a single int or float is given for ``int[N]`` or ``float[N]``."""
    if argument.repeat is None or actual not in (INT, FLOAT):
        return False
    return _without_optional(argument.type) == ListType(actual)


def _without_optional(type_: Type) -> Type:
    return type_.element if isinstance(type_, OptionalType) else type_


def conversions(
    actual: Type, wanted: Type, is_empty_list: bool = False, *, convert: bool
) -> tuple[tuple[Step, ...], Type]:
    """Return the steps that convert a value towards ``wanted``, and the type they reach.

    The value fits if that type is a subtype of ``wanted``. ``convert`` allows the conversions
    between tensors, numbers, bools, strings and devices, too.
    """
    steps: list[Step] = []
    if actual is UNKNOWN or wanted is UNKNOWN:
        return (), wanted
    if isinstance(wanted, OptionalType) and not isinstance(actual, OptionalType):
        if actual == NONE:
            return (), actual
        wanted = wanted.element
    if is_empty_list and isinstance(wanted, ListType):
        return (Step("retype", wanted),), wanted
    if isinstance(actual, TupleType):
        steps += _from_tuple(actual, wanted, convert)
        actual = steps[-1].type if steps else actual
    kind = _implicit(actual, wanted) if convert else None
    if kind is not None:
        # A bool becomes an int wherever a number is wanted.
        actual = INT if wanted == NUMBER and kind == "aten::Int" else wanted
        steps.append(Step(kind, actual))
    return tuple(steps), actual


def _implicit(actual: Type, wanted: Type) -> str | None:
    """Return the operator that converts; a union of all numbers equals ``number``."""
    if isinstance(actual, UnionType) and is_subtype(actual, NUMBER) and is_subtype(NUMBER, actual):
        actual = NUMBER
    return _IMPLICIT.get(actual, {}).get(wanted)


def _from_tuple(actual: TupleType, wanted: Type, convert: bool) -> list[Step]:
    target = _without_optional(wanted)
    if isinstance(target, ListType) and fits_list(actual, target):
        return [Step("unpack", target)]
    if not isinstance(wanted, TupleType) or is_subtype(actual, wanted):
        return []
    if len(actual.elements) != len(wanted.elements):
        return []
    pairs = zip(actual.elements, wanted.elements, strict=True)
    parts = [conversions(have, want, convert=convert) for have, want in pairs]
    reached = TupleType(tuple(type_ for _, type_ in parts))
    return [Step("elements", reached, parts=tuple(steps for steps, _ in parts))]


def schema_text(schema: FunctionSchema) -> str:
    """Return a schema for messages: the names and types of its arguments."""
    shown: list[str] = []
    for argument in schema.arguments:
        if argument.kwarg_only and "*" not in shown:
            shown.append("*")
        default = f"={argument.default!r}" if argument.has_default else ""
        shown.append(f"{annotation(argument.type)} {argument.name}{default}")
    if schema.is_vararg:
        shown.append("...")
    return f"{schema.full_name}({', '.join(shown)})"


def no_overload(
    kind: str, candidates: Iterable[Candidate], mismatches: Iterable[Mismatch], call: Call
) -> str:
    """Return the message that no candidate accepts a call, with one reason a line."""
    given = [annotation(value.type) for value in filter(None, (call.target, *call.positional))]
    given += [f"{name}={annotation(value.type)}" for name, value in call.keywords.items()]
    pairs = zip(candidates, mismatches, strict=True)
    reasons = [f"\n  {schema_text(candidate.schema)}: {why}" for candidate, why in pairs]
    return f"no overload of {kind} takes ({', '.join(given)}); considered:{''.join(reasons)}"


_FOLDED: Final[dict[str, Callable[[Any], Any]]] = {"aten::Int": int, "aten::Float": float}
_PLAIN = Device | EnumMember


@dataclass(eq=False, slots=True)
class Conversions:
    """Appends the nodes that convert values.

    ``operators`` gives the overloads of an operator kind.
    """

    builder: Builder
    operators: Callable[[str], Sequence[FunctionSchema]]

    def inputs(self, matched: Sequence[Input], given: Sequence[Typed]) -> list[Value]:
        """Return the node inputs for matched arguments; ``given`` are those of the call."""
        return [
            given[input_.source].value
            if type(input_.source) is int and not input_.steps
            else self._input(input_, given)
            for input_ in matched
        ]

    def _input(self, input_: Input, given: Sequence[Typed]) -> Value:
        source = input_.source
        if isinstance(source, int):
            return self.apply(given[source], input_.steps).value
        if isinstance(source, Argument):
            return self.builder.default(source)
        assert input_.element is not None
        return self.builder.list_of(input_.element, self.inputs(source, given))

    def convert(self, given: Typed, wanted: Type) -> Typed | None:
        """Convert a value as on assignment and return; None where that is impossible."""
        steps, reached = conversions(given.type, wanted, given.is_empty_list, convert=True)
        if is_subtype(reached, wanted) and given.type is not UNKNOWN:
            return self.apply(given, steps)
        return Typed(given.value, wanted) if has_unknown(given.type) else None

    def apply(self, given: Typed, steps: Sequence[Step]) -> Typed:
        for step in steps:
            given = self._step(given, step)
        return given

    def _step(self, given: Typed, step: Step) -> Typed:
        match step.kind:
            case "retype":
                # An empty list literal is made anew, with the element type that is asked for.
                return self._list_instead(given, step.type, ())
            case "repeat":
                return typed(self.builder.list_of(given.type, [given.value] * step.times))
            case "unpack":
                elements = [element.value for element in self.unpack(given)]
                return self._list_instead(given, step.type, elements)
            case "elements":
                pairs = zip(self.unpack(given), step.parts, strict=True)
                converted = [self.apply(element, steps) for element, steps in pairs]
                self.builder.drop_if_unused(given.value)
                return self.tuple_of(converted)
        return self._convert(given, step)

    def _list_instead(self, given: Typed, type_: Type, values: Sequence[Value]) -> Typed:
        assert isinstance(type_, ListType)
        self.builder.drop_if_unused(given.value)
        return typed(self.builder.list_of(type_.element, values))

    def unpack(self, given: Typed) -> list[Typed]:
        """Return the elements of a tuple."""
        assert isinstance(given.type, TupleType)
        node = given.value.node
        types = given.type.elements
        if node.kind == "prim::TupleConstruct":
            pairs = zip(node.inputs, types, strict=True)
            return [Typed(value, type_) for value, type_ in pairs]
        if node.is_constant:
            constants = zip(given.value.constant, types, strict=True)
            return [typed(self.builder.constant(value, type_)) for value, type_ in constants]
        made = self.builder.append("prim::TupleUnpack", [given.value], *types)
        return [typed(value) for value in made.outputs]

    def tuple_of(self, elements: Sequence[Typed], type_: TupleType | None = None) -> Typed:
        """Return a tuple; one of constants that need no table is a constant itself."""
        values = [element.value for element in elements]
        if type_ is None:
            type_ = TupleType(tuple([value.type for value in values]))
            self.builder.checked(type_)
        content = tuple([value.constant for value in values])
        if all(map(_is_plain, content)) and self.builder.shares_constants:
            return typed(self.builder.constant(content, type_))
        return typed(self.builder.append("prim::TupleConstruct", values, type_).output)

    def _convert(self, given: Typed, step: Step) -> Typed:
        value = given.value.constant if self.builder.shares_constants else None
        if step.kind == "aten::device" and isinstance(value, str) and is_device(value):
            return typed(self.builder.constant(Device(value), DEVICE))
        if step.kind in _FOLDED and isinstance(value, bool | int | float):
            return typed(self.builder.constant(_FOLDED[step.kind](value), step.type))
        schema = self._converting(step.kind, given.type)
        return typed(self.builder.append(step.kind, [given.value], step.type, schema=schema).output)

    def _converting(self, kind: str, given: Type) -> FunctionSchema | None:
        """Return the overload whose one argument takes the given type."""
        wanted = STRING if kind == "aten::device" else given
        for schema in self.operators(kind):
            if len(schema.arguments) == 1 and is_subtype(wanted, schema.arguments[0].type):
                return schema
        return None


def _is_plain(value: Any) -> bool:
    """Return whether a constant may be part of a constant tuple."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | complex | str | _PLAIN)
