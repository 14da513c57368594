"""``--allow`` and ``--trust``: which operators the code of a file may reach."""

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
