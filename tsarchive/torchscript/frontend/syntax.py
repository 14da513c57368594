"""Cutting code records into definitions, and parsing the pieces that are asked for.

torch's printer starts every definition in column 0 and every method in column 2. Where a record
keeps to that, definitions are found by looking at the starts of lines, and only the pieces that
are needed are parsed. Other layouts are parsed as a whole first, to learn where things stand.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tsarchive.errors import SourceError

# Words that Python reserves and TorchScript does not: attributes and parameters may be named so.
FREE_KEYWORDS = frozenset(
    {"async", "await", "except", "finally", "from", "lambda", "nonlocal", "try", "yield"}
)
assert set(keyword.kwlist) >= FREE_KEYWORDS

_MULTILINE_TOKEN = re.compile(r'"""|\'\'\'|\\\n')
_DEFINITION = re.compile(r"^(?:class|def) +(\w+)", re.MULTILINE)
_OTHER_TOP_LEVEL = re.compile(r"^(?!class |def |import |op_version_set\b|#)\S", re.MULTILINE)
_METHOD = re.compile(r"^  def +(\w+)", re.MULTILINE)
_NOT_IN_METHODS = re.compile(r"^(?!    |  def |[ \t]*(?:#.*)?$)", re.MULTILINE)
_IGNORED_LINE = re.compile(r"^(?:import +[\w., ]+|op_version_set *= *\d+) *$", re.MULTILINE)

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = frozenset("\\'\"\nabfnrtv01234567")
_OCTAL = re.compile(rb"\\([0-3]?[0-7]{1,2})|\\(.)", re.DOTALL)
_ESCAPED_BYTES = {
    b"\\": b"\\", b"'": b"'", b'"': b'"', b"\n": b"", b"a": b"\a", b"b": b"\b", b"f": b"\f",
    b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
}  # fmt: skip
_QUOTES = re.compile(rb"('''|\"\"\"|'|\")(.*?)(?<!\\)((?:\\\\)*)\1", re.DOTALL)
# A string, or a word that could be a free keyword.
_WORD = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|\b[a-z]+\b", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """The lines of one definition. ``first_line`` is the 1-based number of the first in
    ``record``; a method's lines are indented as they stand there."""

    record: str
    name: str
    first_line: int
    text: str

    @property
    def is_class(self) -> bool:
        return self.text.startswith("class ")

    @cached_property
    def is_indented(self) -> bool:
        return self.text[:1] in (" ", "\t")

    @property
    def line_offset(self) -> int:
        """What to add to a line number of :meth:`parse` to get one of the record."""
        return self.first_line - (2 if self.is_indented else 1)

    def parse(self) -> ast.stmt:
        """The definition as a tree. Raises SourceError."""
        body = parse_statements(self.text, self.record, self.first_line, self.is_indented)
        if len(body) != 1:
            raise self.fail(f"{self.name} is not one definition")
        return body[0]

    def parse_function(self) -> ast.FunctionDef:
        node = self.parse()
        if not isinstance(node, ast.FunctionDef):
            raise self.fail(f"{self.name} is not a function")
        return node

    def fail(self, message: str, line: int | None = None) -> SourceError:
        """An error at ``line`` of the record, or else at the start of this definition."""
        return SourceError(message, record=self.record, line=line or self.first_line)


def parse_statements(
    text: str, record: str, first_line: int, is_indented: bool = False
) -> list[ast.stmt]:
    """Parse lines of a record; indented ones may start at any column."""
    _check_escapes(text, record, first_line)
    source = f"if 1:\n{text}" if is_indented else text
    try:
        body = _parse(source).body
    except SyntaxError as error:
        line = first_line + (error.lineno or 1) - (2 if is_indented else 1)
        raise SourceError(f"invalid syntax: {error.msg}", record=record, line=line) from None
    except (ValueError, MemoryError, RecursionError) as error:
        message = "the code is nested too deeply, or not text at all"
        raise SourceError(message, record=record, line=first_line) from error
    if not is_indented:
        return body
    block = body[0]
    assert isinstance(block, ast.If)
    if len(body) != 1:
        raise SourceError("invalid indentation", record=record, line=first_line)
    return block.body


def parse_expression(text: str, record: str, line: int) -> ast.expr:
    """Parse the text of one expression that stands on ``line`` of ``record``."""
    match parse_statements(f"_ = {text}", record, line):
        case [ast.Assign([_], value)]:
            return value
    raise SourceError(f"{text!r} is not an expression", record=record, line=line)


