"""What older releases of torch have in the place of operators that came later.

``older_forms.txt`` is the table. Each paragraph is a function in TorchScript, as archives hold it;
``#`` before it stands in front of the operators, with their overloads, whose work it does. Its
parameters are the arguments of these, in their order. It names operators as the releases that lack
the newer one have them, and mean them. ``# in a branch:`` stands before operators that only raise:
they stand for those that code of torch.nn.functional names besides others, and does not reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from tsarchive.ir.graph import Node
from tsarchive.ir.types import FLOAT, Type

from .registry import table_text
from .upgraders import UPGRADERS

RECORD: Final = "code/__torch__/older_forms.py"
_QUALIFIER: Final = "__torch__.older_forms"
_DEFINITION: Final = re.compile(r"^def (\w+)\(", re.MULTILINE)

_IN_PLACE: Final = (
    "absolute abs", "arccos acos", "arccosh acosh", "arcsin asin", "arcsinh asinh", "arctan atan",
    "arctan2 atan2", "arctanh atanh", "clip clamp", "fix trunc", "greater gt", "greater_equal ge",
    "less lt", "less_equal le", "multiply mul", "negative neg", "not_equal ne", "subtract sub",
    "swapaxes transpose", "swapdims transpose", "divide div", "divide true_divide",
)  # fmt: skip
_OTHERS: Final = (
    "concat cat", "concatenate cat", "inner matmul", "linalg_det det", "linalg_inv inverse",
    "linalg_matmul matmul", "linalg_matrix_power matrix_power", "linalg_slogdet slogdet",
    "moveaxis movedim", "outer ger", "row_stack vstack", "special_digamma digamma",
    "special_erf erf", "special_erfc erfc", "special_erfinv erfinv", "special_exp2 exp2",
    "special_expit sigmoid", "special_expm1 expm1", "special_gammainc igamma",
    "special_gammaincc igammac", "special_gammaln lgamma", "special_i0 i0", "special_log1p log1p",
    "special_log_softmax log_softmax", "special_logit logit", "special_logsumexp logsumexp",
    "special_multigammaln mvlgamma", "special_polygamma polygamma", "special_psi digamma",
    "special_round round", "special_sinc sinc", "special_softmax softmax", "special_xlogy xlogy",
    # Before format version 4, ``div`` of whole numbers was one, too.
    "div true_divide", "div_ true_divide_",
    "split split_with_sizes",
)  # fmt: skip


@cache
def older_names() -> Mapping[str, tuple[str, ...]]:
    """Return the operators that have an older name, with the names to try, in their order.

    Source: the aliases of torch's ``normalize_ops.cpp``.
    """
    found: dict[str, tuple[str, ...]] = {}
    both = [pair.split() for pair in _IN_PLACE]
    for name, older in (
        *both,
        *((f"{name}_", f"{older}_") for name, older in both),
        *(pair.split() for pair in _OTHERS),
    ):
        key = f"aten::{name}"
        found[key] = (*found.get(key, ()), f"aten::{older}")
    return found


# Operators whose meaning changed in a release, in code of each format version. Earlier releases
# rounded the quotient towards zero, sorted the keys of dicts, kept what ``update`` should replace,
# made float64 of floats, and split strings otherwise.
_CHANGED: Final = {
    **dict.fromkeys(("aten::floor_divide", "aten::floor_divide_", "aten::__ifloordiv__"), "1.13"),
    "aten::floordiv.builtin_Tensor": "1.13",
    "aten::floordiv.builtin_Scalar": "1.13",
    "aten::update": "1.7",
    **dict.fromkeys(("aten::items", "aten::keys", "aten::popitem", "aten::values"), "1.6"),
    **dict.fromkeys(("aten::as_tensor", "aten::tensor"), "1.6"),
    "aten::split.str": "1.6",
}


def changed_in(full_name: str) -> str | None:
    """Return the release that gave an operator the meaning that it has today."""
    return _CHANGED.get(full_name) or _CHANGED.get(full_name.partition(".")[0])


def is_changed(node: Node) -> bool:
    """Return whether a call means something else where its operator has the meaning of before.

    That is so of those that a release changed, and of operators with an upgrader. Of ``linspace``,
    ``logspace`` and ``gelu`` only an argument changed.
    """
    if node.operator == "aten::full":
        return _has_no_dtype(node) and node.inputs[1].type != FLOAT
    if node.kind in ("aten::tensor", "aten::as_tensor"):
        return _has_no_dtype(node) and _holds_floats(node.inputs[0].type)
    is_division = node.operator in UPGRADERS and node.kind in ("aten::div", "aten::div_")
    return is_division or changed_in(node.operator) is not None


def _has_no_dtype(node: Node) -> bool:
    arguments = node.schema.arguments if node.schema is not None else ()
    given = {a.name: value for a, value in zip(arguments, node.inputs, strict=True)}
    return given["dtype"].constant is None


def _holds_floats(type_: Type) -> bool:
    return type_ == FLOAT or any(map(_holds_floats, type_.parts()))


class OlderFunction(NamedTuple):
    """The qualified name of a function in :func:`text`, and where it may stand for an operator."""

    name: str
    only_in_branch: bool = False


@cache
def older_functions() -> Mapping[str, tuple[OlderFunction, ...]]:
    """Return the functions of the table by the operators that they replace."""
    found: dict[str, tuple[OlderFunction, ...]] = {}
    for paragraph in text().split("\n\n"):
        name = f"{_QUALIFIER}.{_DEFINITION.findall(paragraph)[-1]}"
        for operator, only_in_branch in _operators(paragraph):
            function = OlderFunction(name, only_in_branch)
            found[operator] = (*found.get(operator, ()), function)
    return found


_IN_BRANCH: Final = "# in a branch: "


def _operators(paragraph: str) -> Iterator[tuple[str, bool]]:
    """Yield the operators of a paragraph, and whether it is for calls in branches alone."""
    for line in paragraph.splitlines():
        if line.startswith("#"):
            names = line.removeprefix(_IN_BRANCH).removeprefix("# ")
            yield from ((name, line.startswith(_IN_BRANCH)) for name in names.split())


@cache
def text() -> str:
    """Return the functions as a record of code."""
    return table_text("older_forms.txt").rstrip() + "\n"
