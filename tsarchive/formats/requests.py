"""What the verbs that write and check ask of formats, and what formats answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from tsarchive.findings import FINDING_COLUMNS, Finding, finding_rows, is_fine
from tsarchive.renaming import renamed_fields
from tsarchive.reports import Report

if TYPE_CHECKING:
    from tsarchive.describing.contents import TensorTotals


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """The arguments of ``save``. ``files`` are extra files by name."""

    files: Mapping[str, bytes]
    debug: bool = True
    canonical: bool = False
    source_paths: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """The arguments of one call, and how it is traced.

    ``dynamic_shapes`` says which sizes stay open; ``specialize`` and ``dequantize`` are those of
    :func:`tsarchive.to_exported_program`.
    """

    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None
    specialize: bool = False
    dequantize: bool = False

    @property
    def is_given(self) -> bool:
        return self.args is not None or self.kwargs is not None


NoteKind = Literal["argument", "decision", "quantized", "result", "state", "file"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a traced program has of the call that it was traced with, or does otherwise.

    ``kind`` is ``argument`` for an argument that is a constant of the program, ``decision`` for
    what values of tensors decided, ``quantized`` for quantized values that are now integers or
    floats, ``result`` for a result that is of another type, ``state`` for an attribute that calls
    assign, and ``file`` for what the file that was written does not have as the source has it.
    ``place`` is the function and line of the code, where there is one. ``is_checked`` tells
    whether the program refuses a call for which it does not hold.

        >>> tsarchive.convert("tuned.pt", "net.pt2", args=(x,)).notes
        ()
    """

    kind: NoteKind
    text: str
    place: str | None = None
    is_checked: bool = True


@dataclass(frozen=True, slots=True)
class RewrittenCalls:
    """Calls of an operator that a release of torch does not have, or not so.

    ``written_as`` are the operators that stand in the place of each; none where code does the same
    without operators.
    """

    operator: str
    written_as: tuple[str, ...]
    count: int


class Written(NamedTuple):
    """What a conversion wrote otherwise: calls of operators, and records that it left out.

    ``notes`` tell what a program has of the call that it was traced with.
    """

    rewritten: tuple[RewrittenCalls, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


Verdict = Literal["sound", "unusual", "another kind", "broken", "inconsistent", "hostile"]

# Rules that tell of parts which archives have as a matter of course.
_NOTES = frozenset({"record-extra", "record-inputs", "record-no-debug"})


@renamed_fields(bytes="nbytes", expected_bytes="expected_nbytes")
@dataclass(frozen=True, slots=True, repr=False)
class VerifyReport(Report):
    """The extent and the findings of a verification.

    ``kind`` is that of :attr:`tsarchive.Archive.kind`, None where the file is no zip archive that
    can be opened; ``format_version`` is None where none can be read. ``nbytes`` is the size of the
    file, 0 where it is not known; of one that is cut short, ``expected_nbytes`` is the size that it
    had, the least where ``is_least``, None if unknown. ``records`` and ``code_records`` count what
    was checked, ``tensors`` what :attr:`tsarchive.Archive.tensors` lists, and is None where it
    lists none: for archives of other kinds, and those that are too broken. ``findings`` stand in
    the order of severity, worst first, then of their place.

        >>> report = tsarchive.verify("net.pt")
        >>> report.ok, report.format_version, report.code_records
        (True, 3, 2)
    """

    _COLUMNS = FINDING_COLUMNS

    kind: str | None
    format_version: int | None
    nbytes: int
    records: int
    tensors: TensorTotals | None
    code_records: int
    findings: tuple[Finding, ...]
    expected_nbytes: int | None = None
    is_least: bool = False

    @property
    def ok(self) -> bool:
        """Return whether no finding is above ``Severity.INFO``."""
        return is_fine(self.findings)

    def _headline(self) -> str:
        from tsarchive.describing.text import plural

        what = f"{self.kind or 'no archive'}, {plural(self.nbytes, 'byte')}"
        return f"{self.verdict}: {what}, {plural(len(self.findings), 'finding')}"

    def _rows(self) -> Sequence[Sequence[object]]:
        return finding_rows(self.findings)

    @property
    def verdict(self) -> Verdict:
        """The gravest nature among the findings, in a word; notes are left aside.

        ``hostile``: only intent explains it; ``inconsistent``: it contradicts itself, so it is
        damaged or forged; ``broken``: an accident explains it; ``another kind``: a file of another
        kind, nothing wrong with it; ``unusual``: no writer of archives does so, and it does no
        harm; ``sound``: nothing but notes.
        """
        natures = [finding.nature for finding in self.findings if finding.rule not in _NOTES]
        if not natures:
            return "sound"
        return cast(Verdict, max(natures, key=lambda nature: nature.rank).value)
