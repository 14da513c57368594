"""Pickle records of TorchScript archives: a writer, and a reader that never resolves names.

Nothing here imports or calls what a pickle names, and Python's ``pickle`` is not used. May import
the floor alone.
"""

from typing import TYPE_CHECKING, Any

from tsarchive.lazy_members import lazy_member

from .reader import Limits, loads
from .values import Global, MarkedTuple, Memo, Memoised, Object, PersistentId, Reduce, Value

if TYPE_CHECKING:
    from .writer import dumps

__all__ = [
    "Global",
    "Limits",
    "MarkedTuple",
    "Memo",
    "Memoised",
    "Object",
    "PersistentId",
    "Reduce",
    "Value",
    "dumps",
    "loads",
]


def __getattr__(name: str) -> Any:
    return lazy_member(__name__, {"dumps": f"{__name__}.writer"}, name)  # loading writes nothing
