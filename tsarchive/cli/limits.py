"""The options that bound what a model may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def limit_options(function: _F) -> _F:
    """Add ``--max-steps``, ``--max-seconds`` and ``--max-bytes``, by default no bound."""
    for option in (
        click.option(
            "--max-bytes",
            type=click.IntRange(min=0),
            help="Stop the model before it takes more bytes for tensors, strings and lists.",
        ),
        click.option(
            "--max-seconds",
            type=click.FloatRange(min=0, max=1e9),
            help="Stop the model at the next operator after this time.",
        ),
        click.option(
            "--max-steps",
            type=click.IntRange(min=0),
            help="Stop the model after it has run so many nodes of its code.",
        ),
    ):
        function = option(function)
    return function
