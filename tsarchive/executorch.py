"""Drafts of ExecuTorch files, which edit and write programs (.pte) and data (.ptd)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .lazy_members import lazy_member

if TYPE_CHECKING:
    from tsarchive.formats.executorch.draft import Draft, write_together

__all__ = ["Draft", "write_together"]

_HOMES = dict.fromkeys(__all__, "tsarchive.formats.executorch.draft")


def __getattr__(name: str) -> Any:
    return lazy_member(__name__, _HOMES, name)
