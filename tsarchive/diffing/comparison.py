"""The verb: two files or modules, part by part."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, get_args

from tsarchive.analyses.encoding import Plain
from tsarchive.diffing.call import Call
from tsarchive.diffing.checksums import Checksums
from tsarchive.diffing.definitions import Findings
from tsarchive.diffing.packing import extra_file_changes, packing_changes
from tsarchive.diffing.programs import ProgramComparison
from tsarchive.diffing.report import Change, DiffReport, Divergence, Part
from tsarchive.diffing.tensors import Prefixes, prefixes_of, tensor_changes
from tsarchive.errors import ArchiveError, CallError, RemoteError
from tsarchive.fingerprinting import (
    Readable,
    is_file,
    part_digest,
    readable_contents,
    tensor_digest,
)
from tsarchive.formats.registry import format_of
from tsarchive.ir.names import closest
from tsarchive.remote import located
from tsarchive.steps import Step, no_step

if TYPE_CHECKING:
    from tsarchive.fingerprinting import Subject
    from tsarchive.formats.contents import TensorContent
    from tsarchive.policy import Limits, Policy

PARTS: Final[tuple[Part, ...]] = get_args(Part)
"""The parts of a model that are compared, and its extra files."""
_VALUES: Final = "tensor values"
_INPUT: Final = "input"
_PROGRAM: Final = frozenset({"code", "structure"})
_TENSORS: Final = frozenset({"structure", "weights"})
_EXTRA: Final = "extra files"
# Changes of names, which tensors below have in theirs.
_MOVED: Final = frozenset({"module", "attribute renamed"})
# Other names of parts, as the command line has them.
_ALIASES: Final[Mapping[str, Part]] = {"extra": _EXTRA}
# Kinds of changes by the parts that they are of beside their own.
_OF_OTHERS: Final[Mapping[str, Part]] = {
    "tensor": "structure", "tensor renamed": "structure", "tensor layout": "weights",
    "tensor dtype": "weights", "tensor shape": "weights", "tensor flags": "weights",
}  # fmt: skip


def diff(
    a: Subject,
    b: Subject,
    *,
    only: Collection[Part] = PARTS,
    step: Step | None = None,
    run: Any = None,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    policy: Policy | None = None,
    limits: Limits | None = None,
    exact: bool = False,
) -> DiffReport:
    """Return how two models differ: ``a`` is before, ``b`` is after.

    Each is a file (path or binary file object), or a module or program that ``save`` takes. Of a
    file nothing runs, and torch is not imported. Changes are told where they are and as little as
    possible: what only follows from another change is left out, and a module that one side lacks
    is one change. Where the fingerprints of the parts that are compared are equal there is no
    change, and only there. Programs of two formats are not compared: ``not_compared`` names such
    parts, and ``same`` is None where nothing else differs. ``only`` names the parts to compare, and
    restricts all of the report to them. ``step`` is called with the name of each tensor when it has
    been compared.

    Where a file is elsewhere, tensors are compared by the CRC-32s and sizes that directories tell,
    and only read where these do not decide: where a file tells none, or one storage has several
    tensors or another layout. What was told so is probable: the report's ``by_checksum`` says it,
    and ``same`` is not True then. With ``exact``, and with ``run``, all are read.

    With ``run`` both models are loaded and called, and the report's ``divergence`` names the first
    module whose output differs where its inputs are alike. ``run`` is what they are called with: a
    tuple of arguments, a mapping of keyword arguments, one argument, or
    :class:`tsarchive.diffing.Call`. Floating-point numbers are alike up to ``atol`` plus ``rtol``
    times the number before; all else must be equal. ``policy`` and ``limits`` are for the code of
    both, as for :func:`tsarchive.load`.

    Raises CallError for a part that is unknown and where both models refuse the call, what
    ``fingerprint`` raises, and with ``run`` what ``load`` raises.

        >>> report = tsarchive.diff("net.pt", "tuned.pt", only=["weights"])
        >>> [change.where for change in report.changes]
        ['head.bias']
    """
    step = step or no_step
    only = [_ALIASES.get(part, part) for part in only]
    if unknown := {*only}.difference(PARTS):
        raise CallError(f"{min(unknown)!r} is no part", hint=f"Parts are {', '.join(PARTS)}")
    exact = exact or run is not None  # which loads all of both
    whole = exact and not _TENSORS.isdisjoint(only)
    with _readable(a, whole=whole) as before, _readable(b, whole=whole) as after:
        is_elsewhere = before.reading.is_elsewhere or after.reading.is_elsewhere
        checksums = Checksums() if is_elsewhere and not exact else None
        comparison = _Comparison(before, after, only, step, checksums)
        report = comparison.report(_name(a), _name(b))
        if run is not None:
            found = comparison.divergence(run, (rtol, atol), policy, limits, report.changes)
            report = replace(report, divergence=found)
        for readable in (before, after):
            readable.reading.require_unchanged()
    return report


def compared(
    before: Readable,
    after: Readable,
    names: tuple[str, str] = ("before", "after"),
    *,
    only: Collection[Part] = PARTS,
    step: Callable[[str], None] = no_step,
) -> DiffReport:
    """Return how the contents of two files differ, which are called so."""
    return _Comparison(before, after, only, step).report(*names)


@contextmanager
def _readable(source: Subject, *, whole: bool) -> Iterator[Readable]:
    """Open a source with debug records; errors of doing so name the file."""
    with ExitStack() as stack:
        try:
            readable = stack.enter_context(readable_contents(source, debug=True, whole=whole))
        except ArchiveError as error:
            # Errors of files elsewhere begin with their names.
            if is_file(source) and not isinstance(error, RemoteError):
                error.filename = _name(source)
            raise
        yield readable


def _name(source: Any) -> str:
    """Return what a source is called."""
    if not is_file(source):
        return type(source).__name__
    name = located(source) if isinstance(source, str | os.PathLike) else getattr(source, "name", "")
    return str(os.fspath(name)) if isinstance(name, str | os.PathLike) else "<file>"


class _Comparison:
    def __init__(
        self,
        before: Readable,
        after: Readable,
        only: Collection[Part],
        step: Callable[[str], None],
        checksums: Checksums | None = None,
    ) -> None:
        """``checksums`` decide over tensors where they can, in place of their elements."""
        self._before, self._after = before, after
        self._checksums = checksums
        self._only = [part for part in PARTS if part in only]
        self._step = step

    def report(self, before: str, after: str) -> DiffReport:
        """Return all that differs."""
        compared = tuple(filter(self._is_comparable, self._only))
        others = tuple(filter(self._is_unknown, self._only))
        report = DiffReport(before, after, [], compared, not_compared=others)
        report.changes.extend(self._changes())
        if self._program is not None and "code" in self._only:
            report.methods.extend(self._found.methods)
            gained, lost = self._program.operators()
            report.operators_gained.extend(gained)
            report.operators_lost.extend(lost)
        if _EXTRA in compared:
            report.changes.extend(self._extra_files())
        if any(self._prefixes):
            before, after = (prefix or "none" for prefix in self._prefixes)
            report.packing.append(Change("prefix of names", "", before, after, None))
        if len(self._only) == len(PARTS):
            report.packing.extend(packing_changes(self._before.opened, self._after.opened))
        is_told = self._checksums is not None and self._checksums.have_told
        return replace(report, by_checksum=is_told)

    def _changes(self) -> Sequence[Change]:
        """Return the changes of the parts of the model, by module."""
        found: list[Change] = []
        if self._program is not None:
            found += self._found.changes or self._found.derived
        tensors = [] if _TENSORS.isdisjoint(self._only) else [*self._tensors(self._program)]
        found = [*self._without_told(found, tensors), *tensors]
        chosen = [change for change in found if self._is_chosen(change)]
        chosen += self._untold(chosen, found)
        return sorted(chosen, key=self._place)

    def _is_chosen(self, change: Change) -> bool:
        """Whether a change is one of a part that is compared."""
        if change.part in self._only or _OF_OTHERS.get(change.kind) in self._only:
            return True
        is_moved = change.kind in _MOVED and "weights" in self._only
        return is_moved and self._has_tensors(change)

    def _has_tensors(self, change: Change) -> bool:
        """Whether there are tensors in what came, went, moved or was renamed."""
        sides = (self._before, change.before), (self._after, change.after)
        return any(
            f"{name}.".startswith(f"{path}.")
            for side, path in sides
            if path is not None
            for name in side.contents.tensors
        )

    def _place(self, change: Change) -> int:
        """Return the place of what changed in the order of modules: that after, or that before."""
        return self._places.get(closest(change.where.partition("(")[0], self._places), 0)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        if self._program is None:
            return {}
        return {path: place for place, path in enumerate(self._program.paths)}

    @cached_property
    def _found(self) -> Findings:
        assert self._program is not None
        return self._program.found()

    @cached_property
    def _is_one_language(self) -> bool:
        return self._before.contents.language == self._after.contents.language

    def _is_unknown(self, part: Part) -> bool:
        """Return whether a part of the models is in forms that cannot be compared."""
        return part != _EXTRA and not self._is_comparable(part)

    def _is_comparable(self, part: Part) -> bool:
        """Return whether both sides have a part in forms that can be compared."""
        one, other = self._before.contents, self._after.contents
        if part == _EXTRA:
            return one.may_have_extra_files and other.may_have_extra_files
        if part == "weights" and not self._is_one_language:
            return any(self._names.get(name, name) in other.tensors for name in one.tensors)
        return self._is_one_language

    @cached_property
    def _prefixes(self) -> Prefixes:
        """What precedes the names of tensors in a file of another language, such as a checkpoint
        with a state dict below one of its keys."""
        if self._is_one_language:
            return Prefixes()
        return prefixes_of(self._before.contents.tensors, self._after.contents.tensors)

    @cached_property
    def _names(self) -> dict[str, str]:
        return self._prefixes.names(self._before.contents.tensors)

    @cached_property
    def _differing(self) -> list[Part]:
        """The parts of the program whose digests differ, none where there are two languages."""
        if not self._is_one_language:
            return []
        one, other = self._before.contents, self._after.contents
        pairs: dict[Part, tuple[Plain, Plain]] = {
            "structure": (one.structure, other.structure),
            "code": (one.code, other.code),
        }
        return [
            part
            for part, (before, after) in pairs.items()
            if part_digest(part, before) != part_digest(part, after)
        ]

    def divergence(
        self,
        run: Any,
        tolerance: tuple[float, float],
        policy: Policy | None,
        limits: Limits | None,
        changes: Sequence[Change],
    ) -> Divergence | None:
        """Run both models; return where their results differ, with the line that changed."""
        from tsarchive.diffing.results import Tolerance
        from tsarchive.diffing.running import divergence_of_files, located
        from tsarchive.policy import Guard, Limits, Policy

        guard = Guard(policy or Policy.default(), limits or Limits())
        paths = self._program.pairing.after if self._program else {}
        files = self._before.opened, self._after.opened
        found = divergence_of_files(*files, Call.of(run), Tolerance(*tolerance), guard, paths)
        has_programs = format_of(self._after.opened).has_programs
        return found and located(found, changes, is_one_module=has_programs)

    @cached_property
    def _program(self) -> ProgramComparison | None:
        """The comparison of programs that differ."""
        if _PROGRAM.isdisjoint(self._differing):
            return None
        one, other = self._before, self._after
        contents = one.contents, other.contents
        tensors = (tensor for side in contents for tensor in side.tensors.values())
        told = None if self._checksums is None else self._checksums.digest(tensors)
        return ProgramComparison(*contents, (_digests(one, told), _digests(other, told)))

    def _tensors(self, program: ProgramComparison | None) -> Iterator[Change]:
        if program is None:
            tensors = self._before.contents.tensors, self._after.contents.tensors
            names = self._names
        else:
            tensors, names = program.compared_tensors(), program.tensor_names
        readings = self._before.reading, self._after.reading
        for reading in readings:
            reading.expect_all()  # no checksum may decide
        is_common_only = not self._is_one_language
        yield from tensor_changes(
            *tensors, readings, names=names, is_common_only=is_common_only,
            checksums=self._checksums, step=self._step,
        )  # fmt: skip

    def _without_told(
        self, changes: Sequence[Change], tensors: Sequence[Change]
    ) -> Iterator[Change]:
        """Yield changes without types of inputs that others tell: tensors, or the code of those
        that come and go."""
        told = {change.where for change in tensors if change.kind != _VALUES}
        for change in changes:
            is_alone = None in (change.before, change.after) and "code" in self._only
            if change.kind != _INPUT or not (is_alone or change.where in told):
                yield change

    def _untold(self, chosen: Sequence[Change], found: Sequence[Change]) -> Iterator[Change]:
        """Yield what tells of a part that differs where nothing chosen does: the changes that are
        told as those of another part, or else the digests."""
        if any(change.kind != _VALUES for change in chosen):
            return
        others = [change for change in found if change.kind != _VALUES]
        for part in self._differing:
            if part not in self._only:
                continue
            if others:
                yield from (replace(change, part=part) for change in others)
                return
            one, other = self._before.contents, self._after.contents
            before, after = (part_digest(part, getattr(each, part)) for each in (one, other))
            yield Change(part, "", before, after, part)

    def _extra_files(self) -> Iterator[Change]:
        yield from extra_file_changes(
            self._before.contents.extra_files, self._after.contents.extra_files
        )


def _digests(
    readable: Readable, told: Callable[[TensorContent], str] | None
) -> Callable[[str], str]:
    """Return what digests a tensor by its name, by what is ``told`` of it or by reading it."""
    tensors = readable.contents.tensors

    @cache
    def digest(name: str) -> str:
        tensor = tensors[name]
        return told(tensor) if told is not None else tensor_digest(tensor, readable.reading)

    return digest
