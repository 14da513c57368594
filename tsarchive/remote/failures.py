"""Errors of filesystems and of what lies beneath them, as errors of ours without credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tsarchive.errors import RemoteError
from tsarchive.remote.urls import Url

ACCESS: Final = "Credentials come from the environment and from fsspec's configuration"
"""The hint where a server wants to know who asks."""
_EXTRA: Final = 'pip install "tsarchive[remote]"'
_OF_EXTRA: Final = ("fsspec", "aiohttp")

_T = TypeVar("_T")


def attempted(url: Url, work: Callable[[], _T]) -> _T:
    """Return what ``work`` returns.

    Raises RemoteError in the place of any error. It has no cause and no context: errors of others
    quote URLs with all that is in them, and so would tracebacks.
    """
    try:
        return work()
    except Exception as error:
        problem = _problem(url, error)
    raise problem


def changed(name: str) -> RemoteError:
    """Return the error for a file that changes while it is read."""
    problem = f"{name}: the file is another one by now than when it was opened"
    return RemoteError(problem, hint="Open it again")


def _problem(url: Url, error: Exception) -> RemoteError:
    if isinstance(error, RemoteError):
        return RemoteError(error.message, limit=error.limit, hint=error.hint)
    if isinstance(error, ImportError):
        return RemoteError(f"{url}: {url.hidden(str(error))}", hint=_install(error))
    return RemoteError(f"{url}: {_reason(url, error)}", hint=_hint(error))


def _reason(url: Url, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "access is denied"
    if isinstance(error, IsADirectoryError):
        return "it is a folder"
    said = url.hidden(str(error)).strip().partition("\n")[0]
    if said and isinstance(error, (OSError, ValueError)):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _hint(error: Exception) -> str | None:
    return ACCESS if isinstance(error, PermissionError) else None


def _install(error: ImportError) -> str:
    """Return the command that installs the package which is missing."""
    missing: BaseException | None = error
    while missing is not None and not getattr(missing, "name", None):
        missing = missing.__cause__
    name = str(getattr(missing, "name", "")).partition(".")[0]
    return _EXTRA if name in ("", *_OF_EXTRA) else f"pip install {name}"
