"""References: what an expression can denote, such as a value, operator, function or type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.graph import Block, Value
from tsarchive.ir.types import BOOL, COMPLEX, FLOAT, INT, STRING, NamedType, Type


class Typed(NamedTuple):
    """A value and its static type, which may be wider than what the value itself carries.

    ``x : Optional[Tensor] = y`` makes ``x`` the value of ``y`` with a wider type. An empty list
    literal without annotation (``is_empty_list``) fits any list.
    """

    value: Value
    type: Type
    is_empty_list: bool = False


def typed(value: Value) -> Typed:
    return Typed(value, value.type)


class Special(Enum):
    """Names with rules of their own for the arguments, and roots of namespaces."""

    ANNOTATE = "annotate"
    AWAITABLE = "awaitable"
    CONSTANTS = "CONSTANTS"
    FORK = "fork"
    GETATTR = "getattr"
    ISINSTANCE = "isinstance"
    OPS = "ops"
    UNCHECKED_CAST = "unchecked_cast"
    UNINITIALIZED = "uninitialized"


class OperatorNamespace(NamedTuple):
    """``torch`` (aten) or ``ops.<name>``."""

    name: str


class OperatorReference(NamedTuple):
    """An operator by kind, such as ``aten::add``; ``target`` is self in ``x.add(y)``."""

    kind: str
    target: Typed | None = None


class Builtin(NamedTuple):
    """A function known by its bare name, such as ``int`` or ``print``."""

    name: str


class Namespace(NamedTuple):
    """A prefix of qualified names of the archive."""

    qualified_name: str


@dataclass(frozen=True, slots=True)
class TypeReference:
    """A class, enum, interface or named tuple; it equals no reference of another kind."""

    type: NamedType


class Constructor(NamedTuple):
    """``C.__new__``."""

    type: ClassType


class FunctionReference(NamedTuple):
    function: Function


class MethodReference(NamedTuple):
    target: Typed
    name: str


class ToList(NamedTuple):
    """``x.tolist``: its result type comes from the annotation around the call."""

    target: Typed


class Results(NamedTuple):
    """The results of an operator with none or several; they make a tuple where one is needed."""

    values: Sequence[Value]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A nested ``def``: its body, and the outer values that stand for the body's parameters."""

    body: Block
    captured: Sequence[Value]


Reference = (
    Typed
    | Special
    | OperatorNamespace
    | OperatorReference
    | Builtin
    | Namespace
    | TypeReference
    | Constructor
    | FunctionReference
    | MethodReference
    | ToList
    | Results
    | Closure
)

# The casts, the type that each gives, and its operator.
CASTS: dict[str, tuple[Type, str]] = {
    "bool": (BOOL, "aten::Bool"),
    "complex": (COMPLEX, "aten::Complex"),
    "float": (FLOAT, "aten::Float"),
    "int": (INT, "aten::Int"),
    "str": (STRING, "aten::str"),
}
OPERATORS = {
    "print": "prim::Print", "len": "aten::len", "hex": "aten::hex", "oct": "aten::oct",
    "round": "aten::round", "hash": "aten::hash", "id": "prim::id", "min": "prim::min",
    "max": "prim::max", "abs": "prim::abs", "all": "aten::all", "any": "aten::any",
    "divmod": "aten::divmod", "sum": "aten::sum", "list": "aten::list", "dict": "aten::dict",
    "ord": "aten::ord", "chr": "aten::chr", "bin": "aten::bin", "pow": "aten::pow",
    "rangelist": "prim::rangelist", "sorted": "aten::sorted",
}  # fmt: skip
BUILTINS = frozenset({*CASTS, *OPERATORS})
# Classes take part in these by a method.
MAGIC = {name: f"__{name}__" for name in (*CASTS, "len", "hex", "oct", "round")}
