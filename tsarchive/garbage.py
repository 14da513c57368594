"""Python's garbage collector, kept quiet while much is made and nothing is garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collecting", "not_collecting"]


class _Here(threading.local):
    """Whether this thread has turned the collector off."""

    is_off = False


_here = _Here()


@contextmanager
def not_collecting() -> Iterator[None]:
    """No search for garbage inside, which would visit every object of torch, too.

    Where the collector is off already, it stays so afterwards.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    _here.is_off = True
    try:
        yield
    finally:
        _here.is_off = False
        gc.enable()


@contextmanager
def collecting() -> Iterator[None]:
    """The collector on again inside ``not_collecting``, for code that may run for long."""
    if not _here.is_off:
        yield
        return
    gc.enable()
    try:
        yield
    finally:
        gc.disable()
