"""Overloads whose meaning changed, and what stands for the old meaning.

A method of an archive older than ``bumped_at`` is compiled against ``old_schema``; running the
node means running the function that torch calls ``upgrader``. Every overload changed once.
Source: torch's operator version map (``torch._C._get_operator_version_map()``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tsarchive.ir.schema import FunctionSchema, parse_schema


class Upgrader(NamedTuple):
    """``upgrader`` gives archives of versions before ``bumped_at`` their old operator."""

    bumped_at: int
    upgrader: str
    old_schema: str


class Candidate(NamedTuple):
    """An overload that a call may mean; ``upgrader`` is set for an old one."""

    schema: FunctionSchema
    upgrader: str | None = None


_OPTIONS: Final = (
    "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"
)
_DIV = {
    "Tensor": "Tensor self, Tensor other",
    "Scalar": "Tensor self, Scalar other",
    "Tensor_mode": "Tensor self, Tensor other, *, str? rounding_mode",
    "Scalar_mode": "Tensor self, Scalar other, *, str? rounding_mode",
}
_DIV_OUT = {
    "out": "Tensor self, Tensor other, *, Tensor(a!) out",
    "out_mode": "Tensor self, Tensor other, *, str? rounding_mode, Tensor(a!) out",
}
_DIV_IN_PLACE = {
    overload: text.replace("Tensor self", "Tensor(a!) self") for overload, text in _DIV.items()
}
_FULL_NAMES = f"int[] size, Scalar fill_value, *, Dimname[]? names, {_OPTIONS}"
_LINSPACE = "Scalar start, Scalar end, int? steps=None"
_LOGSPACE = f"{_LINSPACE}, float base=10.0"


def _entry(bumped_at: int, name: str, overload: str, arguments: str) -> tuple[str, Upgrader]:
    full_name = f"aten::{name}.{overload}" if overload else f"aten::{name}"
    last_version = bumped_at - 1
    upgrader = "_".join(filter(None, (name, overload, "0", str(last_version))))
    return full_name, Upgrader(bumped_at, upgrader, f"{full_name}({arguments}) -> Tensor")


UPGRADERS: Final[dict[str, Upgrader]] = dict(
    (
        *(_entry(4, "div", *entry) for entry in (_DIV | _DIV_OUT).items()),
        *(_entry(4, "div_", *entry) for entry in _DIV_IN_PLACE.items()),
        _entry(5, "full", "", f"int[] size, Scalar fill_value, *, {_OPTIONS}"),
        _entry(5, "full", "names", _FULL_NAMES),  # gone with the operator since torch 2.12
        _entry(5, "full", "out", "int[] size, Scalar fill_value, *, Tensor(a!) out"),
        _entry(8, "linspace", "", f"{_LINSPACE}, *, {_OPTIONS}"),
        _entry(8, "linspace", "out", f"{_LINSPACE}, *, Tensor(a!) out"),
        _entry(9, "logspace", "", f"{_LOGSPACE}, *, {_OPTIONS}"),
        _entry(9, "logspace", "out", f"{_LOGSPACE}, *, Tensor(a!) out"),
        _entry(10, "gelu", "", "Tensor self"),
        _entry(10, "gelu", "out", "Tensor self, *, Tensor(a!) out"),
    )
)


def candidates(schemas: Iterable[FunctionSchema], version: int | None) -> tuple[Candidate, ...]:
    """Return the overloads to try, in order, for code of an archive version; None means current.

    Old overloads stand behind those that did not change.
    """
    current: list[Candidate] = []
    old: list[Candidate] = []
    for schema in schemas:
        entry = UPGRADERS.get(schema.full_name) if version is not None else None
        if entry is None or version is None or version >= entry.bumped_at:
            current.append(Candidate(schema))
        else:
            old.append(Candidate(parse_schema(entry.old_schema), entry.upgrader))
    return (*current, *old)
