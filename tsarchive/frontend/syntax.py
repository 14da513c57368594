"""Parsing TorchScript code with Python's ``ast``, where the two languages differ included.

Words that only Python reserves may name attributes and parameters, and the escapes of a string
stand for bytes of UTF-8.
"""

from __future__ import annotations

import ast
import keyword
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

from tsarchive.errors import SourceError, UnknownClassError
from tsarchive.ir.text_limits import check_text

from .deep_blocks import parse_blocks
from .grammar import check_tree
from .signatures import hide_defaults, restore_defaults

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
        deep = SourceError("the code is nested too deeply", record=record, hint=hint)
        deep.limit = sys.getrecursionlimit()
        raise deep from None


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
        raise SourceError(
            f"the code does not parse: {error.msg}", record=record, line=line
        ) from None
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
        return parse_blocks(source)
    except SyntaxError:
        renamed, keywords = _rename_keywords(source)
        tree = _parse_signatures(renamed)
        _restore_keywords(tree, keywords)
        return tree


def _parse_signatures(source: str) -> ast.Module:
    try:
        return parse_blocks(source)
    except SyntaxError:
        hidden, signatures = hide_defaults(source)
        if hidden == source:
            raise
        tree = parse_blocks(hidden)
        restore_defaults(tree, signatures)
        return tree


def _rename_keywords(source: str) -> tuple[str, dict[str, str]]:
    """Put another word of as many bytes in the place of each free keyword."""
    letter = next(letter for letter in "øæðþßłđ" + chr(0) if letter not in source)
    keywords: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        word = match[0]
        if word not in FREE_KEYWORDS:
            return word
        keywords[word[:-2] + letter] = word
        return word[:-2] + letter

    return _WORD.sub(replace, source), keywords


_NAME_FIELDS = {
    ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg",
    ast.FunctionDef: "name", ast.ClassDef: "name",
}  # fmt: skip


def _restore_keywords(tree: ast.AST, keywords: dict[str, str]) -> None:
    for node in ast.walk(tree):
        field = _NAME_FIELDS.get(type(node))
        if field is not None:
            name = getattr(node, field)
            setattr(node, field, keywords.get(name, name))


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
    parts = [match[2] for match in _STRING.finditer(segment(text, node).encode())]
    return b"".join(map(_unescaped, parts)).decode("utf-8", "surrogateescape")


def _unescaped(part: bytes) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        return bytes([int(match[1], 8)]) if match[1] else _ESCAPED_BYTES[match[2]]

    return _OCTAL.sub(replace, part)
