"""Shared by all commands: exit codes, the FILE argument, --json, and reporting of errors."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypedDict, TypeVar

import click

from tsarchive.describing.text import in_commands, visible
from tsarchive.errors import ArchiveError, FormatError, UnknownOperatorError, place_text
from tsarchive.operators.registry import with_untried_torch
from tsarchive.remote import located

from .help import HelpContext
from .output import code_apart, own_warnings_said, print_json, say

if TYPE_CHECKING:
    from tsarchive.archive import Archive

_F = TypeVar("_F", bound=Callable[..., Any])


class Failure(TypedDict):
    """An error as the value of ``error`` in a JSON document.

    ``code`` is the line of the archive's code that it is about, ``origin`` the line of user
    source behind it, as ``file:line: text``. ``operator`` is what a policy refuses, or this process
    lacks, and ``function`` what names it.
    """

    type: str
    message: str
    record: str | None
    line: int | None
    offset: int | None
    limit: float | None
    code: str | None
    origin: str | None
    operator: str | None
    function: str | None
    hint: str | None


class ModelError(click.ClickException):
    """The model raised; ``origin`` is the line of user source where it did."""

    def __init__(self, message: str, origin: str | None, hint: str | None = None) -> None:
        super().__init__(message)
        self.origin = origin
        self.hint = hint


class ReportedFailure(click.ClickException):
    """A failure that another process has reported."""

    def __init__(self, facts: Failure) -> None:
        super().__init__(facts["message"])
        self.facts = facts


def describe(error: Exception) -> Failure:
    """Return the parts of an error; errors of unknown classes are described as defects."""
    name = type(error).__name__
    if isinstance(error, ArchiveError):
        return Failure(
            type=name,
            message=error.message,
            record=error.record,
            line=getattr(error, "line", None),
            offset=error.offset,
            limit=error.limit,
            code=getattr(error, "construct", None),
            origin=getattr(error, "origin", None),
            operator=getattr(error, "operator", None),
            function=getattr(error, "function", None),
            hint=_hint(error),
        )
    if isinstance(error, ReportedFailure):
        return error.facts
    if isinstance(error, ModelError):
        return {**failure(name, error.format_message(), error.hint), "origin": error.origin}
    if isinstance(error, click.UsageError):
        return failure(name, error.format_message(), _usage(error))
    if isinstance(error, click.ClickException):
        return failure(name, error.format_message())
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        if error.filename is not None:
            reason = f"{error.filename or repr('')}: {reason}"
        return failure(name, reason, _advice(error))
    if is_without_torch(error):
        return failure(name, "this needs torch, which is not installed", "pip install torch")
    hint = "This is a defect of tsarchive: 'tsarchive --traceback COMMAND ...' shows where"
    return failure(name, f"unexpected {name}: {error}", with_untried_torch(hint))


_FULL: Final = "Free some space, or name a place on another disk"
# What to do about errors of the system.
_ADVICE: Final = {
    errno.EISDIR: "Name a file, not a folder",
    errno.ENOTDIR: "A part of the path is a file: name a folder there",
    errno.EACCES: "Ask for the right to it, or name another place; 'ls -l' shows whose it is",
    errno.EROFS: "Name a place that can be written to",
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
}

_WHILE_WRITING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def _advice(error: OSError) -> str | None:
    if error.errno == errno.ENOENT and error.filename is not None:
        folder = os.path.dirname(os.path.abspath(os.fsdecode(error.filename)))
        if not os.path.isdir(folder):
            return f"There is no folder {folder}: make it, or name another"
        return f"Check the name; 'ls {shlex.quote(folder)}' shows what is there"
    return _ADVICE.get(error.errno or 0)


def _usage(error: click.UsageError) -> str | None:
    """Return how the command is called that was given other arguments."""
    ctx = error.ctx or click.get_current_context(silent=True)
    if ctx is None:
        return None
    pieces = " ".join(ctx.command.collect_usage_pieces(ctx))
    called = f"It is called as '{ctx.command_path} {pieces}'"
    return f"{called}; '{ctx.command_path} --help' has all options, and examples"


# What to do about files that are not what they claim to be, where nothing better is known.
_LOOK: Final = "'tsarchive verify FILE' lists all that is wrong with the file"


def _hint(error: ArchiveError) -> str | None:
    """Return the hint for the command line, with all options that a library takes."""
    if not error.hint:
        return _LOOK if isinstance(error, FormatError) else None
    hint = in_commands(error.hint)
    name = getattr(error, "operator", None)
    if "--import" in hint and isinstance(error, UnknownOperatorError) and _is_refused(name):
        namespace = str(name).partition("::")[0]
        hint += f'; running it takes --allow "{namespace}::*", too'
    return hint


def _is_refused(name: str | None) -> bool:
    """Return whether the policy that the options of this command make refuses an operator."""
    from .options import chosen_policy

    context = click.get_current_context(silent=True)
    given = {} if context is None else context.params
    if name is None or "allow" not in given:
        return False
    return chosen_policy(given["allow"], trust=given["trust"]).refusal(name) is not None


def is_without_torch(error: Exception) -> bool:
    return isinstance(error, ModuleNotFoundError) and error.name == "torch"


def failure(type_: str, message: str, hint: str | None = None) -> Failure:
    """Return a failure that concerns no place in an archive."""
    return Failure(
        type=type_, message=message, record=None, line=None, offset=None, limit=None,
        code=None, origin=None, operator=None, function=None, hint=hint,
    )  # fmt: skip


def report(facts: Failure, *, as_json: bool, file: str | None = None) -> None:
    """Print to stdout as JSON, or to stderr as a few lines."""
    if as_json:
        print_json({"error": {**facts, "file": file}}, "error")
        return
    message = facts["message"]
    named = f"{visible(file, keep='')}: " if file and not message.startswith(file) else ""
    say(f"error: {named}{message}", "bold red", stderr=True, keep="\n")
    where = place_text(
        record=facts["record"], line=facts["line"], offset=facts["offset"], limit=facts["limit"]
    )
    lines = {"where": where, "code": facts["code"], "from": facts["origin"], "hint": facts["hint"]}
    for label, text in lines.items():
        if text:
            say(f"  {f'{label}:':6} {text}", stderr=True, keep="\n")


FINDINGS = 1
UNUSABLE = 2
DEFECT = 3
INTERRUPTED = 130
# As shells say it of a process that a closed pipe ended.
UNREAD = 141


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


class FilePath(click.Path):
    """A file to read: a path, or a URL, which from here on is its name without credentials."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return located(super().convert(value, param, ctx))


