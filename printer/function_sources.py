"""The source text of functions, as torch's frontend takes it from Python files."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from .frontend_ranges import Extent, FrontendRanges, parsed


class SourceText:
    """The text of a source, beginning with line number ``first_line`` of its file.

    Text that torch's Python frontend has read has ranges as the frontend computes them.
    """

    def __init__(self, text: str, first_line: int, *, is_from_frontend: bool = True) -> None:
        self.text = text
        self.first_line = first_line
        self._is_from_frontend = is_from_frontend

    @cached_property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n")

    def exact(self, marked: Extent, last_shown: int) -> Extent:
        """The range of which torch marks just this, where ``last_shown`` is the last line shown."""
        return self._ranges.exact(marked, last_shown) if self._is_from_frontend else marked

    @cached_property
    def _ranges(self) -> FrontendRanges:
        return FrontendRanges(self.text)


class _Function:
    """A function of a file, from its first decorator on."""

    def __init__(self, node: ast.FunctionDef, lines: Sequence[str]) -> None:
        self.name = node.name
        self.first_line = min([node.lineno, *(item.lineno for item in node.decorator_list)])
        self.last_line = node.end_lineno or node.lineno
        self._lines = lines

    @cached_property
    def source(self) -> SourceText:
        return SourceText(_normalized(self._block()), self.first_line)

    def _block(self) -> Sequence[str]:
        """The lines of the function. Comments after the last statement may belong to them."""
        behind = (line for line in islice(self._lines, self.last_line, None) if line.strip())
        if next(behind, "").lstrip().startswith("#"):
            return inspect.getblock(self._lines[self.first_line - 1 :])
        return self._lines[self.first_line - 1 : self.last_line]

    def is_compiled_as(self, function: str) -> bool:
        """Overloads are compiled as ``f__0``, property accessors as ``__p_getter``."""
        name = re.escape(self.name)
        return re.fullmatch(rf"{name}(?:__\d+)?|__{name}_[gs]etter", function) is not None


def sources_at(file: str, line: int, function: str) -> list[SourceText]:
    """The functions around a line: first those compiled under that name, and inner before outer."""
    around = [found for found in _functions_of(file) if found.first_line <= line <= found.last_line]
    around.reverse()
    around.sort(key=lambda found: not found.is_compiled_as(function))
    return [found.source for found in around]


# Where statements hold statements, in the order of their fields.
_BODIES = ("body", "handlers", "orelse", "finalbody", "cases")

_files: dict[str, tuple[list[str], tuple[_Function, ...]]] = {}


def _functions_of(file: str) -> tuple[_Function, ...]:
    """The functions of a file, outer before inner; none when it cannot be read."""
    lines = linecache.getlines(file)
    known = _files.get(file)
    if known is None or not (known[0] is lines or known[0] == lines):
        known = _files[file] = (lines, tuple(_functions_in(lines)))
    return known[1]


def _functions_in(lines: list[str]) -> Iterator[_Function]:
    tree = parsed("".join(lines))
    for node in _statements(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef):
            yield _Function(node, lines)


def _statements(tree: ast.Module) -> list[ast.AST]:
    """All statements and what is made of them, outer before inner: where functions can be."""
    found: list[ast.AST] = [tree]
    for node in found:  # grows on the way
        for part in _BODIES:
            found += getattr(node, part, ())
    return found


def _normalized(lines: Sequence[str]) -> str:
    """Every line gets at least the indentation of the ``def`` line, as torch's frontend does."""
    definition = next((line for line in lines if line.lstrip().startswith("def")), None)
    indent = definition[: definition.index("def")] if definition is not None else ""
    return "".join(line if line.startswith(indent) else indent + line for line in lines)
