"""``--allow``, ``--trust`` and ``--max-...``: what code of a file may reach and use up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tsarchive.errors import CallError
from tsarchive.policy import Policy

_F = TypeVar("_F", bound=Callable[..., Any])


def policy_options(function: _F) -> _F:
    """The options of a command that runs code of files; :func:`chosen_policy` takes them."""
    function = click.option(
        "--trust", is_flag=True, help="Let the code of the file reach every operator."
    )(function)
    return click.option(
        "--allow",
        multiple=True,
        metavar="NAME",
        callback=_check_names,
        help="Let it reach an operator, a namespace ('ns::*') or a class that is refused.",
    )(function)


def _check_names(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> Any:
    try:
        Policy.default().allow(*names)
    except CallError as error:
        raise click.BadParameter(f"{error.message}. {error.hint}", ctx, param) from error
    return names


def chosen_policy(allow: tuple[str, ...], *, trust: bool) -> Policy:
    return (Policy.trusted() if trust else Policy.default()).allow(*allow)


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
