"""Calls of torch's Python bindings instead of overloads of ``torch.ops``, which cost more.

A binding is called where it is sure to run the very overload that the code means. It tries its
signatures in order and takes the first that fits the values. So one of them must be that of the
overload, each value must have a type that it takes, and no signature that comes before it may take
them all. The binding of this process is asked for its signatures, once for each overload.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from tsarchive.errors import UnknownOperatorError
from tsarchive.ir.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    ListType,
    OptionalType,
    Type,
)

from .checks import enumerations
from .guards import guarded
from .layer_checks import HARMLESS_WINDOWS, SAVED_ARGUMENTS, USUAL, IsHarmless
from .operators import find_native, operator_schemas

if TYPE_CHECKING:
    from tsarchive.ir.graph import Node, Value
    from tsarchive.ir.schema import Argument, FunctionSchema

_TOO_MANY: Final = 60
# Arguments whose default is a word, such as Mean, which the parser takes for 0.
_DEFAULTS_IN_WORDS: Final = frozenset({"reduction"})
_PART: Final = r"(?P<type>.+?) (?P<name>\w+)(?: = (?P<default>.+))?"
_SEPARATOR: Final = r", (?![^()\[\]]*[\])])"
_COUNT: Final = r"takes (?:from (\d+) to )?(\d+|no|exactly one) (?:positional )?argument"
_WANTED: Final = r"argument '(\w+)'(?: \(position \d+\))? must be (.+), not object"
_WORDS: Final = {"no": 0, "exactly one": 1}


class Parameter(NamedTuple):
    """One parameter; ``type`` is the word of the parser, such as "tuple of ints"."""

    name: str
    type: str
    has_default: bool = False


class Signature(NamedTuple):
    """Parameters that may be given by position, and those that are given by name alone."""

    positional: tuple[Parameter, ...]
    named: tuple[Parameter, ...] = ()


class _Unknown(Exception):
    """The parser of this torch speaks in words that are not known here."""


def signatures_of(binding: Callable[..., Any], named: Sequence[str]) -> tuple[Signature, ...]:
    """Return the signatures in the order in which they are tried; none where torch tells none.

    ``self`` of methods stands in front. ``named`` are the names that parameters by name may have.
    """
    is_method = type(binding).__name__ == "method_descriptor"
    given = (_fitting_values()["Tensor"],) if is_method else ()
    try:
        message = _error(binding, *given, *[None] * _TOO_MANY)
        _, several, listed = message.partition("but expected")
        if several:
            found = [_listed(text) for text in re.findall(r"\((.*)\)$", listed, re.MULTILINE)]
        else:
            found = [_asked(binding, given, message, named)]
    except (_Unknown, KeyError):
        return ()
    first = tuple(Parameter("self", "Tensor") for _ in given)
    return tuple(Signature((*first, *one.positional), one.named) for one in found)


def _error(binding: Callable[..., Any], *arguments: Any, **keywords: Any) -> str:
    try:
        binding(*arguments, **keywords)
    except TypeError as error:
        return str(error)
    except Exception:
        raise _Unknown from None
    raise _Unknown


def _listed(text: str) -> Signature:
    """Read ``Tensor input, tuple of ints dim = None, *, torch.dtype dtype``."""
    before, _, behind = f"{text}, ".partition("*, ")
    return Signature(tuple(_parameters(before)), tuple(_parameters(behind)))


def _parameters(text: str) -> Iterator[Parameter]:
    for part in filter(None, re.split(_SEPARATOR, text.removesuffix(", "))):
        match = _matched(re.fullmatch(_PART, part))
        yield Parameter(match["name"], match["type"], match["default"] is not None)


def _asked(
    binding: Callable[..., Any], given: tuple[Any, ...], message: str, named: Sequence[str]
) -> Signature:
    """Ask for the only signature, parameter by parameter."""
    match = _matched(re.search(_COUNT, message))
    most = _WORDS[match[2]] if match[2] in _WORDS else int(match[2])
    least = most if match[1] is None else int(match[1])
    positional: list[Parameter] = []
    values = list(given)
    for position in range(most):
        name, type_ = _matched(re.search(_WANTED, _error(binding, *values, object()))).groups()
        positional.append(Parameter(name, type_, has_default=position >= least))
        values.append(_fitting_values()[type_])
    return Signature(tuple(positional), tuple(_asked_by_name(binding, values, named)))


def _asked_by_name(
    binding: Callable[..., Any], values: Sequence[Any], named: Sequence[str]
) -> Iterator[Parameter]:
    keywords: dict[str, Any] = {}
    for name in named:
        answer = _error(binding, *values, **keywords, **{name: object()})
        if "unexpected keyword" not in answer and "takes no keyword" not in answer:
            type_ = _matched(re.search(_WANTED, answer))[2]
            keywords[name] = _fitting_values()[type_]
            yield Parameter(name, type_, has_default=True)


def _matched(match: re.Match[str] | None) -> re.Match[str]:
    if match is None:
        raise _Unknown
    return match


@cache
def _fitting_values() -> dict[str, Any]:
    """Return a value of each type, with which the parser goes on to the next parameter."""
    one = torch.ones(1)
    return {
        "Tensor": one,
        "int": 1,
        "float": 1.0,
        "bool": True,
        "Number": 1,
        "str": "",
        "tuple of ints": (1,),
        "tuple of floats": (1.0,),
        "tuple of bools": (True,),
        "tuple of Tensors": (one,),
        "torch.dtype": torch.float32,
        "torch.layout": torch.strided,
        "torch.memory_format": torch.contiguous_format,
        "torch.device": torch.device("cpu"),
        "torch.Generator": torch.default_generator,
    }


_BINDINGS: Final[tuple[Any, ...]] = (
    torch._C._VariableFunctions,
    torch._C._nn,
    torch._C.TensorBase,  # methods, which take a tensor first
)

# Operators that need a guard, but not where constant arguments are like this.
_HARMLESS_WHERE: Final[Mapping[str, Mapping[str, IsHarmless]]] = {
    **{name: dict.fromkeys(flags, operator.not_) for name, (_, flags) in SAVED_ARGUMENTS.items()},
    "aten::select.int": {"dim": lambda dim: dim >= 0},
    **{f"aten::{name}": {"size": lambda size: size >= -1} for name in ("expand", "broadcast_to")},
    "aten::layer_norm": {"normalized_shape": lambda size: size > 0},
}
_INTS: Final = ListType(INT)
_TENSORS: Final = ListType(TENSOR)
# Names that the parser of bindings has for types of a schema, and for arguments that are numbers.
_TYPE_WORDS: Final[Mapping[Type | str, str]] = {
    TENSOR: "Tensor",
    INT: "int",
    FLOAT: "float",
    BOOL: "bool",
    NUMBER: "Number",
    STRING: "str",
    GENERATOR: "torch.Generator",
    DEVICE: "torch.device",
    _INTS: "tuple of ints",
    ListType(FLOAT): "tuple of floats",
    ListType(BOOL): "tuple of bools",
    ListType(NUMBER): "tuple of Scalars",
    _TENSORS: "tuple of Tensors",
    ListType(OptionalType(TENSOR)): "tuple of Tensors",
    "ScalarType": "torch.dtype",
    "Layout": "torch.layout",
    "MemoryFormat": "torch.memory_format",
}
# Parameters that refuse tensors, numbers, strings and lists; for all others a doubt means yes.
_OF_KINDS: Final = frozenset({"torch.dtype", "torch.layout", "torch.memory_format"})
_NO_TEXT: Final = _OF_KINDS | {"Tensor", "Number", "int", "float", "bool", "torch.Generator"}
_REFUSING: Final[Mapping[Type | type[ListType], frozenset[str]]] = {
    TENSOR: _OF_KINDS | {"bool", "str", "torch.Generator", "tuple of Tensors"},
    **dict.fromkeys(
        (INT, FLOAT, BOOL, COMPLEX, NUMBER),
        _OF_KINDS | {"str", "torch.Generator", "tuple of Tensors"},
    ),
    STRING: _NO_TEXT,
    ListType: _NO_TEXT | {"str", "torch.device"},
}
# The types that each type of a signature accepts.
_TAKEN: Final[Mapping[Type, frozenset[Type]]] = {
    **{type_: frozenset({type_}) for type_ in (TENSOR, INT, FLOAT, BOOL, STRING, _INTS, _TENSORS)},
    NUMBER: frozenset({INT, FLOAT, BOOL, NUMBER}),
}
# No ints: they may be numbers of dtypes, which bindings give as such.
_RETURNED: Final = frozenset({TENSOR, FLOAT, BOOL})

_METHOD_AND_LIST: Final = 2

Binding = Callable[..., Any]
DirectCall = tuple[Binding, list[str]]
"""A binding to call instead of an overload, and the texts of the arguments."""


class KnownBinding(NamedTuple):
    """A binding, and the signatures that it tries before that of the overload.

    ``checked`` is the binding behind the check of its arguments, for calls that may need one.
    """

    binding: Binding
    checked: Binding
    before: tuple[Signature, ...]


_bindings: Final[dict[str, KnownBinding | None]] = {}
# Of an overload and the types it is given.
_certain: Final[dict[tuple[str, tuple[Type, ...]], bool]] = {}


def direct_call(node: Node, texts: Sequence[str]) -> DirectCall | None:
    """Return a call that is sure to run what ``node`` means; None where that is not certain.

    ``texts`` are those of all inputs. Arguments that have their default values are left out,
    unless those of the binding are others.
    """
    schema = node.schema
    known = None if schema is None else binding_of(schema)
    if schema is None or known is None or not _takes_result(schema, node):
        return None
    binding = known.binding
    given = node.inputs[: _necessary(schema, node.inputs)]
    count = len(given)
    if not _needs_no_check(schema, node, known):
        if schema.name not in USUAL or any(a.kwarg_only for a in schema.arguments[:count]):
            return None
        binding = known.checked
    types = [value.type for value in given]
    if not is_certain(schema, types):
        return None
    has_items = count == _METHOD_AND_LIST and texts[1].startswith("[") and texts[1] != "[]"
    if has_items and _takes_list_items(schema.name):
        method = getattr(torch._C.TensorBase, schema.name.removeprefix("aten::"))
        return method, [texts[0], texts[1][1:-1]]
    short = {i: text for i, value in enumerate(given) if (text := _short(schema, i, value))}
    if short and is_certain(schema, [INT if i in short else t for i, t in enumerate(types)]):
        return binding, [short.get(i, text) for i, text in enumerate(texts[:count])]
    return binding, list(texts[:count])


def _necessary(schema: FunctionSchema, inputs: Sequence[Value]) -> int:
    """Return the number of arguments that the binding is given."""
    from tsarchive.ir.values import necessary_arguments

    needed, _ = necessary_arguments(schema, inputs)
    left_out = schema.arguments[needed:]
    in_words = [i for i, a in enumerate(left_out, needed + 1) if a.name in _DEFAULTS_IN_WORDS]
    return in_words[-1] if in_words else needed


def _harmless_where(schema: FunctionSchema) -> Mapping[str, IsHarmless]:
    found = _HARMLESS_WHERE.get(schema.full_name) or HARMLESS_WINDOWS.get(schema.name, {})
    return {a.name: found[a.name] for a in schema.arguments if a.name in found} if found else {}


def _unless_usual(schema: FunctionSchema, binding: Binding) -> Binding:
    """``binding`` behind its check, which calls with usual arguments need not pass."""
    is_usual, checked = USUAL.get(schema.name), guarded(schema, binding)
    if is_usual is None:
        return checked

    def run(*args: Any) -> Any:
        return binding(*args) if is_usual(*args) else checked(*args)

    return run


def _needs_no_check(schema: FunctionSchema, node: Node, known: KnownBinding) -> bool:
    """Return whether nothing is to be checked, or constants show that it holds."""
    where = _harmless_where(schema)
    if not where:
        return known.checked is known.binding
    return all(_is_harmless(schema, node, *one) for one in where.items())


def _is_harmless(
    schema: FunctionSchema, node: Node, argument: str, is_harmless: IsHarmless
) -> bool:
    """Return whether an argument, and each item of it, is a constant that needs no guard."""
    offset = [known.name for known in schema.arguments].index(argument)
    given = node.inputs[offset].node
    items = [item.node for item in given.inputs] if given.kind == "prim::ListConstruct" else [given]
    if not all(item.is_constant for item in items):
        return False
    values = [item.attributes["value"] for item in items]
    lists = (value if isinstance(value, list) else [value] for value in values)
    return all(map(is_harmless, chain.from_iterable(lists)))


def _takes_result(schema: FunctionSchema, node: Node) -> bool:
    """Return whether a node can be given what bindings give.

    They give tuples for lists, which nobody sees where the items are taken at once.
    """
    if schema.returns[0].type != _TENSORS:
        return True
    return all(user.kind == "prim::ListUnpack" for user, _ in node.output.uses)


def _short(schema: FunctionSchema, offset: int, value: Value) -> str | None:
    """Return one number for a list of as many equal ones as the schema says: 1 for [1, 1]."""
    items = [item.node for item in value.node.inputs]
    repeat = schema.arguments[offset].repeat
    is_list = value.node.kind == "prim::ListConstruct" and value.type == _INTS
    if not (is_list and len(items) == repeat and len(value.uses) == 1):
        return None
    numbers = {item.attributes["value"] if item.is_constant else None for item in items}
    return ascii(numbers.pop()) if len(numbers) == 1 and None not in numbers else None


def is_certain(schema: FunctionSchema, given: Sequence[Type]) -> bool:
    """Return whether a binding that is given such values runs ``schema``."""
    key = schema.full_name, tuple(given)
    found = _certain.get(key)
    if found is None:
        known = binding_of(schema)
        kinds = enumerations(schema)  # numbers to operators, and not to bindings
        found = _certain[key] = (
            known is not None
            and all(type_ == NONE for i, type_ in enumerate(given) if i in kinds)
            and all(map(_is_taken, schema.arguments, given))
            and not any(_may_take(one, schema, given) for one in known.before)
        )
    return found


def binding_of(schema: FunctionSchema) -> KnownBinding | None:
    """Return the binding with a signature like ``schema``, as this process knows the operator."""
    registered = operator_schemas(schema.name)
    if not (any(schema is one for one in registered) or schema in registered):
        return None
    key = schema.full_name
    if key not in _bindings:
        binding = _find_binding(schema)
        named = [argument.name for argument in schema.arguments if argument.kwarg_only]
        signatures = () if binding is None else signatures_of(binding, named)
        like = next((i for i, one in enumerate(signatures) if _is_like(one, schema)), None)
        if binding is None or like is None:
            _bindings[key] = None
        else:
            _bindings[key] = KnownBinding(
                binding, _unless_usual(schema, binding), signatures[:like]
            )
    return _bindings[key]


def checked_binding(schema: FunctionSchema) -> Binding:
    """Return the binding of an overload, which has one, behind the check of its arguments."""
    known = _bindings.get(schema.full_name)
    if known is not None:
        return known.checked
    binding = _named_binding(schema)
    if binding is None:
        raise UnknownOperatorError.of(schema.full_name, f"{schema.full_name} has no binding")
    return _unless_usual(schema, binding)


def _takes_list_items(name: str) -> bool:
    from tsarchive.operators.python_forms import TAKES_LIST_ITEMS

    return name in TAKES_LIST_ITEMS


def _named_binding(schema: FunctionSchema) -> Binding | None:
    namespace, _, name = schema.name.partition("::")
    if namespace != "aten" or name.startswith("__"):
        return None
    return next(filter(callable, (getattr(one, name, None) for one in _BINDINGS)), None)


def _find_binding(schema: FunctionSchema) -> Binding | None:
    from tsarchive.operators.python_forms import BOUND_OTHERWISE, WITHOUT_NUMBERS

    if schema.name.partition("::")[2] in BOUND_OTHERWISE:
        return None
    found = _named_binding(schema)
    if found is None or find_native(schema) is not None:
        return None
    is_free = schema.name in USUAL or bool(_harmless_where(schema))
    if guarded(schema, found) is not found and not is_free:
        return None
    is_out = any(argument.is_out for argument in schema.arguments)
    is_dispatched = torch._C._dispatch_has_kernel(schema.full_name)
    is_bound = is_dispatched and not is_out and schema.full_name not in WITHOUT_NUMBERS
    # Bindings make tensors on the default device of Python, unless they are like others.
    is_like = schema.name.endswith("_like")
    takes_device = any(a.name == "device" for a in schema.arguments) and not is_like
    results = [result.type for result in schema.returns]
    # They give tuples for lists.
    is_given = results == [_TENSORS] or (bool(results) and _RETURNED.issuperset(results))
    return found if is_bound and is_given and not takes_device else None


def _is_like(signature: Signature, schema: FunctionSchema) -> bool:
    """Return whether types, order and defaults, and the names of named arguments, are the same."""
    kinds = enumerations(schema)
    pairs = [
        (argument, _TYPE_WORDS.get(kinds.get(offset, _unwrapped(argument.type)[0])))
        for offset, argument in enumerate(schema.arguments)
    ]
    positional = [(word, a.has_default) for a, word in pairs if not a.kwarg_only]
    named = {(a.name, word) for a, word in pairs if a.kwarg_only}
    return positional == [
        (one.type, one.has_default) for one in signature.positional
    ] and named == {(one.name, one.type) for one in signature.named if one.name != "out"}


def _is_taken(argument: Argument, type_: Type) -> bool:
    """Return whether a signature takes what is of a type when the code runs."""
    wanted, is_optional = _unwrapped(argument.type)
    given, may_be_none = _unwrapped(type_)
    if given == NONE:
        return is_optional
    fits = given in _TAKEN.get(wanted, ()) or (given == INT and argument.repeat is not None)
    return fits and (is_optional or not may_be_none)


def _may_take(signature: Signature, schema: FunctionSchema, given: Sequence[Type]) -> bool:
    """Return whether ``signature`` might take values for the first arguments of ``schema``."""
    from tsarchive.operators.python_forms import NUMBERS_AS_TENSORS

    left = {one.name: one for one in (*signature.positional, *signature.named)}
    for offset, type_ in enumerate(given):
        argument = schema.arguments[offset]
        if argument.kwarg_only:
            found = left.get(argument.name)
        else:
            found = next(iter(signature.positional[offset : offset + 1]), None)
        if found is None or not _may_accept(found, type_):
            return False
        if found.type == "Tensor" and _is_number(type_) and schema.name not in NUMBERS_AS_TENSORS:
            return False
        left.pop(found.name, None)
    return all(one.has_default for one in left.values())


def _may_accept(parameter: Parameter, type_: Type) -> bool:
    """Return whether the parser might accept a value; for numbers it takes tensors of one."""
    given, may_be_none = _unwrapped(type_)
    kind = ListType if isinstance(given, ListType) else given
    return may_be_none or parameter.type not in _REFUSING.get(kind, ())


def _is_number(type_: Type) -> bool:
    return type_ in (INT, FLOAT, BOOL, COMPLEX, NUMBER)


def _unwrapped(type_: Type) -> tuple[Type, bool]:
    """Return a type without None, and whether None belongs to it."""
    if isinstance(type_, OptionalType):
        return type_.element, True
    return type_, type_ == NONE
