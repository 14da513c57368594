"""Effects of operators that their schemas do not tell, and aliases that they tell wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

WITH_EFFECTS: Final = frozenset(
    {
        "aten::_get_cpu_capability", "aten::backward", "aten::dist_backward",
        "aten::get_autocast_dtype", "aten::is_autocast_cpu_enabled", "aten::is_autocast_enabled",
        "aten::is_grad_enabled", "aten::manual_seed", "aten::save", "aten::set_grad_enabled",
        "aten::wait", "aten::warn", "prim::AddStatValue", "prim::BailoutTemplate", "prim::Enter",
        "prim::Exit", "prim::IgnoredPythonOp", "prim::Print", "prim::PythonOp",
        "prim::RaiseException", "prim::SetAttr", "prim::TimePoint", "prim::awaitable_wait",
        "prim::rpc_async", "prim::rpc_remote", "prim::rpc_sync",
    }
)  # fmt: skip
"""Operators that are kept though nothing uses their results: torch registers effects of them."""


class Statistics(NamedTuple):
    """Positions of arguments: the one that says whether others are written to, and those."""

    is_training: int
    written: tuple[int, ...]


RUNNING_STATISTICS: Final[Mapping[str, Statistics]] = dict.fromkeys(
    ("aten::batch_norm", "aten::instance_norm"), Statistics(5, (3, 4))
)
"""Operators that write to running statistics, which their schemas do not say."""

HIDDEN_EFFECTS: Final = frozenset({*RUNNING_STATISTICS, "aten::get_autocast_dtype", "aten::wait"})
"""Operators whose schemas tell of a result alone, and that do more."""

COPIES_LISTS: Final = frozenset(
    {"aten::broadcast_tensors"}
    | {f"aten::{name}" for name in ("cat", "dstack", "hstack", "stack", "vstack")}
)
"""Operators whose list arguments do not escape into the result."""

GROWING: Final = frozenset(
    {
        "aten::center", "aten::expandtabs", "aten::factorial", "aten::ljust", "aten::replace",
        "aten::rjust", "aten::zfill", "prim::rangelist",
    }
)  # fmt: skip
"""Operators without tensors whose results may be much larger than their arguments."""

SCALAR_OVERLOADS: Final[Mapping[str, str]] = {
    f"aten::{name}.Tensor": f"aten::{name}.Scalar" for name in ("add", "sub", "mul", "div")
}
"""Operators whose second operand, when a constant without dimensions, acts as a number."""
