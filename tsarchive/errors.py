"""The one family of errors. Every room may import this module; it imports nothing of ours."""

from __future__ import annotations

__all__ = [
    "ArchiveError",
    "CallError",
    "FormatError",
    "MissingRecordError",
    "PickleError",
    "SaveError",
    "ScriptError",
    "SourceError",
    "UnknownClassError",
    "UnknownOperatorError",
    "UnsupportedError",
]


class ArchiveError(Exception):
    """Base of every error that tsarchive raises.

    ``record`` names the zip member concerned, ``offset`` is a byte position in it (or in the
    file when ``record`` is None), ``limit`` the bound that was exceeded, ``hint`` what to do.
    """

    def __init__(
        self,
        message: str,
        *,
        record: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.record = record
        self.offset = offset
        self.limit = limit
        self.hint = hint

    def __str__(self) -> str:
        places = [
            f"{label} {value}"
            for label, value in (
                ("record", self.record),
                ("offset", self.offset),
                ("limit", self.limit),
            )
            if value is not None
        ]
        text = f"{self.message} ({', '.join(places)})" if places else self.message
        return f"{text}. {self.hint}" if self.hint else text


class FormatError(ArchiveError, ValueError):
    """The file breaks a rule of its format: not a zip, truncated, fields that contradict."""


class MissingRecordError(ArchiveError, KeyError):
    """A record that the format requires, or that was asked for, is not in the archive."""


class UnsupportedError(ArchiveError, ValueError):
    """The file is well formed, but uses something that this version does not handle."""


class PickleError(FormatError):
    """A pickle record holds an opcode, global or value that the format does not allow."""


class SourceError(FormatError):
    """A code record does not parse or does not type-check. ``line`` is 1-based in the record."""

    def __init__(
        self,
        message: str,
        *,
        record: str | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, record=record, hint=hint)
        self.line = line

    def __str__(self) -> str:
        where = f"{self.record}:{self.line}: " if self.record and self.line else ""
        text = f"{where}{self.message}" if where else super().__str__()
        return f"{text}. {self.hint}" if where and self.hint else text


class UnknownClassError(ArchiveError, LookupError):
    """A class named by a pickle or by code is neither in the archive nor registered in torch."""


class UnknownOperatorError(SourceError, LookupError):
    """Code names an operator that this process has not registered, or that no overload fits."""


class SaveError(ArchiveError, ValueError):
    """The module cannot be written as an archive that reads back as the same module."""


class CallError(ArchiveError, TypeError):
    """A function of a loaded module was called with arguments that its schema does not take."""


class ScriptError(ArchiveError, RuntimeError):
    """Code of the archive raised. ``exception`` is the qualified name of the raised class."""

    def __init__(self, message: str, *, exception: str = "RuntimeError") -> None:
        super().__init__(message)
        self.exception = exception
