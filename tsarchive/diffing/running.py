"""Runs two models on the same inputs, and finds the first module that gives another result.

A module gives another result where its inputs were alike and its output is not: what differs
since it was given something else is left to the module that made that.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import torch
from torch.nn import Module

from tsarchive.errors import ArchiveError, CallError, ScriptError
from tsarchive.formats.base import LoadOptions, Opened
from tsarchive.formats.registry import format_of
from tsarchive.ir.names import unmangled
from tsarchive.ir.source_ranges import Location
from tsarchive.loading import load_opened
from tsarchive.policy import Guard
from tsarchive.run.tracebacks import caller_origin, innermost_origin

from .call import Call
from .report import Change, Divergence, SourceLine
from .results import Contrast, Leaves, Tolerance, contrast, leaves_of, summary

_ROOT: Final = ""
_HOW_TO_CALL: Final = "'tsarchive tree FILE --signatures' shows what methods take"


def divergence_of_files(
    before: Opened,
    after: Opened,
    call: Call,
    tolerance: Tolerance,
    guard: Guard,
    paths: Mapping[str, str] | None = None,
) -> Divergence | None:
    """Load two files on the CPU, and return their :func:`divergence`.

    ``guard`` says what the code of each may reach and use up. Raises what ``load`` and
    :func:`divergence` raise.
    """
    one, other = (_loaded(file, call.model, guard) for file in (before, after))
    return divergence(one, other, call, tolerance, paths)


def located(found: Divergence, changes: Sequence[Change], *, is_one_module: bool) -> Divergence:
    """Return a divergence of the whole model with the first line of code that differs in it.

    Where a model runs as one module, ``is_one_module``, that is a line of any of its modules.
    """
    if found.where != _ROOT or found.source is not None:
        return found
    own = (c for c in changes if c.part == "code" and (is_one_module or "." not in c.where))
    lines = (after or before for before, after in (change.source for change in own))
    return replace(found, source=next(filter(None, lines), None))


def _loaded(file: Opened, model: str | None, guard: Guard) -> Module:
    """Load a file; of one without programs there is one model."""
    chosen = model if format_of(file).has_programs else None
    return load_opened(file, LoadOptions(torch.device("cpu"), guard, chosen))


def divergence(
    before: Module,
    after: Module,
    call: Call,
    tolerance: Tolerance,
    paths: Mapping[str, str] | None = None,
) -> Divergence | None:
    """Return the first module whose result is another in ``after``; None where there is none.

    Both models run as they are, in training mode if that is set, from one seed; their hooks and
    buffers may change. ``paths`` leads from the path of a module before to that after, and the
    result has paths of after.
    Modules are compared where both models call them; other than ``forward`` no method of a
    submodule is looked at. What one model alone raises is a divergence.

    Raises CallError where both raise the same, and what the policy, limits or a missing operator
    raise in one.
    """
    recording = _Recording(paths or {})
    failed = recording.run(before, call)
    comparing = _Comparing(recording, tolerance)
    try:
        failed_after = comparing.run(after, call)
    except _Found as found:
        return found.divergence
    if failed is None and failed_after is None:
        return None
    return _of_errors(recording, failed, comparing, failed_after)


class _Record(NamedTuple):
    """A call of a module: what it was given and, when it has ended, what it gave."""

    given: Leaves
    result: Leaves | None = None


class _Running(NamedTuple):
    """The call of a module that is running: the ``number``-th of the module at ``path``."""

    path: str
    number: int
    module: Module
    source: SourceLine | None


class _Failure(NamedTuple):
    """What a model raised, in the module at ``path``."""

    call: _Running
    error: Exception

    @property
    def text(self) -> str:
        message = self.error.message if isinstance(self.error, ArchiveError) else str(self.error)
        return f"raises {type(self.error).__name__}: {message.strip() or 'no message'}"

    @property
    def source(self) -> SourceLine | None:
        return _line(innermost_origin(self.error)) or self.call.source


class _Run(ABC):
    """One run of a model, in which :meth:`starts` and :meth:`ends` see each call of a module."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = paths
        self._counts: Counter[str] = Counter()
        self._running: list[_Running] = []
        self.result: Leaves | None = None

    def run(self, model: Module, call: Call) -> _Failure | None:
        """Call the model; give what it raised, None where it gave a result."""
        function = _method(model, call.method)
        args, kwargs = _fresh((tuple(call.args), dict(call.kwargs)))
        self._enter(_ROOT, model, (args, kwargs))
        try:
            with self._hooks(model), _seeded(call.seed):
                result = function(*args, **kwargs)
        except _Found:
            raise
        # An operator of torch raises almost any class for arguments that it does not like.
        except Exception as error:
            if isinstance(error, ArchiveError) and not isinstance(error, ScriptError | CallError):
                raise
            return _Failure(self._running[-1], error)
        self._leave(result)
        return None

    @contextmanager
    def _hooks(self, model: Module) -> Iterator[None]:
        with ExitStack() as stack:
            for path, module in model.named_modules():
                if module is not model:
                    before, after = self._hooks_of(self._paths.get(path, path))
                    handle = module.register_forward_pre_hook(before, with_kwargs=True)
                    stack.callback(handle.remove)
                    stack.callback(module.register_forward_hook(after).remove)
            yield

    def _hooks_of(self, path: str) -> tuple[Callable[..., None], Callable[..., None]]:
        def before(module: Module, args: Any, kwargs: Any) -> None:
            self._enter(path, module, (args, kwargs))

        def after(_module: Module, _given: Any, result: Any) -> None:
            self._leave(result)

        return before, after

    def _enter(self, path: str, module: Module, given: Any) -> None:
        call = _Running(path, self._counts[path], module, _source(path))
        self._counts[path] += 1
        self._running.append(call)
        self.starts(call, leaves_of(given))

    def _leave(self, result: Any) -> None:
        call, leaves = self._running.pop(), leaves_of(result)
        if call.path == _ROOT:
            self.result = leaves
        self.ends(call, leaves)

    @abstractmethod
    def starts(self, call: _Running, given: Leaves) -> None:
        """A call begins with these arguments."""

    @abstractmethod
    def ends(self, call: _Running, result: Leaves) -> None:
        """A call gives this result."""


