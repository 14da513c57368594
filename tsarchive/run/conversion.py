"""Values by their TorchScript types: which type one has, and conversion at the boundary to Python.

Lists and dicts keep the type they were created with; Python's do not. So code that creates one
whose elements would not tell (none at all, or Optional and Union elements) makes a ``TypedList``
or ``TypedDict``, where the type can matter later.
"""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, SupportsIndex, TypeVar

import torch
from torch._library.fake_class_registry import FakeScriptObject
from torch.compiler import is_dynamo_compiling

from tsarchive.ir.classes import ClassType
from tsarchive.ir.subtyping import flat_members, is_subtype, unify_all
from tsarchive.ir.types import (
    ANY,
    ANY_LIST,
    ANY_TUPLE,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STORAGE,
    STREAM,
    STRING,
    TENSOR,
    DictType,
    EnumType,
    HandleType,
    ListType,
    OptionalType,
    SimpleType,
    TupleType,
    Type,
    UnionType,
)

from .checks import MEMORY_FORMATS
from .foreign import ForeignObject
from .natives.conversions import INT64_MAX, INT64_MIN, LAYOUTS, NUMBERS
from .natives.futures import Awaitable, Future
from .natives.strings import decode
from .natives.table import fault
from .operators import native_class

UNKNOWN: Final = SimpleType("?")
"""The element type of an empty list whose type nobody noted: it may be any."""

_EXACT: dict[type, Type] = {
    bool: BOOL,
    int: INT,
    float: FLOAT,
    complex: COMPLEX,
    str: STRING,
    type(None): NONE,
    torch.SymBool: BOOL,
    torch.SymInt: INT,
    torch.SymFloat: FLOAT,
    torch.device: DEVICE,
    torch.Generator: GENERATOR,
    torch.Stream: STREAM,
    Future: HandleType("Future", UNKNOWN),
    Awaitable: HandleType("Await", UNKNOWN),
}
_SCALARS = frozenset({BOOL, INT, FLOAT, COMPLEX, STRING, NONE})
_UNTYPED = frozenset(
    {
        ListType(UNKNOWN),
        DictType(UNKNOWN, UNKNOWN),
        HandleType("Future", UNKNOWN),
        HandleType("Await", UNKNOWN),
    }
)


