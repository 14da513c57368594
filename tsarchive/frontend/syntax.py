"""Parsing TorchScript code with Python's ``ast``, where the two languages differ included.

Words that only Python reserves may name attributes and parameters, and the escapes of a string
stand for bytes of UTF-8.

Parameters without a default may stand behind ones with a default: torch drops defaults that it
cannot write (``stride: BroadcastingList2[int] = 1``), so code of old archives has such signatures.

Blocks may be nested deeper than Python's tokenizer allows, which refuses the hundredth level of
indentation. A chain of ``elif`` is written as an ``if`` in the ``else`` of another, so a long one
reaches that: its inner blocks are parsed on their own, and put back into the tree. Lines and
columns stay those of the whole text.

At the end stands what the syntax alone tells of the names in code. It is asked of every archive
that is looked at, and lowering takes several times as long.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

from tsarchive.errors import SourceError, UnknownClassError
from tsarchive.ir.text_limits import check_text, parse_module, with_empty_tuples

from .grammar import check_tree

# Words that Python reserves and TorchScript does not: attributes and parameters may be named so.
FREE_KEYWORDS = frozenset(
    {"async", "await", "except", "finally", "from", "lambda", "nonlocal", "try", "yield"}
)
assert set(keyword.kwlist) >= FREE_KEYWORDS

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = frozenset("\\'\"\nabfnrtv01234567")
_OCTAL = re.compile(rb"\\([0-3]?[0-7]{1,2})|\\(.)", re.DOTALL)
_ESCAPED_BYTES = {
    b"\\": b"\\", b"'": b"'", b'"': b'"', b"\n": b"", b"a": b"\a", b"b": b"\b", b"f": b"\f",
    b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
}  # fmt: skip
_STRING = re.compile(rb"('''|\"\"\"|'|\")((?:\\.|(?!\1).)*)\1", re.DOTALL)
# A string, or a word that could be a free keyword.
_WORD = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|\b[a-z]+\b", re.DOTALL)


@contextmanager
def bounded(record: str) -> Iterator[None]:
    """Turn the exhaustion of the stack into an error of the record.

    An error about a class that the code names gets the record, too.
    """
    try:
        yield
    except UnknownClassError as error:
        error.record = error.record or record
        raise
    except RecursionError:
        hint = "Python's recursion limit, which sys.setrecursionlimit raises, bounds the depth"
        message, limit = "the code is nested too deeply", sys.getrecursionlimit()
        raise SourceError(message, record=record, limit=limit, hint=hint) from None


def parse_statements(
    text: str, record: str, first_line: int, is_indented: bool = False
) -> list[ast.stmt]:
    """Parse lines of a record; indented ones may start at any column.

    Raises SourceError for what Python does not parse, and for what TorchScript does not have.
    """
    check_text(text, record, first_line)
    _check_escapes(text, record, first_line)
    source = f"if 1:\n{text}" if is_indented else text
    try:
        body = _parse(source).body
    except SyntaxError as error:
        line = first_line + (error.lineno or 1) - (2 if is_indented else 1)
        message = f"the code does not parse: {error.msg}"
        raise SourceError(message, record=record, line=line) from None
    except (ValueError, MemoryError, RecursionError) as error:
        message = "the code is nested too deeply, or not text at all"
        raise SourceError(message, record=record, line=first_line) from error
    if not is_indented:
        check_tree(body, text, record, first_line)
        return body
    block = body[0]
    if len(body) != 1 or not isinstance(block, ast.If) or block.orelse:
        raise SourceError("invalid indentation", record=record, line=first_line)
    check_tree(block.body, source, record, first_line - 1)
    return block.body


ASSIGNED: Final = "_ = "


def parse_expression(text: str, record: str, line: int, before: str = ASSIGNED) -> ast.expr:
    """Parse the text of one expression that stands on ``line`` of ``record``.

    ``before`` assigns it; columns count from its start.
    """
    match parse_statements(f"{before}{text}", record, line):
        case [ast.Assign([_], value)]:
            return value
    raise SourceError(f"{text!r} is not an expression", record=record, line=line)


def _parse(source: str) -> ast.Module:
    try:
        return _parse_blocks(source)
    except SyntaxError:
        source = with_empty_tuples(source)
        renamed, keywords = _rename_keywords(source)
        tree = _parse_signatures(renamed)
        for node in ast.walk(tree):
            if field := _NAME_FIELDS.get(type(node)):
                name = getattr(node, field)
                setattr(node, field, keywords.get(name, name))
        return tree


def _parse_signatures(source: str) -> ast.Module:
    try:
        return _parse_blocks(source)
    except SyntaxError:
        hidden, signatures = _hide_defaults(source)
        if hidden == source:
            raise
        tree = _parse_blocks(hidden)
        _restore_defaults(tree, signatures)
        return tree


def _rename_keywords(source: str) -> tuple[str, dict[str, str]]:
    """Put another word of as many bytes in the place of each free keyword.

    Also return the keyword that each of these words stands for.
    """
    letter = next(letter for letter in "øæðþßłđ" + chr(0) if letter not in source)
    renamed = {word: word[:-2] + letter for word in FREE_KEYWORDS}
    text = _WORD.sub(lambda match: renamed.get(match[0], match[0]), source)
    return text, {other: word for word, other in renamed.items()}


_NAME_FIELDS = {
    ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg",
    ast.FunctionDef: "name", ast.ClassDef: "name",
}  # fmt: skip


def _check_escapes(text: str, record: str, first_line: int) -> None:
    """Refuse what TorchScript's strings do not know; Python would only warn of it."""
    if "\\" not in text:
        return
    for match in _ESCAPE.finditer(text):
        if match[1] not in _ESCAPED:
            line = first_line + text.count("\n", 0, match.start())
            raise SourceError(f"unknown escape {match[0]!r} in a string", record=record, line=line)


