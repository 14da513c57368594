"""Files elsewhere, read by byte ranges: by URL, or through an object that reads and seeks.

May import only ``errors``.
"""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T")
_MARK = "://"


def located(given: _T) -> _T:
    """Return a URL as ``urls.Url``, a ``file://`` URL as the path that it names, others as they are.

    A ``Url`` is a str that has no credentials and is its name; requests find the rest in it.
    """
    if not isinstance(given, str) or _MARK not in given:
        return given
    from tsarchive.remote.urls import place_of

    return place_of(given)  # type: ignore[return-value]


def is_url(given: object) -> bool:
    """Return whether a value is a URL of a file elsewhere: ``file://`` ones are not."""
    if not isinstance(given, str) or _MARK not in given:
        return False
    from tsarchive.remote.urls import Url, place_of

    return isinstance(place_of(given), Url)
