"""Runtime assertions of programs, as conditions of a program graph.

The operators have no results, so dead code elimination, as in torch.jit, would drop their checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from tsarchive.errors import UnsupportedError
from tsarchive.ir.graph import Value, must_be_none

from .building import Body

Given = Mapping[str, Value]
Assertion = Callable[[Body, Given], list[Value]]


def _asserted(body: Body, given: Given) -> list[Value]:
    body.raise_unless(body.truth(given["self"]), _message(given))
    return []


def _message(given: Given) -> str:
    message = given.get("assert_msg")
    if message is None:
        return "a tensor that must hold a true value does not"
    if not message.node.is_constant:
        raise UnsupportedError("the message of an assertion is no literal")
    return str(message.node.attributes["value"])


def _in_range(body: Body, given: Given) -> list[Value]:
    number = given["size"]
    for kind, bound, words in (("aten::ge", "min", "less"), ("aten::le", "max", "more")):
        if not must_be_none(given[bound]):
            message = f"a number is {words} than the program was exported for"
            body.raise_unless(body.value(kind, number, given[bound]), message)
    return []


def _size_in_range(body: Body, given: Given) -> list[Value]:
    least = body.integer(0) if must_be_none(given["min"]) else given["min"]
    return _in_range(body, {**given, "min": least})


# The operator that reads the tensor property of each argument name.
_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "size": "aten::size",
        "stride": "aten::stride",
        "dtype": "prim::dtype",
        "device": "prim::device",
        "layout": "prim::layout",
    }
)


def _of_tensor(body: Body, given: Given) -> list[Value]:
    for name, reader in _PROPERTIES.items():
        if must_be_none(given[name]):
            continue
        is_same = body.value("aten::eq", body.value(reader, given["a"]), given[name])
        body.raise_unless(
            is_same, f"a tensor is of another {name} than the program was exported for"
        )
    return []


def _without_errors(body: Body, given: Given) -> list[Value]:
    """Assert that the error codes of a linear algebra function, one for each matrix, are zeros."""
    has_error = body.truth(body.value("aten::any", given["info"]))
    api: Any = given["api_name"].node.attributes.get("value", "a function of linear algebra")
    body.raise_unless(body.value("aten::__not__", has_error), f"{api}: no result for a matrix")
    return []


def _functional(assertion: Assertion) -> Assertion:
    """Return the assertion with the token that functional programs thread through assertions."""

    def form(body: Body, given: Given) -> list[Value]:
        assertion(body, given)
        return [given["dep_token"]]

    return form


ASSERTIONS: Final[Mapping[str, Assertion]] = MappingProxyType(
    {
        "aten::_assert_async": _asserted,
        "aten::_assert_async.msg": _asserted,
        "aten::_assert_scalar": _asserted,
        "aten::_assert_tensor_metadata": _of_tensor,
        "aten::_functional_assert_async.msg": _functional(_asserted),
        "aten::_functional_assert_scalar": _functional(_asserted),
        "aten::_functional_sym_constrain_range": _functional(_in_range),
        "aten::_functional_sym_constrain_range_for_size": _functional(_size_in_range),
        "aten::_linalg_check_errors": _without_errors,
        "aten::sym_constrain_range": _in_range,
        "aten::sym_constrain_range_for_size": _size_in_range,
    }
)
"""The translation of each asserting operator, by its full name."""
