"""The locations of nodes in user source, reconstructed from what torch shows of them.

No binding exposes the numbers of a range. torch names file and line, and shows the lines of the
range with up to two lines before and after; below each line of the range is a line of ``~``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

from tsarchive.ir.names import unmangled
from tsarchive.ir.source_ranges import Range, Source, byte_length, new_range

from .function_sources import (
    BUILTIN_FILENAME,
    BUILTIN_SOURCES,
    OLD_BUILTIN_SOURCES,
    Extent,
    SourceText,
    sources_at,
    sources_behind,
)
from .pieces import Piece, join_pieces

# Nodes of these kinds have no location if torch shows none.
_WITHOUT_PLACE = frozenset(
    f"prim::{name}"
    for name in (
        "CallFunction", "CallMethod", "Constant", "DictConstruct", "Enter", "EnumName",
        "EnumValue", "Exit", "GetAttr", "If", "ListConstruct", "ListUnpack", "Loop",
        "ModuleContainerIndex", "NumToTensor", "SetAttr", "TupleConstruct", "TupleIndex",
        "TupleSlice", "TupleUnpack", "Uninitialized", "awaitable", "fork", "isinstance", "tolist",
        "unchecked_cast",
    )
)  # fmt: skip

# Created by passes from one tensor when they quantize a graph.
_OF_PASSES = frozenset(
    f"aten::{name}"
    for name in (
        "_choose_qparams_per_tensor", "_saturate_weight_to_fp16", "dequantize",
        "q_scale", "q_zero_point", "quantize_per_channel", "quantize_per_tensor",
    )
)  # fmt: skip

_DUMMY = Range(Source("", None, 0), 0, 1)
_BUILTINS = [SourceText(text, 1, is_from_frontend=False) for text in BUILTIN_SOURCES]
_OLD_BUILTINS = [SourceText(text, 1, is_from_frontend=False) for text in OLD_BUILTIN_SOURCES]
_IN_BUILTIN = f'  File "{BUILTIN_FILENAME}"'
_FRAME = re.compile(r"(.*)\((\d+)\): ")
_DATACLASS_METHODS = "__torch_jit_dataclass/"


class Place:
    """The location of a node of a function, as torch shows it. The range is computed on demand."""

    __slots__ = ("_reader", "found", "function", "shown")

    def __init__(self, reader: PlaceReader, shown: str, function: str) -> None:
        self._reader = reader
        self.found: Range | None = None
        self.shown = shown
        self.function = function

    @property
    def range(self) -> Range | None:
        self._reader.find_waiting()
        return self.found


class PlaceReader:
    """Reads the locations of one save; equal sources become one object.

    ``generated`` has the methods of dataclasses, and the texts that torch wrote for them;
    ``upgraders`` are the texts of functions that torch puts in the place of old operators, and
    ``text_behind`` gives the text that torch has read a node from.
    """

    def __init__(
        self,
        generated: Mapping[Callable[..., Any], str],
        upgraders: Iterable[str],
        text_behind: Callable[[Any], str],
    ) -> None:
        self._generated: dict[str, list[SourceText]] = {}
        for method, text in generated.items():
            name = ".".join(method.__qualname__.split(".")[-2:])
            self._generated.setdefault(name, []).append(SourceText(text, 0))
        self._sources: dict[tuple[str, str, int, str], Source] = {}
        self._empty: dict[tuple[str, int], Range] = {}
        self._views: dict[tuple[str, ...], list[View]] = {}
        self._functions: dict[tuple[str, int, str], list[SourceText]] = {}
        self._behind: dict[tuple[str, int, str], list[SourceText]] = {}
        self._ranges: dict[tuple[str, str, str], Range] = {}
        # The functions of each name in a code record; several where several files have the record.
        self._namesakes: dict[tuple[str, str], dict[str, int]] = {}
        self._places: dict[tuple[tuple[str, ...], bytes | None, str], Sequence[Place]] = {}
        self._waiting: list[Place] = []
        self._is_old = False
        self._text_behind = text_behind
        self._code: dict[str, list[SourceText]] = {}
        self._upgraders = [SourceText(text, 1, is_from_frontend=False) for text in upgraders]

    def forget(self) -> None:
        """Let go of all places, which lead back here."""
        self._places.clear()
        self._waiting.clear()

    def places(
        self, nodes: Sequence[Any], kinds: Sequence[str], function: str, shape: bytes | None
    ) -> Sequence[Place]:
        """Return the locations of all nodes of a function.

        Functions of one ``shape`` at one place share them.
        """
        shown = [node.sourceRange() for node in nodes]
        key = tuple(shown), shape, function.rpartition(".")[2]
        known = self._places.get(key)
        if known is None:
            rows = zip(nodes, kinds, shown, strict=True)
            known = [self._place(*row, function) for row in rows]
            if all(text.isspace() or self._is_at_hand(text, function) for text in set(shown)):
                self._places[key] = known
        return known

    def _is_at_hand(self, shown: str, function: str) -> bool:
        """Return whether a location is in a file that is at hand: others tell nothing of it."""
        if not shown.startswith(_FILE_BEGINS) or shown.startswith(_OF_OTHERS):
            return not shown
        return "Serialized " not in shown and self._in_file(shown, function) is not None

    def _in_file(self, shown: str, function: str) -> Range | None:
        key = shown, function.rpartition(".")[2], ""
        range_ = self._ranges.get(key)
        if range_ is None:
            range_ = self._known(read_highlight(shown), function)
            if range_ is not None:
                self._ranges[key] = range_
        return range_

    def place(self, node: Any, kind: str, function: str) -> Place:
        """Return the location of a torch node in the code of a function, by its qualified name."""
        return self._place(node, kind, node.sourceRange(), function)

    def _place(self, node: Any, kind: str, shown: str, function: str) -> Place:
        place = Place(self, shown, function)
        file = _SERIALIZED.match(shown) if shown.startswith("Serialized ") else None
        if file is not None and not (kind == "prim::CreateObject" or _is_nowhere(node, kind)):
            # Before 1.12 torch wrote its dummy range such that it shows nothing of it.
            place.found = self._empty_range(file[1], 1)
            self._is_old = True
        elif shown and not shown.isspace():
            self._waiting.append(place)
            if shown.startswith(_CODE_BEGINS) and _CODE_FILE.match(shown):
                self._note_code(node, read_highlight(shown))
        elif not _is_nowhere(node, kind):
            place.found = _DUMMY
        return place

    def _note_code(self, node: Any, highlight: Highlight) -> None:
        """Read the code of a file without debug records: ranges are those of its own text."""
        known = self._code.setdefault(highlight.file or "", [])
        if not any(_marked_in(text, highlight) for text in known):
            known.append(SourceText(self._text_behind(node), 1, is_from_frontend=False))

    def find_waiting(self) -> None:
        """Compute the ranges of all places read so far: each shows parts of a source."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        self._is_old = self._is_old or any(_is_in_old_builtin(place.shown) for place in waiting)
        seen: list[tuple[Place, View | Piece, int, Marked]] = []
        pieces: dict[tuple[str, str], dict[str, list[Piece]]] = {}
        names = {place.function: place.function.rpartition(".")[2] for place in waiting}
        for place in waiting:
            shown, function = place.shown, place.function
            key = (shown, names[function], function if "Serialized " in shown else "")
            if (range_ := self._ranges.get(key)) is not None:
                place.found = range_
                continue
            highlight = self._of_one_file(read_highlight(place.shown), place.function)
            range_ = self._known(highlight, place.function)
            if range_ is not None:
                place.found = range_
                if highlight.file is not None:  # each stack is a source of its own
                    self._ranges[key] = range_
            elif (marked := read_marks(highlight)) is not None:
                line = highlight.line if highlight.file else marked.first
                if highlight.file and highlight.code_file is not None:
                    piece = _piece(highlight.file, line, marked)
                    of_file = pieces.setdefault((highlight.file, highlight.code_file), {})
                    of_file.setdefault(place.function, []).append(piece)
                    seen.append((place, piece, line, marked))
                else:
                    view = self._view(highlight, line, marked, place.function)
                    seen.append((place, view, line, marked))
        for functions in pieces.values():
            join_pieces(functions.values())
        for place, part, line, marked in seen:
            place.found = Range(part.source, *_exact(part, line, marked))

    def _of_one_file(self, highlight: Highlight, function: str) -> Highlight:
        """Tell records of one name apart: each has one function of a name, mangling aside."""
        if highlight.code_file is None:
            return highlight
        known = self._namesakes.setdefault((highlight.code_file, unmangled(function)), {})
        number = known.setdefault(function, len(known))
        record = f"{highlight.code_file}#{number}" if number else highlight.code_file
        return replace(highlight, code_file=record)

    def _known(self, highlight: Highlight, function: str) -> Range | None:
        """Return a range in a source whose whole text is known."""
        code_file = highlight.code_file or ""
        if highlight.file is None:
            return self._whole(highlight.text, code_file, function)
        if not highlight.file and not any(highlight.shown):
            return self._empty_range(code_file, 1)
        for candidate in self._candidates(highlight, function):
            extent = _extent_in(candidate, highlight)
            if extent is not None:
                return Range(self._source(candidate, highlight.file, code_file), *extent)
        return None

    def _candidates(self, highlight: Highlight, function: str) -> Iterable[SourceText]:
        assert highlight.file is not None
        if highlight.file == BUILTIN_FILENAME:
            known = [*_BUILTINS, *self._upgraders]
            return [*_OLD_BUILTINS, *known] if self._is_old else known
        if highlight.file.startswith(_DATACLASS_METHODS):
            name = highlight.file.removeprefix(_DATACLASS_METHODS).replace("/", ".")
            return self._generated.get(name, [])
        if highlight.file in self._code:
            return self._code[highlight.file]
        return self._in_files(highlight.file, highlight.line, function)

    def _in_files(self, file: str, line: int, function: str) -> Iterator[SourceText]:
        """Yield the functions of files that may be meant; decorators are seldom looked behind."""
        place = (file, line, function.rpartition(".")[2])
        if place not in self._functions:
            self._functions[place] = sources_at(*place)
        yield from self._functions[place]
        if place not in self._behind:
            self._behind[place] = sources_behind(function, line)
        yield from self._behind[place]

    def _source(self, text: SourceText, file: str, code_file: str) -> Source:
        key = (text.text, file, text.first_line, code_file)
        is_read = bool(code_file) or file in self._code
        return self._sources.setdefault(key, Source(text.text, file, text.first_line, is_read))

    def _empty_range(self, code_file: str, end: int) -> Range:
        """Return torch.jit.load's range for nodes without one, and for the dummy range."""
        return self._empty.setdefault((code_file, end), Range(Source("", "", 0, True), 0, end))

    def _whole(self, text: str, code_file: str, function: str) -> Range:
        """Return a range that is a whole source: torch shows no file for it."""
        if not text:
            return self._empty_range(code_file, 0)
        method = function.split(".")[-2:]
        for generated in self._generated.get(".".join(method), []):
            if generated.text == text:
                file = _DATACLASS_METHODS + "/".join(method)
                return Range(self._source(generated, file, code_file), 0, byte_length(text))
        # The range of a traced node is a Python stack, one frame a line, innermost first.
        frame = _FRAME.match(text)
        filename, line = (frame[1], int(frame[2])) if frame else (None, 0)
        source = Source(text, filename, line, bool(code_file))
        return new_range((source, 0, byte_length(text)))

    def _view(self, highlight: Highlight, line: int, marked: Marked, function: str) -> View:
        assert highlight.file is not None
        # A text passed to `define` holds several functions of one class.
        owner = function.rpartition(".")[0]
        key = (highlight.file, owner, highlight.code_file or "")
        return add_lines(self._views, key, line - marked.first, marked.lines)


