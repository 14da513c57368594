"""The contents of a pickle record as inert values: names are not resolved, nothing is called.

``None``, ``bool``, ``int``, ``float``, ``complex``, ``str``, ``list``, ``dict`` and ``tuple``
stand for themselves; the classes below stand for everything else. References to values are counted
here too, which decides what a pickle memoises, and cycles are detected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain
from typing import NamedTuple, TypeAlias


class Memo(Enum):
    """When a value is memoised, so that later references are written as BINGET.

    For example:

        >>> always = pickler.Object(pickler.Global("__torch__", "Net"), {}, pickler.Memo.ALWAYS)
        >>> shared = pickler.Object(pickler.Global("__torch__", "Net"), {})
        >>> len(pickler.dumps(always)) > len(pickler.dumps(shared))
        True
    """

    SHARED = auto()
    """If it is referenced at least twice."""
    ALWAYS = auto()
    """Even if it is referenced once: modules, elements of ``List[Tensor]``, constants."""
    NEVER = auto()
    """Not even if it is referenced twice: it is then written twice."""


@dataclass(frozen=True, slots=True)
class Global:
    """A name outside the pickle: a class, a function, a storage type.

    For example:

        >>> pickler.loads(pickler.dumps(pickler.Global("torch", "float32"))).qualified_name
        'torch.float32'
    """

    module: str
    name: str

    @property
    def qualified_name(self) -> str:
        """The module and the name, joined by a dot."""
        return f"{self.module}.{self.name}"

    def is_well_formed(self) -> bool:
        """Return whether both lines are dotted names without blanks and control characters.

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

        >>> net = pickler.Object(pickler.Global("__torch__", "Net"), {"training": False})
        >>> pickler.loads(pickler.dumps(net)).state
        {'training': False}
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

        >>> device = pickler.Reduce(pickler.Global("torch", "device"), ("cpu",))
        >>> pickler.loads(pickler.dumps(device)).argument
        ('cpu',)
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

        >>> storage = pickler.PersistentId(("storage", "0", "cpu", 4))
        >>> pickler.loads(pickler.dumps(storage)).value
        ('storage', '0', 'cpu', 4)
    """

    value: tuple[Value, ...]


class MarkedTuple(tuple["Value", ...]):
    """A tuple written as MARK, items, TUPLE whatever its length, and never memoised.

    Sizes, strides and the arguments of tensor and ``build_*list`` functions are such tuples.

        >>> pickler.dumps(pickler.MarkedTuple((1, 2))) == pickler.dumps((1, 2))
        False
    """

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Memoised:
    """A plain list, dict or tuple that is memoised even if it is referenced once.

    Identity is that of the wrapper: use one Memoised wherever the same container is meant. The
    value inside has no identity of its own.

        >>> pickler.loads(pickler.dumps(pickler.Memoised([1, 2])))
        [1, 2]
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


_LEAVES = frozenset({type(None), bool, int, float, complex, str, Global})
_EMPTY = id(())


def identity(value: Value) -> int:
    """Return the id of a value; all empty tuples share one, even where Python has several."""
    return id(value) if value or type(value) is not tuple else _EMPTY


def shared_values(root: Value) -> frozenset[int] | None:
    """Return the ids of the values that the writer meets at least twice.

    A memoised value is walked once; one that is written anew at each reference is walked at each.
    None where a value contains itself, which no pickle of this format can hold.
    """
    met: set[int] = set()
    shared: set[int] = set()
    path: list[int] = []
    on_path: set[int] = set()
    walks: list[Iterator[Value]] = [iter((root,))]
    while walks:
        for value in walks[-1]:
            if type(value) in _LEAVES:
                continue
            key = identity(value)
            if key in on_path:
                return None
            if key in met:
                shared.add(key)
                continue
            if type(value) is tuple:
                met.add(key)
                walks.append(iter(value))
            else:
                # Each further reference to the others writes the value in full again.
                if (
                    type(value) is not MarkedTuple
                    and getattr(value, "memo", None) is not Memo.NEVER
                ):
                    met.add(key)
                walks.append(written_parts(value))
            on_path.add(key)
            path.append(key)
            break
        else:
            walks.pop()
            if path:
                on_path.remove(path.pop())
    return frozenset(shared)


class Repeats(Enum):
    """The number of times that a walk along every reference meets values again."""

    FEW = auto()
    MANY = auto()
    ENDLESS = auto()
    """A value contains itself."""


