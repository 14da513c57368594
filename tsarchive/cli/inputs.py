"""The arguments of a model on the command line: files, literals and random tensors, in order."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tsarchive.cli.call_inputs import Inputs
from tsarchive.cli.command import Command

if TYPE_CHECKING:
    import torch

_F = TypeVar("_F", bound=Callable[..., Any])

# No argument of a process holds a NUL, so no file name is mistaken for a marked option.
_MARK = "\0"
_OPTIONS = ("--arg", "--random")
_NAMED = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=(?!=))?(?P<rest>.*)", re.DOTALL)


class InputsCommand(Command):
    """Keeps files, --arg and --random in the order of the command line.

    click collects each option on its own and forgets the order between them, so the options
    become marked positional arguments before click sees them.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_marked(args)))


def _marked(args: list[str]) -> Iterator[str]:
    pending = iter(args)
    for arg in pending:
        option, equals, value = arg.partition("=")
        if arg == "--":
            yield arg
            yield from pending
        elif option not in _OPTIONS:
            yield arg
        elif equals:
            yield f"{_MARK}{option}={value}"
        else:
            following = next(pending, None)
            # click itself says that the value is missing.
            yield option if following is None else f"{_MARK}{option}={following}"


def split_file(arguments: tuple[str, ...]) -> tuple[str | None, list[str]]:
    """The first argument that is not an option, and the others in order."""
    rest = list(arguments)
    for index, argument in enumerate(rest):
        if not argument.startswith(_MARK):
            return rest.pop(index), rest
    return None, rest


def input_options(function: _F) -> _F:
    """The options of a command that calls a model."""
    for decorate in (
        click.option("--seed", type=int, default=0, show_default=True, help="Of random numbers."),
        click.option(
            "--arg",
            multiple=True,
            expose_value=False,
            metavar="[NAME=]LITERAL",
            help="A Python literal, such as 3, '[1, 2]' or '\"greedy\"'.",
        ),
        click.option(
            "--random",
            multiple=True,
            expose_value=False,
            metavar="[NAME=]SHAPE[:DTYPE][<HIGH]",
            help="A random tensor, such as 1x3x64x64 or '2x5:int64<100'.",
        ),
    ):
        function = decorate(function)
    return function


def gather(arguments: list[str], seed: int) -> Inputs:
    """Read and make the arguments. Raises click.UsageError, OSError."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    inputs = Inputs()
    for argument in arguments:
        _add(inputs, argument, generator)
    return inputs


def _add(inputs: Inputs, argument: str, generator: torch.Generator) -> None:
    from tsarchive.cli.input_files import read_inputs
    from tsarchive.cli.random_tensors import random_tensor

    if not argument.startswith(_MARK):
        read_inputs(argument, inputs)
        return
    option, _, text = argument.removeprefix(_MARK).partition("=")
    named = _NAMED.fullmatch(text)
    name, rest = (named["name"], named["rest"]) if named else (None, text)
    value = random_tensor(rest, generator) if option == "--random" else _literal(rest)
    inputs.add(value, name)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise click.BadParameter(
            f"{text!r} is not a Python literal. Strings need quotes of their own: '\"text\"'.",
            param_hint="--arg",
        ) from error
