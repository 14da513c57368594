"""The inert values of pickles: what they refer to, each once, and their conversion to others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from tsarchive.errors import PickleError
from tsarchive.ir.types import BOOL, FLOAT, INT, TENSOR, SimpleType
from tsarchive.pickler import Global, Memoised, Object, PersistentId, Reduce
from tsarchive.pickler.values import parts_of

# Deeper than any model; only a file made to exhaust the stack has more.
MAX_DEPTH = 200

_JIT: Final = "torch.jit._pickle"
LIST_BUILDERS: Final[Mapping[str, SimpleType]] = MappingProxyType(
    {
        "build_intlist": INT,
        "build_tensorlist": TENSOR,
        "build_doublelist": FLOAT,
        "build_boollist": BOOL,
    }
)
"""The functions of torch.jit._pickle that build lists, and the type of their elements."""


def is_list_builder(function: Global) -> bool:
    """Return whether a function of a pickle is one of those."""
    return function.module == _JIT and function.name in LIST_BUILDERS


class Conversion:
    """Converts the values of the pickle ``record``, each once however often it is referenced.

    Identity is kept, and the depth of nesting is bounded.
    """

    builders: ClassVar[dict[type, Callable[[Any, Any], Any]]]
    """Methods that convert values, by type; values of other types stay as they are."""

    def __init__(self, record: str) -> None:
        self.record = record
        self._built: dict[int, Any] = {}
        self._depth = 0

    def value(self, value: Any) -> Any:
        """Return the converted value. Raises PickleError where values are nested too deeply."""
        build = self.builders.get(type(value))
        if build is None:
            return value
        if id(value) not in self._built:
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise self.error("values are nested too deeply", limit=MAX_DEPTH)
            try:
                self._built[id(value)] = build(self, value)
            except RecursionError:
                raise self.error("values are nested too deeply") from None
            self._depth -= 1
        return self._built[id(value)]

    def error(self, message: str, limit: int | None = None) -> PickleError:
        return PickleError(message, record=self.record, limit=limit)

    def list_of(self, value: Iterable[Any]) -> list[Any]:
        # C calls, such as from `map`, count twice towards recursion in Python 3.12.
        found = []
        for item in value:
            found.append(self.value(item))
        return found

    def tuple_of(self, value: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.list_of(value))


_DEVICE = Global("torch", "device")


def objects_of(root: Any) -> Iterator[Object]:
    """Yield every module and script object below ``root``, including itself."""
    return (value for value in reachable(root) if isinstance(value, Object))


def names_in(root: Any) -> Iterator[str]:
    """Yield the qualified names of classes of objects, and of functions that make values."""
    for value in reachable(root):
        if isinstance(value, Object):
            yield value.cls.qualified_name
        elif isinstance(value, Reduce):
            yield value.function.qualified_name


def storages_of(root: Any) -> dict[str, str]:
    """Return the device of each storage, by its key: the name of its record in the folder."""
    return _storages_among(reachable(root))


def storages_outside(root: Any, is_inside: Callable[[Object, Any, Any], bool]) -> dict[str, str]:
    """Return the same, without those that only attributes hold which are inside of something.

    ``is_inside`` is given an object, and the name and value of its attribute.
    """
    seen: set[int] = set()
    pending, found = [root], []
    while pending:
        value = pending.pop()
        if id(value) not in seen:
            seen.add(id(value))
            found.append(value)
            if isinstance(value, Object) and isinstance(value.state, dict):
                state = value.state.items()
                pending += [own for name, own in state if not is_inside(value, name, own)]
            else:
                pending += parts_of(value)
    return _storages_among(found)


def _storages_among(values: Iterable[Any]) -> dict[str, str]:
    devices = {}
    for value in values:
        match value:
            case PersistentId(value=("storage", _, str(key), str(device), *_)):
                devices[key] = device
    return devices


def devices_in(root: Any) -> Iterator[str]:
    """Yield the device of each storage, and each device that is a value itself."""
    for value in reachable(root):
        match value:
            case PersistentId(value=("storage", _, _, str(device), *_)):
                yield device
            case Reduce(function=function, argument=(str(device),)) if function == _DEVICE:
                yield device


def move_devices(root: Any, storage: Callable[[str], str], constant: Callable[[str], str]) -> bool:
    """Map the devices of storages and device values in place; return whether any changed."""
    changed = False
    for value in reachable(root):
        match value:
            case PersistentId(value=("storage", kind, key, str(device), *rest)):
                value.value = ("storage", kind, key, storage(device), *rest)
                changed |= storage(device) != device
            case Reduce(function=function, argument=(str(device),)) if function == _DEVICE:
                value.argument = (constant(device),)
                changed |= constant(device) != device
    return changed


def replace_strings(value: Any, replace: Callable[[str], str], record: str) -> Any:
    """Replace strings in lists, tuples, dicts and tagged ones; keys stay.

    Lists and dicts are changed in place. Raises PickleError where values are nested too deeply.
    """
    return _Replacing(replace, record).value(value)


class _Replacing(Conversion):
    def __init__(self, replace: Callable[[str], str], record: str) -> None:
        super().__init__(record)
        self._replace = replace

    def _string(self, value: str) -> str:
        return self._replace(value)

    def _list(self, value: list[Any]) -> list[Any]:
        value[:] = self.list_of(value)
        return value

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        value.update({key: self.value(item) for key, item in value.items()})
        return value

    def _reduce(self, value: Reduce) -> Reduce:
        match value.argument:
            case (list() | dict() as content, *_):
                self.value(content)
        return value


_Replacing.builders = {
    str: _Replacing._string,
    list: _Replacing._list,
    tuple: _Replacing.tuple_of,
    dict: _Replacing._dict,
    Reduce: _Replacing._reduce,
}
_CONTAINERS = (Object, Reduce, PersistentId, Memoised, list, tuple, dict)


class _Kinds(dict[type, bool]):
    """Whether values of a type contain others; found once for each type."""

    def __missing__(self, kind: type) -> bool:
        found = self[kind] = issubclass(kind, _CONTAINERS)
        return found


_IS_CONTAINER = _Kinds()


def reachable(root: Any) -> Iterator[Any]:
    """Yield values that contain others, depth first, each once however often it is referenced."""
    seen: set[int] = set()
    pending = [root]
    while pending:
        value = pending.pop()
        if id(value) not in seen:
            seen.add(id(value))
            yield value
            kind = type(value)
            if kind is not PersistentId:  # which holds scalars
                inside = value if kind is tuple or kind is list else parts_of(value)
                pending += [part for part in inside if _IS_CONTAINER[type(part)]][::-1]