class TypedList(list[Any]):
    """A list that knows its element type."""

    __slots__ = ("type",)

    def __init__(self, type_: Type, items: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.type = type_

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedList:
        made = memo[id(self)] = TypedList(self.type)
        made.extend(copy.deepcopy(list(self), memo))
        return made

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        """Pickled as a plain list, which is what archives hold."""
        return list, (), None, iter(self)


class TypedDict(dict[Any, Any]):
    """A dict that knows its key and value types."""

    __slots__ = ("type",)

    def __init__(self, type_: Type, items: Iterable[tuple[Any, Any]] = ()) -> None:
        super().__init__(items)
        self.type = type_

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedDict:
        made = memo[id(self)] = TypedDict(self.type)
        made.update(copy.deepcopy(dict(self), memo))
        return made

    def __reduce_ex__(self, _protocol: SupportsIndex) -> tuple[Any, ...]:
        """Pickled as a plain dict, which is what archives hold."""
        return dict, (), None, None, iter(self.items())


def typed_list(type_: Type, items: Iterable[Any] = ()) -> list[Any]:
    """A TypedList; a plain list where torch.compile traces, which knows no subclasses."""
    return list(items) if is_dynamo_compiling() else TypedList(type_, items)


def typed_dict(type_: Type, items: Iterable[tuple[Any, Any]] = ()) -> dict[Any, Any]:
    """The same for a dict."""
    return dict(items) if is_dynamo_compiling() else TypedDict(type_, items)


def type_of_class(class_: type) -> Type | None:
    """The archive type that ``class_`` was made for."""
    return getattr(class_, "tsarchive_type", None)


def type_of(value: Any) -> Type:
    """The run-time type. Values that TorchScript does not have give ``Any``."""
    class_ = type(value)
    found = _EXACT.get(class_) or type_of_class(class_)
    if found is not None:
        return found
    if isinstance(value, torch.Tensor):
        return TENSOR
    if isinstance(value, TypedList | TypedDict):
        return value.type
    if isinstance(value, list):
        return ListType(type_of(value[0]) if value else UNKNOWN)
    if isinstance(value, dict):
        for key, item in value.items():
            return DictType(type_of(key), type_of(item))
        return DictType(UNKNOWN, UNKNOWN)
    if isinstance(value, tuple):
        return TupleType(tuple(map(type_of, value)))
    native = native_name(value)
    if native is not None:
        return native_class(native) or ANY
    if isinstance(value, ForeignObject):
        return value.class_
    if isinstance(value, torch.UntypedStorage | torch.TypedStorage):
        return STORAGE
    return ANY


def native_name(value: Any) -> str | None:
    """The qualified name of the class bound from C++ of an object, or of one that stands for it
    while torch.export traces; None for others."""
    if isinstance(value, torch.ScriptObject):
        return str(value._type().annotation_str)
    return value.script_class_name if isinstance(value, FakeScriptObject) else None


def is_instance(value: Any, type_: Type) -> bool:
    """``isinstance`` of TorchScript: bool is no int, containers by their element types."""
    found = type_of(value)
    if found in _UNTYPED:
        return any(_is_alike(found, member) for member in (type_, *flat_members(type_)))
    if is_subtype(found, type_):
        return True
    # Items of a tuple may be untyped, too.
    members = (type_, *flat_members(type_))
    return type(value) is tuple and any(_is_tuple_of(value, member) for member in members)


def _is_tuple_of(value: tuple[Any, ...], type_: Type) -> bool:
    if not isinstance(type_, TupleType) or type_.qualified_name is not None:
        return False
    return len(value) == len(type_.elements) and all(map(is_instance, value, type_.elements))


def _is_alike(found: Type, wanted: Type) -> bool:
    if isinstance(found, HandleType) and isinstance(wanted, HandleType):
        return found.kind == wanted.kind
    return type(found) is type(wanted) or is_subtype(found, wanted)


def predicate(types: Iterable[Type]) -> Callable[[Any], bool]:
    """The function that tells whether a value belongs to one of ``types``."""
    wanted = tuple(types)
    found: Any = _predicate(wanted)
    found.tsarchive_types = wanted
    return found  # type: ignore[no-any-return]


def _predicate(wanted: tuple[Type, ...]) -> Callable[[Any], bool]:
    if _SCALARS.issuperset(wanted):
        classes = tuple(class_ for class_, type_ in _EXACT.items() if type_ in wanted)
        return lambda value: type(value) in classes
    if wanted == (TENSOR,):
        return lambda value: isinstance(value, torch.Tensor)
    return lambda value: any(is_instance(value, type_) for type_ in wanted)


Converter = Callable[[Any], Any]
T = TypeVar("T")


class Mismatch(Exception):
    """The value cannot be given for the declared type."""


# torch's own casts take values that have one of these methods.
_INT_METHODS = ("__index__", "__int__")
_FLOAT_METHODS = ("__float__", "__index__")
_COMPLEX_METHODS = ("__complex__", "__float__", "__index__")
# Lists of these are not made of strings, dicts and tensors, though they can be iterated.
_NUMBERS = frozenset({INT, FLOAT, BOOL, TENSOR})
_NO_NUMBERS: tuple[type, ...] = (str, bytes, Mapping, torch.Tensor)


def _has_any(value: Any, methods: Iterable[str]) -> bool:
    """Return whether the class, not its metaclass, has one of the methods."""
    return any(name in base.__dict__ for base in type(value).__mro__ for name in methods)


def _is_iterable(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or _has_any(value, ("__iter__",))


def _cast(value: Any, cast: Callable[[Any], T], methods: Iterable[str]) -> T:
    """Convert the only element of a tensor, or a value whose class has one of the methods."""
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise Mismatch
        return cast(value.item())
    if _has_any(value, methods):
        return cast(value)
    raise Mismatch


def _to_tensor(value: Any) -> Any:
    if value is None or isinstance(value, torch.Tensor):
        return value
    raise Mismatch


def _to_some_tensor(value: Any) -> Any:
    """An element of a list; only single arguments may leave a tensor out."""
    if isinstance(value, torch.Tensor):
        return value
    raise Mismatch


def _to_int(value: Any) -> int:
    if isinstance(value, torch.SymInt):
        return value  # type: ignore[return-value]  # an int whose value tracing leaves open
    if type(value) is int:
        found = value
    elif isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        found = _NUMBERS_OF[value]
    elif isinstance(value, float):
        raise Mismatch
    else:
        found = _cast(value, int, _INT_METHODS)
    if not INT64_MIN <= found <= INT64_MAX:
        raise Mismatch
    return found


_NUMBERS_OF: Mapping[Any, int] = {
    **NUMBERS,
    **LAYOUTS,
    **{getattr(torch, name): number for number, name in MEMORY_FORMATS.items()},
}


def _to_float(value: Any) -> float:
    if type(value) is float:
        return value
    if isinstance(value, (int, torch.SymInt, torch.SymFloat)):
        symbol: float = torch.sym_float(value)  # type: ignore[no-untyped-call]
        return symbol
    return _cast(value, float, _FLOAT_METHODS)


def _to_complex(value: Any) -> complex:
    if type(value) is complex:  # which has no method to become one in Python 3.10
        return value
    return _cast(value, complex, _COMPLEX_METHODS)


def _to_bool(value: Any) -> bool:
    if isinstance(value, (bool, torch.SymBool)):
        return value  # type: ignore[return-value]
    return False if value is None else _cast(value, bool, ("__bool__",))


def _to_number(value: Any) -> int | float | complex:
    if isinstance(value, (int, torch.dtype, torch.layout)) and not isinstance(value, bool):
        return _to_int(value)
    if isinstance(value, (bool, float, complex, torch.SymInt, torch.SymFloat)):
        return value  # type: ignore[return-value]
    raise Mismatch


def _to_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return decode(value)
    raise Mismatch


def _to_device(value: Any) -> torch.device:
    if isinstance(value, torch.device):
        return value
    if isinstance(value, str):
        try:
            return torch.device(value)
        except RuntimeError:
            raise Mismatch from None
    raise Mismatch


def _to_future(value: Any) -> Future[Any]:
    """The outcome of a future of torch, which this waits for."""
    if isinstance(value, torch._C.Future):
        return Future(lambda: admitted(value.wait()))
    raise Mismatch


def _to_none(value: Any) -> None:
    if value is not None:
        raise Mismatch


def admitted(value: Any) -> Any:
    """Check a value that Python code gave to code of an archive that called it, and return it.

    Raises ScriptError for what TorchScript has no type for, at any depth: natives and operators
    would run methods of such objects.
    """
    if isinstance(value, (list, tuple)):
        for item in value:
            admitted(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            admitted(key)
            admitted(item)
    elif not isinstance(value, (torch.Tensor, torch.nn.Module)) and type_of(value) == ANY:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise fault(TypeError, f"TorchScript has no type for a {kind}")
    return value


def infer(value: Any) -> Any:
    """A value for ``Any``: its own type decides, and it must be one that TorchScript has."""
    if isinstance(value, (torch.dtype, torch.layout)):
        return _to_int(value)
    for class_, convert in _BASES.items():
        if isinstance(value, class_) and not isinstance(value, (bool, enum.Enum)):
            return convert(value)
    if isinstance(value, list):
        items = [infer(item) for item in value]
        return typed_list(ListType(_common_type(items)), items)
    if isinstance(value, Mapping):
        pairs = [(infer(key), infer(item)) for key, item in value.items()]
        key_type = _common_type([key for key, _ in pairs])
        return typed_dict(DictType(key_type, _common_type([item for _, item in pairs])), pairs)
    if isinstance(value, tuple):
        return tuple(map(infer, value))
    if type_of(value) == ANY:
        raise Mismatch
    return value


# Subclasses, such as numpy's scalars, become what they are derived from.
_BASES: dict[type, Converter] = {
    int: _to_int, float: float, complex: complex, str: str, bytes: decode,
}  # fmt: skip


def _common_type(items: list[Any]) -> Type:
    """The type that the items have in common. An empty list has none."""
    found = unify_all(map(type_of, items)) if items else None
    if found is None:
        raise Mismatch
    return found


_SIMPLE: dict[Type, Converter] = {
    TENSOR: _to_tensor, INT: _to_int, FLOAT: _to_float, COMPLEX: _to_complex, BOOL: _to_bool,
    NUMBER: _to_number, STRING: _to_string, DEVICE: _to_device, NONE: _to_none,
    ANY: infer, ANY_LIST: infer, ANY_TUPLE: infer,
}  # fmt: skip


class Converters:
    """Makes converters; ``python_class`` gives the classes of enums and named tuples."""

    def __init__(self, python_class: Callable[[Type], Any]) -> None:
        self._python_class = python_class

    def converter(self, type_: Type) -> Converter:
        """The function that converts a Python value to ``type_``.

        It raises Mismatch, or the error that the value itself raises when Python converts it.
        """
        if type_ in _SIMPLE:
            return _SIMPLE[type_]
        match type_:
            case OptionalType(element):
                convert = self.converter(element)
                return lambda value: None if value is None else convert(value)
            case ListType():
                return self._list(type_)
            case DictType():
                return self._dict(type_)
            case TupleType():
                return self._tuple(type_)
            case EnumType():
                return self._enum(type_)
            case HandleType("Future"):
                return _to_future
            case UnionType():
                return lambda value: _checked(infer(value), type_)
        return lambda value: _checked(value, type_)

    def _list(self, type_: ListType) -> Converter:
        convert = _to_some_tensor if type_.element == TENSOR else self.converter(type_.element)
        refused = _NO_NUMBERS if type_.element in _NUMBERS else ()
        is_telling = _can_be_inferred(type_.element)

        def to_list(value: Any) -> list[Any]:
            if isinstance(value, refused) or not _is_iterable(value):
                raise Mismatch
            items = [convert(item) for item in value]
            return items if items and is_telling else typed_list(type_, items)

        return to_list

    def _dict(self, type_: DictType) -> Converter:
        convert_key, convert_item = self.converter(type_.key), self.converter(type_.value)
        is_telling = _can_be_inferred(type_.value)

        def to_dict(value: Any) -> dict[Any, Any]:
            pairs = dict(value).items()
            items = {convert_key(key): convert_item(item) for key, item in pairs}
            return items if items and is_telling else typed_dict(type_, items)

        return to_dict

    def _tuple(self, type_: TupleType) -> Converter:
        converters = tuple(map(self.converter, type_.elements))
        make = self._python_class(type_)._make if type_.qualified_name else tuple

        def to_tuple(value: Any) -> tuple[Any, ...]:
            items = tuple(value) if _is_iterable(value) else ()
            if len(items) != len(converters):
                raise Mismatch
            return make(convert(item) for convert, item in zip(converters, items, strict=True))

        return to_tuple

    def _enum(self, type_: EnumType) -> Converter:
        class_ = self._python_class(type_)

        def to_member(value: Any) -> Any:
            """A member of another class counts when name and value agree."""
            if isinstance(value, class_):
                return value
            if not isinstance(value, enum.Enum) or type_.members.get(value.name) != value.value:
                raise Mismatch
            return class_[value.name]

        return to_member


def _checked(value: Any, type_: Type) -> Any:
    if is_instance(value, type_):
        return value
    raise Mismatch


def changes_on_export(type_: Type) -> bool:
    """Return whether ``export`` may give another object, or refuse, for values of this type."""
    if type_ in (ANY, STRING) or isinstance(type_, (ListType, DictType, EnumType, HandleType)):
        return True
    return any(map(changes_on_export, type_.parts())) and not isinstance(type_, ClassType)


def export(value: Any) -> Any:
    """The value for Python: copies of lists, dicts and tuples at every depth, futures of torch.

    A member of an enum is the one that Python knows.
    Raises ScriptError for a string that is not UTF-8, which torch does not give to Python either.
    """
    if isinstance(value, list):
        return [export(item) for item in value]
    if isinstance(value, dict):
        return {export(key): export(item) for key, item in value.items()}
    if isinstance(value, tuple):
        items = map(export, value)
        return tuple(items) if type(value) is tuple else type(value)(*items)
    if isinstance(value, Future):
        return value.given(export)
    if isinstance(value, enum.Enum):
        return type(value)[value.name]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise fault(UnicodeDecodeError, f"the string {value!a} is not UTF-8") from None
    return value


def _can_be_inferred(type_: Type) -> bool:
    from tsarchive.printer.literals import can_be_inferred  # few callers give lists

    return can_be_inferred(type_)
