"""``--import``: libraries that register operators and classes, before a file is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

_SHARED_LIBRARIES = (".so", ".dylib", ".dll")


def import_option(function: _F) -> _F:
    """The option of a command that loads files."""
    return click.option(
        "--import",
        "imports",
        multiple=True,
        metavar="NAME",
        callback=_import_named,
        help="First import a module that registers operators, or load a shared library (.so).",
    )(function)


def _import_named(ctx: click.Context, param: click.Parameter, names: tuple[str, ...]) -> Any:
    # Other processes that import the same libraries may run in another folder.
    names = tuple(os.path.abspath(n) if n.endswith(_SHARED_LIBRARIES) else n for n in names)
    try:
        import_all(names)
    # A module that is imported may raise anything.
    except Exception as error:
        lines = str(error).strip().splitlines() or ["no message"]
        raise click.BadParameter(f"{type(error).__name__}: {lines[0]}", ctx, param) from error
    return names


def import_all(names: Iterable[str]) -> None:
    """Import modules by their names, and load shared libraries by their paths."""
    for name in names:
        if name.endswith(_SHARED_LIBRARIES):
            import torch

            torch.ops.load_library(name)  # type: ignore[no-untyped-call]
        else:
            import_module(name)