class OutputPath(FilePath):
    """A file to write. '-' is none: output has several parts, or is written out of order.

    ``missing`` is what the error adds where the option is required and not given.
    """

    def __init__(self, missing: str | None = None) -> None:
        super().__init__()
        self._missing = missing

    def get_missing_message(
        self, param: click.Parameter, ctx: click.Context | None = None
    ) -> str | None:
        return self._missing

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-":
            self.fail("files are not written to a pipe; './-' is one of that name.", param, ctx)
        return super().convert(value, param, ctx)


_OLD_OUT: Final = "--output"


class _OutOption(click.Option):
    """``-o`` and ``--out``; ``--output`` is an old name, which warns; help does not show it."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        parser.add_option(self, [_OLD_OUT], _OLD_OUT)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> Any:
        if _OLD_OUT in opts:
            say(f"warning: {_OLD_OUT} is now --out", "yellow", stderr=True)
            opts = {str(self.name): opts[_OLD_OUT], **opts}
        return super().consume_value(ctx, opts)


def out_option(text: str, type_: click.Path | None = None, **attributes: Any) -> Callable[[_F], _F]:
    """Return the option for what a command writes: an :class:`OutputPath`, unless told."""
    kind = type_ or OutputPath()
    return click.option("-o", "--out", cls=_OutOption, type=kind, help=text, **attributes)


class Command(click.Command):
    """Reports errors in a few lines on stderr or, with --json, as a document on stdout.

    What its function returns is the exit code; None stands for 0.
    """

    context_class = HelpContext

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), _TRACEBACK]

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        as_json = "--json" in args or "--jsonl" in args
        # Errors of click quote them.
        named = [*map(located, args)]
        try:
            return super().make_context(info_name, named, parent, **extra)
        except click.UsageError as error:
            report(describe(error), as_json=as_json)
            raise click.exceptions.Exit(UNUSABLE) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            if sys.stdout is None:
                # Files opened later would take its place, and get the output.
                raise click.ClickException("stdout is closed, so there is nowhere to print to")
            with code_apart(), own_warnings_said():
                code = super().invoke(ctx)
            ctx.exit(code or 0)
        except (click.exceptions.Exit, click.Abort):
            raise
        except (BrokenPipeError, KeyboardInterrupt) as error:
            end(error)
        except Exception as error:
            _end(ctx, error)


def end(error: click.UsageError | OSError | KeyboardInterrupt) -> NoReturn:
    """End the process for an error of its arguments or streams, or Ctrl-C.

    Files to write are complete then, or as they were.
    """
    if isinstance(error, BrokenPipeError):
        # Python would flush at exit what stdout still buffers.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(UNREAD) from error
    if isinstance(error, KeyboardInterrupt):
        raise click.exceptions.Exit(interrupted()) from error
    file = "stdout" if isinstance(error, OSError) and error.filename is None else None
    report(describe(error), as_json=False, file=file)
    raise click.exceptions.Exit(UNUSABLE) from error


def interrupted() -> int:
    """Say that Ctrl-C has stopped the command, and return the exit code for that."""
    say("stopped: no file was left half-written", stderr=True)
    return INTERRUPTED


def code_of(error: Exception) -> int:
    """Return the exit code for an error: whether it is of the input or a defect of tsarchive."""
    known = isinstance(error, (ArchiveError, OSError, click.ClickException))
    return UNUSABLE if known or is_without_torch(error) else DEFECT


def _end(ctx: click.Context, error: Exception) -> NoReturn:
    code = code_of(error)
    if ctx.obj:
        import traceback

        traceback.print_exception(error)
        ctx.exit(code)
    is_asked = ctx.params.get("as_json") or ctx.params.get("as_lines")
    as_json = bool(is_asked) and sys.stdout is not None
    is_told = as_json or not isinstance(error, click.UsageError)
    report(describe(error), as_json=as_json, file=_file_of(error, ctx.params) if is_told else None)
    ctx.exit(code)


def _file_of(error: Exception, given: Mapping[str, Any]) -> str | None:
    """Return the file that an error is about; the disk is full where a command writes to.

    None where a command was called with several files, or none.
    """
    named = getattr(error, "filename", None)
    if named is None and getattr(error, "errno", None) in _WHILE_WRITING:
        named = given.get("out") or "stdout"
    files = given.get("files") or (given.get("file"),)
    file = named or (files[0] if len(files) == 1 else None)
    return str(file) if file else None


file_argument = click.argument("file", type=FilePath())
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of text."
)
model_option = click.option(
    "--model", metavar="NAME", help="One of the models of a PT2 archive; all by default."
)


def chosen_model(archive: Archive, model: str | None) -> Archive:
    """Return the archive, restricted to one model if that is named.

    Raises MissingRecordError when there is no such model, UnsupportedError for other archives.
    """
    return archive if model is None else archive.only(model)
