"""Files elsewhere, read by byte ranges: by URL, or through an object that reads and seeks.

May import only ``errors``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, TypeVar

if TYPE_CHECKING:
    from tsarchive.remote.urls import Url

_T = TypeVar("_T")
_MARK = "://"


def located(given: _T) -> _T:
    """Return a URL as ``Url``, a ``file://`` URL as the path that it names, all else as it is.

    A ``Url`` is a str without credentials, which names the file; requests find the rest in it.
    """
    if not isinstance(given, str) or _MARK not in given:
        return given
    from tsarchive.remote.urls import place_of

    return place_of(given)  # type: ignore[return-value]


def is_url(given: object) -> TypeGuard[Url]:
    """Return whether a value is a ``Url``, which ``located`` makes."""
    if not isinstance(given, str) or _MARK not in given:
        return False
    from tsarchive.remote.urls import Url

    return isinstance(given, Url)
