"""The source text of functions, as torch's frontend extracts it from Python files."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from types import FunctionType
from typing import Any

from tsarchive.ir.names import MANGLE_PREFIX

from .frontend_ranges import Extent, FrontendRanges, parse


class SourceText:
    """The text of a source that begins at line ``first_line`` of its file.

    For text that torch's Python frontend has read, ranges are those that the frontend computes.
    """

    def __init__(self, text: str, first_line: int, *, is_from_frontend: bool = True) -> None:
        self.text = text
        self.first_line = first_line
        self._is_from_frontend = is_from_frontend

    @cached_property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n")

    def exact(self, marked: Extent, last_shown: int) -> Extent:
        """Return the range that torch marks like this; ``last_shown`` is the last line shown."""
        return self._ranges.exact(marked, last_shown) if self._is_from_frontend else marked

    @cached_property
    def _ranges(self) -> FrontendRanges:
        return FrontendRanges(self.text)


class _Function:
    """A function of a file, including its decorators."""

    def __init__(self, node: ast.FunctionDef, lines: Sequence[str], lines_before: int) -> None:
        first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
        self.name = node.name
        self.first_line = first + lines_before
        self.last_line = (node.end_lineno or node.lineno) + lines_before
        self._lines = lines

    @cached_property
    def source(self) -> SourceText:
        return SourceText(_normalized(self._block()), self.first_line)

    def _block(self) -> Sequence[str]:
        """Return the lines of the function.

        Comments after the last statement may belong to them.
        """
        behind = (line for line in islice(self._lines, self.last_line, None) if line.strip())
        if next(behind, "").lstrip().startswith("#"):
            return inspect.getblock(self._lines[self.first_line - 1 :])
        return self._lines[self.first_line - 1 : self.last_line]

    def is_compiled_as(self, function: str) -> bool:
        """Return whether it is compiled as ``function``.

        Overloads are compiled as ``f__0``, property accessors as ``__p_getter``.
        """
        name = re.escape(self.name)
        return re.fullmatch(rf"{name}(?:__\d+)?|__{name}_[gs]etter", function) is not None


def sources_at(file: str, line: int, function: str) -> list[SourceText]:
    """Return the functions around a line, the ones with that compiled name first, then inner
    ones.
    """
    functions = _file(file).functions_near(line)
    around = [found for found in functions if found.first_line <= line <= found.last_line]
    around.reverse()
    around.sort(key=lambda found: not found.is_compiled_as(function))
    return [found.source for found in around]


def sources_behind(function: str, line: int) -> list[SourceText]:
    """Return the sources of a decorated function, by its qualified name.

    torch takes the lines of the inner function, and the file name of the outer one.
    """
    found = _unwrap(_python_function(function))
    file = inspect.getsourcefile(found) if found is not None else None
    return sources_at(file, line, function.rpartition(".")[2]) if file is not None else []


def _unwrap(found: Any) -> FunctionType | None:
    """Return the function inside decorators; None where it is not wrapped or unknown.

    Attributes are read statically: the name may by now belong to any object.
    """
    seen: list[Any] = []
    inner = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    while inner is not None and not any(inner is one for one in seen):
        seen.append(inner)
        inner = inspect.getattr_static(inner, "__wrapped__", None)
    is_end = inner is None and len(seen) > 1 and isinstance(seen[-1], FunctionType)
    return seen[-1] if is_end else None


def _python_function(qualified_name: str) -> Any:
    """Return the imported Python object of a TorchScript name, None if there is none."""
    parts = [part for part in qualified_name.split(".")[1:] if not part.startswith(MANGLE_PREFIX)]
    counts = (n for n in range(len(parts) - 1, 0, -1) if ".".join(parts[:n]) in sys.modules)
    count = next(counts, 0)
    found: Any = sys.modules.get(".".join(parts[:count]) or "__main__")
    for part in parts[count:]:
        found = inspect.getattr_static(found, part, None)
    return found


# Fields of statements that hold statements, in order.
_BODIES = ("body", "handlers", "orelse", "finalbody", "cases")

# The beginnings of functions and classes at the left margin; strings, comments and continuation
# lines are skipped. An `@` in brackets may also begin a line: a piece cut off there does not parse.
_BEGINNING = re.compile(
    r"""^(?:(@)|(async|class|def)\b)|\#[^\n]*|\\\n[@acd]?"""
    r"""|\"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"{3}"""
    r"""|'{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}"""
    r"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*\"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'""",
    re.DOTALL | re.MULTILINE,
)


class _File:
    """A file that is parsed piecewise: most have many functions, and a model uses few.

    A piece extends from a function or class at the left margin, decorators included, to the next.
    """

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._functions: dict[int, tuple[_Function, ...]] = {}

    def functions_near(self, line: int) -> tuple[_Function, ...]:
        """Return the functions of the piece with that line, outer first; none if it is no code."""
        if not 0 < line <= len(self.lines):
            return ()
        piece = bisect_right(self._starts, line - 1) - 1
        known = self._functions.get(piece)
        if known is None:
            start, end = self._starts[piece], self._starts[piece + 1]
            tree = parse("".join(self.lines[start:end]))
            if tree is None:
                tree, start = self._whole, 0
            known = self._functions[piece] = tuple(_functions_in(tree, self.lines, start))
        return known

    @cached_property
    def _starts(self) -> list[int]:
        """Return the number of lines before each piece, and in total."""
        text = "".join(self.lines)
        starts = [0]
        position = line = 0
        is_decorated = False
        for found in _BEGINNING.finditer(text):
            if found.lastindex is None:
                continue
            line += text.count("\n", position, found.start())
            position = found.start()
            if not is_decorated and line:
                starts.append(line)
            is_decorated = found.lastindex == 1
        return [*starts, len(self.lines)]

    @cached_property
    def _whole(self) -> ast.Module | None:
        return parse("".join(self.lines))


_files: dict[str, _File] = {}


def _file(name: str) -> _File:
    """Read a file in its present state; no lines when it cannot be read."""
    lines = linecache.getlines(name)
    known = _files.get(name)
    if known is None or not (known.lines is lines or known.lines == lines):
        known = _files[name] = _File(lines)
    return known


def _functions_in(
    tree: ast.Module | None, lines: Sequence[str], lines_before: int
) -> Iterator[_Function]:
    for node in _statements(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef):
            yield _Function(node, lines, lines_before)


def _statements(tree: ast.Module) -> list[ast.AST]:
    """Return statements and their parts, outer before inner: everything that may hold functions."""
    found: list[ast.AST] = [tree]
    for node in found:  # grows during the loop
        for part in _BODIES:
            found += getattr(node, part, ())
    return found


def _normalized(lines: Sequence[str]) -> str:
    """Indent every line at least as far as the ``def`` line, as torch's frontend does."""
    definition = next((line for line in lines if line.lstrip().startswith("def")), None)
    indent = definition[: definition.index("def")] if definition is not None else ""
    return "".join(line if line.startswith(indent) else indent + line for line in lines)
