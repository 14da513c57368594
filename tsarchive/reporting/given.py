"""The file that a caller gives, as a path or a file object."""

from __future__ import annotations

import io
import os
import stat
from contextlib import closing
from typing import BinaryIO, Final

from tsarchive.container.opening import not_a_file, open_source, read_all
from tsarchive.remote import is_url, located

_NAMELESS: Final = "archive"


class Given:
    """A file that can be read several times from its beginning."""

    def __init__(self, f: str | os.PathLike[str] | BinaryIO) -> None:
        self._data: bytes | None = None
        self._path = ""
        if isinstance(f, str | os.PathLike):
            self._path = located(os.fsdecode(f))
            if is_url(self._path):
                with closing(open_source(self._path)) as source:
                    self._data = bytes(source.data)
            elif not stat.S_ISREG(os.stat(self._path).st_mode):
                with open(self._path, "rb") as file:
                    self._data = bytes(read_all(file))
        elif hasattr(f, "read"):
            self._data = bytes(read_all(f))
        else:
            raise not_a_file(type(f).__name__)
        self.name = os.path.basename(self._path) or _NAMELESS
        self.nbytes = os.path.getsize(self._path) if self._data is None else len(self._data)

    def fresh(self) -> str | BinaryIO:
        """Return a path, or a file object at its beginning."""
        return self._path if self._data is None else io.BytesIO(self._data)
