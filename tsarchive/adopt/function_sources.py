"""The source text of functions, as torch's frontend extracts it, and the ranges in it.

The frontend computes the ends of ranges from the syntax, not from the text: a call ends with its
last argument, a number is as long as Python prints it, and an attribute begins two bytes after the
range before its dot, wherever that is. Such an end may lie beyond the end of a line, where no
highlight shows it.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice, pairwise
from textwrap import dedent
from types import FunctionType
from typing import Any, NamedTuple

from tsarchive.ir.names import MANGLE_PREFIX


class SourceText:
    """The text of a source that begins at line ``first_line`` of its file.

    For text that torch's Python frontend has read, ranges are those that the frontend computes.
    """

    def __init__(self, text: str, first_line: int, *, is_from_frontend: bool = True) -> None:
        self.text = text
        self.first_line = first_line
        # By the texts that torch shows of ranges: None for what is not in this source.
        self.extents: dict[str, Extent | None] = {}
        self._is_from_frontend = is_from_frontend

    @cached_property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n")

    def exact(self, marked: Extent, last_shown: int) -> Extent:
        """Return the range that torch marks like this; blanks at its ends are not marked.

        ``last_shown`` is the number of the last context line shown after it, counted from 0.
        """
        if self._is_from_frontend:
            for extent in self._by_look.get(marked, ()):
                if _last_shown(self._encoded, extent.end) == last_shown:
                    return extent
        return marked

    @cached_property
    def _encoded(self) -> bytes:
        return self.text.encode("utf-8", "surrogateescape")

    @cached_property
    def _by_look(self) -> dict[Extent, list[Extent]]:
        """Return the ranges of the function's syntax, by what torch marks of them."""
        found: dict[Extent, list[Extent]] = {}
        for extent in ranges_of_function(self.text):
            found.setdefault(_marked(self._encoded, extent), []).append(extent)
        return found


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
        """The function, with every line indented at least as far as ``def``, as torch has it."""
        lines = self._lines[self.first_line - 1 : self.last_line]
        behind = (line for line in islice(self._lines, self.last_line, None) if line.strip())
        if next(behind, "").lstrip().startswith("#"):
            # Comments after the last statement may belong to the function.
            lines = inspect.getblock(self._lines[self.first_line - 1 :])
        definition = next((line for line in lines if line.lstrip().startswith("def")), "def")
        indent = definition[: definition.index("def")]
        text = "".join(line if line.startswith(indent) else indent + line for line in lines)
        return SourceText(text, self.first_line)

    def is_compiled_as(self, function: str) -> bool:
        """Return whether it is compiled as ``function``.

        Overloads are compiled as ``f__0``, property accessors as ``__p_getter``.
        """
        name = re.escape(self.name)
        return re.fullmatch(rf"{name}(?:__\d+)?|__{name}_[gs]etter", function) is not None


def sources_at(file: str, line: int, function: str) -> list[SourceText]:
    """Return the functions around a line: those compiled under that name first, inner ones next."""
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
    """Yield all functions, outer before inner."""
    statements: list[ast.AST] = [tree] if tree is not None else []
    for node in statements:  # grows during the loop
        if isinstance(node, ast.FunctionDef):
            yield _Function(node, lines, lines_before)
        for part in _BODIES:
            statements += getattr(node, part, ())


_WHITESPACE = b" \t\n\r\x0b\x0c"
_UNARY = {ast.Not: 3, ast.USub: 1, ast.Invert: 1}
# The replacement body of an unused function; only its line and column count.
_UNUSED = ast.parse('def unused(self):\n\traise RuntimeError("Cannot call @unused methods")')


class Extent(NamedTuple):
    """Bytes ``begin`` to ``end`` of the source text."""

    begin: int
    end: int

    def merged(self, others: Iterable[Extent]) -> Extent:
        """Return the smallest extent around this one and ``others``."""
        begin, end = self
        for other_begin, other_end in others:
            begin = min(begin, other_begin)
            end = max(end, other_end)
        return Extent(begin, end)


