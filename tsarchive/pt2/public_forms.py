"""Public operators for inner steps of theirs.

Decomposing a program leaves steps that trust their caller to have checked arguments; policies
refuse them. The public operators check, and then do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tsarchive.printer.graph import Value
from tsarchive.printer.types import BOOL, NONE

from .building import Body

__all__ = ["PUBLIC_FORMS"]

Given = Mapping[str, Value]
"""All arguments of the step by name."""


class _Name(NamedTuple):
    """An argument of the public operator that is one of the step."""

    name: str


_FIRST: Final = (_Name("input"), _Name("weight"), _Name("bias"))
_STATISTICS: Final = (_Name("running_mean"), _Name("running_var"))
_LAST: Final = (_Name("momentum"), _Name("eps"))
_TRAINING: Final = _Name("training")


def _call(
    kind: str, overload: str, *arguments: _Name | bool | None
) -> Callable[[Body, Given], list[Value]]:
    def call(body: Body, given: Given) -> list[Value]:
        values = [_value(body, argument, given) for argument in arguments]
        return body.call(kind, *values, overload=overload)

    return call


def _value(body: Body, argument: _Name | bool | None, given: Given) -> Value:
    if isinstance(argument, _Name):
        return given[argument.name]
    return body.constant(argument, NONE if argument is None else BOOL)


def _same(kind: str, overload: str = "") -> Callable[[Body, Given], list[Value]]:
    """An operator that takes the same arguments in the same order."""

    def call(body: Body, given: Given) -> list[Value]:
        return body.call(kind, *given.values(), overload=overload)

    return call


def _batch_norm_functional(body: Body, given: Given) -> list[Value]:
    """Batch norm that updates copies of the statistics, and gives them back."""
    copies = {name: body.value("aten::clone", given[name]) for (name,) in _STATISTICS}
    norm = _call("aten::native_batch_norm", "", *_FIRST, *_STATISTICS, _TRAINING, *_LAST)
    return [*norm(body, {**given, **copies}), *copies.values()]


def _attention(body: Body, given: Given) -> list[Value]:
    """Attention without the logarithms of sums, which only its derivative takes."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    result = body.value(
        "aten::scaled_dot_product_attention",
        *(given[name] for name in names),
        scale=given["scale"],
    )
    return [result, body.none()]


PUBLIC_FORMS: Final[Mapping[str, Callable[[Body, Given], list[Value]]]] = MappingProxyType(
    {
        "aten::_adaptive_avg_pool2d": _same("aten::adaptive_avg_pool2d"),
        "aten::_adaptive_avg_pool3d": _same("aten::adaptive_avg_pool3d"),
        "aten::_cdist_forward": _same("aten::cdist"),
        "aten::_embedding_bag": _same("aten::embedding_bag", "padding_idx"),
        "aten::_native_batch_norm_legit": _call(
            "aten::native_batch_norm", "", *_FIRST, *_STATISTICS, _TRAINING, *_LAST
        ),
        "aten::_native_batch_norm_legit.no_stats": _call(
            "aten::native_batch_norm", "", *_FIRST, None, None, _TRAINING, *_LAST
        ),
        "aten::_native_batch_norm_legit_functional": _batch_norm_functional,
        "aten::_native_batch_norm_legit_no_training": _call(
            "aten::native_batch_norm", "", *_FIRST, *_STATISTICS, False, *_LAST
        ),
        "aten::_pdist_forward": _same("aten::pdist"),
        "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
        "aten::_unsafe_index.Tensor": _same("aten::index", "Tensor"),
        "aten::_unsafe_index_put": _same("aten::index_put"),
    }
)
"""What stands for a step, by its full name."""
