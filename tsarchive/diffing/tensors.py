"""Differences between the tensors of two files."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any, Final, NamedTuple

import numpy

from tsarchive.analyses.encoding import Plain
from tsarchive.diffing.checksums import Checksums, shown
from tsarchive.diffing.numbers import numbers_of
from tsarchive.diffing.plain_values import is_same
from tsarchive.diffing.report import Change, Part, ValueDifference
from tsarchive.diffing.values import Distance
from tsarchive.fingerprinting import TensorDigest, tensor_digest
from tsarchive.formats.contents import Elements, TensorContent
from tsarchive.formats.reading import Reading
from tsarchive.formats.strides import Piece
from tsarchive.steps import Measured, no_step

# What is compared at a time stays in the caches of the processor.
_AT_ONCE: Final = 1 << 18
# What says how the elements of a tensor are read, where they are no numbers.
_BLOBS: Final = frozenset({"bytes", "pickled"})
# Names have no more parts in their prefix.
_MOST_PARTS: Final = 8
_STRIDED: Final = "strided"
_PARTS: Final[Mapping[str, Part]] = {
    "tensor": "weights", "tensor renamed": "weights", "tensor quantization": "weights",
}  # fmt: skip
# Kinds of changes of which not every format says something.
_MAY_BE_UNKNOWN: Final = frozenset({"tensor device", "tensor gradient", "tensor role"})
# Where these differ, equal bytes are other elements, and there are others.
_READ_OTHERWISE: Final = frozenset(
    {"tensor layout", "tensor dtype", "tensor shape", "tensor flags"}
)


def tensor_changes(
    before: Mapping[str, TensorContent],
    after: Mapping[str, TensorContent],
    readings: tuple[Reading, Reading],
    *,
    names: Mapping[str, str] | None = None,
    is_common_only: bool = False,
    checksums: Checksums | None = None,
    step: Callable[[str], None] = no_step,
) -> Iterator[Change]:
    """Yield the differences of tensors, by their names after, or before where they are gone.

    ``names`` gives the names after of tensors in modules that were renamed, by those before. A
    tensor without its like on the other side is told as renamed where just one without its like
    there has the same content, and more than one element. One that has several names is told at
    each of them. With ``is_common_only``, for files of two formats, tensors on one side alone are
    no differences, nor are gradients, which state dicts have none of. What ``checksums`` decide is
    not read. ``step`` is called with the name of each tensor when it has been compared.

    Raises ArchiveError for tensors that cannot be read.
    """
    for reading, tensors in zip(readings, (before, after), strict=True):
        reading.require_bounded(tensors.values())
    one, other = _wholes(before, names or {}), _wholes(after, {})
    with _Comparison(readings, checksums) as comparison:
        waiting = [
            _Pair(comparison, one[name], other[name], has_gradient=not is_common_only)
            for name in other
            if name in one
        ]
        if not is_common_only:
            gone = [whole for name, whole in one.items() if name not in other]
            new = [whole for name, whole in other.items() if name not in one]
            yield from _one_sided(comparison, gone, new)
        measured = Measured(step, sum(pair.nbytes for pair in waiting))
        for pair in waiting:
            yield from pair.changes()
            measured.add(pair.name, pair.nbytes)


class Prefixes(NamedTuple):
    """What precedes the names of tensors before, and after, in one of two files."""

    before: str = ""
    after: str = ""

    def names(self, before: Iterable[str]) -> dict[str, str]:
        """Return names after by those before, where they are not the same."""
        inside = (name for name in before if name.startswith(self.before))
        is_other = self.before != self.after
        return {n: self.after + n.removeprefix(self.before) for n in inside} if is_other else {}


def prefixes_of(before: Collection[str], after: Collection[str]) -> Prefixes:
    """Return the prefix that lets most names of one side be those of the other; none where they
    have names in common, or no prefix does."""
    if not {*before}.isdisjoint(after):
        return Prefixes()
    counts = Counter({Prefixes(after=own): n for own, n in _prefixes(after, {*before}).items()})
    counts.update({Prefixes(before=own): n for own, n in _prefixes(before, {*after}).items()})
    return max(counts, key=lambda found: counts[found], default=Prefixes())


def _prefixes(names: Iterable[str], others: Set[str]) -> Counter[str]:
    """Count what precedes names of the other side in those of one."""
    found = Counter[str]()
    for name in names:
        parts = name.split(".")[:_MOST_PARTS]
        ends = accumulate(len(part) + 1 for part in parts)
        found.update(name[:end] for end in ends if name[end:] in others)
    return found


class _Whole(NamedTuple):
    """A tensor: its name, and the contents of it or its parts by their names on this side."""

    name: str
    parts: dict[str, TensorContent]

    @property
    def content(self) -> TensorContent:
        """That of the tensor itself, or of the values of a sparse one, which are the last part."""
        contents = [*self.parts.values()]
        return next((one for one in contents if one.part_of is None), contents[-1])

    @property
    def layout(self) -> str:
        part_of = self.content.part_of
        return _STRIDED if part_of is None else part_of.layout

    @property
    def shape(self) -> Plain:
        content = self.content
        return _shape(content) if content.part_of is None else [*content.part_of.shape]

    @property
    def elements(self) -> int:
        return sum(prod(content.elements.shape) for content in self.parts.values())

    @property
    def text(self) -> str:
        """``float32 [64, 3, 7, 7]``, or the size of what is no tensor."""
        if _is_blob(self.content):
            return f"{self.content.elements.nbytes:,} bytes"
        layout = "" if self.layout == _STRIDED else f"{self.layout} "
        return f"{layout}{_dtype(self.content)} {self.shape}"

    def facts(self) -> dict[str, Plain]:
        """Return what is told of the tensor by the kinds of its changes; None is not known."""
        content = self.content
        return {
            "tensor layout": self.layout,
            "tensor dtype": _dtype(content),
            "tensor shape": self.shape,
            "tensor quantization": _quantization(content),
            "tensor flags": _flags(content),
            "tensor device": content.device,
            "tensor gradient": content.requires_grad,
            "tensor role": content.role,
        }


def _wholes(tensors: Mapping[str, TensorContent], names: Mapping[str, str]) -> Mapping[str, _Whole]:
    """Return tensors by their names after."""
    found: dict[str, _Whole] = {}
    for name, content in tensors.items():
        own = name if content.part_of is None else content.part_of.name
        part, renamed = name.removeprefix(own), names.get(name, name)
        shown = renamed.removesuffix(part) if part else renamed
        found.setdefault(shown, _Whole(shown, {})).parts[renamed] = content
    return found


def _meaning(content: TensorContent) -> Sequence[Any]:
    meaning: Any = content.meaning
    found: Sequence[Any] = meaning
    return found


def _is_blob(content: TensorContent) -> bool:
    return _meaning(content)[0] in _BLOBS


def _dtype(content: TensorContent) -> str:
    return "bytes" if _is_blob(content) else str(_meaning(content)[1])


def _shape(content: TensorContent) -> Plain:
    return None if _is_blob(content) else [*_meaning(content)[2]]


def _has_elements(content: TensorContent) -> bool:
    """Return whether the file has elements: those of fake tensors and on ``meta`` are nowhere."""
    return content.elements.storage is not None


def _flags(content: TensorContent) -> Plain:
    meaning = _meaning(content)
    return [*meaning[3]] if meaning[0] == "dense" else []


def _quantization(content: TensorContent) -> Plain:
    match content.meaning:
        case ["quantized", _, _, scale, zero_point]:
            return {"scale": scale, "zero point": zero_point}
        case ["channels", _, _, axis]:
            return {"axis": axis}
    return {}


class _Values(NamedTuple):
    """The digests of tensors whose elements differ, and how far these are apart.

    They are ``is_probable`` where checksums that nobody has checked stand for them.
    """

    before: str
    after: str
    difference: ValueDifference | None
    is_probable: bool = False


class _Comparison:
    """Compares elements, several tensors at a time.

    ``has_probable_digests`` tells that checksums stood for digests that were asked for.
    """

    has_probable_digests = False

    def __init__(self, readings: tuple[Reading, Reading], checksums: Checksums | None) -> None:
        self._readings = readings
        self._checksums = checksums
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._waiting: dict[tuple[int, int], Future[_Values | None]] = {}

    def __enter__(self) -> _Comparison:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def values(self, before: TensorContent, after: TensorContent) -> Future[_Values | None]:
        """Return how elements differ, once that is known; what has several names is read once."""
        key = id(before), id(after)
        if key not in self._waiting:
            self._waiting[key] = self._pool.submit(self._values, before, after)
        return self._waiting[key]

    def digests(
        self, sides: Sequence[Sequence[_Whole]]
    ) -> tuple[Iterator[tuple[str, ...]], Iterator[tuple[str, ...]]]:
        """Return the digests of the parts of each of these tensors of both files."""
        contents = (part for side in sides for whole in side for part in whole.parts.values())
        told = None if self._checksums is None else self._checksums.digest(contents)
        self.has_probable_digests = told is not None
        of_each = [told or partial(tensor_digest, reading=one) for one in self._readings]
        first, second = (
            self._pool.map(partial(_digests, digest), side)
            for digest, side in zip(of_each, sides, strict=True)
        )
        return first, second

    def _values(self, before: TensorContent, after: TensorContent) -> _Values | None:
        if self._checksums is not None:
            are_alike = self._checksums.are_alike(before.elements, after.elements)
            if are_alike is not None:
                texts = shown(before.elements), shown(after.elements)
                return None if are_alike else _Values(*texts, None, is_probable=True)
        if before.elements.nbytes == after.elements.nbytes:
            pairs = self._pieces(*_in_one_order(before.elements, after.elements))
            if all(_are_equal(*pair) for pair in pairs):
                return None
            return self._difference(before, after)
        one, other = self._readings
        return _Values(tensor_digest(before, one), tensor_digest(after, other), None)

    def _difference(self, before: TensorContent, after: TensorContent) -> _Values:
        numbers = None if _is_blob(before) else numbers_of(_dtype(before))
        distance = None if numbers is None else Distance(numbers)
        digests = TensorDigest(before), TensorDigest(after)
        for one, other in self._pieces(before.elements, after.elements):
            digests[0].add(one)
            digests[1].add(other)
            if distance is not None:
                distance.add(one, other)
        found = None if distance is None else distance.found
        return _Values(str(digests[0]), str(digests[1]), found)

    def _pieces(self, before: Elements, after: Elements) -> Iterator[tuple[memoryview, memoryview]]:
        one, other = self._readings
        return _paired(one.pieces(before), other.pieces(after))


def _in_one_order(before: Elements, after: Elements) -> tuple[Elements, Elements]:
    """Return elements in the order in which both files store them, if it is one."""
    if [*before.strides] != [*after.strides]:
        return before, after
    return before.as_stored(), after.as_stored()


def _digests(digest: Callable[[TensorContent], str], whole: _Whole) -> tuple[str, ...]:
    return tuple(map(digest, whole.parts.values()))


def _paired(
    before: Iterator[Piece], after: Iterator[Piece]
) -> Iterator[tuple[memoryview, memoryview]]:
    """Yield bytes at the same places on both sides."""
    one = other = memoryview(b"")
    while True:
        one = one or memoryview(next(before, b""))
        other = other or memoryview(next(after, b""))
        size = min(len(one), len(other), _AT_ONCE)
        if not size:
            return
        yield one[:size], other[:size]
        one, other = one[size:], other[size:]


def _are_equal(before: memoryview, after: memoryview) -> bool:
    whole = len(before) & ~7
    one, other = (numpy.frombuffer(data[:whole], numpy.uint64) for data in (before, after))
    return before[whole:] == after[whole:] and numpy.array_equal(one, other)


class _Pair:
    """A tensor on both sides, whose elements are compared meanwhile."""

    def __init__(
        self, comparison: _Comparison, before: _Whole, after: _Whole, *, has_gradient: bool
    ) -> None:
        self.name = after.name
        self.nbytes = sum(content.elements.nbytes for content in after.parts.values())
        self._told = [*_changed_facts(before, after, has_gradient=has_gradient)]
        self._values: list[tuple[str, Future[_Values | None]]] = []
        if any(change.kind in _READ_OTHERWISE for change in self._told):
            return
        for name, content in after.parts.items():
            if name in before.parts:
                self._add_part(comparison, name, before.parts[name], content)

    def _add_part(
        self, comparison: _Comparison, name: str, before: TensorContent, after: TensorContent
    ) -> None:
        if _dtype(before) != _dtype(after):
            self._told.append(_change("tensor dtype", name, _dtype(before), _dtype(after)))
        elif _shape(before) != _shape(after):
            self._told.append(_change("tensor shape", name, _shape(before), _shape(after)))
        elif _has_elements(before) == _has_elements(after):
            self._values.append((name, comparison.values(before, after)))
            self._kind = "data" if _is_blob(after) else "tensor values"

    def changes(self) -> Iterator[Change]:
        """Yield what differs, once it is known."""
        yield from self._told
        for name, waiting in self._values:
            found = waiting.result()
            if found is not None:
                yield Change(
                    self._kind, name, found.before, found.after, "weights",
                    values=found.difference, is_probable=found.is_probable,
                )  # fmt: skip


def _changed_facts(before: _Whole, after: _Whole, *, has_gradient: bool) -> Iterator[Change]:
    if _are_plainly_alike(before.content, after.content):
        return
    others = after.facts()
    for kind, one in before.facts().items():
        other = others[kind]
        is_known = kind not in _MAY_BE_UNKNOWN or None not in (one, other)
        if not is_same(one, other) and is_known and (has_gradient or kind != "tensor gradient"):
            yield _change(kind, after.name, one, other)


def _are_plainly_alike(before: TensorContent, after: TensorContent) -> bool:
    """Return whether tensors, as most are, have nothing to compare but elements."""
    if before.part_of is not None or after.part_of is not None or before.meaning != after.meaning:
        return False
    own = before.device, before.requires_grad, before.role
    return _meaning(before)[0] == "dense" and own == (after.device, after.requires_grad, after.role)


def _change(kind: str, name: str, before: Plain, after: Plain) -> Change:
    return Change(kind, name, before, after, _PARTS.get(kind, "structure"))


def _one_sided(
    comparison: _Comparison, gone: Sequence[_Whole], new: Sequence[_Whole]
) -> Iterator[Change]:
    """Yield tensors that were renamed, then those that were removed, and added."""
    renamed = dict(_renamed(comparison, gone, new))
    for before, after in renamed.items():
        found = _change("tensor renamed", after, before, after)
        yield replace(found, is_probable=comparison.has_probable_digests)
    for whole in gone:
        if whole.name not in renamed:
            yield _change("tensor", whole.name, whole.text, None)
    named_otherwise = {*renamed.values()}
    for whole in new:
        if whole.name not in named_otherwise:
            yield _change("tensor", whole.name, None, whole.text)


def _renamed(
    comparison: _Comparison, gone: Sequence[_Whole], new: Sequence[_Whole]
) -> Iterator[tuple[str, str]]:
    """Yield the names of tensors that just one on each side has the content of."""
    texts = [{whole.text for whole in wholes if whole.elements > 1} for wholes in (gone, new)]
    likely = [[each for each in side if each.text in texts[0] & texts[1]] for side in (gone, new)]
    found: list[dict[tuple[str, ...], list[str]]] = []
    for wholes, digests_of_each in zip(likely, comparison.digests(likely), strict=True):
        names: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for whole, digests in zip(wholes, digests_of_each, strict=True):
            names[digests].append(whole.name)
        found.append(names)
    for digests, before in found[0].items():
        after = found[1].get(digests, [])
        if len(before) == len(after) == 1:
            yield before[0], after[0]
