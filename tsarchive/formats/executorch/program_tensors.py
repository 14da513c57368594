"""The tensors of a program as dicts: their initial bytes, and their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from .table_values import Values, set_scalar
from .values import Layout

_EXTERNAL: Final = 1
_NUMBER: Final = "data_buffer_idx"
_EXTRA: Final = "extra_tensor_info"
_NAME: Final = "fully_qualified_name"
_LOCATION: Final = "location"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor with initial bytes: its tables, one in each method that has it.

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
        """The key of its bytes in a data file, if they are in one."""
        return str(self.tables[0].get(_EXTRA, {}).get(_NAME) or self.name)


def tensors_of(root: Values) -> Iterator[tuple[str, Values]]:
    """Yield all tensors of a program, by method and value number: ``forward.3``."""
    for plan in root.get("execution_plan", ()):
        for index, value in enumerate(plan.get("values", ())):
            kind, table = value.get("val", (None, None))
            if kind == "Tensor":
                yield f"{plan.get('name', '')}.{index}", table


def stored_tensors(root: Values) -> dict[str, StoredTensor]:
    """Return the tensors with bytes in the file or in a data file, by their names in archives.

    Tables of one name are one tensor, unless they differ.
    """
    found: dict[str, StoredTensor] = {}
    for place, table in tensors_of(root):
        one = _describe_tensor(table.get(_EXTRA, {}).get(_NAME) or place, table)
        if not (one.is_external or one.number):
            continue
        known = found.get(one.name, replace(one, tables=()))
        if replace(known, tables=one.tables) == one:
            found[one.name] = replace(one, tables=known.tables + one.tables)
        else:
            found[place] = replace(one, name=place)
    return found


def _describe_tensor(name: str, table: Values) -> StoredTensor:
    is_external = table.get(_EXTRA, {}).get(_LOCATION, 0) == _EXTERNAL
    number = 0 if is_external else table.get(_NUMBER, 0)
    is_mutable = "allocation_info" in table
    return StoredTensor(name, layout_of(table), is_external, is_mutable, number, (table,))


def layout_of(table: Values) -> Layout:
    """Return the layout of a tensor table, or of a layout table in a data file."""
    sizes, order = table.get("sizes", ()), table.get("dim_order", b"")
    return Layout(table.get("scalar_type", 0), tuple(sizes), tuple(order))


def make_external(table: Values, key: str) -> None:
    """Make a tensor refer to a key of a data file.

    The number stays, though it means nothing any more: the runtime's bindings take an output with
    neither a number nor a place in an arena for one without memory, and give zeros.
    """
    set_name(table, key)
    table[_EXTRA][_LOCATION] = _EXTERNAL


def make_internal(table: Values, number: int) -> None:
    """Make a tensor refer to the bytes of a number."""
    set_scalar(table, _NUMBER, number)
    set_scalar(table.setdefault(_EXTRA, {}), _LOCATION, 0)


def set_name(table: Values, name: str) -> None:
    """Set the name of a tensor, by which data files are searched."""
    table.setdefault(_EXTRA, {})[_NAME] = name


def clear_name(table: Values) -> bool:
    """Remove the name of a tensor that does not need it. Returns whether it had one."""
    extra = table.get(_EXTRA, {})
    if _NAME not in extra or extra.get(_LOCATION, 0) == _EXTERNAL:
        return False
    del extra[_NAME]
    if not extra:
        del table[_EXTRA]
    return True
