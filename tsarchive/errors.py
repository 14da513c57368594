"""The hierarchy of exceptions. Every room may import this module; it imports nothing of ours."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final, TypeGuard

AGAIN: Final = "Download or copy it again"
"""The advice for a file that did not arrive whole."""
INCOMPLETE: Final = "The archive is incomplete: download or copy it again"
"""The hint of errors about parts that are not there."""


def place_text(**parts: object) -> str:
    """Return ``record data.pkl, offset 3``: the parts of a place that are known, by name."""
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)


class ArchiveError(Exception):
    """Base class of all errors that tsarchive raises.

    ``record`` names the zip member concerned, ``offset`` is a byte position in it (or in the
    file when ``record`` is None), ``limit`` the bound that was exceeded, ``hint`` what to do.
    ``filename`` is set where it would be unclear which of several files is meant.

        >>> try:
        ...     tsarchive.open("half.pt")
        ... except tsarchive.ArchiveError as error:
        ...     print(error.message.partition(":")[0])
        it is cut short
    """

    filename: str | None = None

    def __init__(
        self,
        message: str,
        *,
        record: str | None = None,
        offset: int | None = None,
        limit: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.record = record
        self.offset = offset
        self.limit = limit
        self.hint = hint

    def __str__(self) -> str:
        place = place_text(record=self.record, offset=self.offset, limit=self.limit)
        text = f"{self.message} ({place})" if place else self.message
        text = f"{self.filename}: {text}" if self.filename else text
        return f"{text}. {self.hint}" if self.hint else text


class ArchiveWarning(UserWarning):
    """Something that tsarchive did otherwise than its caller may expect."""


class FormatError(ArchiveError, ValueError):
    """The file breaks a rule of its format: not a zip, truncated, fields that contradict.

    For example:

        >>> tsarchive.load("half.pt")
        Traceback (most recent call last):
            ...
        tsarchive.errors.FormatError: it is cut short: ...
    """


class MissingRecordError(ArchiveError, KeyError):
    """A record that the format requires, or that was asked for, is not in the archive.

    For example:

        >>> with tsarchive.open("net.pt") as archive:
        ...     archive.read("words.txt")
        Traceback (most recent call last):
            ...
        tsarchive.errors.MissingRecordError: ...
    """


class UnsupportedError(ArchiveError, ValueError):
    """The file is well formed, but uses something that this version does not handle.

    ``origin`` is the line of user source that uses it, as ``file:line: text``, where it is known.

        >>> tsarchive.stub("net.pt2")
        Traceback (most recent call last):
            ...
        tsarchive.errors.UnsupportedError: ...
    """

    origin: str | None = None


class TargetError(UnsupportedError):
    """A release of torch cannot read what an archive holds, and it has no form that it reads.

    ``obstacles`` are all that stand in the way: each has a ``record``, a ``line`` (0 where it
    concerns no line), the ``operator``, a ``reason``, and the release that can, as ``since``.

        >>> issubclass(tsarchive.TargetError, tsarchive.UnsupportedError)
        True
    """

    def __init__(
        self, message: str, *, obstacles: Sequence[Any] = (), hint: str | None = None
    ) -> None:
        record = obstacles[0].record if obstacles else None
        super().__init__(message, record=record, hint=hint)
        self.obstacles: tuple[Any, ...] = tuple(obstacles)


class TorchVersionError(ArchiveError, ImportError):
    """The installed torch is older than tsarchive supports.

    For example:

        >>> issubclass(tsarchive.TorchVersionError, ImportError)
        True
    """


class PickleError(FormatError):
    """A pickle record holds an opcode, global or value that the format does not allow.

    For example:

        >>> from tsarchive import pickler
        >>> pickler.loads(b"not a pickle")
        Traceback (most recent call last):
            ...
        tsarchive.errors.PickleError: ...
    """


class SourceError(FormatError):
    """A code record does not parse or does not type-check.

    ``line`` is 1-based in the record, ``construct`` the text of that line; ``origin`` is the line
    of user source that it was compiled from, as ``file:line: text``, where a debug record has it.

        >>> issubclass(tsarchive.PolicyError, tsarchive.SourceError)
        True
    """

    def __init__(
        self,
        message: str,
        *,
        record: str | None = None,
        line: int | None = None,
        construct: str | None = None,
        limit: float | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, record=record, limit=limit, hint=hint)
        self.line = line
        self.construct = construct
        self.origin: str | None = None

    def __str__(self) -> str:
        if not (self.record and self.line):
            return super().__str__()
        text = f"{self.record}:{self.line}: {self.message}"
        text += f". {self.hint}" if self.hint else ""
        text += f"\n  code: {self.construct}" if self.construct else ""
        return text + (f"\n  from: {self.origin}" if self.origin else "")


class UnknownClassError(ArchiveError, LookupError):
    """A class named by a pickle or by code is neither in the archive nor registered in torch.

    For example:

        >>> issubclass(tsarchive.UnknownClassError, LookupError)
        True
    """


class UnknownOperatorError(SourceError, LookupError):
    """Code names an operator that is not registered in this process, or no overload matches.

    ``operator`` is its qualified name, where one is named. ``is_unregistered`` says that this
    process has none of its name, ``is_removed`` that no torch of today has it, and nothing stands
    for it.

        >>> tsarchive.UnknownOperatorError.of("torchvision::nms", "it is not registered").operator
        'torchvision::nms'
    """

    operator: str | None = None
    is_removed = False
    is_unregistered = False

    @classmethod
    def of(cls, operator: str, message: str, *, hint: str | None = None) -> UnknownOperatorError:
        """Return the error that is about this operator."""
        error = cls(message, hint=hint)
        error.operator = operator
        return error


class PolicyError(SourceError, PermissionError):
    """Code names an operator or class that the policy does not allow.

    ``operator`` is its qualified name, ``function`` that of the archive's function that names it.

        >>> tsarchive.load("net.pt", policy=tsarchive.Policy.default().forbid("aten::relu"))(x)
        Traceback (most recent call last):
            ...
        tsarchive.errors.PolicyError: ...aten::relu...
    """

    def __init__(
        self,
        message: str,
        *,
        operator: str,
        function: str | None = None,
        record: str | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, record=record, line=line, hint=hint)
        self.operator = operator
        self.function = function

    def __reduce__(self) -> tuple[Callable[..., PolicyError], tuple[str], dict[str, object]]:
        return partial(PolicyError, operator=self.operator), (self.message,), dict(vars(self))


class LimitError(ArchiveError, RuntimeError):
    """Code of an archive exceeded a bound of :class:`tsarchive.Limits`, or what is asked of a
    server one of :class:`tsarchive.RemoteLimits`.

        >>> tsarchive.load("net.pt", limits=tsarchive.Limits(steps=0))(x)
        Traceback (most recent call last):
            ...
        tsarchive.errors.LimitError: code of the archive goes beyond its budget of steps in ...
    """


class RemoteError(ArchiveError, OSError):
    """A file elsewhere cannot be read or written, or is no longer the one that was opened.

    For example:

        >>> issubclass(tsarchive.RemoteError, OSError)
        True
    """


class SaveError(ArchiveError, ValueError):
    """The module cannot be written as an archive that reads back as the same module.

    For example:

        >>> tsarchive.save(torch.nn.ReLU(), "plain.pt")
        Traceback (most recent call last):
            ...
        tsarchive.errors.SaveError: ...
    """


class CallError(ArchiveError, TypeError):
    """A function of a loaded module was called with arguments that do not match its schema.

    For example:

        >>> net("no tensor")
        Traceback (most recent call last):
            ...
        tsarchive.errors.CallError: forward() expects a value of type 'Tensor' ... not 'str'
    """


class ScriptError(ArchiveError, RuntimeError):
    """Code of the archive raised.

    ``exception`` is the qualified name of the class that the code raised. Instances belong to a
    subclass of that name, which also derives from the builtin exception of that name if there is
    one: ``except ValueError`` catches the ValueError of an archive.

        >>> try:
        ...     net(torch.ones(0, 4))
        ... except ValueError as error:
        ...     print(isinstance(error, tsarchive.ScriptError), error.message)
        True the batch is empty
    """

    def __new__(cls, message: str, *, exception: str = "RuntimeError") -> ScriptError:
        return super().__new__(_raised_class(exception) if cls is ScriptError else cls, message)

    def __init__(self, message: str, *, exception: str = "RuntimeError") -> None:
        super().__init__(message)
        self.exception = exception

    def __reduce__(self) -> tuple[Callable[..., ScriptError], tuple[str]]:
        return partial(ScriptError, exception=self.exception), (self.message,)


@cache
def _raised_class(qualified_name: str) -> type[ScriptError]:
    """Return the subclass that represents a class of exceptions known only by name."""
    module, _, name = qualified_name.rpartition(".")
    if not module or not all(part.isidentifier() for part in qualified_name.split(".")):
        return ScriptError
    plain: type[ScriptError] = type(name, (ScriptError,), {"__module__": module})
    python_class = getattr(builtins, name, None) if module == "builtins" else None
    if not _can_be_raised(python_class):
        return plain
    try:
        made: type[ScriptError] = type(name, (ScriptError, python_class), {"__module__": module})
        made("")
    except TypeError:
        return plain  # its constructor takes more than a message
    return made


def _can_be_raised(class_: object) -> TypeGuard[type[Exception]]:
    """Return whether an archive may raise this exception: none that the interpreter inspects."""
    if not isinstance(class_, type) or not issubclass(class_, Exception):
        return False
    return not issubclass(class_, StopIteration | StopAsyncIteration | SyntaxError)
