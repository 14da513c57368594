"""Pickle records of TorchScript archives: a writer, and a reader that never resolves names.

Nothing here imports or calls what a pickle names, and Python's ``pickle`` is not used. May import
the floor alone.
"""

from .reader import Limits, loads
from .values import Global, MarkedTuple, Memo, Memoised, Object, PersistentId, Reduce, Value
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
