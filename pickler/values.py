"""The contents of a pickle record as inert values: names are not resolved, nothing is called.

``None``, ``bool``, ``int``, ``float``, ``complex``, ``str``, ``list``, ``dict`` and ``tuple``
stand for themselves; the classes below stand for everything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias


class Memo(Enum):
    """When a value is memoised, so that later references are written as BINGET."""

    SHARED = auto()
    """If it is referenced at least twice."""
    ALWAYS = auto()
    """Even if it is referenced once: modules, elements of ``List[Tensor]``, constants."""
    NEVER = auto()
    """Not even if it is referenced twice: it is then written twice."""


@dataclass(frozen=True, slots=True)
class Global:
    """A name outside the pickle: a class, a function, a storage type."""

    module: str
    name: str

    @property
    def qualified_name(self) -> str:
        """The module and the name, joined by a dot."""
        return f"{self.module}.{self.name}"

    def is_well_formed(self) -> bool:
        """Whether both lines are dotted names without blanks and control characters.

        They need not be Python identifiers: a model defined in ``my-model.py`` has a class in
        ``__torch__.my-model``, which torch.jit saves and loads.
        """
        return _is_dotted(self.module) and _is_dotted(self.name)


def _is_dotted(text: str) -> bool:
    return text.isprintable() and " " not in text and all(text.split("."))


@dataclass(slots=True, eq=False)
class Object:
    """An object of a class (module, script class, torchbind class): NEWOBJ, state, BUILD.

    The state is whatever ``__getstate__`` returned, or else a dict of attributes, which belongs to
    the object and has no identity of its own.
    """

    cls: Global
    state: Value = None
    memo: Memo = Memo.SHARED


@dataclass(slots=True, eq=False)
class Reduce:
    """A global applied to its argument: tensors, tagged lists and dicts, enums, devices.

    The argument is a tuple of arguments or, for enums, any one value. A list or dict directly in
    that tuple belongs to the Reduce and has no identity of its own. ``items`` and ``state`` are
    what Python's pickler adds to an ``OrderedDict`` (``torch.save`` of a ``state_dict``); they are
    read, never written.
    """

    function: Global
    argument: Value
    memo: Memo = Memo.SHARED
    items: dict[Value, Value] | None = None
    state: Value = None


@dataclass(slots=True, eq=False)
class PersistentId:
    """A storage, named by the tuple ("storage", type, key, device, number of elements).

    It is written once and memoised; further references are BINGETs.
    """

    value: tuple[Value, ...]


class MarkedTuple(tuple["Value", ...]):
    """A tuple written as MARK, items, TUPLE whatever its length, and never memoised.

    Sizes, strides and the arguments of tensor and ``build_*list`` functions are such tuples.
    """

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Memoised:
    """A plain list, dict or tuple that is memoised even if it is referenced once.

    Identity is that of the wrapper: use one Memoised wherever the same container is meant. The
    value inside has no identity of its own.
    """

    value: list[Value] | dict[Value, Value] | tuple[Value, ...]


Value: TypeAlias = (
    bool
    | int
    | float
    | complex
    | str
    | list["Value"]
    | dict["Value", "Value"]
    | tuple["Value", ...]
    | Global
    | Object
    | Reduce
    | PersistentId
    | Memoised
    | None
)
