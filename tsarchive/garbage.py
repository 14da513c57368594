"""Python's garbage collector, kept quiet while much is made and nothing is garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collecting", "not_collecting", "rarely_collecting"]

_MANY = 50_000


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


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """The collector waits for many new objects inside, for code that runs while it is compiled.

    It stays on, for that code may run for long. Where it is off or waits longer, nothing changes.
    """
    before = gc.get_threshold()
    if not 0 < before[0] < _MANY:
        yield
        return
    patient = (_MANY, *before[1:])
    gc.set_threshold(*patient)
    try:
        yield
    finally:
        if gc.get_threshold() == patient:  # unless that code set another
            gc.set_threshold(*before)
