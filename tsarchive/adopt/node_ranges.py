"""The locations of nodes in user source, reconstructed from what torch shows of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from tsarchive.ir.source_ranges import Range, Source, byte_length

from . import builtin_sources
from .frontend_ranges import Extent
from .function_sources import SourceText, sources_at, sources_behind
from .highlight import Highlight, Marked, View, Views, agrees, read_highlight, read_marks

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
_BUILTINS = [
    SourceText(text, builtin_sources.FIRST_LINE, is_from_frontend=False)
    for text in builtin_sources.BUILTIN_SOURCES
]
_FRAME = re.compile(r"(.*)\((\d+)\): ")
_DATACLASS_METHODS = "__torch_jit_dataclass/"


class Place:
    """The location of a node of a function, as torch shows it. The range is computed on demand."""

    __slots__ = ("_found", "_reader", "function", "shown")

    def __init__(self, reader: PlaceReader, shown: str, function: str) -> None:
        self._reader = reader
        self._found: Range | None = None
        self.shown = shown
        self.function = function

    @property
    def range(self) -> Range | None:
        self._reader.find_waiting()
        return self._found

    def found(self, range_: Range | None) -> None:
        self._found = range_


class PlaceReader:
    """Reads the locations of one save; equal sources become one object.

    ``generated`` has the methods of dataclasses, and the texts that torch wrote for them.
    """

    def __init__(self, generated: Mapping[Callable[..., Any], str]) -> None:
        self._generated: dict[str, list[SourceText]] = {}
        for method, text in generated.items():
            name = ".".join(method.__qualname__.split(".")[-2:])
            self._generated.setdefault(name, []).append(SourceText(text, 0))
        self._sources: dict[tuple[str, str, int, str], Source] = {}
        self._empty: dict[tuple[str, int], Range] = {}
        self._views = Views()
        self._functions: dict[tuple[str, int, str], list[SourceText]] = {}
        self._ranges: dict[tuple[str, str], Range] = {}
        self._waiting: list[Place] = []

    def place(self, node: Any, kind: str, function: str) -> Place:
        """Return the location of a torch node in the code of a function, by its qualified name."""
        shown = node.sourceRange()
        place = Place(self, shown, function)
        if shown.strip():
            self._waiting.append(place)
        elif not _is_nowhere(node, kind):
            place.found(_DUMMY)
        return place

    def find_waiting(self) -> None:
        """Compute the ranges of all places read so far: each shows parts of a source."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        seen: list[tuple[Place, View, int, Marked]] = []
        for place in waiting:
            name = place.function.rpartition(".")[2]
            if (range_ := self._ranges.get((place.shown, name))) is not None:
                place.found(range_)
                continue
            highlight = read_highlight(place.shown)
            range_ = self._known(highlight, place.function)
            if range_ is not None:
                place.found(range_)
                if highlight.file is not None:  # each stack is a source of its own
                    self._ranges[place.shown, name] = range_
            elif (marked := read_marks(highlight)) is not None:
                line = highlight.line if highlight.file else marked.first
                view = self._view(highlight, line, marked, place.function)
                seen.append((place, view, line, marked))
        for place, view, line, marked in seen:
            place.found(Range(view.source, *_extent(view.source, line, marked)))

    def _known(self, highlight: Highlight, function: str) -> Range | None:
        """Return a range in a source whose whole text is known."""
        code_file = highlight.code_file or ""
        if highlight.file is None:
            return self._whole(highlight.text, code_file, function)
        if not highlight.file and not any(highlight.shown):
            return self._empty_range(code_file, 1)
        for candidate in self._candidates(highlight, function):
            first = highlight.line - candidate.first_line
            marked = read_marks(highlight, first)
            if marked is not None and agrees(marked, candidate.lines, first):
                source = self._source(candidate, highlight.file, code_file)
                shown = _extent(source, highlight.line, marked)
                last_shown = first - marked.first + len(marked.lines) - 1
                return Range(source, *candidate.exact(shown, last_shown))
        return None

    def _candidates(self, highlight: Highlight, function: str) -> Sequence[SourceText]:
        assert highlight.file is not None
        if highlight.file == builtin_sources.FILENAME:
            return _BUILTINS
        if highlight.file.startswith(_DATACLASS_METHODS):
            name = highlight.file.removeprefix(_DATACLASS_METHODS).replace("/", ".")
            return self._generated.get(name, [])
        place = (highlight.file, highlight.line, function.rpartition(".")[2])
        if place not in self._functions:
            behind = sources_behind(function, highlight.line)
            self._functions[place] = [*sources_at(*place), *behind]
        return self._functions[place]

    def _source(self, text: SourceText, file: str, code_file: str) -> Source:
        key = (text.text, file, text.first_line, code_file)
        return self._sources.setdefault(key, Source(text.text, file, text.first_line))

    def _empty_range(self, code_file: str, end: int) -> Range:
        """Return torch.jit.load's range for nodes without one, and for the dummy range."""
        return self._empty.setdefault((code_file, end), Range(Source("", "", 0), 0, end))

    def _whole(self, text: str, code_file: str, function: str) -> Range:
        """Return a range that is a whole source: torch shows no file for it."""
        if not text:
            return self._empty_range(code_file, 0)
        method = function.split(".")[-2:]
        for generated in self._generated.get(".".join(method), []):
            if generated.text == text:
                file = _DATACLASS_METHODS + "/".join(method)
                return Range(self._source(generated, file, code_file), 0, byte_length(text))
        return _stack_range(text)

    def _view(self, highlight: Highlight, line: int, marked: Marked, function: str) -> View:
        assert highlight.file is not None
        # A text passed to `define` holds several functions of one class.
        owner = function.rpartition(".")[0]
        key = (highlight.file, owner, highlight.code_file or "")
        return self._views.add(key, line - marked.first, marked.lines)


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


def _extent(source: Source, line: int, marked: Marked) -> Extent:
    """Return the marked bytes of a source; the first marked line has the number ``line``."""
    starts = _line_starts(source.text)
    first = line - source.first_line
    last = first + marked.last - marked.first
    return Extent(starts[first] + marked.begin_column, starts[last] + marked.end_column)


@lru_cache(maxsize=64)
def _line_starts(text: str) -> list[int]:
    """Return the byte offset of each line of a text, and the offset after the last."""
    return [0, *accumulate(byte_length(line) + 1 for line in text.split("\n"))]


def _stack_range(text: str) -> Range:
    """Return the range of a traced node: a Python stack, one frame a line, innermost first."""
    frame = _FRAME.match(text)
    filename, line = (frame[1], int(frame[2])) if frame else (None, 0)
    return Range(Source(text, filename, line), 0, byte_length(text))
