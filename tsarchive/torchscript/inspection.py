"""The tensors and the module tree of an archive, from data.pkl alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tsarchive.errors import PickleError
from tsarchive.pickler import Object, Reduce
from tsarchive.printer.types import Attribute, ClassType
from tsarchive.torchscript.storages import STORAGE_TYPES
from tsarchive.torchscript.stored_tensors import (
    StoredTensors,
    is_tensor,
    plain_tensor,
)
from tsarchive.torchscript.stored_values import (
    MAX_DEPTH,
    DenseTensor,
    QuantizedTensor,
    SparseTensor,
    View,
    Wrapped,
)

# Modules and containers may be referenced from many places; a file made to explode is not a model.
MAX_NAMES = 1_000_000
# Of all their names together.
MAX_LETTERS = 1 << 27

_RECORD = "data.pkl"
# What may hold tensors. Other values have names that nobody asks for.
_HOLDING = (Object, Reduce, dict, list, tuple)

ClassOf = Callable[[Object], ClassType]
_Named = tuple[str, Any, Attribute | None]
_END = (None, None, None)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What an archive says of one tensor.

    ``dtype`` is torch's name without ``torch.``; ``strides`` count elements and are empty for
    sparse tensors; ``storage`` is the record of its bytes, None for sparse tensors; ``nbytes``
    is the size of the elements that the tensor shows, not of the storage; ``offset`` counts the
    bytes of the record before the first of them, and is None where that is not known. A tensor
    that is neither parameter nor buffer is a plain attribute, or stands inside a container.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage: str | None
    nbytes: int
    is_parameter: bool
    is_buffer: bool
    offset: int | None = None

    @property
    def role(self) -> str:
        """``parameter``, ``buffer`` or ``attribute``."""
        if self.is_parameter:
            return "parameter"
        return "buffer" if self.is_buffer else "attribute"


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
    """Every tensor below ``root`` by its dotted name; a shared tensor appears under each name.

    Raises PickleError where names are too many, too long together, or values nested too deeply.
    """
    walks: list[Iterator[_Named]] = [iter([("", root, None)])]
    names = letters = 0
    while walks:
        name, value, slot = next(walks[-1], _END)
        if name is None:
            walks.pop()
            continue
        names, letters = names + 1, letters + len(name)
        if names > MAX_NAMES or letters > MAX_LETTERS:
            limit = MAX_NAMES if names > MAX_NAMES else MAX_LETTERS
            raise PickleError("too many named values", record=_RECORD, limit=limit)
        info = tensor_info(value, slot)
        if info is not None:
            yield name, info
        elif len(walks) > MAX_DEPTH:
            raise PickleError("values are nested too deeply", record=_RECORD, limit=MAX_DEPTH)
        else:
            inside = _inside(name, value, class_of)
            walks.append(named for named in inside if isinstance(named[1], _HOLDING))


def _inside(name: str, value: Any, class_of: ClassOf) -> Iterator[_Named]:
    """The named values directly inside one value."""
    prefix = f"{name}." if name else ""
    match value:
        case Object(state=dict() as state):
            slots = class_of(value).attributes
            for key, item in state.items():
                yield f"{prefix}{_attribute(key)}", item, slots.get(_attribute(key))
        case Object():
            yield f"{prefix}__getstate__", value.state, None
        case Reduce(argument=tuple((list() | dict() as content, *_))):
            yield name, content, None
        case dict():
            for index, (key, item) in enumerate(value.items()):
                yield f"{prefix}{_shown_key(key, index)}", item, None
        case list() | tuple():
            yield from ((f"{prefix}{index}", item, None) for index, item in enumerate(value))


def _attribute(key: Any) -> str:
    if not isinstance(key, str):
        raise PickleError("the state of an object has a name that is no text", record=_RECORD)
    return key


def _shown_key(key: Any, index: int) -> str:
    """A key of a dict in a name; what is made by a call or holds others goes by its place."""
    is_scalar = isinstance(key, bool | int | float | str | None)
    return str(key) if is_scalar else f"<{type(key).__name__} {index}>"


def tensor_info(value: Any, slot: Attribute | None) -> TensorInfo | None:
    """What ``value`` says of a tensor; None when it is something else.

    Raises PickleError for a tensor that breaks a rule of the format.
    """
    if not isinstance(value, Reduce) or not is_tensor(value):
        return None
    stored = StoredTensors(_RECORD)
    described = stored.tensor(plain_tensor(value, _RECORD))
    if isinstance(described, Wrapped):
        described = stored.tensor(described.tensor)
    match described:
        case DenseTensor(view) | QuantizedTensor(view):
            return _of_view(view, slot)
        case SparseTensor(size=size, parts=parts):
            infos = [info for part in parts if (info := tensor_info(part, None))]
            nbytes = sum(info.nbytes for info in infos)
            return TensorInfo(infos[-1].dtype, size, (), None, nbytes, *_flags(slot))
    return None


def _of_view(view: View, slot: Attribute | None) -> TensorInfo:
    storage = view.storage
    itemsize = STORAGE_TYPES[storage.kind].itemsize
    return TensorInfo(
        storage.dtype, view.size, view.stride, f"data/{storage.key}", view.elements * itemsize,
        *_flags(slot), offset=view.offset * itemsize,
    )  # fmt: skip


def _flags(slot: Attribute | None) -> tuple[bool, bool]:
    return (slot.is_parameter, slot.is_buffer) if slot else (False, False)


def module_tree(root: Object, class_of: ClassOf) -> ModuleInfo:
    """The modules below ``root``; a module that is referenced twice appears twice.

    Raises PickleError where they are too many or nested too deeply.
    """
    return _Tree(class_of).module("", root, 1)


class _Tree:
    def __init__(self, class_of: ClassOf) -> None:
        self.class_of = class_of
        self.count = 0

    def module(self, name: str, value: Object, depth: int) -> ModuleInfo:
        self.count += 1
        if self.count > MAX_NAMES or depth > MAX_DEPTH:
            limit = MAX_NAMES if self.count > MAX_NAMES else MAX_DEPTH
            message = "too many modules, or nested too deeply"
            raise PickleError(message, record=_RECORD, limit=limit)
        class_ = self.class_of(value)
        state = value.state if isinstance(value.state, dict) else {}
        children, parameters, nbytes = [], 0, 0
        for key, item in state.items():
            if isinstance(item, Object) and self._is_module(item):
                children.append(self.module(_attribute(key), item, depth + 1))
            elif info := tensor_info(item, class_.attributes.get(_attribute(key))):
                nbytes += info.nbytes
                parameters += math.prod(info.shape) if info.is_parameter else 0
        return ModuleInfo(
            name, class_.qualified_name, tuple(class_.methods), parameters, nbytes, tuple(children)
        )

    def _is_module(self, value: Object) -> bool:
        return self.class_of(value).is_module
