"""Arguments of a call against the schemas it may mean, and the choice among overloads.

Everything here looks at static types only; the conversions that a match needs are returned as
steps, and turned into nodes by ``casts.py`` once the choice is made. The rules are those of
torch's schema matcher.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from tsarchive.printer.schema import Argument, FunctionSchema
from tsarchive.printer.subtyping import is_subtype, unify, unify_all
from tsarchive.printer.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    DictType,
    HandleType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    VarType,
    annotation,
)

from .references import Typed
from .upgraders import Candidate


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


class Default(NamedTuple):
    """An argument that the call leaves out."""

    argument: Argument


class Input(NamedTuple):
    """One input of the node: its source, and what to do with it. A tuple of inputs is gathered
    into a list of ``element`` type."""

    source: Typed | Default | tuple[Input, ...]
    steps: tuple[Step, ...] = ()
    element: Type | None = None


class Match(NamedTuple):
    inputs: list[Input]
    returns: list[Type]


class Mismatch(NamedTuple):
    """Why a schema does not fit; ``parts`` fill the places of ``text``."""

    text: str
    parts: tuple[object, ...] = ()

    def __str__(self) -> str:
        shown = (annotation(part) if isinstance(part, Type) else part for part in self.parts)
        return self.text.format(*shown)


Bindings = dict[str, Type]

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


class Call:
    """The arguments of one call, as written: positional, by keyword, and ``self``."""

    def __init__(
        self,
        positional: Sequence[Typed],
        keywords: Mapping[str, Typed],
        target: Typed | None = None,
    ) -> None:
        self.positional = positional
        self.keywords = keywords
        self.target = target

    def select(self, candidates: Sequence[Candidate]) -> tuple[Candidate, Match] | list[Mismatch]:
        """The first candidate that fits: without implicit conversions if any does, else with.

        When none fits, the reasons, one for each candidate.
        """
        mismatches: list[Mismatch] = []
        for convert in (True,) if len(candidates) == 1 else (False, True):
            mismatches.clear()
            for candidate in candidates:
                found = self.match(candidate.schema, convert=convert)
                if isinstance(found, Match):
                    return candidate, found
                mismatches.append(found)
        return mismatches

    def match(self, schema: FunctionSchema, *, convert: bool) -> Match | Mismatch:
        if schema.full_name in BLOCKED:
            return Mismatch("this overload is not available to scripts")
        return _Matcher(self, schema, convert).run()


class _Matcher:
    def __init__(self, call: Call, schema: FunctionSchema, convert: bool) -> None:
        self.call = call
        self.schema = schema
        self.convert = convert
        self.bindings: Bindings = {}
        self.next_positional = 0
        self.used: set[str] = set()
        self.target = call.target

    def run(self) -> Match | Mismatch:
        inputs: list[Input] = []
        for index in range(len(self.schema.arguments)):
            found = self._argument(index)
            if isinstance(found, Mismatch):
                return found
            inputs.append(found)
        rest = self.call.positional[self.next_positional :]
        if self.schema.is_vararg:
            inputs += [Input(given) for given in rest]
        elif rest:
            count = len(self.call.positional)
            return Mismatch("takes {} positional arguments, not {}", (self.next_positional, count))
        return self._unknown_keyword() or self._returns(inputs)

    def _unknown_keyword(self) -> Mismatch | None:
        for name in self.call.keywords:
            if name not in self.used:
                is_known = any(argument.name == name for argument in self.schema.arguments)
                what = "is given twice" if is_known else "is unknown"
                return Mismatch("keyword argument '{}' {}", (name, what))
        return None

    def _returns(self, inputs: list[Input]) -> Match | Mismatch:
        returns: list[Type] = []
        for result in self.schema.returns:
            bound = substitute(result.type, self.bindings)
            if bound is None:
                return Mismatch("its result type {} cannot be inferred", (result.type,))
            returns.append(bound)
        return Match(inputs, returns)

    def _argument(self, index: int) -> Input | Mismatch:
        argument = self.schema.arguments[index]
        if argument.name == "self" and self.target is not None:
            given, self.target = self.target, None
            return self._fit(argument, given)
        if not argument.kwarg_only and self.next_positional < len(self.call.positional):
            given = self.call.positional[self.next_positional]
            if self.convert and self._takes_the_rest(index, given):
                return self._gather(argument)
            self.next_positional += 1
            return self._fit(argument, given)
        keyword = self._keyword_for(argument)
        if keyword is not None:
            self.used.add(keyword)
            return self._fit(argument, self.call.keywords[keyword])
        if argument.has_default:
            return Input(Default(argument))
        return Mismatch("argument '{}' is missing", (argument.name,))

    def _keyword_for(self, argument: Argument) -> str | None:
        if argument.name in self.call.keywords:
            return argument.name
        # The functions of torch call `self` of an operator `input`.
        is_renamed = argument.name == "self" and self.schema.name.startswith("aten::")
        return "input" if is_renamed and "input" in self.call.keywords else None

    def _takes_the_rest(self, index: int, given: Typed) -> bool:
        """Whether ``zeros(1, 2)`` may stand for ``zeros([1, 2])`` at this argument."""
        arguments = self.schema.arguments
        formal = arguments[index]
        is_last = index + 1 == len(arguments) or arguments[index + 1].kwarg_only
        if not is_last or not isinstance(formal.type, ListType) or formal.repeat is not None:
            return False
        if isinstance(formal.type.element, VarType) or isinstance(given.type, ListType):
            return False
        return not _fits_list(given.type, formal.type)

    def _gather(self, argument: Argument) -> Input | Mismatch:
        assert isinstance(argument.type, ListType)
        element = argument.type.element
        inner: list[Input] = []
        for given in self.call.positional[self.next_positional :]:
            found = self._fit(Argument(argument.name, element), given)
            if isinstance(found, Mismatch):
                return found
            inner.append(found)
        self.next_positional = len(self.call.positional)
        return Input(tuple(inner), element=element)

    def _fit(self, argument: Argument, given: Typed) -> Input | Mismatch:
        actual = given.type
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
        more, reached = conversions(actual, wanted, given.is_empty_list, convert=self.convert)
        if not is_subtype(reached, wanted):
            return _unfit(argument, actual)
        return Input(given, steps + more)


def _unfit(argument: Argument, actual: Type) -> Mismatch:
    text = "argument '{}' must be {}, not {}"
    return Mismatch(text, (argument.name, argument.type, actual))


def _repeats(argument: Argument, actual: Type) -> bool:
    """A single int or float given for ``int[N]`` or ``float[N]``."""
    if argument.repeat is None or actual not in (INT, FLOAT):
        return False
    return _without_optional(argument.type) == ListType(actual)


def _without_optional(type_: Type) -> Type:
    return type_.element if isinstance(type_, OptionalType) else type_


def _fits_list(actual: Type, wanted: Type) -> bool:
    """Whether ``actual`` is a list of the wanted type, or a tuple whose elements fit one."""
    if is_subtype(actual, wanted):
        return True
    if not isinstance(actual, TupleType) or not isinstance(wanted, ListType):
        return False
    return all(is_subtype(element, wanted.element) for element in actual.elements)


def conversions(
    actual: Type, wanted: Type, is_empty_list: bool = False, *, convert: bool
) -> tuple[tuple[Step, ...], Type]:
    """The steps that take a value towards ``wanted``, and the type they reach.

    The value fits if that type is a subtype of ``wanted``. ``convert`` allows the conversions
    between tensors, numbers, bools, strings and devices, too.
    """
    steps: list[Step] = []
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
    return _IMPLICIT.get(actual, {}).get(wanted)


def _from_tuple(actual: TupleType, wanted: Type, convert: bool) -> list[Step]:
    target = _without_optional(wanted)
    if isinstance(target, ListType) and _fits_list(actual, target):
        return [Step("unpack", target)]
    if not isinstance(wanted, TupleType) or is_subtype(actual, wanted):
        return []
    if len(actual.elements) != len(wanted.elements):
        return []
    pairs = zip(actual.elements, wanted.elements, strict=True)
    parts = [conversions(have, want, convert=convert) for have, want in pairs]
    reached = TupleType(tuple(type_ for _, type_ in parts))
    return [Step("elements", reached, parts=tuple(steps for steps, _ in parts))]


@cache
def has_variables(type_: Type) -> bool:
    if isinstance(type_, UnionType | OptionalType | ListType | DictType | HandleType | TupleType):
        return any(map(has_variables, type_.parts()))
    return isinstance(type_, VarType)


def bind(formal: Type, actual: Type, bindings: Bindings) -> bool:
    """Match type variables of ``formal``; False when the shapes differ."""
    if not has_variables(formal):
        return True
    match formal, actual:
        case VarType(name), _:
            bound = bindings.setdefault(name, actual)
            return unify(bound, actual) is not None
        case ListType(element), ListType(given):
            return bind(element, given, bindings)
        case ListType(element), TupleType(elements) if elements:
            common = unify_all(elements)
            return common is not None and bind(element, common, bindings)
        case DictType(key, value), DictType(given_key, given_value):
            return bind(key, given_key, bindings) and bind(value, given_value, bindings)
        case TupleType(elements), TupleType(given) if len(elements) == len(given):
            return all(bind(one, two, bindings) for one, two in zip(elements, given, strict=True))
        case HandleType(kind, element), HandleType(given_kind, given) if kind == given_kind:
            return bind(element, given, bindings)
        case OptionalType(element), OptionalType(given):
            return bind(element, given, bindings)
        case OptionalType(element), _:
            # None says nothing of the element; that shows when the variable is read.
            return actual == NONE or bind(element, actual, bindings)
    return False


def substitute(type_: Type, bindings: Mapping[str, Type]) -> Type | None:
    """The type with its variables replaced; None when one is not bound."""
    if not has_variables(type_):
        return type_
    if isinstance(type_, VarType):
        return bindings.get(type_.name)
    parts = [substitute(part, bindings) for part in type_.parts()]
    known = tuple(part for part in parts if part is not None)
    return _rebuilt(type_, known) if len(known) == len(parts) else None


def _rebuilt(type_: Type, parts: tuple[Type, ...]) -> Type:
    match type_:
        case ListType():
            return ListType(parts[0])
        case OptionalType():
            return parts[0] if isinstance(parts[0], OptionalType) else OptionalType(parts[0])
        case DictType():
            return DictType(parts[0], parts[1])
        case HandleType(kind, _):
            return HandleType(kind, parts[0])
        case TupleType(_, name, fields):
            return TupleType(parts, name, fields)
    return UnionType(parts)


def schema_text(schema: FunctionSchema) -> str:
    """A schema for messages: the names and types of its arguments."""
    shown: list[str] = []
    for argument in schema.arguments:
        if argument.kwarg_only and "*" not in shown:
            shown.append("*")
        shown.append(f"{annotation(argument.type)} {argument.name}{_default_text(argument)}")
    if schema.is_vararg:
        shown.append("...")
    return f"{schema.full_name}({', '.join(shown)})"


def _default_text(argument: Argument) -> str:
    return f"={argument.default!r}" if argument.has_default else ""


def explain(candidates: Iterable[Candidate], mismatches: Iterable[Any]) -> str:
    """The candidates and why each does not fit, one to a line."""
    pairs = zip(candidates, mismatches, strict=True)
    return "".join(f"\n  {schema_text(candidate.schema)}: {why}" for candidate, why in pairs)
