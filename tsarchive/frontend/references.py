"""References: what expressions can denote, such as a value, operator, function or type.

Scopes tell which names denote what in the blocks of a function and of closures inside it, and
conditions how the type of a variable is narrowed there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.graph import Block, Node, Placed, Value, drop_carried
from tsarchive.ir.subtyping import flat_members, is_subtype, union_of
from tsarchive.ir.types import ANY, NONE, UNKNOWN, NamedType, OptionalType, Type, UnionType
from tsarchive.ir.values import Builder


class Typed(NamedTuple):
    """A value and its static type, which may be wider than what the value itself carries.

    ``x : Optional[Tensor] = y`` makes ``x`` the value of ``y`` with a wider type. An empty list
    literal without annotation (``is_empty_list``) fits any list.
    """

    value: Value
    type: Type
    is_empty_list: bool = False


# Half the time of a call of the class.
_new = tuple.__new__


def typed(value: Value) -> Typed:
    return _new(Typed, (value, value.type, False))


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

# The casts, by the names of the types that they give.
CASTS = {
    "bool": "aten::Bool", "complex": "aten::Complex", "float": "aten::Float", "int": "aten::Int",
    "str": "aten::str",
}  # fmt: skip
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


class Frame(Builder):
    """Builds the body of a function, or of a closure inside one.

    ``version`` is None where code is lowered at the current operator version: everywhere but in
    methods of classes. ``keeps_constants`` is for an open world, where it matters where they are
    written.
    """

    def __init__(
        self,
        version: int | None,
        place: Callable[[], Placed],
        checked: Callable[[Type], Type],
        *,
        keeps_constants: bool,
    ) -> None:
        shares = not keeps_constants
        super().__init__(Block(), place, checked, hoists_constants=shares, shares_constants=shares)
        self.version = version
        self.captured: dict[Value, Value] = {}
        self.reads: dict[Value, str | None] = {}
        # Loops over ``while c``, and what stands for c in their bodies.
        self.conditions: list[tuple[Node, Value]] = []

    def capture(self, outer: Typed) -> Typed:
        """Return the parameter of a closure's body that stands for an outer value."""
        param = self.captured.get(outer.value)
        if param is None:
            param = self.body.add_param(outer.value.type, outer.value.name)
            self.captured[outer.value] = param
        return outer._replace(value=param)

    def tidy(self) -> None:
        """Remove what turned out to be unused."""
        for loop, param in reversed(self.conditions):
            index = loop.blocks[0].params.index(param) - 1
            if not param.uses and not loop.outputs[index].uses:
                drop_carried(loop, index)
        self.remove_unused()

    def finish(self) -> Block:
        """Name reads of attributes "0", "1", ... after them, where torch did so; finish the body.

        It does in code that names all reads; older code has reads without a name, and there
        ``_16 = getattr(x, "1")`` is the sixteenth unnamed value.
        """
        if all(value.name or proposed for value, proposed in self.reads.items()):
            for value, proposed in self.reads.items():
                value.name = value.name or proposed
        return super().finish()


@dataclass(eq=False, slots=True)
class Scope:
    """The names assigned in one block, in the order of their last assignment."""

    frame: Frame
    outer: Scope | None = None
    names: dict[str, Reference] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Reference | None:
        """Return what a name denotes here; a value from outside of a closure is captured."""
        scope: Scope | None = self
        while scope is not None and scope.frame is self.frame:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.outer
        found = None if scope is None else scope.find(name)
        return self.frame.capture(found) if isinstance(found, Typed) else found

    def find_outside(self, name: str) -> Reference | None:
        """Return what a name denotes in the enclosing blocks of the same function."""
        if self.outer is None or self.outer.frame is not self.frame:
            return None
        return self.outer.find(name)

    def bind(self, name: str, reference: Reference) -> None:
        self.names.pop(name, None)
        self.names[name] = reference

    def why_unusable(self, name: str) -> str | None:
        """Return why a name that was assigned cannot be used here."""
        reason = self.unusable.get(name)
        if reason is None and self.outer is not None:
            return self.outer.why_unusable(name)
        return reason


class Condition(NamedTuple):
    """``known`` is set where only one branch can be taken; inside the branches the variable
    ``name`` has the narrower types ``when_true`` and ``when_false`` (None: no narrower)."""

    value: Typed
    known: bool | None = None
    name: str | None = None
    when_true: Type | None = None
    when_false: Type | None = None

    def inverted(self, value: Typed) -> Condition:
        known = None if self.known is None else not self.known
        return Condition(value, known, self.name, self.when_false, self.when_true)


def decide_isinstance(actual: Type, types: tuple[Type, ...]) -> bool | None:
    """Return the answer to an isinstance check where the static type gives one."""
    if actual is UNKNOWN or UNKNOWN in types:
        return None
    if actual == ANY:
        return True if types == (ANY,) else None
    wanted = tuple(member for type_ in types for member in flat_members(type_))
    members = flat_members(actual)
    if all(any(is_subtype(member, type_) for type_ in wanted) for member in members):
        return True
    for member in members:
        if any(is_subtype(member, type_) or is_subtype(type_, member) for type_ in wanted):
            return None
    return False


def none_status(given: Typed) -> bool | None:
    """True where a value is always None, False where it never is."""
    if given.type == NONE or given.value.constant is None:
        return True
    if given.type is UNKNOWN:
        return None
    is_open = isinstance(given.type, OptionalType | UnionType) or given.type == ANY
    return None if is_open and is_subtype(NONE, given.type) else False


def narrowed(actual: Type, types: tuple[Type, ...]) -> tuple[Type | None, Type | None]:
    """Return the type of a value after an isinstance check that holds, and after one that fails."""
    if actual == ANY or actual is UNKNOWN:
        return union_of(types), None
    true: list[Type] = []
    false: list[Type] = []
    for member in flat_members(actual):
        smaller = [member if is_subtype(member, type_) else type_ for type_ in types]
        matching = [type_ for type_ in smaller if is_subtype(type_, member)]
        true += matching
        if not matching:
            false.append(member)
    return union_of(true) if true else None, union_of(false) if false else None