def _marked_in(text: SourceText, highlight: Highlight) -> Marked | None:
    """Return what is marked in the lines of a text; None where it does not have them."""
    first = highlight.line - text.first_line
    marked = read_marks(highlight, first)
    return marked if marked is not None and agrees(marked, text.lines, first) else None


def _extent_in(text: SourceText, highlight: Highlight) -> Extent | None:
    """Return the range in a text, which keeps what it was asked for; None where it is not there."""
    known = text.extents
    if highlight.text not in known:
        known[highlight.text] = _find_extent(text, highlight)
    return known[highlight.text]


def _find_extent(text: SourceText, highlight: Highlight) -> Extent | None:
    marked = _marked_in(text, highlight)
    if marked is None:
        return None
    first = highlight.line - text.first_line
    last_shown = first - marked.first + len(marked.lines) - 1
    return text.exact(_extent(text, highlight.line, marked), last_shown)


def _is_in_old_builtin(shown: str) -> bool:
    """Return whether a range is in the text of a builtin that torch has no more."""
    if not shown.startswith(_IN_BUILTIN) or "Serialized " not in shown:
        return False
    highlight = read_highlight(shown)
    if any(_marked_in(text, highlight) for text in _BUILTINS):
        return False
    return any(_marked_in(text, highlight) for text in _OLD_BUILTINS)