def _parse(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:
        renamed, keywords = _rename_keywords(source)
        if not keywords:
            raise
        tree = ast.parse(renamed)
        _restore_keywords(tree, keywords)
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


def string_value(node: ast.Constant, text: str) -> str:
    """The value of a string literal in ``text``: escapes stand for bytes of UTF-8."""
    if str(node.value).isascii():
        return str(node.value)
    segment = ast.get_source_segment(text, node) or ""
    parts = [match[2] + match[3] for match in _QUOTES.finditer(segment.encode())]
    return b"".join(map(_unescaped, parts)).decode("utf-8", "surrogateescape")


def _unescaped(part: bytes) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        return bytes([int(match[1], 8)]) if match[1] else _ESCAPED_BYTES[match[2]]

    return _OCTAL.sub(replace, part)


def split_record(text: str, record: str) -> dict[str, Piece]:
    """The definitions of a code record by name, in file order. Raises SourceError."""
    if _MULTILINE_TOKEN.search(text) or _OTHER_TOP_LEVEL.search(text):
        pieces = list(_split_tree(text, record))
    else:
        pieces = list(_pieces_at(_DEFINITION, text, record, 1))
    return {piece.name: piece for piece in pieces}


def _pieces_at(start: re.Pattern[str], text: str, record: str, first_line: int) -> Iterator[Piece]:
    matches = list(start.finditer(text))
    ends = [*(match.start() for match in matches[1:]), len(text)]
    line, position = first_line, 0
    for match, end in zip(matches, ends, strict=False):
        line += text.count("\n", position, match.start())
        position = match.start()
        yield Piece(record, match[1], line, text[position:end])


def _split_tree(text: str, record: str) -> Iterator[Piece]:
    kept = _IGNORED_LINE.sub("", text)
    lines = kept.split("\n")
    for node in parse_statements(kept, record, 1):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.decorator_list:
            shown = lines[node.lineno - 1].strip()
            message = f"a code record holds classes and functions only, not {shown!r}"
            raise SourceError(message, record=record, line=node.lineno)
        yield _piece_of(node, lines, record, 1)


def _piece_of(
    node: ast.ClassDef | ast.FunctionDef, lines: list[str], record: str, first_line: int
) -> Piece:
    piece_lines = lines[node.lineno - 1 : node.end_lineno]
    return Piece(record, node.name, first_line + node.lineno - 1, "\n".join(piece_lines) + "\n")


@dataclass(frozen=True)
class Line:
    """One statement of a class header: ``name : annotation = value``, parts that are absent
    being None. ``quoted`` tells ``__annotations__["name"]`` from a plain name."""

    number: int
    name: str
    annotation: str | None
    value: str | None
    quoted: bool = False


@dataclass(frozen=True)
class ClassParts:
    """A class taken apart: ``base`` is the name of its superclass or ""."""

    base: str
    lines: tuple[Line, ...]
    methods: dict[str, Piece]


_CLASS_LINE = re.compile(r"class +\w+ *(?:\( *(\w*) *\))? *:[ \t]*\n")
_HEADER_LINE = re.compile(
    r"""[ ]{2}(?:(?P<name>\w+)|__annotations__\["(?P<quoted>[^"\\\n]*)"\])
    [ ]*(?::[ ]*(?P<annotation>[^=\n]+?))?[ ]*(?:=[ ]*(?P<value>[^\n]+?))?[ ]*\n""",
    re.VERBOSE,
)


def split_class(piece: Piece) -> ClassParts:
    """The header statements and methods of a class. Raises SourceError."""
    start = _CLASS_LINE.match(piece.text)
    first_method = _METHOD.search(piece.text)
    end = first_method.start() if first_method else len(piece.text)
    if start is None or _NOT_IN_METHODS.search(piece.text, end):
        return _split_class_tree(piece)
    lines = _header_lines(piece, start.end(), end)
    if lines is None or _MULTILINE_TOKEN.search(piece.text):
        return _split_class_tree(piece)
    # `pos` would let ^ match in the middle of a line only if the text did not start one there.
    offset = piece.first_line + piece.text.count("\n", 0, end)
    methods = _pieces_at(_METHOD, piece.text[end:], piece.record, offset)
    return ClassParts(start[1] or "", lines, _by_name(piece, methods))


def _header_lines(piece: Piece, position: int, end: int) -> tuple[Line, ...] | None:
    lines = []
    number = piece.first_line + 1
    while position < end:
        match = _HEADER_LINE.match(piece.text, position, end)
        if match is None or match["value"] is match["annotation"] is None:
            return None
        name = match["quoted"] if match["name"] is None else match["name"]
        is_quoted = match["name"] is None
        lines.append(Line(number, name, match["annotation"], match["value"], is_quoted))
        position = match.end()
        number += 1
    return tuple(lines)


def _by_name(piece: Piece, methods: Iterator[Piece]) -> dict[str, Piece]:
    found: dict[str, Piece] = {}
    for method in methods:
        if method.name in found:
            message = f"class {piece.name} defines {method.name} twice"
            raise piece.fail(message, method.first_line)
        found[method.name] = method
    return found


def _split_class_tree(piece: Piece) -> ClassParts:
    node = piece.parse()
    if not isinstance(node, ast.ClassDef) or node.keywords or len(node.bases) > 1:
        raise piece.fail(f"{piece.name}: a class has one superclass at most")
    base = ast.unparse(node.bases[0]) if node.bases else ""
    text_lines = piece.text.split("\n")
    lines: list[Line] = []
    methods: list[Piece] = []
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and not statement.decorator_list:
            methods.append(_piece_of(statement, text_lines, piece.record, piece.first_line))
        elif not isinstance(statement, ast.Pass):
            lines.append(_line_of(piece, statement))
    return ClassParts(base, tuple(lines), _by_name(piece, iter(methods)))


def _line_of(piece: Piece, statement: ast.stmt) -> Line:
    number = piece.line_offset + statement.lineno
    match statement:
        case ast.AnnAssign(ast.Name(name), annotation, value):
            text = None if value is None else _segment(piece, value)
            return Line(number, name, _segment(piece, annotation), text)
        case ast.Assign([ast.Name(name)], value):
            return Line(number, name, None, _segment(piece, value))
        case ast.Assign(
            [ast.Subscript(ast.Name("__annotations__"), ast.Constant(str() as name))], value
        ):
            return Line(number, name, None, _segment(piece, value), quoted=True)
    shown = piece.text.split("\n")[statement.lineno - 1].strip()
    raise piece.fail(f"a class body cannot hold {shown!r}", number)


def _segment(piece: Piece, node: ast.expr) -> str:
    return ast.get_source_segment(piece.text, node) or ast.unparse(node)