def _marked(source: bytes, extent: Extent) -> Extent:
    begin, end = extent.begin, min(extent.end, len(source))
    while begin < end and source[begin] in b" ":
        begin += 1
    while (line_end := source.rfind(b"\n", begin, end)) >= 0:
        if source[line_end:end].strip(b" \n"):
            break
        end = line_end
    return Extent(begin, end)


def _last_shown(source: bytes, end: int) -> int:
    """Return the number of the last context line: two are shown, the second only if not empty."""
    position = min(end, len(source)) - 1
    for _ in range(3):
        position = source.find(b"\n", position + 1)
        if position < 0:
            return source.removesuffix(b"\n").count(b"\n")
    return source.count(b"\n", 0, position) - source.endswith(b"\n", 0, position)


def ranges_of_function(text: str) -> list[Extent]:
    """Return the ranges of everything in the source text of a function, inner before outer."""
    dedented = dedent(text)
    tree = parse(dedented)
    if tree is None:
        return []
    indent = len(text.partition("\n")[0]) - len(dedented.partition("\n")[0])
    ranges = _Frontend(text.encode("utf-8", "surrogateescape"), indent)
    for root in (tree, _UNUSED):
        for node in reversed(_in_levels(root)):
            ranges.add(node)
    return ranges.found


def _in_levels(root: ast.AST) -> list[ast.AST]:
    """Return the tree in level order, without contexts and operators, which have no location."""
    found = [root]
    for node in found:  # grows during the loop
        for name in node._fields:
            part = getattr(node, name, None)
            if isinstance(part, list):
                found += [item for item in part if isinstance(item, ast.AST)]
            elif isinstance(part, ast.AST) and part._fields:
                found.append(part)
    return found


def parse(text: str) -> ast.Module | None:
    """Return the syntax tree of Python code, None if invalid. Warnings were given on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError):
            return None


class _Frontend:
    """Computes ranges bottom-up; all of them are in ``found``."""

    def __init__(self, source: bytes, indent: int) -> None:
        self.found: list[Extent] = []
        self._extents: dict[ast.AST, Extent] = {}
        self._source = source
        self._indent = indent
        lines = source.split(b"\n")
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))

    def add(self, node: ast.AST) -> None:
        compute = _BY_KIND.get(type(node))
        if compute is None and isinstance(node, (ast.expr, ast.stmt)):
            compute = _Frontend._keyword
        if compute is not None:
            self._extents[node] = extent = compute(self, node)
            self.found.append(extent)

    def _at(self, node: ast.AST, length: int) -> Extent:
        begin = self._starts[min(node.lineno, len(self._starts)) - 1]  # type: ignore[attr-defined]
        begin += node.col_offset + self._indent  # type: ignore[attr-defined]
        return Extent(begin, begin + length)

    def _all(self, nodes: Iterable[ast.AST | None]) -> list[Extent]:
        return [self._extents[node] for node in nodes if node is not None]

    def _name(self, node: ast.Name) -> Extent:
        return self._at(node, len(node.id))

    def _argument(self, node: ast.arg) -> Extent:
        return self._at(node, len(node.arg)).merged(self._all([node.annotation]))

    def _constant(self, node: ast.Constant) -> Extent:
        if node.value is ...:
            return self._at(node, 3)
        return self._at(node, len(str(node.value)) + isinstance(node.value, str))

    def _attribute(self, node: ast.Attribute) -> Extent:
        base = self._extents[node.value]
        start = base.end + 1
        while start < len(self._source) and self._source[start] in _WHITESPACE:
            start += 1
        return Extent(base.begin, max(base.end, start + len(node.attr)))

    def _unary(self, node: ast.UnaryOp) -> Extent:
        return self._at(node, _UNARY.get(type(node.op), 1)).merged(self._all([node.operand]))

    def _boolean(self, node: ast.BoolOp) -> Extent:
        """Two operands make an operation, which is the first operand of the next one."""
        whole, *others = self._all(node.values)
        for other in others:
            whole = whole.merged([other])
            self.found.append(whole)
        return whole

    def _comparison(self, node: ast.Compare) -> Extent:
        """Each pair is compared, then all are joined as by ``and``."""
        operands = self._all([node.left, *node.comparators])
        whole = operands[0]
        for before, after in pairwise(operands):
            whole = whole.merged([after])
            self.found += [before.merged([after]), whole]
        return whole

    def _subscript(self, node: ast.Subscript) -> Extent:
        """The range has one byte more than the indices, for the bracket; a slice is its bounds."""
        index = node.slice
        parts = index.elts if isinstance(index, ast.Tuple) and index.elts else [index]
        indices: list[Extent] = []
        for part in parts:
            bounds = _syntax(part) if isinstance(part, ast.Slice) else [part]
            indices += self._all(bounds)
        if isinstance(index, ast.Tuple) and not index.elts:
            indices.append(self._at(index, len("()")))
        whole = self._extents[node.value].merged(indices)
        return Extent(whole.begin, whole.end + 1)

    def _bracketed(self, node: ast.AST) -> Extent:
        return self._at(node, 1).merged(self._all(_syntax(node)))

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> Extent:
        shown = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        loop = node.generators[0]
        return self._at(node, 0).merged(self._all([*shown, loop.target, loop.iter]))

    def _format(self, node: ast.JoinedStr) -> Extent:
        values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        return self._at(node, 1).merged(self._all(values))

    def _parts(self, node: ast.AST) -> Extent:
        """The range of a node without text of its own is around its parts."""
        parts = self._all(_syntax(node))
        return parts[0].merged(parts)

    def _function(self, node: ast.FunctionDef) -> Extent:
        signature = [*node.args.args, *node.args.kwonlyargs, node.returns]
        return self._at(node, len("def")).merged(self._all([*signature, *node.body]))

    def _with_item(self, node: ast.withitem) -> Extent:
        """The range is at least as long as torch's name for the statement."""
        named = self._at(node.context_expr, len("with statements"))
        return named.merged(self._all(_syntax(node)))

    def _keyword(self, node: ast.AST) -> Extent:
        """The range of a statement that begins with a keyword."""
        keyword = "del" if isinstance(node, ast.Delete) else type(node).__name__
        return self._at(node, len(keyword)).merged(self._all(_syntax(node)))

    def _raise(self, node: ast.Raise) -> Extent:
        """The range excludes the cause."""
        return self._at(node, len("raise")).merged(self._all([node.exc]))