def _piece(file: str, line: int, marked: Marked) -> Piece:
    own = range(marked.first, marked.last + 1)
    return Piece(file, line - marked.first, marked.lines, own)


def _is_nowhere(node: Any, kind: str) -> bool:
    """Return whether a node without a location lacks even torch's dummy range.

    Frontends insert operators with that range: properties, conversions and the arithmetic of loops.
    Operators on several tensors come from optimization passes, and have none.
    """
    if kind in _WITHOUT_PLACE or kind in _OF_PASSES:
        return True
    if not kind.startswith("aten::") or kind == "aten::tensor":
        return False
    tensors = [value for value in node.inputs() if value.type().kind() == "TensorType"]
    return len(tensors) > 1


def _extent(source: Source | SourceText, line: int, marked: Marked) -> Extent:
    """Return the marked bytes of a source; the first marked line has the number ``line``."""
    starts = _line_starts(source.text)
    first = line - source.first_line
    last = first + marked.last - marked.first
    return Extent(starts[first] + marked.begin_column, starts[last] + marked.end_column)


def _exact(view: View | Piece, line: int, marked: Marked) -> Extent:
    """Return the range that torch marks in a view or a piece; ``line`` is its first line."""
    source = view.source
    extent = _extent(source, line, marked)
    if isinstance(view, View):
        return extent
    last_shown = line - source.first_line - marked.first + len(marked.lines) - 1
    return view.text.exact(extent, last_shown)


