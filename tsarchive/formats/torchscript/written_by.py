"""Which torch wrote a TorchScript archive: marks that some releases leave and others do not.

Where an archive was saved again, its writer is the last one: the packing, the records, the forms of
printed code and the operators tell of it. Lines of torch's own sources in debug records stay as
they are, so they tell of the writer only where code was compiled in the process that saved it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from tsarchive.container import Container
from tsarchive.container.layout import DEFLATED
from tsarchive.container.packing import Packing, packing_of
from tsarchive.describing.written import (
    Reason,
    Writer,
    WrittenBy,
    all_releases,
    common,
    since,
    until,
)
from tsarchive.errors import ArchiveError
from tsarchive.ir.source_ranges import Source, TaggedRange
from tsarchive.operators.registry import versions_of
from tsarchive.operators.torch_sources import Line, is_function, releases_with

from .debug_records import DEBUG_SUFFIX, DebugForm, DebugRows, read_debug_rows

# Of larger files the first records tell as much.
_MAX_CODE: Final = 1 << 16
_MAX_BYTECODE: Final = 1 << 20
_MAX_DEBUG: Final = 3 << 14
# What it takes to look at a record, however small.
_OVERHEAD: Final = 1 << 8
# So much data is deflated again to see whether zlib did it.
_MAX_DEFLATED: Final = 1 << 17


class _Archive(NamedTuple):
    """What marks are looked for in."""

    container: Container
    names: Sequence[str]
    packing: Packing
    version: int
    code: str
    bytecode: int | None
    debug: _DebugMarks
    operators: Mapping[str, int]

    def has(self, name: str) -> bool:
        return name in self.container.records


class _Mark(NamedTuple):
    """A mark, and the releases of torch that leave it; ``source`` is where that is written."""

    name: str
    first: str
    last: str | None
    is_there: Callable[[_Archive], bool]
    source: str


def _finds(pattern: str) -> Callable[[_Archive], bool]:
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda archive: compiled.search(archive.code) is not None


def _torch_script(condition: Callable[[_Archive], bool]) -> Callable[[_Archive], bool]:
    """Return a condition for archives with a data.pkl, which torch has written since 1.3."""
    return lambda archive: archive.has("data.pkl") and condition(archive)


def _packed(condition: Callable[[_Archive], bool]) -> Callable[[_Archive], bool]:
    """Return a condition that tells of torch only where torch has packed the records."""
    return _torch_script(lambda archive: archive.packing.is_torchs and condition(archive))


# Sources are files of torch; what they do was tried with archives that each release wrote.
_WRITER: Final = "caffe2/serialize/inline_container.cc"
_EXPORT: Final = "torch/csrc/jit/serialization/export_module.cpp"
_PRINT: Final = "torch/csrc/jit/serialization/python_print.cpp"
_RANGES: Final = "torch/csrc/jit/serialization/source_range_serialization.cpp"
_VERSIONS: Final = "caffe2/serialize/versions.h"

# fmt: off
_MARKS: Final = (
    _Mark("a model.json", "1.0", "1.2", lambda a: a.has("model.json"), "torch/csrc/jit/export.cpp"),
    _Mark("an attributes.pkl", "1.1", "1.2",
          lambda a: a.has("model.json") and a.has("attributes.pkl"), "torch/csrc/jit/export.cpp"),
    _Mark("no attributes.pkl", "1.0", "1.0",
          lambda a: a.has("model.json") and not a.has("attributes.pkl"),
          "torch/csrc/jit/export.cpp"),
    _Mark("a model.json of version 2 or 3", "1.1", "1.1",
          lambda a: a.has("model.json") and 2 <= a.version <= 3,
          "caffe2/proto/torch.proto"),
    _Mark("a model.json of version 4 or 5", "1.2", "1.2",
          lambda a: a.has("model.json") and a.version >= 4, "caffe2/proto/torch.proto"),
    _Mark("debug records in debug/", "1.2", "1.2",
          lambda a: a.has("model.json") and any(n.startswith("debug/") for n in a.names),
          "torch/csrc/jit/export.cpp"),
    _Mark("a data.pkl", "1.3", None, lambda a: a.has("data.pkl"), "torch/csrc/jit/export.cpp"),
    _Mark("members with a time", "1.0", "1.3",
          lambda a: a.packing.is_torchs and a.packing.has_times, _WRITER),
    _Mark("members without a time", "1.4", None,
          _packed(lambda a: not a.packing.has_times), _WRITER),
    _Mark("the version first", "1.0", "1.5", _packed(lambda a: a.names[0] == "version"), _WRITER),
    _Mark("the version last", "1.6", None, _packed(lambda a: a.names[0] != "version"), _WRITER),
    _Mark("format version 1", "1.3", "1.4", _torch_script(lambda a: a.version == 1), _VERSIONS),
    _Mark("format version 2", "1.5", "1.5", _torch_script(lambda a: a.version == 2), _VERSIONS),
    _Mark("format version 3 or later", "1.6", None,
          _torch_script(lambda a: a.version >= 3), _VERSIONS),
    _Mark("format version 8 or later", "1.11", None,
          _torch_script(lambda a: a.version >= 8), _VERSIONS),
    _Mark("format version 10", "1.12", None, _torch_script(lambda a: a.version >= 10), _VERSIONS),
    _Mark("a byteorder", "2.1", None, lambda a: a.has("byteorder"), _WRITER),
    _Mark("no byteorder", "1.0", "2.0", lambda a: not a.has("byteorder"), _WRITER),
    _Mark("a serialization id", "2.1", None, lambda a: a.has(".data/serialization_id"), _WRITER),
    _Mark("no serialization id", "1.0", "2.0",
          lambda a: not a.has(".data/serialization_id"), _WRITER),
    _Mark("bytecode version 7 or later", "1.10", None,
          lambda a: (a.bytecode or 0) >= 7, _VERSIONS),
    _Mark("bytecode version 8", "1.12", None, lambda a: (a.bytecode or 0) >= 8, _VERSIONS),
    _Mark("debug rows without tags", "1.3", "1.8",
          lambda a: a.debug.form is DebugForm.UNTAGGED, _RANGES),
    _Mark("debug rows with their text", "1.9", "1.11",
          lambda a: a.debug.form is DebugForm.TAGGED, _RANGES),
    _Mark("debug rows with a table of texts", "1.12", None,
          lambda a: a.debug.form is DebugForm.TABLE, _RANGES),
    _Mark("op_version_set in code", "1.3", "1.4",
          _torch_script(_finds(r"^op_version_set = ")), _PRINT),
    _Mark("no op_version_set in code", "1.5", None,
          _torch_script(lambda a: bool(a.code) and "op_version_set" not in a.code), _PRINT),
    _Mark("modules with a list of buffers", "1.6", None, _finds(r"^  __buffers__ = "), _PRINT),
    _Mark("modules without a list of buffers", "1.3", "1.5",
          _torch_script(_finds(r"^class \w+\(Module\):\n(?!  __parameters__ = .*\n  __buffers__)")),
          _PRINT),
    _Mark("constants of classes", "1.5", None, _finds(r"^  \w+ : Final\["), _PRINT),
    _Mark("the type NoneType", "1.9", None, _finds(r"[:\[>] ?NoneType\b"), _PRINT),
    _Mark("the type None", "1.3", "1.8", _torch_script(_finds(r"^  \w+ : None$")), _PRINT),
    _Mark("an enum", "1.7", None, _finds(r"^class \w+\(Enum\):"), _PRINT),
    _Mark("hooks of modules", "1.8", None, _finds(r"^  __forward_(pre_)?hooks__ = "), _PRINT),
    _Mark("the type Union", "1.10", None, _finds(r"\bUnion\["), _PRINT),
    _Mark("gelu in a version before 10", "1.3", "1.11",
          lambda a: a.has("data.pkl") and 0 < a.version < 10 and "aten::gelu" in a.operators,
          "torch/csrc/jit/operator_upgraders/version_map.cpp"),
)
# fmt: on


def written_by(
    container: Container, version: int | None, code: Mapping[str, str], operators: Mapping[str, int]
) -> WrittenBy:
    """Return which releases of torch may have written an archive.

    ``version`` is that of its format, ``code`` are its code records, ``operators`` those that they
    call. What is not known leaves no mark.
    """
    archive = _Archive(
        container=container,
        names=[*container.records],
        packing=packing_of(container),
        version=version or 0,
        code=_first_code(code),
        bytecode=_bytecode_version(container),
        debug=_DebugMarks(container, code),
        operators=operators,
    )
    reasons = _reasons(archive)
    found, compiled = common(reasons), archive.debug.compiled()
    return WrittenBy(
        first=found and found.first,
        last=found and found.last,
        reasons=tuple(reasons),
        writer=_writer(archive),
        is_between=found is not None and found.is_between,
        compiled_first=compiled and compiled[0],
        compiled_last=compiled and compiled[1],
    )


def _reasons(archive: _Archive) -> list[Reason]:
    """Return all marks. Lines of torch's sources are none where others contradict them."""
    reasons = [_reason(mark) for mark in _MARKS if mark.is_there(archive)]
    if archive.has("data.pkl"):
        reasons.extend(_of_operators(archive.operators))
    compiled = archive.debug.compiled()
    if compiled is None or not archive.debug.is_first_save:
        return reasons
    lines = Reason("lines of torch's sources, compiled in the process that saved it", *compiled)
    together = common([*reasons, lines])
    return reasons if together is None or together.is_between else [*reasons, lines]


