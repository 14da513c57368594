"""The ``tsarchive`` command. Each command has a module of its own, imported when it is used.

May import every room; no room imports it.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tsarchive.garbage import not_collecting, rarely_collecting

from .help import HelpContext
from .output import guarded

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# What is left when a command ends goes with the process; the collector would look at all of it.
atexit.register(gc.freeze)

GROUPS = {
    "Look": {
        "info": "Show what a file is and what it holds.",
        "tree": "Show the modules of a file as a tree.",
        "code": "Show the source in a file, or a part of it.",
        "tensors": "List the tensors in a file.",
        "stub": "Write the types of a model as a stub file.",
        "report": "Write one HTML page about a file.",
    },
    "Check": {
        "verify": "Check that a file is whole, and what it claims to be.",
        "audit": "List what a file can do, and when.",
        "compat": "Tell which torch loads and runs a file.",
        "jitter": "Check that saving again gives the same bytes.",
    },
    "Compare": {
        "fingerprint": "Tell which model a file holds, whatever wrote it.",
        "diff": "Show how two models differ, from A to B.",
    },
    "Run": {
        "demo": "Try everything on real models.",
        "run": "Run a model and show its output.",
        "optimize": "Write a faster version of a model.",
        "cache": "Show, trim or empty the cache of compiled code.",
    },
    "Convert": {
        "convert": "Write the model of one archive as another.",
        "leave": "Try the ways out of TorchScript, and say which work.",
        "decompile": "Write a file as a Python package that needs torch alone.",
        "edit": "Write a file of ExecuTorch with edits.",
    },
    "Registry": {"survey": "Survey all files of folders, buckets and lists."},
}
"""Commands by what they are for, each with the first sentence of its help: lists import none."""

COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}

# The demo is a program of its own, in a package beside this one.
_ELSEWHERE = {"demo": "tsarchive.demo.command"}


class _List(click.Group):
    """The commands as far as lists show them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        return click.Command(cmd_name, help=COMMANDS[cmd_name])


@contextmanager
def _ending() -> Iterator[None]:
    """End the process for what is wrong with arguments and streams, and for Ctrl-C."""
    try:
        yield
    except (click.UsageError, OSError, KeyboardInterrupt) as error:  # also while commands load
        from .command import end

        end(error)


class _LazyGroup(click.Group):
    """Imports the module of a command when the command is asked for."""

    context_class = HelpContext

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            with guarded(), rarely_collecting():
                return super().main(*args, **extra)
        except KeyboardInterrupt:
            from .command import interrupted

            sys.exit(interrupted())

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _ending():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _ending():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = _ELSEWHERE.get(cmd_name, f"tsarchive.cli.{cmd_name}")
        with not_collecting():
            found: click.Command = import_module(module).command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(error.message + _suggestion(args[0]), ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in group.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        listed = _List()
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*listed.shell_complete(click.Context(listed), incomplete), *options]


def _suggestion(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=2)
    if near:
        return f" Did you mean {' or '.join(map(repr, near))}?"
    return " 'tsarchive --help' lists them."


def _install_completion(ctx: click.Context, _option: click.Parameter, given: bool) -> None:
    if not given or ctx.resilient_parsing:
        return
    from .completion import install

    click.echo(install())
    ctx.exit()


def _show_versions(ctx: click.Context, _option: click.Parameter, given: bool) -> None:
    if not given or ctx.resilient_parsing:
        return
    import platform

    from tsarchive import __version__
    from tsarchive.operators.registry import installed_torch, untried_torch

    torch = installed_torch()
    click.echo(f"tsarchive, version {__version__}")
    click.echo(f"Python {platform.python_version()}, {f'torch {torch}' if torch else 'no torch'}")
    if untried := untried_torch():
        click.echo(untried)
    ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_versions,
    help="Show the versions of tsarchive, Python and torch.",
)
@click.option(
    "--install-completion",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_install_completion,
    help="Let bash, zsh or fish complete commands and options.",
)
@click.option("--traceback", is_flag=True, help="Let errors end in a Python traceback.")
@click.pass_context
def main(ctx: click.Context, *, traceback: bool) -> None:
    """Look into, run, check and convert files of TorchScript, torch.export and ExecuTorch.

    \b
    Examples:
      tsarchive demo
      tsarchive info model.pt
      tsarchive run model.pt --random 1x3x224x224

    Exit codes: 0 fine; 1 findings (files that are not sound,
    code that does more than compute, bytes that change, outputs that differ); 2 unusable input or
    arguments; 3 a defect of tsarchive itself.
    """
    ctx.obj = traceback
