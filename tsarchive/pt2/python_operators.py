"""Replacements for operators that torch implements in Python by ones that exist everywhere.

The decompositions of torch's compiler leave these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tsarchive.ir.graph import Value
from tsarchive.ir.types import BOOL

from .building import Body

__all__ = ["PYTHON_FORMS"]

Given = Mapping[str, Value]


def _converted(body: Body, given: Given) -> list[Value]:
    is_copy, waits = body.constant(True, BOOL), body.constant(False, BOOL)
    return body.call("aten::to", given["a"], given["dtype"], waits, is_copy, overload="dtype")


def _counted(body: Body, given: Given) -> list[Value]:
    """Return ``length`` numbers from ``start`` on."""
    start, step = given["start"], given["step"]
    end = body.value("aten::add", start, body.value("aten::mul", given["length"], step))
    options = {"dtype": given["dtype"], "device": given["device"]}
    return body.call("aten::arange", start, end, step, overload="start_step", **options)


def _tensor(body: Body, given: Given) -> list[Value]:
    options = {"dtype": given["dtype"], "device": given["device"]}
    return body.call("aten::scalar_tensor", given["s"], overload="", **options)


def _reversed(body: Body, given: Given) -> list[Value]:
    return body.call("aten::flip", given["a"], given["dims"], overload="")


PYTHON_FORMS: Final[Mapping[str, Callable[[Body, Given], list[Value]]]] = MappingProxyType(
    {
        "prims::convert_element_type": _converted,
        "prims::iota": _counted,
        "prims::rev": _reversed,
        "prims::scalar_tensor": _tensor,
    }
)
"""The replacement of each operator, by its full name; it gets all arguments by name."""