class _Recording(_Run):
    """The first run: keeps what modules are given and give."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        super().__init__(paths)
        self.records: dict[tuple[str, int], _Record] = {}

    def starts(self, call: _Running, given: Leaves) -> None:
        self.records[call.path, call.number] = _Record(given)

    def ends(self, call: _Running, result: Leaves) -> None:
        key = call.path, call.number
        self.records[key] = self.records[key]._replace(result=result)


class _Comparing(_Run):
    """The second run: raises _Found for the first call that gives another result."""

    def __init__(self, recording: _Recording, tolerance: Tolerance) -> None:
        super().__init__({})
        self._records = recording.records
        self._tolerance = tolerance
        self._alike: set[tuple[str, int]] = set()

    def starts(self, call: _Running, given: Leaves) -> None:
        record = self._records.get((call.path, call.number))
        if record is not None and contrast(record.given, given, self._tolerance) is None:
            self._alike.add((call.path, call.number))

    def ends(self, call: _Running, result: Leaves) -> None:
        key = call.path, call.number
        if key not in self._alike:
            return
        # Each is compared once.
        before = self._records.pop(key).result
        found = None if before is None else contrast(before, result, self._tolerance)
        if found is not None:
            raise _Found(_divergence(call, found, call.source))


class _Found(Exception):
    """Ends a run: what comes after the first divergence follows from it."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(divergence.where)
        self.divergence = divergence


def _divergence(call: _Running, found: Contrast, source: SourceLine | None) -> Divergence:
    return Divergence(
        call.path, _class_name(call.module), found.values, found.before, found.after, source
    )


def _of_errors(
    recording: _Recording, failed: _Failure | None, comparing: _Comparing, other: _Failure | None
) -> Divergence:
    """Return the divergence where one model raised, or both. Raises CallError if both the same."""
    before, after = _told(failed, recording.result), _told(other, comparing.result)
    if failed is not None and before == after:
        raise CallError(f"each model {before}", hint=_HOW_TO_CALL) from failed.error
    found = other or failed
    assert found is not None
    return _divergence(found.call, Contrast(before, after, None), found.source)


def _told(failed: _Failure | None, result: Leaves | None) -> str:
    if failed is not None:
        return failed.text
    assert result is not None, "a model that raised nothing gave a result"
    return f"gives {summary(result)}"


def _method(model: Module, name: str) -> Callable[..., Any]:
    known = getattr(model, "tsarchive_class", None)
    if known is not None and name not in known.methods:
        has = ", ".join(sorted(known.methods)) or "none"
        raise CallError(f"the model has no method {name!r}", hint=f"It has: {has}")
    return model if name == "forward" else getattr(model, name)


def _fresh(value: Any) -> Any:
    """Copy arguments, since models may write into them."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: _fresh(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [_fresh(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return copy.deepcopy(value)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed random numbers; the caller's go on as before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def _class_name(module: Module) -> str:
    known = getattr(module, "tsarchive_class", None)
    if known is None:
        return type(module).__qualname__
    return unmangled(known.qualified_name).removeprefix("__torch__.")


def _source(path: str) -> SourceLine | None:
    """Return the line of user source that calls a submodule."""
    return None if path == _ROOT else _line(caller_origin())


def _line(origin: Location | None) -> SourceLine | None:
    return None if origin is None else SourceLine(*origin)