def _reason(mark: _Mark) -> Reason:
    return Reason(mark.name, mark.first, mark.last or all_releases()[-1])


def _of_operators(operators: Iterable[str]) -> Iterator[Reason]:
    """Yield the narrowest marks that operators leave: releases that lack one do not print it."""
    releases = all_releases()
    known = {name: versions for name in operators if (versions := versions_of(name))}
    torchs = [name for name in known if name.startswith("aten::")]
    if torchs:
        newest = max(torchs, key=lambda name: releases.index(known[name][0]))
        if (first := _first_release(known[newest])) != releases[0]:
            yield since(f"the operator {newest}", first)
        oldest = min(torchs, key=lambda name: releases.index(known[name][-1]))
        if (last := known[oldest][-1]) != releases[-1]:
            yield until(f"the operator {oldest}", last)


def _first_release(versions: Sequence[str]) -> str:
    """Return the first release; operators of the oldest that was read may be older."""
    return versions[0] if versions[0] != "1.4" else all_releases()[0]


def _first_code(code: Mapping[str, str]) -> str:
    """Return the text of the first code records."""
    texts, room = [], _MAX_CODE
    for name in code:
        with suppress(ArchiveError):
            texts.append(code[name])
            room -= len(texts[-1])
        if room < 0:
            break
    return "".join(texts)


