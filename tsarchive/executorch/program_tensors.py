"""The tensors of a program as dicts: which bytes they begin with, and under which names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from .table_values import Values, put
from .values import Layout

__all__ = [
    "StoredTensor", "clear_name", "layout_of", "make_external", "make_internal", "set_name",
    "stored_tensors", "tensors_of",
]  # fmt: skip

_EXTERNAL: Final = 1
_NUMBER: Final = "data_buffer_idx"
_EXTRA: Final = "extra_tensor_info"
_NAME: Final = "fully_qualified_name"
_LOCATION: Final = "location"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor that begins with bytes: its tables, one in each method that has it.

    ``number`` is that of the bytes, 0 where they are in a data file. The bytes of one that
    ``is_mutable`` are copied when a method is loaded.
    """

    name: str
    layout: Layout
    is_external: bool
    is_mutable: bool
    number: int
    tables: tuple[Values, ...]

    @property
    def key(self) -> str:
        """What a data file has its bytes under, where they are in one."""
        return str(self.tables[0].get(_EXTRA, {}).get(_NAME) or self.name)


def tensors_of(root: Values) -> Iterator[tuple[str, Values]]:
    """All tensors of a program, by method and number of value: ``forward.3``."""
    for plan in root.get("execution_plan", ()):
        for index, value in enumerate(plan.get("values", ())):
            kind, table = value.get("val", (None, None))
            if kind == "Tensor":
                yield f"{plan.get('name', '')}.{index}", table


def stored_tensors(root: Values) -> dict[str, StoredTensor]:
    """Those that have bytes in the file or in a data file, by the names that archives tell.

    Tables of one name are one tensor, unless they differ.
    """
    found: dict[str, StoredTensor] = {}
    for place, table in tensors_of(root):
        one = _described(table.get(_EXTRA, {}).get(_NAME) or place, table)
        if not (one.is_external or one.number):
            continue
        known = found.get(one.name, replace(one, tables=()))
        if replace(known, tables=one.tables) == one:
            found[one.name] = replace(one, tables=known.tables + one.tables)
        else:
            found[place] = replace(one, name=place)
    return found


def _described(name: str, table: Values) -> StoredTensor:
    is_external = table.get(_EXTRA, {}).get(_LOCATION, 0) == _EXTERNAL
    number = 0 if is_external else table.get(_NUMBER, 0)
    is_mutable = "allocation_info" in table
    return StoredTensor(name, layout_of(table), is_external, is_mutable, number, (table,))


def layout_of(table: Values) -> Layout:
    """What the table of a tensor, or of a layout in a data file, says of its bytes."""
    sizes, order = table.get("sizes", ()), table.get("dim_order", b"")
    return Layout(table.get("scalar_type", 0), tuple(sizes), tuple(order))


def make_external(table: Values, key: str) -> None:
    """Let a tensor begin with what a data file has under a key.

    The number stays, and means nothing any more: bindings of the runtime take an output without a
    number and a place in an arena for one that nobody has memory for, and give zeros.
    """
    set_name(table, key)
    table[_EXTRA][_LOCATION] = _EXTERNAL


def make_internal(table: Values, number: int) -> None:
    """Let a tensor begin with the bytes of a number."""
    put(table, _NUMBER, number)
    put(table.setdefault(_EXTRA, {}), _LOCATION, 0)


def set_name(table: Values, name: str) -> None:
    """Give a tensor a name, by which data files know it."""
    table.setdefault(_EXTRA, {})[_NAME] = name


def clear_name(table: Values) -> bool:
    """Take the name from a tensor that does not need it. Returns whether it had one."""
    extra = table.get(_EXTRA, {})
    if _NAME not in extra or extra.get(_LOCATION, 0) == _EXTERNAL:
        return False
    del extra[_NAME]
    if not extra:
        del table[_EXTRA]
    return True
