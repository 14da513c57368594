"""Values of attributes and constants: whether they are the same, and how a person writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tsarchive.analyses.encoding import Plain, encode

_TENSORS: Final = frozenset({"tensor", "sparse"})


def is_same(before: Plain, after: Plain) -> bool:
    """Return whether two values are the same: floats bit for bit, and True is not 1."""
    return before is after or encode(before) == encode(after)


def as_written(value: Any) -> Plain:
    """Return a value as a person writes it: lists as lists, types and devices by their names."""
    match value:
        case {"list": items}:
            return [*map(as_written, items)]
        case {"tuple": items}:
            return tuple(map(as_written, items))
        case {"dict": pairs}:
            return _written_dict(pairs)
        case {"tensor": [_, str(dtype), shape, *_]}:
            return f"{dtype} {shape}"
        case {"sparse": str(layout)}:
            return layout
        case {"device": str(text)} | {"function": str(text)} | {"constant": str(text)}:
            return text
        case {"enum": str(name), "member": str(member)}:
            return f"{name}.{member}"
        case {"type": _, "value": item} | {"enum": _, "value": item}:
            return as_written(item)
        case Mapping():
            return {key: as_written(item) for key, item in value.items()}
        case list() | tuple():
            return [*map(as_written, value)]
    return value  # type: ignore[no-any-return]


def _written_dict(pairs: Sequence[Any]) -> Plain:
    written = [(as_written(key), as_written(item)) for key, item in pairs]
    if all(isinstance(key, str) for key, _ in written):
        return {str(key): item for key, item in written}
    return [[key, item] for key, item in written]


class ValueChange(NamedTuple):
    """A part of a value that differs, or where ``is_type`` the type that it tells, and where
    ``is_order`` the keys of a dict, which stand in another order."""

    path: str
    before: Plain
    after: Plain
    is_type: bool = False
    is_order: bool = False


def value_changes(before: Any, after: Any, path: str = "") -> Iterator[ValueChange]:
    """Yield where two values differ, but for what is told of tensors by name.

    Values with tensors or objects in them are compared item by item; others are one.
    """
    if is_same(before, after):
        return
    match before, after:
        case (({"tensor": _} | {"sparse": _}), ({"tensor": _} | {"sparse": _})):
            return
        case ({"class": name, "attributes": own}, {"class": other, "attributes": others}) if (
            name == other and [key for key, _ in own] == [key for key, _ in others]
        ):
            for (key, item), (_, its) in zip(own, others, strict=True):
                yield from value_changes(item, its, f"{path}.{key}")
            return
        case {"list": own}, {"list": others} if _is_deep(own) and len(own) == len(others):
            yield from _items(own, others, path)
            return
        case {"tuple": own}, {"tuple": others} if _is_deep(own) and len(own) == len(others):
            yield from _items(own, others, path)
            return
        case {"dict": own}, {"dict": others} if _is_deep(own) and _have_same_keys(own, others):
            yield from _entries(own, others, path)
            return
        case {"type": type_, "value": own}, {"type": other, "value": others}:
            if type_ != other:
                yield ValueChange(path, type_, other, is_type=True)
            yield from value_changes(own, others, path)
            return
        case {"type": type_, "value": own}, _ if is_same(own, after):
            yield ValueChange(path, type_, None, is_type=True)
            return
        case _, {"type": type_, "value": others} if is_same(before, others):
            yield ValueChange(path, None, type_, is_type=True)
            return
    yield ValueChange(path, before, after)


def _items(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[ValueChange]:
    for index, (item, its) in enumerate(zip(before, after, strict=True)):
        yield from value_changes(item, its, f"{path}.{index}")


def _entries(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[ValueChange]:
    """Yield the order of keys where it differs, and what differs of the values of each."""
    if _keys(before) != _keys(after):
        orders = ([key for key, _ in side] for side in (before, after))
        yield ValueChange(path, next(orders), next(orders), is_order=True)
    items = dict(zip(_keys(after), (item for _, item in after), strict=True))
    for key, item in before:
        yield from value_changes(item, items[encode(key)], f"{path}.{key}")


def _have_same_keys(before: Sequence[Any], after: Sequence[Any]) -> bool:
    return sorted(_keys(before)) == sorted(_keys(after))


def _keys(pairs: Sequence[Any]) -> list[bytes]:
    return [encode(key) for key, _ in pairs]


def without_tensors(value: Any) -> Plain:
    """Return a value without the tensors in it, which are told by their names; None for one."""
    match value:
        case {"tensor": _} | {"sparse": _}:
            return None
        case {"dict": pairs}:
            return {"dict": [[k, without_tensors(v)] for k, v in pairs if not _is_tensor(v)]}
        case Mapping():
            return {key: without_tensors(item) for key, item in value.items()}
        case list() | tuple():
            return [without_tensors(item) for item in value if not _is_tensor(item)]
    return value  # type: ignore[no-any-return]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Mapping) and not value.keys().isdisjoint(_TENSORS)


def _is_deep(value: Any) -> bool:
    """Whether there are tensors or objects in a value."""
    match value:
        case {"tensor": _} | {"sparse": _} | {"class": _} | {"object": _}:
            return True
        case Mapping():
            return any(map(_is_deep, value.values()))
        case list() | tuple():
            return any(map(_is_deep, value))
    return False
