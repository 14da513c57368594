"""Pickles for older releases of torch: what of them each reads, and how it is written there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.operators.overloads import methods_of
from tsarchive.operators.registry import class_names, listed_versions
from tsarchive.pickler import Global, Object, PersistentId, Reduce, dumps, loads

from .pickled import LIST_BUILDERS, Conversion, is_list_builder, reachable
from .stored_tensors import is_tensor

_TABLE: Final = "constants.pkl"
PICKLES: Final = frozenset({"data.pkl", _TABLE, "traced_inputs.pkl"})
"""The pickles that torch.jit.load reads."""

# The first release that reads each of these; others are read by all.
_FUNCTIONS: Final[Mapping[str, str]] = {
    "torch.device": "1.5",
    "builtins.complex": "1.9",
    "torch._utils._rebuild_sparse_tensor": "1.10",
    "torch._utils._rebuild_sparse_csr_tensor": "1.10",
    "torch._utils._rebuild_meta_tensor_no_storage": "2.1",
}
_STORAGES: Final[Mapping[str, str]] = {
    "ComplexFloatStorage": "1.6",
    "ComplexDoubleStorage": "1.6",
    "QUInt4x2Storage": "1.8",
    "QUInt2x4Storage": "1.11",
    **dict.fromkeys(
        (f"Bits{form}Storage" for form in ("1x8", "2x4", "4x2", "8", "16")),
        "2.1",
    ),
    **dict.fromkeys(("Float8_e5m2Storage", "Float8_e4m3fnStorage"), "2.1"),
    **dict.fromkeys(("Float8_e5m2fnuzStorage", "Float8_e4m3fnuzStorage"), "2.2"),
    **dict.fromkeys((f"UInt{bits}Storage" for bits in (1, 2, 3, 4, 5, 6, 7, 16, 32, 64)), "2.3"),
    **dict.fromkeys((f"Int{bits}Storage" for bits in range(1, 8)), "2.6"),
    "Float8_e8m0fnuStorage": "2.7",
    "Float4_e2m1fn_x2Storage": "2.8",
}
_LAST_WITH_LISTS: Final = "1.4"
_CONVOLUTIONS: Final = f"{NATIVE_PREFIX}quantized.Conv"

_Named = tuple[str, str]


def unread(record: str, data: bytes) -> Iterator[_Named]:
    """Yield what a pickle holds that not all releases read, and the first that does."""
    root = loads(data, record=record)
    for value in reachable(root):
        found = _name_of(value)
        if found is not None:
            yield found
    for value in root if record == _TABLE and isinstance(root, tuple) else ():
        if not (isinstance(value, Reduce) and is_tensor(value)):
            yield "constants other than tensors", "1.7"
        if isinstance(value, Object):
            yield "constants that are objects", "1.8"


def _name_of(value: Any) -> _Named | None:
    scales = _scales(value)
    if isinstance(scales, Reduce) and is_tensor(scales):
        return "tensors that are quantized by channel", "1.5"
    match value:
        case Reduce(function):
            name = function.qualified_name
            return (name, _FUNCTIONS[name]) if name in _FUNCTIONS else None
        case PersistentId(("storage", Global("torch", kind), *_)) if kind in _STORAGES:
            return f"tensors of torch.{kind}", _STORAGES[kind]
        case Object() if value.cls.qualified_name in class_names():
            return _native(value.cls.qualified_name)
    return None


def no_longer_read(record: str, data: bytes) -> Iterator[_Named]:
    """Yield what a pickle holds that releases do not read any more, and the last that does."""
    for value in reachable(loads(data, record=record)):
        match _scales(value):
            case Reduce(function) if is_list_builder(function):
                yield "tensors that are quantized by channel with lists", _LAST_WITH_LISTS


def _scales(value: Any) -> Any:
    """Return the scale of a quantized tensor, or its scales, from the quantizer."""
    match value:
        case Reduce(Global("torch._utils", "_rebuild_qtensor"), tuple() as arguments):
            match arguments[4:5]:
                case ((_, scales, *_),):
                    return scales
    return None


def _native(name: str) -> _Named | None:
    """Return the first release with the class of an object that torch binds."""
    if name.startswith(_CONVOLUTIONS):
        return f"the state of {name}", "1.7"  # 1.6 has the classes, and other states
    since = next((version for version in listed_versions() if methods_of(name, version)), None)
    return None if since is None else (f"an object of {name}", since)


def untagged(record: str, data: bytes) -> bytes:
    """Return a pickle as torch 1.4 reads it: nothing tells the types of lists and dicts."""
    return dumps(_Untagging(record).value(loads(data, record=record)))


_TAG: Final = Global("torch.jit._pickle", "restore_type_tag")
_BUILDERS: Final = {f"List[{element.name}]": name for name, element in LIST_BUILDERS.items()}


class _Untagging(Conversion):
    """Replaces lists and dicts with a type by those that torch 1.4 wrote; others are kept."""

    def _tagged(self, value: Reduce) -> Any:
        match value:
            case Reduce(function, (content, str(tag))) if function == _TAG:
                found = self.value(content)
                builder = _BUILDERS.get(tag)
                return found if builder is None else Reduce(Global(_TAG.module, builder), (found,))
        value.argument = self.value(value.argument)
        return value

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(item) for key, item in value.items()}

    def _object(self, value: Object) -> Object:
        value.state = self.value(value.state)
        return value


_Untagging.builders = {
    list: _Untagging.list_of,
    tuple: _Untagging.tuple_of,
    dict: _Untagging._dict,
    Reduce: _Untagging._tagged,
    Object: _Untagging._object,
}
