"""Atomic replacement of a file."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Yield a binary file that replaces ``path`` when the block ends without an error.

    It is written beside the target and renamed. The target's permissions are kept, a new file
    gets the usual ones, and a symbolic link keeps pointing where it did. After an error the
    target is as it was and nothing is left behind. A target that is no regular file, such as a
    pipe, is written to directly. Raises OSError as ``open`` does.
    """
    target = os.path.realpath(path)
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as stream:
            yield stream
        return
    temporary = os.path.join(os.path.dirname(target), f".tsarchive-{secrets.token_hex(8)}")
    try:
        # Unlike tempfile's 0600, the mode that open() gives to a new file honours the umask.
        with open(temporary, "xb") as stream:
            yield stream
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException as error:
        _remove(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = path
        raise


def _mode(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
