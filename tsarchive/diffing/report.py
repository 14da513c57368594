"""What a comparison of two models or files has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from tsarchive.analyses.encoding import Plain
from tsarchive.describing.text import plural
from tsarchive.reports import Report

Part: TypeAlias = Literal["code", "structure", "weights", "extra files"]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's source, ``line`` counted from 1; ``text`` is "" where only the place was
    recorded."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        where = f"{self.file or '<unknown>'}:{self.line}"
        return f"{where}: {self.text}" if self.text else where


# More representable numbers between two say nothing.
_MANY_ULPS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """How far the elements of two tensors of one dtype and shape are apart.

    ``differing`` of ``elements`` differ, bit for bit. ``max_absolute`` is the largest absolute
    difference, ``max_relative`` the largest of those divided by the value before, ``max_ulps`` the
    largest number of representable numbers between (None for integers), and ``norm`` the Euclidean
    norm of the differences, beside ``norm_before``, that of the values before.

    ``became_nan`` elements are NaN after alone, ``was_nan`` before alone, and of ``infinite`` ones,
    NaN aside, either side is infinite. Where there are any, the distances and the norm are infinite
    (``null`` in JSON, as is every number here that is not finite).
    """

    differing: int
    elements: int
    max_absolute: float
    max_relative: float
    max_ulps: int | None
    norm: float
    norm_before: float
    became_nan: int = 0
    was_nan: int = 0
    infinite: int = 0

    @property
    def share(self) -> float:
        """The share of elements that differ, from 0 to 1."""
        return self.differing / self.elements

    @property
    def special(self) -> str:
        """In words, what has no distance: elements that are NaN or infinite, and those whose values
        are equal; "" where elements are just some way apart."""
        told = {
            "became NaN": self.became_nan,
            "no longer NaN": self.was_nan,
            "to or from infinity": self.infinite,
        }
        named = ", ".join(f"{count:,} {words}" for words, count in told.items() if count)
        return named or ("" if self.max_absolute else "in their bits alone")

    def __str__(self) -> str:
        differing = f"{self.differing:,} of {self.elements:,} ({self.share:.2%}) differ"
        if self.special:
            return f"{differing}, {self.special}"
        has_ulps = self.max_ulps is not None and self.max_ulps <= _MANY_ULPS
        ulps = f", {plural(self.max_ulps or 0, 'ulp')}" if has_ulps else ""
        return (
            f"{differing}, by at most {self.max_absolute:.4g} "
            f"({self.max_relative:.4g} relative{ulps}); "
            f"norm {self.norm:.4g} of {self.norm_before:.4g}"
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    ``kind`` is a word for what changed: ``tensor values``, ``tensor shape``, ``tensor dtype``,
    ``tensor``, ``module``, ``class``, ``attribute``, ``constant``, ``default``, ``operator``,
    ``code``, ``method``, ``extra file``, ... ``where`` is the dotted path from the root of the
    model: a tensor, an attribute, a module (its path, "" for the root), or a method of a module
    (``layer1.0.forward``); for functions and types that no module holds their qualified names, for
    extra files theirs. ``before`` and ``after`` are what stands there, None where nothing does.
    ``part`` is that of the fingerprint which tells the change, None for what is no part of a model.
    ``source`` are the lines of the user's source, before and after, where debug records tell them.
    ``also`` are other places of the same change: those of modules that share the class. A change
    ``is_probable`` where checksums tell it which the files bring and nobody has checked. Of values
    that differ, ``before`` and ``after`` are these, and ``values`` is None.

        >>> [change] = tsarchive.diff("net.pt", "tuned.pt", only=["weights"]).changes
        >>> change.kind, change.where
        ('tensor values', 'head.bias')
    """

    kind: str
    where: str
    before: Plain
    after: Plain
    part: Part | None
    source: tuple[SourceLine | None, SourceLine | None] = (None, None)
    values: ValueDifference | None = None
    also: tuple[str, ...] = ()
    is_probable: bool = False


@dataclass(frozen=True, slots=True)
class MethodChange:
    """A function or method that differs, side by side: pairs of lines of its code, None where one
    side lacks the line. ``is_same`` lines are context."""

    where: str
    rows: Sequence[SideBySide]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A line of code before and after, each with its line of the user's source."""

    before: str | None
    after: str | None
    is_same: bool
    source: tuple[SourceLine | None, SourceLine | None] = (None, None)


@dataclass(frozen=True, slots=True)
class OperatorUse:
    """An operator that only one side uses: ``where`` is the first method that does, ``risk`` what
    it can do beside computing ("" for nothing), and ``is_allowed`` whether the default policy lets
    it run."""

    operator: str
    where: str
    risk: str
    is_allowed: bool
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first module whose output differs when both models run: ``where`` is its path.

    ``source`` is the line of user source that calls it or raises an error. Of the whole model it is
    the first line whose code differs, None where no code does.
    """

    where: str
    class_name: str
    values: ValueDifference | None
    before: str
    after: str
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True, repr=False)
class DiffReport(Report):
    """The differences between two models or files.

    ``changes`` is empty where nothing differs of what was compared. ``packing`` tells how the files
    differ in what is no part of the model: the format, the version, the torch that wrote them,
    records; it does not count as a change. ``compared`` are the parts that both sides have in forms
    that can be compared, and ``not_compared`` those that were asked for and are in forms that
    cannot. ``divergence`` is set where both were run and gave different results. ``by_checksum`` is
    True where tensors were compared by the CRC-32s and sizes that directories tell, and not read:
    that those of no change are the same is probable, not proven.

        >>> report = tsarchive.diff("net.pt", "tuned.pt", only=["code"])
        >>> report.changes, report.compared
        ([], ('code',))
    """

    _COLUMNS = "kind", "where", "before", "after"

    before: str
    after: str
    changes: list[Change]
    compared: tuple[Part, ...]
    packing: list[Change] = field(default_factory=list)
    methods: list[MethodChange] = field(default_factory=list)
    operators_gained: list[OperatorUse] = field(default_factory=list)
    operators_lost: list[OperatorUse] = field(default_factory=list)
    divergence: Divergence | None = None
    not_compared: tuple[Part, ...] = ()
    by_checksum: bool = False

    @property
    def same(self) -> bool | None:
        """Whether the models are the same in all parts that were asked for, and gave the same
        results where they were run. None where no difference was found, and a part of the models
        could not be compared, or only by checksums: then it is not known."""
        if self.changes or self.divergence is not None:
            return False
        return None if self.not_compared or self.by_checksum else True

    @property
    def ok(self) -> bool:
        """Whether no difference was found: ``same`` tells whether that proves anything."""
        return self.same is not False

    def _headline(self) -> str:
        other = "" if self.divergence is None else ", another result"
        return f"{self.before} to {self.after}: {plural(len(self.changes), 'change')}{other}"

    def _rows(self) -> Sequence[Sequence[object]]:
        return [(one.kind, one.where, *_sides(one)) for one in self.changes]


def _sides(change: Change) -> tuple[object, object]:
    """Return what stands before and after, or how far values are apart, which have many digits."""
    return (change.before, change.after) if change.values is None else (change.values, None)
