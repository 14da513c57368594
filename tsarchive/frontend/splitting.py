"""The code records of an archive as text: cut into definitions, and classes into their parts.

torch's printer starts every definition in column 0 and every method in column 2. Where a record
keeps to that, definitions are found by looking at the starts of lines, and only the pieces that
are asked for are parsed. Other layouts are parsed as a whole first, to learn where things stand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from tsarchive.errors import SourceError
from tsarchive.ir.source_ranges import TaggedRange
from tsarchive.ir.text_limits import MAX_DEFINITIONS, check_size

from .places import RecordPlaces
from .syntax import parse_statements, segment

_MULTILINE_TOKENS = ('"""', "'''", "\\\n")
# Names as Python has them; what is none is left to the parser to refuse.
_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_DEFINITION = re.compile(rf"^(?:class|def) +({_NAME})(?=[(:\s])", re.MULTILINE)
# These begin with plain characters, which are found faster than starts of lines are.
_OTHER_TOP_LEVEL = re.compile(rf"\n(?!(?:class|def) +{_NAME}[(:\s]|#)\S")
_METHOD = re.compile(rf"  def (?<![^\n]  def ) *({_NAME})(?=[(\s])")
_NOT_IN_METHODS = re.compile(rf"\n(?!    |  def +{_NAME}[(\s]|[ \t]*(?:\#.*)?(?:\n|\Z))")
# Archives of version 1 start with these; torch skips them, too.
_IGNORED_LINE = re.compile(
    r"^(?:import +__torch__[\w.]* *|op_version_set *= *\d+ *)$", re.MULTILINE
)


class Piece(NamedTuple):
    """The lines of one definition. ``first_line`` is the 1-based number of the first in
    ``record``; a method's lines are indented as they stand there."""

    record: str
    name: str
    first_line: int
    text: str

    @property
    def is_class(self) -> bool:
        return self.text.startswith("class ")

    @property
    def is_indented(self) -> bool:
        return self.text[:1] in (" ", "\t")

    @property
    def line_offset(self) -> int:
        """The number to add to a line number of :meth:`parse` to get one of the record."""
        return self.first_line - (2 if self.is_indented else 1)

    def parse(self) -> ast.stmt:
        """Return the definition as a tree. Raises SourceError."""
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
        """Return an error at ``line`` of the record, or else at the start of this definition."""
        return SourceError(message, record=self.record, line=line or self.first_line)


def split_record(text: str, record: str) -> dict[str, Piece]:
    """Return the definitions of a code record by name, in file order. Raises SourceError."""
    text = without_old_lines(text, record)
    if _has_multiline_token(text) or _OTHER_TOP_LEVEL.search(f"\n{text}"):
        pieces = list(_split_tree(text, record))
    else:
        pieces = list(_pieces_at(_DEFINITION, text, record, 1))
    if len(pieces) > MAX_DEFINITIONS:
        raise SourceError(f"more than {MAX_DEFINITIONS} definitions are not read", record=record)
    return {piece.name: piece for piece in pieces}


def without_old_lines(text: str, record: str) -> str:
    """Return the text of a record without lines that only archives of version 1 have."""
    check_size(text, record)
    # Python ends a line at a carriage return; to torch it is a character of a string.
    text = text.replace("\r\n", "\n").replace("\r", "\\r")
    may_be_old = "import" in text or "op_version_set" in text
    return _IGNORED_LINE.sub("", text) if may_be_old else text


def _has_multiline_token(text: str) -> bool:
    return any(token in text for token in _MULTILINE_TOKENS)


def _pieces_at(start: re.Pattern[str], text: str, record: str, first_line: int) -> Iterator[Piece]:
    matches = list(start.finditer(text))
    ends = [*(match.start() for match in matches[1:]), len(text)]
    line, position = first_line, 0
    for match, end in zip(matches, ends, strict=False):
        line += text.count("\n", position, match.start())
        position = match.start()
        yield Piece(record, match[1], line, text[position:end])


def _split_tree(text: str, record: str) -> Iterator[Piece]:
    lines = text.split("\n")
    for node in parse_statements(text, record, 1):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            shown = lines[node.lineno - 1].strip()
            message = f"a code record holds classes and functions only, not {shown!r}"
            raise SourceError(message, record=record, line=node.lineno)
        yield _piece_of(node, lines, record, 1)


def _piece_of(
    node: ast.ClassDef | ast.FunctionDef, lines: list[str], record: str, first_line: int
) -> Piece:
    piece_lines = lines[node.lineno - 1 : node.end_lineno]
    return Piece(record, node.name, first_line + node.lineno - 1, "\n".join(piece_lines) + "\n")


class Line(NamedTuple):
    """One statement of a class header: ``name : annotation = value``, parts that are absent
    being None. ``quoted`` tells ``__annotations__["name"]`` from a plain name."""

    number: int
    name: str
    annotation: str | None
    value: str | None
    quoted: bool = False


class ClassParts(NamedTuple):
    """A class taken apart: ``base`` is the name of its superclass or ""."""

    base: str
    lines: tuple[Line, ...]
    methods: dict[str, Piece]


_CLASS_LINE = re.compile(rf"class +{_NAME} *(?:\( *(|{_NAME}) *\))? *:[ \t]*\n")
_HEADER_LINE = re.compile(
    rf"""[ ]{{2}}(?:(?P<name>{_NAME})|__annotations__\["(?P<quoted>[^"\\\n]*)"\])
    [ ]*(?::[ ]*(?P<annotation>[^=\n ][^=\n]*))?(?:=[ ]*(?P<value>[^\n]+))?\n""",
    re.VERBOSE,
)


