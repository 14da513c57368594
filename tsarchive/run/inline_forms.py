"""Operators on numbers, strings, lists and dicts as Python syntax in the place of a call.

A form stands for the native function of the same key and does what that does with values of the
declared types. With values of other types, which ``unchecked_cast`` can bring, it does no more
than what the native does first: it names no attribute of anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tsarchive.ir.types import BOOL, FLOAT, INT, NONE, STRING

from .natives.narrowing import INT64_MAX, INT64_MIN, wrap

__all__ = [
    "ANY_INT",
    "FORMS",
    "HELPERS",
    "RANGED",
    "RANGES",
    "SCALARS",
    "STATEMENTS",
    "TURNS",
    "Form",
    "Range",
    "form_of",
]

Range = tuple[int, int]
"""The smallest and the largest value that an int may have."""

ANY_INT: Final[Range] = (INT64_MIN, INT64_MAX)
TURNS: Final[Range] = (0, INT64_MAX - 1)
"""The number of a turn of a loop, counted from 0."""
_LENGTH: Final[Range] = (0, 1 << 48)  # more does not fit into memory
_HALF_RANGE: Final = 1 << 62
_BITS: Final = 64

SCALARS: Final = frozenset({BOOL, INT, FLOAT, STRING, NONE})
"""Types whose values do not change and hold no memory to be given up."""

HELPERS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "abs": abs, "append": list.append, "chr": chr, "divmod": divmod, "float": float,
        "int": int, "isascii": str.isascii, "len": len, "list": list, "ord": ord, "str": str,
        "type": type, "wrap": wrap,
    }
)  # fmt: skip
"""What forms call, by the name in their braces; ``native`` is the operator itself."""


_NAMES: Final = (*HELPERS, "native")


class Form(NamedTuple):
    """``text`` with the numbers of operands in braces.

    ``is_pure``: with operands of the declared types it does not raise and changes nothing.
    ``range`` of an int result.
    """

    text: str
    is_pure: bool = True
    range: Range = ANY_INT

    @property
    def names(self) -> list[str]:
        """The helpers that the text calls, and ``native``."""
        return [name for name in _NAMES if f"{{{name}}}" in self.text]


# Text whose bytes are its letters.
_IS_ASCII: Final = "{type}({0}) is {str} and {isascii}({0})"
_COMPARISONS: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ARITHMETIC: Final = {"add": "+", "sub": "-", "mul": "*"}
_KEYS: Final = ("str", "int", "bool")


def _rows() -> dict[str, Form]:
    rows: dict[str, Form] = {}
    for name, sign in _COMPARISONS.items():
        for kind in ("int", "float"):
            rows[f"aten::{name}.{kind}"] = Form(f"{{0}} {sign} {{1}}")
        rows[f"aten::{name}.int_float"] = Form(f"{{float}}({{0}}) {sign} {{1}}")
        rows[f"aten::{name}.float_int"] = Form(f"{{0}} {sign} {{float}}({{1}})")
    for name in ("eq", "ne"):
        for kind in ("str", "bool", "device", "enum"):
            rows[f"aten::{name}.{kind}"] = Form(f"{{0}} {_COMPARISONS[name]} {{1}}")
    for name, sign in _ARITHMETIC.items():
        for kind in ("float", "int_float", "float_int"):
            rows[f"aten::{name}.{kind}"] = Form(f"{{0}} {sign} {{1}}")
    for kind in ("int", "float"):
        rows[f"prim::min.{kind}"] = Form("{0} if {0} < {1} else {1}")
        rows[f"prim::max.{kind}"] = Form("{0} if {0} > {1} else {1}")
    for kind in ("int", "str"):
        rows[f"aten::__contains__.{kind}_list"] = Form(
            "{1} in {0} if {type}({0}) is {list} else {native}({0}, {1})", is_pure=False
        )
    for key in _KEYS:
        rows[f"aten::__contains__.{key}"] = Form("{1} in {0}")
        rows[f"aten::__getitem__.Dict_{key}"] = Form(
            "{0}[{1}] if {1} in {0} else {native}({0}, {1})", is_pure=False
        )
    return rows


FORMS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        **_rows(),
        "aten::__and__.bool": Form("{0} & {1}"),
        "aten::__or__.bool": Form("{0} | {1}"),
        "aten::__xor__.bool": Form("{0} != {1}"),
        "aten::__and__.int": Form("{0} & {1}"),
        "aten::__or__.int": Form("{0} | {1}"),
        "aten::__xor__.int": Form("{0} ^ {1}"),
        "aten::__not__": Form("not {0}"),
        "aten::neg.float": Form("-{0}"),
        "prim::abs.float": Form("{abs}({0})"),
        "aten::div.float": Form("{0} / {1} if {1} else {native}({0}, {1})"),
        "aten::Int.float": Form("{int}({0}) if -2.0**63 <= {0} < 2.0**63 else {native}({0})"),
        "aten::floordiv.int": Form("{0} // {1} if {1} > 0 else {native}({0}, {1})", is_pure=False),
        "aten::remainder.int": Form(
            f"{{0}} % {{1}} if 0 < {{1}} < {_HALF_RANGE} else {{native}}({{0}}, {{1}})",
            is_pure=False,
        ),
        "aten::divmod.int": Form(
            "{divmod}({0}, {1}) if {1} > 0 else {native}({0}, {1})", is_pure=False
        ),
        "aten::__getitem__.str": Form(
            f"{{0}}[{{1}}] if {_IS_ASCII} and 0 <= {{1}} < {{len}}({{0}})"
            " else {native}({0}, {1})",
            is_pure=False,
        ),
        "aten::chr": Form("{chr}({0}) if 0 <= {0} < 128 else {native}({0})", is_pure=False),
        "aten::len.str": Form(f"{{len}}({{0}}) if {_IS_ASCII} else {{native}}({{0}})"),
        "aten::ord": Form(
            f"{{ord}}({{0}}) if {_IS_ASCII} and {{len}}({{0}}) == 1 else {{native}}({{0}})",
            is_pure=False,
        ),
        "aten::__getitem__.t": Form("{0}[{1}]", is_pure=False),
        "aten::select.t": Form("{0}[{1}]", is_pure=False),
    }
)  # fmt: skip
"""Expressions, by the key of the native that each stands for."""

RANGES: Final[Mapping[str, Range]] = MappingProxyType(
    {
        **dict.fromkeys(("aten::len.t", "aten::len.str", "aten::len.Tensor", "aten::dim"), _LENGTH),
        **{f"aten::len.Dict_{key}": _LENGTH for key in _KEYS},
        "aten::ord": (0, 255),
        "aten::size.int": (0, INT64_MAX),
    }
)
"""What the results of functions can be."""

STATEMENTS: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "aten::append.t": Form("{append}({0}, {1})", is_pure=False),
        "aten::_set_item.t": Form("{0}[{1}] = {2}", is_pure=False),
        **{f"aten::_set_item.{key}": Form("{0}[{1}] = {2}", is_pure=False) for key in _KEYS},
    }
)
"""Forms without a result, for where nothing uses it."""


RangedForm = Callable[..., tuple[str, Range] | None]


def _sum(a: Range, b: Range) -> tuple[str, Range]:
    return "{0} + {1}", (a[0] + b[0], a[1] + b[1])


def _difference(a: Range, b: Range) -> tuple[str, Range]:
    return "{0} - {1}", (a[0] - b[1], a[1] - b[0])


def _product(a: Range, b: Range) -> tuple[str, Range]:
    corners = [x * y for x in a for y in b]
    return "{0} * {1}", (min(corners), max(corners))


def _negated(a: Range) -> tuple[str, Range]:
    return "-{0}", (-a[1], -a[0])


def _magnitude(a: Range) -> tuple[str, Range]:
    return "{abs}({0})", (0, max(abs(a[0]), abs(a[1])))


def _derived(index: Range, start: Range, step: Range) -> tuple[str, Range]:
    """The number that a loop over a range has in turn ``index``."""
    _, advanced = _product(index, step)
    _, found = _sum(start, advanced)
    return ("{1} + {0}" if step == (1, 1) else "{1} + {0} * {2}"), found


def _quotient(a: Range, b: Range) -> tuple[str, Range] | None:
    if b[0] <= 0:
        return None
    corners = [x // y for x in a for y in b]
    return "{0} // {1}", (min(corners), max(corners))


def _remainder(a: Range, b: Range) -> tuple[str, Range] | None:
    if b[0] <= 0 or b[1] >= _HALF_RANGE:
        return None
    return "{0} % {1}", (0, b[1] - 1)


def _shifted_right(a: Range, b: Range) -> tuple[str, Range]:
    """x86-64 counts modulo 64."""
    is_plain = b[0] >= 0 and b[1] < _BITS
    return ("{0} >> {1}" if is_plain else "{0} >> ({1} & 63)"), (min(a[0], 0), max(a[1], 0))


RANGED: Final[Mapping[str, RangedForm]] = MappingProxyType(
    {
        "aten::add.int": _sum,
        "aten::sub.int": _difference,
        "aten::mul.int": _product,
        "aten::neg.int": _negated,
        "prim::abs.int": _magnitude,
        "aten::__derive_index": _derived,
        "aten::floordiv.int": _quotient,
        "aten::remainder.int": _remainder,
        "aten::__rshift__.int": _shifted_right,
    }
)
"""Pure forms of operators on ints, from the ranges of the operands, with the range of the result.

That range is not cut to 64 bits. None where the operands may be such that there is no result.
"""


def form_of(key: str, ranges: Sequence[Range], name: str) -> Form | None:
    """The form of an operator on ints, given the ranges of its operands."""
    found = RANGED[key](*ranges)
    if found is None:
        return FORMS.get(key)
    text, (low, high) = found
    is_within = low >= INT64_MIN and high <= INT64_MAX
    return Form(_in_64_bits(text, low, high, name), range=(low, high) if is_within else ANY_INT)


def _in_64_bits(text: str, low: int, high: int, name: str) -> str:
    """``text``, an int between two bounds, wrapped where they go beyond 64 bits.

    ``name`` is a variable that holds it while it is looked at.
    """
    test = f"({name} := {text})"
    if low < INT64_MIN:
        test = f"{INT64_MIN} <= {test}"
    if high > INT64_MAX:
        test = f"{test} <= {INT64_MAX}"
    is_within = low >= INT64_MIN and high <= INT64_MAX
    return text if is_within else f"{name} if {test} else {{wrap}}({name})"
