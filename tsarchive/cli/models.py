"""The option that chooses one of several models of a PT2 archive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tsarchive.archive import Archive

_F = TypeVar("_F", bound=Callable[..., Any])


def model_option(function: _F) -> _F:
    return click.option(
        "--model", metavar="NAME", help="One of the models of a PT2 archive; all by default."
    )(function)


def chosen(archive: Archive, model: str | None) -> Archive:
    """The archive, or what it is with this model alone.

    Raises MissingRecordError when there is no such model, UnsupportedError for other archives.
    """
    return archive if model is None else archive.only(model)
