"""Errors for people and for programs: what is wrong, where, and what to do."""

from __future__ import annotations

from typing import TypedDict

import click

from tsarchive.cli.output import print_json, say
from tsarchive.describing.hints import in_commands
from tsarchive.describing.text import visible
from tsarchive.errors import ArchiveError
from tsarchive.operators.registry import with_untried_torch


class Failure(TypedDict):
    """An error as the value of ``error`` in a JSON document.

    ``code`` is the line of the archive's code that it is about, ``origin`` the line of user
    source behind it, as ``file:line: text``. ``operator`` is what a policy refuses, and
    ``function`` what names it.
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

    def __init__(self, message: str, origin: str | None) -> None:
        super().__init__(message)
        self.origin = origin


class ReportedFailure(click.ClickException):
    """A failure that another process has reported."""

    def __init__(self, facts: Failure) -> None:
        super().__init__(facts["message"])
        self.facts = facts


def describe(error: Exception) -> Failure:
    """The parts of an error; errors of unknown classes are described as defects."""
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
            hint=in_commands(error.hint) if error.hint else None,
        )
    if isinstance(error, ReportedFailure):
        return error.facts
    if isinstance(error, ModelError):
        return {**failure(name, error.format_message()), "origin": error.origin}
    if isinstance(error, click.ClickException):
        return failure(name, error.format_message())
    if isinstance(error, OSError):
        return failure(name, _system_message(error))
    if is_without_torch(error):
        return failure(name, "this needs torch, which is not installed", "pip install torch")
    hint = "This is a defect of tsarchive: 'tsarchive --traceback COMMAND ...' shows where"
    return failure(name, f"unexpected {name}: {error}", with_untried_torch(hint))


def is_without_torch(error: Exception) -> bool:
    return isinstance(error, ModuleNotFoundError) and error.name == "torch"


def failure(type_: str, message: str, hint: str | None = None) -> Failure:
    """A failure that concerns no place in an archive."""
    return Failure(
        type=type_, message=message, record=None, line=None, offset=None, limit=None,
        code=None, origin=None, operator=None, function=None, hint=hint,
    )  # fmt: skip


def _system_message(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def report(facts: Failure, *, as_json: bool, file: str | None = None) -> None:
    """Print to stdout as JSON, or to stderr as a few lines."""
    if as_json:
        print_json({"error": {**facts, "file": file}})
        return
    message = facts["message"]
    named = f"{visible(file, keep='')}: " if file and not message.startswith(file) else ""
    say(f"error: {named}{message}", "bold red", stderr=True, keep="\n")
    where = place(facts)
    lines = {"where": where, "code": facts["code"], "from": facts["origin"], "hint": facts["hint"]}
    for label, text in lines.items():
        if text:
            say(f"  {f'{label}:':6} {text}", stderr=True, keep="\n")


def place(facts: Failure) -> str:
    """``record data.pkl, line 3``; empty when the error is about no place."""
    parts = (
        ("record", facts["record"]),
        ("line", facts["line"]),
        ("offset", facts["offset"]),
        ("limit", facts["limit"]),
    )
    return ", ".join(f"{label} {value}" for label, value in parts if value is not None)
