"""The tensors and the module tree of an archive, from data.pkl alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tsarchive.errors import PickleError
from tsarchive.pickler import Global, Object, PersistentId, Reduce
from tsarchive.printer.types import Attribute, ClassType
from tsarchive.torchscript.storages import STORAGE_TYPES

# Modules and containers may be referenced from many places; a file made to explode is not a model.
MAX_NAMES = 1_000_000

# What may hold tensors. Other values have names that nobody asks for.
_HOLDING = (Object, Reduce, dict, list, tuple)

ClassOf = Callable[[Object], ClassType]
_Named = tuple[str, Any, Attribute | None]
_REBUILD_DENSE = frozenset({"_rebuild_tensor_v2", "_rebuild_qtensor"})


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What an archive says of one tensor.

    ``dtype`` is torch's name without ``torch.``; ``strides`` count elements and are empty for
    sparse tensors; ``storage`` is the record of its bytes, None for sparse tensors; ``nbytes``
    is the size of the elements that the tensor shows, not of the storage. A tensor that is
    neither parameter nor buffer is a plain attribute, or stands inside a container.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage: str | None
    nbytes: int
    is_parameter: bool
    is_buffer: bool


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """One module of the tree. ``parameters`` counts elements, ``nbytes`` the bytes of its own
    tensors; both leave out submodules."""

    name: str
    qualified_class: str
    methods: tuple[str, ...]
    parameters: int
    nbytes: int
    children: tuple[ModuleInfo, ...]


def named_tensors(root: Object, class_of: ClassOf) -> Iterator[tuple[str, TensorInfo]]:
    """Every tensor below ``root`` by its dotted name; a shared tensor appears under each name."""
    pending: list[_Named] = [("", root, None)]
    names = 0
    while pending:
        name, value, slot = pending.pop()
        names += 1
        if names > MAX_NAMES:
            raise PickleError("too many named values", record="data.pkl", limit=MAX_NAMES)
        info = tensor_info(value, slot)
        if info is not None:
            yield name, info
        else:
            inside = _inside(name, value, class_of)
            pending += reversed([named for named in inside if isinstance(named[1], _HOLDING)])


def _inside(name: str, value: Any, class_of: ClassOf) -> Iterator[_Named]:
    """The named values directly inside one value."""
    prefix = f"{name}." if name else ""
    match value:
        case Object(state=dict() as state):
            slots = class_of(value).attributes
            for key, item in state.items():
                yield f"{prefix}{key}", item, slots.get(str(key))
        case Object():
            yield f"{prefix}__getstate__", value.state, None
        case Reduce(argument=tuple((list() | dict() as content, *_))):
            yield name, content, None
        case dict():
            yield from ((f"{prefix}{key}", item, None) for key, item in value.items())
        case list() | tuple():
            yield from ((f"{prefix}{index}", item, None) for index, item in enumerate(value))


def tensor_info(value: Any, slot: Attribute | None) -> TensorInfo | None:
    """What ``value`` says of a tensor; None when it is something else."""
    match value:
        case Reduce(
            function=Global("torch._utils", name),
            argument=(PersistentId() as storage, int(), tuple() as size, tuple() as stride, *_),
        ) if name in _REBUILD_DENSE:
            return _dense(storage, size, stride, slot)
        case Reduce(
            function=Global("torch._utils", "_rebuild_sparse_tensor"),
            argument=(int(), tuple() as size, bool(), *parts),
        ):
            infos = [i for part in parts if (i := tensor_info(part, None))]
            nbytes = sum(info.nbytes for info in infos)
            dtype = infos[-1].dtype if infos else "float32"
            return TensorInfo(dtype, size, (), None, nbytes, *_flags(slot))
        case Reduce(
            function=Global("torch._utils", "_rebuild_parameter"), argument=(tensor, bool(), *_)
        ):
            return tensor_info(tensor, slot)
    return None


def _dense(
    storage: PersistentId, size: tuple[Any, ...], stride: tuple[Any, ...], slot: Attribute | None
) -> TensorInfo:
    match storage.value:
        case ("storage", Global("torch", kind), str(key), str(), int(), *_) if (
            kind in STORAGE_TYPES
        ):
            dtype, itemsize = STORAGE_TYPES[kind]
        case _:
            raise PickleError("a storage reference is malformed", record="data.pkl")
    if any(type(number) is not int or number < 0 for number in (*size, *stride)):
        raise PickleError(f"a tensor of size {size} is malformed", record="data.pkl")
    nbytes = math.prod(size) * itemsize
    return TensorInfo(dtype, size, stride, f"data/{key}", nbytes, *_flags(slot))


def _flags(slot: Attribute | None) -> tuple[bool, bool]:
    return (slot.is_parameter, slot.is_buffer) if slot else (False, False)


def module_tree(root: Object, class_of: ClassOf) -> ModuleInfo:
    """The modules below ``root``; a module that is referenced twice appears twice."""
    return _Tree(class_of).module("", root)


class _Tree:
    def __init__(self, class_of: ClassOf) -> None:
        self.class_of = class_of
        self.count = 0

    def module(self, name: str, value: Object) -> ModuleInfo:
        self.count += 1
        if self.count > MAX_NAMES:
            raise PickleError("too many modules", record="data.pkl", limit=MAX_NAMES)
        class_ = self.class_of(value)
        state = value.state if isinstance(value.state, dict) else {}
        children, parameters, nbytes = [], 0, 0
        for key, item in state.items():
            if isinstance(item, Object) and self._is_module(item):
                children.append(self.module(str(key), item))
            elif info := tensor_info(item, class_.attributes.get(str(key))):
                nbytes += info.nbytes
                parameters += math.prod(info.shape) if info.is_parameter else 0
        return ModuleInfo(
            name, class_.qualified_name, tuple(class_.methods), parameters, nbytes, tuple(children)
        )

    def _is_module(self, value: Object) -> bool:
        return self.class_of(value).is_module
