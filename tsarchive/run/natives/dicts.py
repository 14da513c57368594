"""Operators on dicts, which keep the order of insertion.

Tensor keys count by identity. A key that is nan equals no key, not even itself: it is never
found, and each one that is set makes an item of its own.
"""

from __future__ import annotations

import operator
from typing import Any, TypeVar

from tsarchive.errors import ScriptError
from tsarchive.run.natives.formatting import format_value
from tsarchive.run.natives.table import Native, check_kind, key_fault, native

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


def _pop(table: dict[K, V], key: K) -> V:
    check_kind(table, dict)
    try:
        return table.pop(key)
    except KeyError:
        raise _missing(key) from None


def _delete(table: dict[K, V], key: K) -> None:
    _pop(table, key)


def _pop_first(table: dict[K, V]) -> tuple[K, V]:
    """Remove and return the item that was inserted first; Python's popitem takes the last."""
    check_kind(table, dict)
    for key in table:
        return key, table.pop(key)
    raise key_fault("popitem(): dictionary is empty")


def _values(table: dict[K, V]) -> list[V]:
    check_kind(table, dict)
    return list(table.values())


def _items(table: dict[K, V]) -> list[tuple[K, V]]:
    check_kind(table, dict)
    return list(table.items())


# Operator and overload name; the braces stand for the type of the keys.
_BY_KEY_TYPE: dict[str, Native] = {
    "aten::len.Dict_{}": len,
    "aten::keys.{}": list,
    "aten::values.{}": _values,
    "aten::items.{}": _items,
    "aten::__contains__.{}": operator.contains,
    "aten::__getitem__.Dict_{}": _item,
    "aten::_set_item.{}": operator.setitem,
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


def _apart(key: Any) -> Any:
    """The key, or a new nan for a nan: Python's dicts find an object by identity."""
    return key if key == key else key + 0


def _with_key_apart(function: Native) -> Native:
    def call(table: dict[K, V], *arguments: Any) -> Any:
        if arguments and arguments[0] != arguments[0]:
            arguments = (_apart(arguments[0]), *arguments[1:])
        return function(table, *arguments)

    return call


def _update_apart(table: dict[K, V], others: dict[K, V]) -> None:
    check_kind(others, dict)
    for key, value in others.items():
        table[_apart(key)] = value


def _pop_first_apart(table: dict[K, V]) -> tuple[K, V]:
    first = next(iter(table), None)
    if first != first:
        raise ScriptError("Expected to erase 1 item, found 0")
    return _pop_first(table)


_MAY_BE_NAN = ("float", "complex")
_BY_KEYS_THAT_MAY_BE_NAN: dict[str, Native] = {
    **{name: _with_key_apart(function) for name, function in _BY_KEY_TYPE.items()},
    "aten::update.{}": _update_apart,
    "aten::dict.{}": lambda pairs: {_apart(key): value for key, value in pairs},
    "aten::popitem.{}": _pop_first_apart,
}

for _type in KEY_TYPES:
    _table = _BY_KEYS_THAT_MAY_BE_NAN if _type in _MAY_BE_NAN else _BY_KEY_TYPE
    for _key, _function in _table.items():
        native(_key.format(_type))(_function)


native("aten::dict")(dict)
