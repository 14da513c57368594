"""Options that commands share: libraries to import, and what code may reach and use up."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tsarchive.errors import CallError

if TYPE_CHECKING:
    from tsarchive.policy import Policy

_F = TypeVar("_F", bound=Callable[..., Any])

_SIZE = re.compile(
    r"(?P<number>\d+(_\d+)*(\.\d+)?)\s*((?P<unit>[kmgt])(?P<binary>i)?)?(b|bytes?)?", re.ASCII
)
_SHARED_LIBRARIES = (".so", ".dylib", ".dll")


def together(*options: Callable[[_F], _F]) -> Callable[[_F], _F]:
    """Return a decorator that adds these options, in this order."""

    def decorate(function: _F) -> _F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


IMPORTS = "tsarchive.imports"
"""Under this key, the context of a command has what ``import_option`` imported."""


def _import_named(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> None:
    # Other processes that import the same libraries may run in another folder.
    names = tuple(os.path.abspath(n) if n.endswith(_SHARED_LIBRARIES) else n for n in names)
    try:
        import_all(names)
    # A module that is imported may raise anything.
    except Exception as error:
        lines = str(error).strip().splitlines() or ["no message"]
        raise click.BadParameter(f"{type(error).__name__}: {lines[0]}", ctx, param) from error
    ctx.meta[IMPORTS] = names


import_option = click.option(
    "--import",
    multiple=True,
    expose_value=False,
    metavar="NAME",
    callback=_import_named,
    help="First import a module that registers operators, or load a shared library (.so).",
)


def import_all(names: Iterable[str]) -> None:
    """Import modules by their names, and load shared libraries by their paths."""
    for name in names:
        if name.endswith(_SHARED_LIBRARIES):
            import torch

            torch.ops.load_library(name)  # type: ignore[no-untyped-call]
        else:
            import_module(name)


def _check_names(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> Any:
    from tsarchive.policy import Policy

    try:
        Policy.default().allow(*names)
    except CallError as error:
        raise click.BadParameter(f"{error.message}. {error.hint}", ctx, param) from error
    return names


# The options of a command that runs code of files; ``chosen_policy`` takes what they give.
policy_options = together(
    click.option(
        "--allow",
        multiple=True,
        metavar="NAME",
        callback=_check_names,
        help="Let it reach an operator, a namespace ('ns::*') or a class that is refused.",
    ),
    click.option("--trust", is_flag=True, help="Let the code of the file reach every operator."),
)


def chosen_policy(allow: tuple[str, ...], *, trust: bool) -> Policy:
    from tsarchive.policy import Policy

    return (Policy.trusted() if trust else Policy.default()).allow(*allow)


class Size(click.types.StringParamType):
    """A number of bytes: ``50_000_000``, ``50MB``, ``1.5 GiB``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip().lower())
        if match is None:
            self.fail(f"{value!r} is no size: 50_000_000, 50MB and 1.5GiB are.", param, ctx)
        from fractions import Fraction  # few commands have such an option, and it is exact

        base = 1024 if match["binary"] else 1000
        number = Fraction(match["number"].replace("_", ""))
        return int(number * base ** " kmgt".index(match["unit"] or " "))


limit_options = together(
    click.option(
        "--max-steps",
        type=click.IntRange(min=0),
        metavar="N",
        help="Stop the model after it has run so many nodes of its code.",
    ),
    click.option(
        "--max-seconds",
        type=click.FloatRange(min=0, max=1e9),
        metavar="SECONDS",
        help="Stop the model at the next operator after this time.",
    ),
    click.option(
        "--max-bytes",
        type=Size(),
        help="Stop the model before it takes more bytes for tensors, strings and lists.",
    ),
)


def _bound_fetching(ctx: click.Context, param: click.Parameter, value: int | None) -> None:
    from tsarchive.container.traffic import limits_in_force

    if value is not None:
        limits = replace(limits_in_force(), **{str(param.name): value or None})
        ctx.with_resource(limits.in_force())


# The options of a command that looks at files, and does not by its nature read all of them.
remote_limit_options = together(
    click.option(
        "--max-requests",
        "requests",
        type=click.IntRange(min=0),
        expose_value=False,
        callback=_bound_fetching,
        help="Stop before more ranges of a file elsewhere are asked for; 0 is no limit.",
    ),
    click.option(
        "--max-fetched",
        "nbytes",
        type=Size(),
        expose_value=False,
        callback=_bound_fetching,
        help="Stop before more bytes of a file elsewhere are fetched; 0 is no limit.",
    ),
)
