"""Base class of objects that hold a file open and close it at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

_T = TypeVar("_T", bound="Closing")


class Closing(ABC):
    """A context manager that closes itself."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Release the file."""

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