@lru_cache(maxsize=64)
def _line_starts(text: str) -> list[int]:
    """Return the byte offset of each line of a text, and the offset after the last."""
    return [0, *accumulate(byte_length(line) + 1 for line in text.split("\n"))]


_HEADER = re.compile(r'  File "(.*?)", line (\d+)\n', re.DOTALL)
_SERIALIZED = re.compile(r'Serialized   File "(.*)", line \d+\n', re.DOTALL)
_FILE_BEGINS = '  File "'
_CODE_BEGINS = f"{_FILE_BEGINS}code/"
# The text of old builtins is told apart once all locations are known.
_OF_OTHERS = (_CODE_BEGINS, _IN_BUILTIN)
_CODE_FILE = re.compile(r'  File "code/__torch__.*\.py", line \d+\n')
_CONTEXT = 2
_HERE = " <--- HERE"
_MARK = re.compile(f" *~+(?:{_HERE})?")


@dataclass(frozen=True, slots=True)
class Highlight:
    """A parsed highlight.

    ``line`` is the number of the first marked line, ``shown`` all lines with the marks.
    ``code_file`` names the code record from which torch loaded the range, if it did. A range that
    is the whole of its source has no file; its source is ``text``. The file is empty where the
    source has none: the number of the line is then unknown.
    """

    text: str
    code_file: str | None = None
    file: str | None = None
    line: int = 0
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Marked:
    """The lines without marks, and the range in them: columns in bytes of two of the lines.

    The number of lines after the range depends on its end, even where that is not marked.
    """

    lines: tuple[str, ...]
    first: int
    begin_column: int
    last: int
    end_column: int


