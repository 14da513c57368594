"""Operators on dicts, which keep the order of insertion. Tensor keys count by identity."""

from __future__ import annotations

from typing import Any, TypeVar

from tsarchive.run.natives.faults import key_fault
from tsarchive.run.natives.formatting import format_value
from tsarchive.run.natives.table import Native, native

__all__ = ["KEY_TYPES"]

K = TypeVar("K")
V = TypeVar("V")

KEY_TYPES = ("str", "int", "bool", "float", "complex", "Tensor")


def _missing(key: object) -> Exception:
    return key_fault(f"KeyError: {format_value(key)}")


def _item(table: dict[K, V], key: K) -> V:
    try:
        return table[key]
    except KeyError:
        raise _missing(key) from None


def _set_item(table: dict[K, V], key: K, value: V) -> None:
    table[key] = value


def _delete(table: dict[K, V], key: K) -> None:
    _pop(table, key)


def _pop(table: dict[K, V], key: K) -> V:
    try:
        return table.pop(key)
    except KeyError:
        raise _missing(key) from None


def _pop_first(table: dict[K, V]) -> tuple[K, V]:
    """Remove and return the item that was inserted first; Python's popitem takes the last."""
    for key in table:
        return key, table.pop(key)
    raise key_fault("popitem(): dictionary is empty")


def _contains(table: dict[K, V], key: K) -> bool:
    return key in table


def _keys(table: dict[K, V]) -> list[K]:
    return list(table)


def _values(table: dict[K, V]) -> list[V]:
    return list(table.values())


def _items(table: dict[K, V]) -> list[tuple[K, V]]:
    return list(table.items())


# Operator and overload name; the braces stand for the type of the keys.
_BY_KEY_TYPE: dict[str, Native] = {
    "aten::len.Dict_{}": len,
    "aten::keys.{}": _keys,
    "aten::values.{}": _values,
    "aten::items.{}": _items,
    "aten::__contains__.{}": _contains,
    "aten::__getitem__.Dict_{}": _item,
    "aten::_set_item.{}": _set_item,
    "aten::get.{}": dict.get,
    "aten::get.default_{}": dict.get,
    "aten::setdefault.{}": dict.setdefault,
    "aten::pop.Dict_{}": _pop,
    "aten::pop.Dict_default_{}": dict.pop,
    "aten::popitem.{}": _pop_first,
    "aten::Delete.Dict_{}": _delete,
    "aten::clear.{}": dict.clear,
    "aten::update.{}": dict.update,
    "aten::copy.Dict_{}": dict.copy,
    "aten::dict.Dict_{}": dict.copy,
    "aten::dict.{}": dict,
}

for _key, _function in _BY_KEY_TYPE.items():
    for _type in KEY_TYPES:
        native(_key.format(_type))(_function)


@native("aten::dict")
def empty_dict() -> dict[Any, Any]:
    return {}
