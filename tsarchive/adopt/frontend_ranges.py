"""The source ranges that torch's frontend assigns to the syntax of a function.

The frontend computes the ends of ranges from the syntax, not from the text: a call ends with its
last argument, a number is as long as Python prints it, and an attribute begins two bytes after the
range before its dot, wherever that is. Such an end may lie beyond the end of a line, where no
highlight shows it.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise
from textwrap import dedent
from typing import Any, NamedTuple

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


class FrontendRanges:
    """The ranges of a function's syntax, identified by how torch shows them."""

    def __init__(self, text: str) -> None:
        self._source = text.encode("utf-8", "surrogateescape")
        self._by_look: dict[Extent, list[Extent]] = {}
        for extent in ranges_of_function(text):
            self._by_look.setdefault(_marked(self._source, extent), []).append(extent)

    def exact(self, marked: Extent, last_shown: int) -> Extent:
        """Return the range that torch marks like this; blanks at its ends are not marked.

        ``last_shown`` is the number of the last context line shown after it, counted from 0.
        """
        for extent in self._by_look.get(marked, ()):
            if _last_shown(self._source, extent.end) == last_shown:
                return extent
        return marked


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
