"""Pausing Python's garbage collector while many objects are made and none is garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 50_000


class _Here(threading.local):
    """True if this thread has disabled the collector."""

    is_off = False


_here = _Here()


@contextmanager
def not_collecting() -> Iterator[None]:
    """Disable the collector inside the block; a collection would visit every object of torch too.

    A collector that is already disabled stays so afterwards.
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


def count_as_old() -> None:
    """Count all objects as old, so that the next collections do not visit them, nor all of torch.

    For objects that stay, such as imported modules: garbage among them waits for a full collection,
    which Python puts off the longer the more there are of them.
    """
    if not gc.get_freeze_count():  # what others froze stays frozen
        gc.freeze()
        gc.unfreeze()


@contextmanager
def collecting() -> Iterator[None]:
    """Enable the collector again inside ``not_collecting``, for code that may run for long."""
    if not _here.is_off:
        yield
        return
    gc.enable()
    try:
        yield
    finally:
        gc.disable()


def is_patient() -> bool:
    """Return whether ``rarely_collecting`` would do nothing."""
    return not 0 < gc.get_threshold()[0] < _MANY


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Raise the collector's threshold inside the block, for code that runs while it is compiled.

    The collector stays enabled, since that code may run for long. Does nothing where it is disabled
    or has a higher threshold already.
    """
    if is_patient():
        yield
        return
    before = gc.get_threshold()
    patient = (_MANY, *before[1:])
    gc.set_threshold(*patient)
    try:
        yield
    finally:
        if gc.get_threshold() == patient:  # unless that code has changed it
            gc.set_threshold(*before)