def split_class(piece: Piece) -> ClassParts:
    """Return the header statements and methods of a class. Raises SourceError."""
    start = _CLASS_LINE.match(piece.text)
    first_method = _METHOD.search(piece.text)
    end = first_method.start() if first_method else len(piece.text)
    if start is None or _NOT_IN_METHODS.search(piece.text, end - 1):
        return _split_class_tree(piece)
    lines = _header_lines(piece, start.end(), end)
    if lines is None or _has_multiline_token(piece.text):
        return _split_class_tree(piece)
    offset = piece.first_line + piece.text.count("\n", 0, end)
    methods = _pieces_at(_METHOD, piece.text[end:], piece.record, offset)
    return ClassParts(start[1] or "", lines, _by_name(piece, methods))


def _header_lines(piece: Piece, position: int, end: int) -> tuple[Line, ...] | None:
    lines = []
    for number, match in enumerate(
        _HEADER_LINE.finditer(piece.text, position, end), piece.first_line + 1
    ):
        name, quoted, annotation, value = match.groups()
        if match.start() != position or value is annotation is None:
            return None
        annotation = annotation and annotation.rstrip()
        value = value and value.rstrip()
        lines.append(Line(number, name or quoted, annotation, value, name is None))
        position = match.end()
    return tuple(lines) if position == end else None


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
    if not isinstance(node, ast.ClassDef) or len(node.bases) > 1:
        raise piece.fail(f"{piece.name}: a class has one superclass at most")
    base = ast.unparse(node.bases[0]) if node.bases else ""
    text_lines = piece.text.split("\n")
    lines: list[Line] = []
    methods: list[Piece] = []
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef):
            methods.append(_piece_of(statement, text_lines, piece.record, piece.first_line))
        elif not isinstance(statement, ast.Pass):
            lines.append(_line_of(piece, statement))
    return ClassParts(base, tuple(lines), _by_name(piece, iter(methods)))


def _line_of(piece: Piece, statement: ast.stmt) -> Line:
    number = piece.line_offset + statement.lineno
    match statement:
        case ast.AnnAssign(ast.Name(name), annotation, value):
            text = None if value is None else segment(piece.text, value)
            return Line(number, name, segment(piece.text, annotation), text)
        case ast.Assign([ast.Name(name)], value):
            return Line(number, name, None, segment(piece.text, value))
        case ast.Assign(
            [ast.Subscript(ast.Name("__annotations__"), ast.Constant(str() as name))], value
        ):
            return Line(number, name, None, segment(piece.text, value), quoted=True)
    shown = piece.text.split("\n")[statement.lineno - 1].strip()
    raise piece.fail(f"a class body cannot hold {shown!r}", number)


def statements_of(text: str, record: str) -> list[ast.stmt]:
    """Return the statements of a code record. Raises SourceError.

    Those of short records are kept for who asks next: their trees must not be changed.
    """
    return (_known_statements if len(text) <= _SHORT else _read_statements)(text, record)


def _read_statements(text: str, record: str) -> list[ast.stmt]:
    return parse_statements(without_old_lines(text, record), record, 1)


_SHORT: Final = 4096
_known_statements: Final = lru_cache(maxsize=16)(_read_statements)


def check_code(text: str, record: str) -> None:
    """Raise SourceError, with record, line and construct, for text with any other syntax.

    The same is checked wherever code is parsed; this looks at all of a record at once. Names
    are not resolved: what they mean is found out when a function is compiled.
    """
    for node in statements_of(text, record):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            what = f"a {type(node).__name__} outside of classes and functions"
            message = f"{what} cannot stand in TorchScript code"
            raise SourceError(message, record=record, line=node.lineno, construct=what)


@dataclass(eq=False)
class Sources:
    """The definitions of code records by qualified name.

    files: code records by name (``code/__torch__/a/b.py``), as text or a callable that reads it;
    debug: the ranges of user source that text of a code record stands for, by record;
    folder: the folder that holds the code records of qualified names.
    """

    files: Mapping[str, Callable[[], str] | str]
    debug: Mapping[str, Sequence[TaggedRange]]
    folder: str
    _pieces: dict[str, dict[str, Piece]] = field(default_factory=dict)
    _places: dict[str, RecordPlaces] = field(default_factory=dict)

    def definitions(self, record: str) -> dict[str, Piece]:
        """Return the definitions of a code record by qualified name, in file order."""
        path = record.removeprefix(f"{self.folder}/").removesuffix(".py")
        qualifier = path.replace("/", ".")
        return {f"{qualifier}.{name}": piece for name, piece in self._read(record).items()}

    def record_of(self, qualified_name: str) -> str:
        """Return the code record that defines a qualified name."""
        qualifier = qualified_name.rpartition(".")[0]
        return f"{self.folder}/{qualifier.replace('.', '/')}.py"

    def piece(self, qualified_name: str) -> Piece | None:
        """Return the definition of a qualified name; None where no record has one."""
        name = qualified_name.rpartition(".")[2]
        return self._read(self.record_of(qualified_name)).get(name)

    def text_of(self, qualified_name: str) -> str | None:
        """Return the text that defines a qualified name; None where no record has one."""
        piece = self.piece(qualified_name) if "." in qualified_name else None
        return None if piece is None else piece.text

    def places(self, record: str) -> RecordPlaces:
        """Return the places in a code record."""
        if record not in self._places:
            places = RecordPlaces(record, lambda: self._text(record), self.debug)
            self._places[record] = places
        return self._places[record]

    def _read(self, record: str) -> dict[str, Piece]:
        pieces = self._pieces.get(record)
        if pieces is None:
            pieces = self._pieces[record] = split_record(self._text(record), record)
        return pieces

    def _text(self, record: str) -> str:
        source = self.files.get(record, "")
        return source if isinstance(source, str) else source()