def _bytecode_version(container: Container) -> int | None:
    """Return the number with which the pickle of bytecode begins: a small integer in a tuple."""
    record = container.records.get("bytecode.pkl")
    if record is None or record.size > _MAX_BYTECODE:
        return None
    with suppress(ArchiveError):
        match = re.match(rb"\x80\x02\(?K(.)", container.read("bytecode.pkl"), re.DOTALL)
        return match[1][0] if match else None
    return None


def _writer(archive: _Archive) -> Writer:
    """Tell what packed the records: torch deflates with miniz, whose bytes zlib seldom writes."""
    if not archive.packing.is_torchs:
        return "another program"
    with suppress(ArchiveError):
        return "tsarchive" if _is_zlibs(archive.container) else "torch"
    return "torch"


def _is_zlibs(container: Container) -> bool:
    """Return whether zlib gives the bytes of all deflated records, of those looked at; one alone
    may be the same by chance."""
    from tsarchive.container.deflating import deflated

    seen, room = 0, _MAX_DEFLATED
    for record in container.records.values():
        if record.method == DEFLATED and record.size <= room:
            if deflated(container.read(record.name)) != container.payload(record.name):
                return False
            seen, room = seen + 1, room - record.size - _OVERHEAD
    return seen > 1


_FRAME: Final = re.compile(r"\btorch[/\\]([\w/\\]{1,60}\.py)\((\d{1,9})\): (\w{1,60})")
_FILE: Final = re.compile(r"\btorch[/\\]((?:nn[/\\])?(?:modules[/\\])?\w+\.py)\Z")
_DEFINED: Final = re.compile(r"^[ \t]*def (\w+)\(", re.MULTILINE)
# Calls of functions by name, whose places loading loses: those through a variable keep theirs.
_CALLED: Final = re.compile(
    r"\b__torch__\.torch\.nn\.functional\.(?:___torch_mangle_\d+\.)?[a-z]\w*\("
)


