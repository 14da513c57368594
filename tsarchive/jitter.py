"""No jitter: saving again gives the same bytes, and so does printing code from its graphs.

With ``canonical``, so does saving the canonical form in other processes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO

from tsarchive.container import Container, write_container
from tsarchive.container.layout import DEFLATED
from tsarchive.container.source import Source, open_source
from tsarchive.container.writer import deflated
from tsarchive.errors import ArchiveError, UnsupportedError
from tsarchive.kinds import PT2, TORCHSCRIPT, executorch_kind, kind_of
from tsarchive.policy import Guard, Policy

if TYPE_CHECKING:
    import torch

    from tsarchive.run.classes import ArchiveModule

_SHOWN = 32


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """The first byte in which a record of the two sides differs.

    ``first`` and ``second`` show up to 32 bytes from there on; None when the record is missing.
    """

    record: str
    offset: int
    first: bytes | None
    second: bytes | None


@dataclass(frozen=True, slots=True)
class SaveComparison:
    """Saves that should be equal byte for byte, and the records in which they are not.

    They may differ outside of all records: ``records`` is empty then.
    """

    same: bool = True
    records: tuple[RecordDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadComparison:
    """The first save beside the file that was read: its records, and the file as a whole.

    A file of torch's own first save has pickles and debug records that torch itself writes
    otherwise once it has read them, so ``records`` may name those.
    """

    same_file: bool
    records: tuple[RecordDifference, ...]


@dataclass(frozen=True, slots=True)
class Unprinted:
    """A code or debug record that cannot be compared with what the graphs say, and why."""

    record: str
    reason: str


@dataclass(frozen=True, slots=True)
class GraphReport:
    """The code of the first save, and what is printed from nothing but its graphs.

    Of PT2 archives, ``code`` are programs and configurations of the file that was read whose JSON
    is otherwise when it is decoded and encoded again: other versions of torch have other fields.
    Of files of ExecuTorch, it is the part whose tables are otherwise when they are encoded anew:
    an unknown writer has laid them out.

    ``code`` are code records that print otherwise: an older torch wrote them, or they are of a
    first save that torch changes, too, when it saves again. ``records`` are those that change
    once more when what was printed is read and printed again; there should be none.

    ``debug`` are debug records that a loader would write otherwise: those of torch's own first
    save are in a form that changes once. They are compared when all code prints the same.
    ``unprinted`` is what this process cannot print or compare.

    ``is_own`` tells that tsarchive was the first to save the code: that of a live module, or
    compressed as this process compresses it. Small records are compressed alike everywhere.
    """

    code: tuple[RecordDifference, ...] = ()
    records: tuple[RecordDifference, ...] = ()
    debug: tuple[RecordDifference, ...] = ()
    unprinted: tuple[Unprinted, ...] = ()
    is_own: bool = field(default=False, compare=False)

    @property
    def stable(self) -> bool:
        """Whether code and debug records are what their graphs say.

        Those that another writer saved first may change once, to a form that stays.
        """
        return not (self.records or (self.is_own and (self.code or self.debug)))


@dataclass(frozen=True, slots=True)
class JitterReport:
    """``stable`` when all usual saves are equal byte for byte: saved twice, and after loading.

    ``twice`` compares the saves of one object; ``records`` says where the save of what was
    loaded differs from the first. Saves may differ outside of all records (headers, padding,
    order): ``records`` is then empty. ``nbytes`` is the size of the first save.

    ``as_read`` is None for a live module, which was not read from a file; ``graph`` is the depth
    below the text; ``canonical`` compares the canonical form of this process with those of two
    others, None when that was not asked for. ``kind`` is that of the saves: ``torchscript``, or
    ``pt2``, where ``graph`` is about JSON.
    """

    stable: bool
    nbytes: int
    records: tuple[RecordDifference, ...]
    as_read: ReadComparison | None = None
    graph: GraphReport = field(default_factory=GraphReport)
    twice: SaveComparison = field(default_factory=SaveComparison)
    canonical: SaveComparison | None = None
    kind: str = TORCHSCRIPT


def check_jitter(
    source: str | os.PathLike[str] | BinaryIO | torch.nn.Module,
    *,
    map_location: str | torch.device | None = None,
    canonical: bool = False,
    policy: Policy | None = None,
) -> JitterReport:
    """Save twice, load and save again; compare the saves, and their code with its own graphs.

    ``source`` is an archive (path or binary file object), which is loaded first, or a module:
    scripted, traced, or one that ``tsarchive.load`` gave. torch.jit loads nothing here.
    Of several models in a PT2 archive each is loaded in turn; the report is of one that changes,
    if any does. Files of ExecuTorch are not loaded: they are written as they are, and once more
    with their tables encoded anew.
    ``map_location`` is where archives are loaded to, ``policy`` what their code may reach, as for
    ``load``. With ``canonical=True``
    two fresh processes of other hash seeds, in other working directories, load the archive, or
    the first save of a module, and save it in the canonical form.
    Raises what ``load`` and ``save`` raise; ArchiveError when a fresh process fails;
    UnsupportedError for the canonical form of a file of ExecuTorch, which has none.
    """
    terms = _Terms(map_location, policy or Policy.default(), canonical)
    if isinstance(source, str | os.PathLike):
        path = source
        return _check_file(lambda: path, terms)
    given: Any = source
    if hasattr(given, "read"):
        content = given.read()
        return _check_file(lambda: io.BytesIO(content), terms)
    return _check_module(given, terms)


@dataclass(frozen=True, slots=True)
class _Terms:
    """How archives are loaded, and whether the canonical form is looked at."""

    map_location: str | torch.device | None
    policy: Policy
    canonical: bool
    model: str | None = None

    def load(self, file: str | os.PathLike[str] | BinaryIO) -> ArchiveModule:
        from tsarchive.loading import load

        return load(file, map_location=self.map_location, policy=self.policy, model=self.model)


def _check_file(
    source: Callable[[], str | os.PathLike[str] | BinaryIO], terms: _Terms
) -> JitterReport:
    """The worst report of its models. ``source`` gives the bytes of the file each time anew:
    code that runs may write to those that it was loaded from."""
    opened = open_source(source())
    kind = executorch_kind(opened.data)
    if kind is not None:
        return _check_executorch(opened, kind, terms)
    with Container.of_source(opened) as read:
        each = (replace(terms, model=model) for model in _models(read))
        return min((_check_module(one.load(source()), one, read) for one in each), key=_soundness)


def _check_executorch(opened: Source, kind: str, terms: _Terms) -> JitterReport:
    """Of a file that is not loaded: written again, and its tables encoded anew."""
    from tsarchive.executorch.regions import opened_regions
    from tsarchive.executorch.stability import stability_of

    if terms.canonical:
        raise UnsupportedError("files of ExecuTorch have no canonical form")
    with opened_regions(opened, kind) as regions:
        found = stability_of(regions)
        nbytes = len(regions.buffer())
    once, again = (
        () if one is None else (RecordDifference(one.record, one.offset, one.before, one.after),)
        for one in (found.once, found.again)
    )
    unprinted = () if found.unread is None else (Unprinted(*found.unread),)
    return JitterReport(
        found.is_copied, nbytes, (), ReadComparison(found.is_copied, ()),
        GraphReport(once, again, unprinted=unprinted), kind=kind,
    )  # fmt: skip


def _models(read: Container) -> Sequence[str | None]:
    """The models of an archive that has several; else that which loading takes by itself."""
    if kind_of(read.records) != PT2:
        return (None,)
    from tsarchive.pt2.records import Records

    names = Records(read).models
    return names if len(names) > 1 else (None,)


def _soundness(report: JitterReport) -> tuple[bool, bool]:
    is_canonical = report.canonical is None or report.canonical.same
    stable = report.stable and report.graph.stable and is_canonical
    return stable, report.as_read is None or report.as_read.same_file


def _check_module(
    module: torch.nn.Module, terms: _Terms, read: Container | None = None
) -> JitterReport:
    root = (read.root or None) if read is not None else None
    first = _saved(module, root)
    twice = _comparison(first, _saved(module, root))
    loaded = _comparison(first, _saved(terms.load(io.BytesIO(first)), root))
    with Container.open(io.BytesIO(first)) as one:
        return JitterReport(
            twice.same and loaded.same,
            len(first),
            loaded.records,
            None if read is None else _compare_with_read(read, one),
            _check_forms(module, read, one, terms),
            twice,
            _compare_processes(module, first, terms) if terms.canonical else None,
            kind_of(one.records),
        )


def _check_forms(
    module: torch.nn.Module, read: Container | None, saved: Container, terms: _Terms
) -> GraphReport:
    from tsarchive.run.classes import ArchiveModule

    if kind_of(saved.records) == PT2:
        return _check_programs(saved if read is None else read)
    is_own = not isinstance(module, ArchiveModule) or _is_own(saved)
    return _check_graphs(saved, terms, is_own=is_own)


def _saved(module: torch.nn.Module, root: str | None) -> bytes:
    from tsarchive.saving import module_records

    buffer = io.BytesIO()
    write_container(buffer, module_records(module, {}), root=root)
    return buffer.getvalue()


def _comparison(first: bytes, second: bytes) -> SaveComparison:
    return SaveComparison(first == second, tuple(differences(first, second)))


def _compare_processes(module: torch.nn.Module, first: bytes, terms: _Terms) -> SaveComparison:
    from tsarchive.saving import save

    from .fresh_processes import canonical_saves

    buffer = io.BytesIO()
    save(module, buffer, canonical=True)
    saves = canonical_saves(first, terms.map_location, terms.policy, terms.model)
    compared = (_comparison(buffer.getvalue(), content) for content in saves)
    return next((found for found in compared if not found.same), SaveComparison())


def _compare_with_read(read: Container, first: Container) -> ReadComparison:
    with read.buffer() as one, first.buffer() as two:
        same_file = one == two
    return ReadComparison(same_file, () if same_file else tuple(_differences(read, first)))


def differences(first: bytes, second: bytes) -> Iterator[RecordDifference]:
    """The records in which two archives differ, in the order of the first."""
    if first == second:
        return
    with Container.open(io.BytesIO(first)) as one, Container.open(io.BytesIO(second)) as two:
        yield from _differences(one, two)


def _differences(one: Container, two: Container) -> Iterator[RecordDifference]:
    for name in dict.fromkeys([*one.records, *two.records]):
        left = one.read(name) if name in one.records else None
        right = two.read(name) if name in two.records else None
        if left != right:
            yield _difference(name, left, right)


def _difference(name: str, left: bytes | None, right: bytes | None) -> RecordDifference:
    if left is None or right is None:
        return RecordDifference(name, 0, left and left[:_SHOWN], right and right[:_SHOWN])
    pairs = enumerate(zip(left, right, strict=False))
    shorter = min(len(left), len(right))
    at = next((index for index, (a, b) in pairs if a != b), shorter)
    return RecordDifference(name, at, left[at : at + _SHOWN], right[at : at + _SHOWN])


def _check_graphs(container: Container, terms: _Terms, *, is_own: bool) -> GraphReport:
    from tsarchive.torchscript.reprinting import Reprinter, debug_after_reading

    reprinter = Reprinter(container, terms.map_location, Guard(terms.policy))
    printed = reprinter.once()
    unprinted = tuple(Unprinted(name, error.message) for name, error in printed.failures.items())
    code = tuple(_changes({name: container.read(name) for name in printed.texts}, printed.texts))
    records = tuple(_changes(printed.texts, reprinter.again(printed).texts)) if code else ()
    if code or unprinted:
        return GraphReport(code, records, (), unprinted, is_own)
    try:
        debug = debug_after_reading(container, printed)
    except ArchiveError as error:
        unread = (Unprinted(error.record or "", error.message),)
        return GraphReport(unprinted=unread, is_own=is_own)
    changed = tuple(_changes({name: container.read(name) for name in debug}, debug))
    return GraphReport(debug=changed, is_own=is_own)


def _check_programs(container: Container) -> GraphReport:
    """Of a PT2 archive: its JSON, decoded and encoded again."""
    from tsarchive.pt2.reencoding import encoded_again, json_records

    texts = json_records(container)
    once = encoded_again(container, texts)
    code = tuple(_changes(texts, once))
    return GraphReport(code, tuple(_changes(once, encoded_again(container, once))))


def _is_own(container: Container) -> bool:
    """Whether code is compressed as tsarchive does it: torch's deflater gives other bytes.

    Code that was loaded keeps the form that its first writer gave it.
    """
    packed = [
        record
        for name, record in container.records.items()
        if name.startswith("code/") and record.method == DEFLATED
    ]
    return bool(packed) and all(
        deflated(container.read(record.name)) == container.payload(record.name) for record in packed
    )


def _changes(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[RecordDifference]:
    for name, content in before.items():
        if content != after.get(name):
            yield _difference(name, content, after.get(name))