def segment(text: str, node: ast.expr) -> str:
    """Return the part of ``text`` that an expression parsed from it stands in."""
    lines = _lines(text)[node.lineno - 1 : node.end_lineno]
    lines[-1] = lines[-1][: node.end_col_offset]
    lines[0] = lines[0][node.col_offset :]
    return b"\n".join(lines).decode()


@lru_cache(maxsize=2)
def _lines(text: str) -> list[bytes]:
    """Return the lines as bytes, in which the parser counts columns."""
    return text.encode().split(b"\n")


def string_value(node: ast.Constant, text: str) -> str:
    """Return the value of a string literal in ``text``: escapes stand for bytes of UTF-8."""
    if str(node.value).isascii():
        return str(node.value)
    strings = _STRING.finditer(segment(text, node).encode())
    parts = [_OCTAL.sub(_unescaped, match[2]) for match in strings]
    return b"".join(parts).decode("utf-8", "surrogateescape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 8)]) if match[1] else _ESCAPED_BYTES[match[2]]


_TOO_DEEP = "too many levels of indentation"
_DEEPEST = 90


def _parse_blocks(source: str) -> ast.Module:
    """Parse as ``ast.parse`` does, to any depth of blocks. Raises SyntaxError likewise."""
    try:
        return parse_module(source)
    except IndentationError as error:
        if error.msg != _TOO_DEEP:
            raise
    lines = source.split("\n")
    deep = list(_deep_blocks(lines))
    tree = parse_module("\n".join(_without(lines, deep)))
    bodies = {block.start + 1: _body(lines, block) for block in deep}
    for node in ast.walk(tree):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list) and block and isinstance(block[0], ast.Pass):
                block[:] = bodies.get(block[0].lineno, block)
    return tree


def _deep_blocks(lines: list[str]) -> Iterator[range]:
    """Yield the outermost blocks that stand too deep, as the indices of their lines."""
    columns = [0]
    first = -1
    for number, line in enumerate(lines):
        column = len(line) - len(line.lstrip(" "))
        if column == len(line):
            continue
        while column < columns[-1]:
            columns.pop()
        if first >= 0 and len(columns) <= _DEEPEST:
            yield range(first, number)
            first = -1
        if column > columns[-1]:
            columns.append(column)
            if len(columns) == _DEEPEST + 1 and first < 0:
                first = number
    if first >= 0:
        yield range(first, len(lines))


def _without(lines: list[str], blocks: list[range]) -> list[str]:
    """Return the text with a statement that does nothing in the place of each block."""
    kept = list(lines)
    for block in blocks:
        first = lines[block.start]
        column = len(first) - len(first.lstrip(" "))
        kept[block.start : block.stop] = [" " * column + "pass", *[""] * (len(block) - 1)]
    return kept


def _body(lines: list[str], block: range) -> list[ast.stmt]:
    """Return the statements of a block, which begins behind a header in the line before it."""
    text = "\n".join([*[""] * (block.start - 1), "if 1:", *lines[block.start : block.stop]])
    (header,) = _parse_blocks(text).body
    assert isinstance(header, ast.If)
    return header.body


_HEADER = re.compile(r"^[ \t]*def +\w+\(", re.MULTILINE)
# Strings are skipped: they may hold any of the signs.
_SIGN = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[\[({\])}=,]")
_DEPTH = {**dict.fromkeys("[({", 1), **dict.fromkeys("])}", -1)}


def _hide_defaults(source: str) -> tuple[str, list[list[bool]]]:
    """Put ``|`` for each ``=`` in a signature: ``x: int=1`` becomes ``x: int|1``.

    No column changes. Also says of each parameter of each signature whether it has a default.
    """
    signs = list(source)
    signatures: list[list[bool]] = []
    for header in _HEADER.finditer(source):
        has_default = [False]
        for position in _between_parameters(source, header.end()):
            if source[position] == ",":
                has_default.append(False)
            else:
                signs[position] = "|"
                has_default[-1] = True
        signatures.append(has_default)
    return "".join(signs), signatures


