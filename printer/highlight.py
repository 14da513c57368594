"""Reads source ranges from the highlighted text in which torch shows them.

No binding gives the numbers of a range. The text names file and line, shows the lines around, and
marks the range with ``~`` below; offsets are counted in the source of the function, as torch's
frontend took it from the file.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from .ranges import Range, Source, byte_length

# Nodes of these kinds have no place in the source when torch shows none; a node of any other
# kind then has torch's dummy range.
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

_DUMMY = Range(Source("", None, 0), 0, 1)
_HEADER = re.compile(r'  File "(.*)", line (\d+)\n', re.DOTALL)
_MARK = re.compile(r" *~+(?: <--- HERE)?")
_FRAME = re.compile(r"(.*)\((\d+)\): ")
_SERIALIZED = "Serialized "
_LONGEST_NUMBER = 60
_GENERATED = (".__len__", ".__contains__")
_LAST_NUMBER = re.compile(r"(?<![\w.])[\d.][\w.]*(?:[eE][-+]\d+)?$")


@dataclass(frozen=True, slots=True)
class _Marked:
    """What the marks say: columns in the first and last marked line, and the lines between."""

    lines: tuple[str, ...]
    first: int
    begin_column: int
    end_column: int
    more_lines: int


class RangeReader:
    """Reads the ranges of one save; sources that are equal become one object."""

    def __init__(self) -> None:
        self._sources: dict[tuple[str, str, int, str], Source] = {}

    def read(self, kind: str, highlight: str, function: str) -> Range | None:
        """The range of a node of ``kind`` in the code of a function, by its qualified name."""
        text = highlight.partition(_SERIALIZED)[0]
        if not text.strip():
            return None if kind in _WITHOUT_PLACE else _DUMMY
        header = _HEADER.match(text)
        if header is None:
            return _stack_range(text)
        return self._marked_range(header[1], int(header[2]), text[header.end() :], function)

    def _marked_range(self, file: str, line: int, body: str, function: str) -> Range:
        marked = _parse_marks(body)
        found = _function_source(file, line, function.rpartition(".")[2])
        if found is None:
            # The file cannot be read any more: the lines shown are what is known of it.
            found = "\n".join(marked.lines), line - marked.first
        text, first_line = found
        # torch generates these methods for each class anew, each from a source of its own.
        generated = function if file == "<string>" and function.endswith(_GENERATED) else ""
        key = (text, file, first_line, generated)
        source = self._sources.setdefault(key, Source(text, file, first_line))
        lines = text.splitlines(keepends=True)
        first = line - first_line
        begin = sum(map(byte_length, lines[:first])) + marked.begin_column
        last = first + marked.more_lines
        end = sum(map(byte_length, lines[:last])) + marked.end_column
        return Range(source, begin, end)


def _stack_range(text: str) -> Range:
    """A traced node: the whole of a Python stack, one frame a line, innermost first."""
    frame = _FRAME.match(text)
    filename, line = (frame[1], int(frame[2])) if frame else (None, 0)
    return Range(Source(text, filename, line), 0, byte_length(text))


def _parse_marks(body: str) -> _Marked:
    lines: list[str] = []
    marks: list[tuple[int, str]] = []
    for line in body.split("\n"):
        if "~" in line and _MARK.fullmatch(line) and lines:
            marks.append((len(lines) - 1, line.removesuffix(" <--- HERE")))
        else:
            lines.append(line)
    if not marks:
        return _Marked(tuple(lines), 0, 0, 0, 0)
    (first, opening), (last, closing) = marks[0], marks[-1]
    end = max(len(closing), _end_of_number(lines[last], len(closing)))
    return _Marked(tuple(lines), first, opening.index("~"), end, last - first)


def _end_of_number(line: str, marked: int) -> int:
    """torch's frontend takes a number to be as long as Python prints it: ``1e22`` as ``1e+22``.

    Behind the end of a line that cannot be shown.
    """
    if marked < len(line):
        return 0
    number = _LAST_NUMBER.search(line, max(0, len(line) - _LONGEST_NUMBER))
    if number is None:
        return 0
    try:
        return number.start() + len(str(ast.literal_eval(number[0])))
    except (ValueError, SyntaxError):
        return 0


def _function_source(file: str, line: int, function: str) -> tuple[str, int] | None:
    """The text of the function around ``line`` and the number of its first line."""
    enclosing = [found for found in _functions(file) if found.first <= line <= found.last]
    if not enclosing:
        return None
    named = [found for found in enclosing if _is_compiled_as(found.name, function)]
    chosen = (named or enclosing)[-1]
    lines = linecache.getlines(file)[chosen.first - 1 : chosen.last]
    return _normalized(lines), chosen.first


def _is_compiled_as(name: str, function: str) -> bool:
    """Overloads are compiled as ``f__0``, property accessors as ``__p_getter``."""
    accessor = re.fullmatch(rf"__{re.escape(name)}_[gs]etter", function)
    return (
        function == name
        or accessor is not None
        or (re.fullmatch(rf"{re.escape(name)}__\d+", function) is not None)
    )


@dataclass(frozen=True, slots=True)
class _Extent:
    name: str
    first: int
    last: int


@cache
def _functions(file: str) -> tuple[_Extent, ...]:
    """The functions of a file, outer before inner; decorators belong to them."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(_extents(tree))


def _extents(tree: ast.AST) -> Iterator[_Extent]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            yield _Extent(node.name, first, node.end_lineno)


def _normalized(lines: list[str]) -> str:
    """Every line gets at least the indentation of the ``def`` line, as torch's frontend does."""
    definition = next((line for line in lines if line.lstrip().startswith("def ")), "")
    indent = definition[: len(definition) - len(definition.lstrip())]
    if not indent:
        return "".join(lines)
    return "".join(line if line.startswith(indent) else indent + line for line in lines)