@lru_cache(maxsize=1 << 12)
def read_highlight(shown: str) -> Highlight:
    """Parse what torch shows of a range. Cached: a module that is saved again has the same."""
    serialized = _SERIALIZED.search(shown)
    text = shown[: serialized.start()] if serialized else shown
    code_file = serialized[1] if serialized else None
    header = _HEADER.match(text)
    if header is None and _HERE not in text:
        return Highlight(text, code_file)
    file, line, start = (header[1], int(header[2]), header.end()) if header else ("", 0, 0)
    lines = text[start:].removesuffix("\n").split("\n")
    return Highlight(text, code_file, file, line, tuple(lines))


def read_marks(highlight: Highlight, lines_before: int | None = None) -> Marked | None:
    """Return the marked range, provided that ``lines_before`` lines can precede it.

    The number is known when the source is: lines of the source may look like marks.
    """
    if lines_before is None:
        found = (_marks(highlight.shown, before) for before in range(_CONTEXT + 1))
        return next((marked for marked in found if marked is not None), None)
    return _marks(highlight.shown, min(lines_before, _CONTEXT))


def agrees(marked: Marked, lines: Sequence[str], first: int) -> bool:
    """Return whether a source has these lines, with the range beginning at line ``first``."""
    start = first - marked.first
    return start >= 0 and marked.lines == tuple(lines[start : start + len(marked.lines)])


def _marks(shown: Sequence[str], before: int) -> Marked | None:
    lines = list(shown[:before])
    marks: list[tuple[int, str]] = []
    position = before
    while position < len(shown):
        lines.append(shown[position])
        mark = shown[position + 1] if position + 1 < len(shown) else ""
        position += 1
        if _marks_line(mark, lines[-1], is_first=not marks):
            marks.append((len(lines) - 1, mark))
            position += 1
            if mark.endswith(_HERE):
                break
        elif not marks or lines[-1].strip(" "):
            break  # only blank lines of a range have no marks
    if not marks:
        return None
    lines += shown[position:]
    (first, opening), (last, closing) = marks[0], marks[-1]
    end_column = len(closing.removesuffix(_HERE))
    return Marked(tuple(lines), first, opening.index("~"), last, end_column)


def _marks_line(mark: str, line: str, *, is_first: bool) -> bool:
    """Return whether ``mark`` is the mark of ``line``: lines of a source may look like marks."""
    if not _MARK.fullmatch(mark) or byte_length(line) < len(mark.removesuffix(_HERE)):
        return False
    indent = len(line) - len(line.lstrip(" "))
    begin = mark.index("~")
    return begin >= indent if is_first else begin == indent


class View:
    """Known lines of one source by number. Lines that no range shows are assumed to be empty."""

    def __init__(self, file: str, *, is_read: bool) -> None:
        self._file = file
        self._is_read = is_read
        self._lines: dict[int, str] = {}

    def conflicts(self, first: int, lines: Sequence[str]) -> bool:
        return any(self._lines.get(n, line) != line for n, line in enumerate(lines, first))

    def overlaps(self, first: int, lines: Sequence[str]) -> bool:
        return any(number in self._lines for number in range(first, first + len(lines)))

    def add(self, first: int, lines: Sequence[str]) -> None:
        self._lines.update(enumerate(lines, first))

    @cached_property
    def source(self) -> Source:
        """Return the source as far as it is known; nothing may be added afterwards."""
        first, last = min(self._lines), max(self._lines)
        text = "\n".join(self._lines.get(number, "") for number in range(first, last + 1))
        # Sources without a file are graph patterns, which end with a bracket.
        return Source(text + "\n" * bool(self._file), self._file, first, self._is_read)


def add_lines(
    views: dict[tuple[str, ...], list[View]], key: tuple[str, ...], first: int, lines: Sequence[str]
) -> View:
    """Add lines to the view of their source; the first item of ``key`` is its file."""
    known = views.setdefault(key, [])
    fitting = [view for view in known if not view.conflicts(first, lines)]
    fitting.sort(key=lambda view: not view.overlaps(first, lines))
    view = fitting[0] if fitting else View(key[0], is_read=bool(key[-1]))
    if not fitting:
        known.append(view)
    view.add(first, lines)
    return view