def repeats_in(root: Value, limit: int) -> Repeats:
    """Return whether a walk along every reference meets values again more than ``limit`` times.

    Every value is visited once here.
    """
    lengths: dict[int, int] = {id(root): 0}  # of the walks below values, 0 until they are known
    edges = 0
    path: list[tuple[Value, Iterator[Value]]] = [(root, parts_of(root))]
    below = [1]
    found = Repeats.FEW
    while path:
        value, parts = path[-1]
        for part in parts:
            edges += 1
            length = 1 if type(part) in _LEAVES else lengths.get(id(part))
            if length is None:
                lengths[id(part)] = 0
                path.append((part, parts_of(part)))
                below.append(1)
                break
            if length == 0:
                return Repeats.ENDLESS
            below[-1] += length
        else:
            path.pop()
            length = below.pop()
            if length - edges > limit + 1:
                found, length = Repeats.MANY, 1
            lengths[id(value)] = length
            if below:
                below[-1] += length
    return found


def parts_of(value: Value) -> Iterator[Value]:
    """Return everything directly inside a value."""
    if isinstance(value, dict):
        return chain.from_iterable(value.items())
    if isinstance(value, (list, tuple)):
        return iter(value)
    if isinstance(value, Object):
        return iter((value.state,))
    if isinstance(value, Reduce):
        return iter((value.argument, value.items, value.state))
    if isinstance(value, (PersistentId, Memoised)):
        return iter((value.value,))
    return iter(())


def written_parts(value: Value) -> Iterator[Value]:
    """Yield the parts with an identity of their own, passing through containers without one.

    Values that the writer refuses have no parts here.
    """
    if isinstance(value, Object):
        return parts_of(value.state) if type(value.state) is dict else iter((value.state,))
    if isinstance(value, Reduce):
        return _arguments(value.argument)
    if isinstance(value, (PersistentId, Memoised)):
        return parts_of(value.value)
    return parts_of(value)


def _arguments(argument: Value) -> Iterator[Value]:
    if not isinstance(argument, tuple):
        yield argument
        return
    for item in argument:
        if type(item) is list or type(item) is dict:
            yield from parts_of(item)
        else:
            yield item


class StorageType(NamedTuple):
    """A type of storage. ``dtype`` is the attribute name in torch; ``itemsize`` is in bytes."""

    dtype: str
    itemsize: int


STORAGE_TYPES = {
    "FloatStorage": StorageType("float32", 4),
    "DoubleStorage": StorageType("float64", 8),
    "HalfStorage": StorageType("float16", 2),
    "BFloat16Storage": StorageType("bfloat16", 2),
    "LongStorage": StorageType("int64", 8),
    "IntStorage": StorageType("int32", 4),
    "ShortStorage": StorageType("int16", 2),
    "CharStorage": StorageType("int8", 1),
    "ByteStorage": StorageType("uint8", 1),
    "BoolStorage": StorageType("bool", 1),
    "ComplexHalfStorage": StorageType("complex32", 4),
    "ComplexFloatStorage": StorageType("complex64", 8),
    "ComplexDoubleStorage": StorageType("complex128", 16),
    "QInt8Storage": StorageType("qint8", 1),
    "QUInt8Storage": StorageType("quint8", 1),
    "QInt32Storage": StorageType("qint32", 4),
    "QUInt4x2Storage": StorageType("quint4x2", 1),
    "QUInt2x4Storage": StorageType("quint2x4", 1),
    **{f"UInt{bits}Storage": StorageType(f"uint{bits}", bits // 8) for bits in (16, 32, 64)},
    **{
        f"Float8_{form}Storage": StorageType(f"float8_{form}", 1)
        for form in ("e5m2", "e4m3fn", "e5m2fnuz", "e4m3fnuz", "e8m0fnu")
    },
    "Float4_e2m1fn_x2Storage": StorageType("float4_e2m1fn_x2", 1),
    "Bits1x8Storage": StorageType("bits1x8", 1),
    "Bits2x4Storage": StorageType("bits2x4", 1),
    "Bits4x2Storage": StorageType("bits4x2", 1),
    "Bits8Storage": StorageType("bits8", 1),
    "Bits16Storage": StorageType("bits16", 2),
    # Integers of less than eight bits take a byte each.
    **{f"Int{bits}Storage": StorageType(f"int{bits}", 1) for bits in range(1, 8)},
    **{f"UInt{bits}Storage": StorageType(f"uint{bits}", 1) for bits in range(1, 8)},
}
