"""Shared by all commands: exit codes, the FILE argument, --json, and reporting of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from tsarchive.cli.failures import describe, is_without_torch, report
from tsarchive.cli.streams import code_apart
from tsarchive.errors import ArchiveError

if TYPE_CHECKING:
    from tsarchive.archive import Archive

FINDINGS = 1
UNUSABLE = 2
DEFECT = 3
INTERRUPTED = 130
# As shells say it of a process that a closed pipe ended.
UNREAD = 141

_F = TypeVar("_F", bound=Callable[..., Any])


def _note_traceback(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.obj = ctx.obj or value


# Also an option of the group: it may stand before the command, or among its own options.
_TRACEBACK = click.Option(
    ["--traceback"],
    is_flag=True,
    expose_value=False,
    callback=_note_traceback,
    help="Let errors end in a Python traceback.",
)


class OutputPath(click.Path):
    """A file to write. '-' is none: output has several parts, or is written out of order."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            self.fail("files are not written to a pipe; './-' is one of that name.", param, ctx)
        return super().convert(value, param, ctx)


class Command(click.Command):
    """Reports errors in a few lines on stderr or, with --json, as a document on stdout."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), _TRACEBACK]

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        as_json = "--json" in args
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if not as_json:
                raise
            report(describe(error), as_json=True)
            raise click.exceptions.Exit(UNUSABLE) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            _require_stdout()
            with code_apart():
                return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            _print_no_more()
            ctx.exit(UNREAD)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except Exception as error:
            _end(ctx, error)


def _require_stdout() -> None:
    """Refuse a closed stdout: files opened later would take its place, and get the output."""
    if sys.stdout is None:
        raise click.ClickException("stdout is closed, so there is nowhere to print to")


def _print_no_more() -> None:
    """Discard what stdout still buffers, which Python would flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end(ctx: click.Context, error: Exception) -> NoReturn:
    known = isinstance(error, (ArchiveError, OSError, click.ClickException))
    code = UNUSABLE if known or is_without_torch(error) else DEFECT
    if ctx.obj:
        import traceback

        traceback.print_exception(error)
        ctx.exit(code)
    as_json = bool(ctx.params.get("as_json")) and sys.stdout is not None
    if isinstance(error, click.UsageError) and not as_json:
        raise error
    facts = describe(error)
    file = ctx.params.get("file")
    report(facts, as_json=as_json, file=str(file) if file else None)
    ctx.exit(code)


def file_argument(function: _F) -> _F:
    """The archive that a command is about."""
    return click.argument("file", type=click.Path())(function)


def json_option(function: _F) -> _F:
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON document instead of text."
    )(function)


def model_option(function: _F) -> _F:
    """Add ``--model``, which chooses one of several models of a PT2 archive."""
    return click.option(
        "--model", metavar="NAME", help="One of the models of a PT2 archive; all by default."
    )(function)


def chosen_model(archive: Archive, model: str | None) -> Archive:
    """The archive, restricted to one model if that is named.

    Raises MissingRecordError when there is no such model, UnsupportedError for other archives.
    """
    return archive if model is None else archive.only(model)