def _syntax(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.expr, ast.stmt, ast.keyword, ast.withitem)):
            yield child


_BY_KIND: dict[type[ast.AST], Callable[[_Frontend, Any], Extent]] = {
    ast.Name: _Frontend._name,
    ast.arg: _Frontend._argument,
    ast.Constant: _Frontend._constant,
    ast.Attribute: _Frontend._attribute,
    ast.UnaryOp: _Frontend._unary,
    ast.BinOp: _Frontend._parts,
    ast.BoolOp: _Frontend._boolean,
    ast.Compare: _Frontend._comparison,
    ast.IfExp: _Frontend._parts,
    ast.Call: _Frontend._parts,
    ast.keyword: _Frontend._parts,
    ast.withitem: _Frontend._with_item,
    ast.Subscript: _Frontend._subscript,
    ast.List: _Frontend._bracketed,
    ast.Tuple: _Frontend._bracketed,
    ast.Dict: _Frontend._bracketed,
    ast.Starred: _Frontend._bracketed,
    ast.ListComp: _Frontend._comprehension,
    ast.GeneratorExp: _Frontend._comprehension,
    ast.DictComp: _Frontend._comprehension,
    ast.JoinedStr: _Frontend._format,
    ast.Expr: _Frontend._parts,
    ast.Assign: _Frontend._parts,
    ast.AnnAssign: _Frontend._parts,
    ast.AugAssign: _Frontend._parts,
    ast.Raise: _Frontend._raise,
    ast.FunctionDef: _Frontend._function,
}


# Functions that torch compiles from text at startup; calls of them leave ranges in these texts.
# torch shows a range with two lines of context, so the whole text cannot be read from it; a test
# compares each with the text that torch writes. With another version of torch's text, the shown
# lines disagree with the text here.
BUILTIN_FILENAME = "<string>"