class _DebugMarks:
    """What the debug records of an archive tell, of those that are not too large.

    ``form`` is how rows are written. ``is_first_save`` is whether code was compiled in the process
    that saved it, as these show, none of which outlives loading: example inputs of a trace, tags
    that records share, and places of calls.
    """

    def __init__(self, container: Container, code: Mapping[str, str]) -> None:
        self.form: DebugForm | None = None
        self.is_first_save = "traced_inputs.pkl" in container.records
        self._code = code
        self._lines: set[Line] = set()
        self._releases: frozenset[str] | None = None
        self._tags: set[int] = set()
        room = _MAX_DEBUG
        for record, size in _debug_records(container):
            room -= size + _OVERHEAD
            if room < 0 or self._is_settled:
                break
            with suppress(ArchiveError):
                self._add(read_debug_rows(container.read(record), record), record)

    def compiled(self) -> tuple[str, str] | None:
        """Return the first and last release whose lines fit all records, None where none does."""
        if not self._releases:
            return None
        ordered = sorted(self._releases, key=all_releases().index)
        return ordered[0], ordered[-1]

    @property
    def _is_settled(self) -> bool:
        return self.is_first_save and self._releases is not None and len(self._releases) < 2

    def _add(self, rows: DebugRows, record: str) -> None:
        self.form = self.form or rows.form
        places = [one.range for one in rows.ranges]
        sources = {id(place.source): place.source for place in places if place is not None}
        lines = {line for source in sources.values() for line in _lines_in(source)}
        for releases in map(releases_with, lines - self._lines):
            self._releases = releases if self._releases is None else self._releases & releases
        self._lines |= lines
        if lines and not self.is_first_save:
            self.is_first_save = self._is_compiled(rows, record)

    def _is_compiled(self, rows: DebugRows, record: str) -> bool:
        """Return whether a record that names lines of torch was compiled before it was saved."""
        tagged = zip(rows.tags, rows.ranges, strict=False)
        tags = {tag for tag, (_, place) in tagged if place is not None and place.source.text}
        if tags & self._tags:
            return True
        self._tags |= tags
        if rows.form is not DebugForm.TABLE or any(map(_was_loaded, rows.ranges)):
            return False
        code = self._code.get(record.removesuffix(DEBUG_SUFFIX), "")
        return _CALLED.search(code) is not None


def _debug_records(container: Container) -> list[tuple[str, int]]:
    """Return the debug records with their sizes: small ones of torch's own code first, which name
    most of its lines."""
    names = (name for name in container.records if name.endswith(DEBUG_SUFFIX))
    sized = ((name, container.records[name].size) for name in names)
    return sorted(sized, key=lambda row: (not row[0].startswith("code/__torch__/torch/"), row[1]))


def _was_loaded(range_: TaggedRange) -> bool:
    """Return whether a range is what becomes of none when torch loads and saves it."""
    place = range_.range
    return place is not None and not (place.source.text or place.source.filename or place.end)


def _lines_in(source: Source) -> Iterator[Line]:
    """Yield the lines of torch that a source names: a stack of calls, or the text of a function."""
    path, defined = _FILE.search(source.filename or ""), _DEFINED.search(source.text)
    if path and defined and is_function(file := _posix(path[1]), defined[1]):
        yield Line(file, defined[1], source.first_line, is_first=True)
    elif not defined:
        for name, number, function in _FRAME.findall(source.text):
            if is_function(file := _posix(name), function):
                yield Line(file, function, int(number), is_first=False)


def _posix(path: str) -> str:
    return path.replace("\\", "/")
