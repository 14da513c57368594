"""Files of ExecuTorch: programs (.pte), data (.ptd), bundled programs (.bpte)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsarchive.lazy_members import lazy_member

if TYPE_CHECKING:
    from .draft import Draft
    from .writing import write_together

__all__ = ["Draft", "write_together"]

_HOMES = {
    "Draft": "tsarchive.executorch.draft",
    "write_together": "tsarchive.executorch.writing",
}


def __getattr__(name: str) -> Any:
    return lazy_member(__name__, _HOMES, name)