_ARITHMETIC = """
def mul(a : {scalar}, b : Tensor) -> Tensor:
  return b * a
def add(a : {scalar}, b : Tensor) -> Tensor:
  return b + a
def ne(a : {scalar}, b : Tensor) -> Tensor:
  return b != a
def eq(a : {scalar}, b : Tensor) -> Tensor:
  return b == a
def sub(a : {scalar}, b : Tensor) -> Tensor:
  return torch.neg(b) + a
def div(a : {scalar}, b : Tensor) -> Tensor:
  return torch.reciprocal(b) * a
"""

_ORDER = """
def lt(a : {scalar}, b : Tensor) -> Tensor:
  return b > a
def le(a : {scalar}, b : Tensor) -> Tensor:
  return b >= a
def gt(a : {scalar}, b : Tensor) -> Tensor:
  return b < a
def ge(a : {scalar}, b : Tensor) -> Tensor:
  return b <= a
"""

_FLOOR_DIVISION = """
def floordiv(self : Tensor, other : {other}) -> Tensor:
  return torch.floor_divide(self, other)
"""

_TENSOR_PROPERTIES = """
def ndim(a : Tensor) -> int:
  return a.dim()
def T(a : Tensor) -> Tensor:
  return a.numpy_T()
def H(a : Tensor) -> Tensor:
  return a.matrix_H()
def mT(a : Tensor) -> Tensor:
  return a.mT
def mH(a : Tensor) -> Tensor:
  return a.mH
def shape(a : Tensor) -> List[int]:
  return a.size()
"""

_FUNCTIONS = """
def _assert_int_or_pair(vals: List[int], name: str, message: str):
  pass
def list_with_default(out_size: List[int], defaults: List[int]):
  assert len(defaults) > len(out_size)
  return out_size
def _assert(condition : bool, message : str):
  assert condition, message
# existing device operator is registered with input name `a`, which prevents
# torch.device(type="cuda") from working. add shim-layer here
def device(type: str):
  return torch.device(type)
def type(self: Tensor, dtype: int, non_blocking: bool=False, copy: bool=False) -> Tensor:
  return self.to(dtype, non_blocking, copy)
"""

_MORE_FUNCTIONS = """
def _assert(condition : Tensor, message : str):
  assert bool(condition), message
def __contains__(self: str, key: str):
    return self.find(key, 0, len(self)) != -1
"""

BUILTIN_SOURCES = (
    _TENSOR_PROPERTIES,
    *(_ARITHMETIC.format(scalar=scalar) for scalar in ("int", "float", "complex")),
    *(_ORDER.format(scalar=scalar) for scalar in ("int", "float")),
    *(_FLOOR_DIVISION.format(other=other) for other in ("number", "Tensor")),
    _FUNCTIONS,
    _MORE_FUNCTIONS,
)

_OLD_ARITHMETIC = _ARITHMETIC.replace("def sub(", _ORDER.removeprefix("\n") + "def sub(")

_OLD_TENSOR_PROPERTIES = """
def ndim(a : Tensor) -> int:
  return a.dim()
def T(a : Tensor) -> Tensor:
  return a.numpy_T()
def shape(a : Tensor) -> List[int]:
  return a.size()
"""

_OLD_FUNCTIONS = """
def _assert_int_or_pair(vals: List[int], name: str, message: str):
  pass
def list_with_default(out_size: List[int], defaults: List[int]):
  assert len(defaults) > len(out_size)
  return out_size
"""

_LESS_OLD_FUNCTIONS = f"""{_OLD_FUNCTIONS}def _assert(condition : bool, message : str):
  assert condition, message
def type(self: Tensor, dtype: int, non_blocking: bool=False, copy: bool=False) -> Tensor:
  return self.to(dtype, non_blocking, copy)
"""

OLD_BUILTIN_SOURCES = (
    *(_OLD_ARITHMETIC.format(scalar=scalar) for scalar in ("int", "float", "complex")),
    _OLD_TENSOR_PROPERTIES,
    _LESS_OLD_FUNCTIONS,
    _OLD_FUNCTIONS,
)
"""What torch had before 1.12, where that differs."""