def _between_parameters(source: str, start: int) -> Iterator[int]:
    """Yield the positions of ``=`` and ``,`` in a signature, outside of inner brackets."""
    depth = 1
    for match in _SIGN.finditer(source, start):
        depth += _DEPTH.get(match[0], 0)
        if depth == 0:
            return
        if depth == 1 and match[0] in ("=", ","):
            yield match.start()


def _restore_defaults(tree: ast.AST, signatures: list[list[bool]]) -> None:
    """Take the hidden defaults out of the annotations.

    ``defaults`` then has an entry for every parameter, None where there is no default.
    """
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    functions.sort(key=lambda node: node.lineno)
    for function, has_default in zip(functions, signatures, strict=True):
        # A comma may stand behind the last parameter.
        pairs = zip(function.args.args, has_default, strict=False)
        defaults = [_taken_out(parameter) if given else None for parameter, given in pairs]
        function.args.defaults = defaults  # type: ignore[assignment]  # gaps are filled with None


def _taken_out(parameter: ast.arg) -> ast.expr:
    hidden = parameter.annotation
    if not isinstance(hidden, ast.BinOp):
        raise SyntaxError(f"the default of {parameter.arg!r} is not a literal")
    parameter.annotation = hidden.left
    return hidden.right


_NUMBERS = frozenset({int, float, complex})
_INT64 = range(-(2**63), 2**63)
_NAMED = {"inf": math.inf, "nan": math.nan}
_NAMED_IMAGINARY = {"infj": math.inf, "nanj": math.nan}


def number(node: ast.expr) -> int | float | complex | None:
    """Return the number that a literal writes: ``-1``, ``-inf``, ``1.+2.j``, ``1.5-nanj``.

    None for expressions that are not number literals. Raises OverflowError for an int that
    does not fit 64 bits.
    """
    if type(node) is ast.BinOp:
        return _complex(node)
    found = _signed(node)
    if type(found) is int and found not in _INT64:
        raise OverflowError(found)
    return found


def _signed(node: ast.expr) -> int | float | complex | None:
    if type(node) is ast.Constant:
        return node.value if type(node.value) in _NUMBERS else None  # type: ignore[return-value]
    match node:
        case ast.Name(name) if name in _NAMED:
            return _NAMED[name]
        case ast.Name(name) if name in _NAMED_IMAGINARY:
            return complex(0, _NAMED_IMAGINARY[name])
        case ast.UnaryOp(ast.USub(), operand):
            positive = _signed(operand)
            return None if positive is None else -positive
    return None


def _complex(node: ast.BinOp) -> complex | None:
    real, imaginary = _signed(node.left), _signed(node.right)
    if not isinstance(real, int | float) or not isinstance(imaginary, complex):
        return None
    if isinstance(node.right, ast.UnaryOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return None
    return complex(real, imaginary.imag if isinstance(node.op, ast.Add) else -imaginary.imag)


# A hyphenated file name has at most this many parts.
_MOST_PARTS = 32


def decided_by_literal(test: ast.expr) -> bool | None:
    """Return what a literal, or ``not`` before one, decides."""
    negations = 0
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, negations = test.operand, negations + 1
    match test:
        case ast.Constant(bool() as value):
            return value != bool(negations % 2)
    return None


def dotted(node: ast.expr | None) -> str:
    """Return ``a.b.c`` for names with attributes, else empty.

    Names of modules need not be identifiers: ``__torch__.my-model.Net`` is a name, too.
    """
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and len(parts) < _MOST_PARTS:
        parts.append(_dotted(node.right))
        node = node.left
    parts.append(_dotted(node))
    if len(parts) > 1 and not (all(parts) and parts[-1].startswith("__torch__.")):
        return ""
    return "-".join(reversed(parts))


def _dotted(node: ast.expr | None) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def live_nodes(root: ast.AST, without: Set[type] = frozenset()) -> Iterator[ast.AST]:
    """Yield every node but those of branches that a literal rules out, and of types ``without``."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, _BRANCHING) and (known := decided_by_literal(node.test)) is not None:
            taken = node.body if known else node.orelse
            pending += [node.test, *(taken if isinstance(taken, list) else [taken])]
            continue
        for child in _children(node):
            if type(child) not in without:
                pending.append(child)


_BRANCHING = (ast.If, ast.IfExp)


def nodes_in(root: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all inside of it, in no order."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += _children(node)


def _children(node: ast.AST) -> list[ast.AST]:
    """Like ``ast.iter_child_nodes``, in a third of the time, but for signs and contexts."""
    found: list[ast.AST] = []
    for field in _FIELDS[type(node)]:
        value = getattr(node, field, None)
        if isinstance(value, list):
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


# Fields that hold names, signs and contexts.
_PLAIN = frozenset({"arg", "attr", "ctx", "id", "kind", "name", "op", "ops", "type_comment"})
# The fields of each kind of node that may hold others.
_FIELDS: Mapping[type, Sequence[str]] = {
    kind: () if kind is ast.Constant else [f for f in kind._fields if f not in _PLAIN]
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
