"""Syntax-aware mutation of serialized code: tokens, lines, expressions, definitions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Final, TypeAlias

# Expressions that access what archive code must not, or that are costly to read.
EXPRESSIONS: Final = (
    "__import__('os').system('id')", "().__class__.__mro__[1].__subclasses__()",
    "self.__class__", "self.__dict__", "torch.ops.load_library('x')", "torch.save(x, 'y')",
    "torch.from_file('x', True, 8)", "torch.format('{0.__class__}', self)",
    "torch.format(input, self)", "torch.percentFormat('%999999999d', 1)", "torch.jit.load('x')",
    "torch.classes.load_library('x')", "ops.prim.rpc_sync('w', 'f')", "ops.image.read_file('x')",
    "eval('1')", "exec('1')", "open('x', 'w')", "getattr(self, '__class__')", "globals()",
    "setattr(self, 'x', 1)", "lambda: 1", "[i for i in x]", "(y := 1)", "f'{self!r:>99999}'",
    "*x", "**x", "await x", "yield", "x if x else x", "CONSTANTS.c0", "CONSTANTS.c99999",
    "CONSTANTS.__class__", "uninitialized(Tensor)", "unchecked_cast(Tensor, 1)",
    "annotate(List[int], [])", "annotate(__import__('os'), 1)", "1 << 999999999", "9 ** 9 ** 9",
    "'a' * 999999999", "[0] * 999999999", "1e999", "0x" + "f" * 4000, "9" * 5000, "1_0", "1j",
    "b'x'", "...", "None", "True", "-x", "not x", "x[0]", "x[::0]", "x[0:1, ...]", "{}", "{1: 2}",
    "{*x}", "()", "(1,)", "[]", "''", "'\\ud800'", "'\\N{BULLET}'", "torch", "ops", "__torch__",
    "self", "torch.zeros([1 << 40])", "torch.nn.functional.relu(x)", "prim.Print(x)",
    "__torch__.Model", "__torch__.Model.__new__(__torch__.Model)", "super()", "torch.x.y.z(1)",
    "x.y.z", "a == b == c", "a and b or c", "a @ b", "a // 0", "1 % 0", "x is None", "x in y",
)  # fmt: skip
STATEMENTS: Final = (
    "import os", "from os import system", "import torch as ops", "pass", "return", "return 1",
    "raise AssertionError('x')", "raise x", "assert x, y", "assert False, (yield)", "del x",
    "global x", "nonlocal x", "while True:\n  pass", "while True:\n  x = 1", "for i in x:\n  break",
    "for i in range(9999999999):\n  x = i", "for i, j in x:\n  continue", "try:\n  x\nexcept:\n  y",
    "with x as y:\n  pass", "with x, y:\n  pass", "async def f(): pass", "match x:\n  case _: pass",
    "x, y = y, x", "x = y = 1", "x += 1", "x[0] = 1", "x[0] += 1", "self.x = 1", "x: int = 1",
    "x: __import__('os') = 1", "x = 1  # type: __import__('os').system('id')", "*x, = y",
    "@x\ndef f(self): pass", "def f(): return f()", "def f(x=__import__('os')): pass",
    "class A: pass", "class A(Module): pass", "class A(x()): pass",
    "class A(NamedTuple):\n  x : int",
    "class A(Enum):\n  X = 1", "class A(Interface):\n  def f(self) -> int: pass",
    "class A(Module):\n  __parameters__ = ['x', 1, x]", "__parameters__ = ['__class__']",
    "__annotations__['__class__'] = Tensor", "__annotations__ = []", "x : Final[int] = 1",
    "__setstate__ = 1", "def __setstate__(self, x: int): pass", "def __init__(self): self.x = 1",
    "op_version_set = 99", "op_version_set = x", "if x:\n  pass\nelse:\n  pass", "'doc'", "{",
    ")", "if 1:\n y\n  z", "\tx", "\\", "\x00", "\x0c", "\r", "\ufeff", "\u2028", "#", "\"\"\"",
    ";", "x;y",
)  # fmt: skip
TYPES: Final = (
    "int", "Tensor", "List[int]", "Dict[str, Tensor]", "Optional[Tensor]", "Tuple[()]", "Any",
    "x()", "Tuple[int, ...]", "Union[int, str]", "Future[Tensor]", "NoneType", "__torch__.Model",
    "'int'",
    "__import__('os')", "List[" * 90 + "int" + "]" * 90, "x.y", "lambda: 1", "Tensor[int]", "None",
    "__torch__.torch.classes.quantized.Conv2dPackedParamsBase", "number", "Device", "Generator",
)  # fmt: skip
_PIECES = re.compile(r"\w+|[^\w\s]|\n[ \t]*|[ \t]+")
_FOLDS: Final = (
    ("(", ")"), ("[", "]"), ("-", ""), ("not ", ""), ("x.f(", ")"), ("(1, ", ")"), ("{1: ", "}"),
    ("(x) + ", ""), ("", ".x"), ("", "[0]"), ("int(", ")"), ("a if b else ", ""),
)  # fmt: skip
_DEPTHS: Final = (2, 20, 90, 199, 1000, 20000)
_CHANCE_OF_DEPTH = 0.15


def mutate_code(text: str, random: Random, *, donors: Sequence[str] = ()) -> str:
    """Return code of an archive after one to four changes.

    Expressions and lines may come from ``donors``, texts that parse, as ``text`` must.
    """
    changes = random.choices(_CHANGES, k=1) + random.choices(
        _TEXTUAL, k=random.choice((0, 0, 1, 2))
    )
    for change in changes:
        text = change(text, random.choice(donors) if donors else text, random)
    return text


_Change: TypeAlias = Callable[[str, str, Random], str]


@lru_cache(maxsize=1024)
def _spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the spans of expressions, if the text is ASCII and valid Python."""
    if not text.isascii():
        return ()
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and node.end_lineno and node.end_col_offset is not None:
            start = lines[node.lineno - 1] + node.col_offset
            found.append((start, lines[node.end_lineno - 1] + node.end_col_offset))
    return tuple(found)


def _replace_expression(text: str, source: str, random: Random) -> str:
    """Replace an expression by one of the other text, or by a hostile one."""
    spans = _spans(text)
    if not spans:
        return _token(text, source, random)
    start, end = random.choice(spans)
    others = _spans(source)
    if others and random.random() < 0.4:
        begin, stop = random.choice(others)
        return text[:start] + source[begin:stop] + text[end:]
    return text[:start] + random.choice(EXPRESSIONS) + text[end:]


def _wrap_expression(text: str, source: str, random: Random) -> str:
    """Nest an expression inside others, perhaps very deep."""
    spans = _spans(text)
    if not spans:
        return _token(text, source, random)
    start, end = random.choice(spans)
    before, after = random.choice(_FOLDS)
    depth = random.choice(_DEPTHS) if random.random() < _CHANCE_OF_DEPTH else 1
    return text[:start] + before * depth + text[start:end] + after * depth + text[end:]


def _token(text: str, source: str, random: Random) -> str:
    """Replace, delete or duplicate a token."""
    pieces = _PIECES.findall(text)
    if not pieces:
        return random.choice(STATEMENTS)
    place = random.randrange(len(pieces))
    others = _PIECES.findall(source) or pieces
    pieces[place : place + 1] = random.choice(
        ([], [pieces[place]] * 2, [random.choice(others)], [random.choice(_TOKENS)])
    )
    return "".join(pieces)


def _name(text: str, source: str, random: Random) -> str:
    """Rename every use of one name."""
    names = _NAMES.findall(text)
    if not names:
        return _token(text, source, random)
    old = random.choice(names)
    new = random.choice(_NAMES.findall(source) or names)
    if random.random() < 0.5:
        new = random.choice(("__class__", "torch", "self", "ops", "int", "x" * 300, "\u00e9"))
    return re.sub(rf"\b{old}\b", new, text)


def _on_lines(change: Callable[[list[str], int, str, Random], None]) -> _Change:
    """Make a change of text from a change of its lines at one place."""

    def changed(text: str, source: str, random: Random) -> str:
        lines = text.split("\n")
        change(lines, random.randrange(len(lines)), source, random)
        return "\n".join(lines)

    return changed


@_on_lines
def _line(lines: list[str], place: int, source: str, random: Random) -> None:
    """Delete, duplicate, swap or import a line."""
    others = source.split("\n")
    lines[place : place + 1] = random.choice(
        ([], [lines[place]] * 2, [random.choice(others), lines[place]], [lines[place - 1]])
    )


@_on_lines
def _statement(lines: list[str], place: int, source: str, random: Random) -> None:
    """Insert a statement at the indentation of a line."""
    indent = lines[place][: len(lines[place]) - len(lines[place].lstrip())]
    statement = random.choice(STATEMENTS)
    if random.random() < 0.3:
        statement = f"x = {random.choice(EXPRESSIONS)}"
    lines.insert(place, "\n".join(indent + line for line in statement.split("\n")))


def _type(text: str, source: str, random: Random) -> str:
    """Replace an annotation."""
    found = list(_ANNOTATIONS.finditer(text))
    if not found:
        return _statement(text, source, random)
    start, end = random.choice(found).span(1)
    return text[:start] + random.choice(TYPES) + text[end:]


@_on_lines
def _indent(lines: list[str], place: int, source: str, random: Random) -> None:
    lines[place] = random.choice((" " + lines[place], lines[place].lstrip(), "\t" + lines[place]))


@_on_lines
def _blocks(lines: list[str], place: int, source: str, random: Random) -> None:
    """Nest a line in blocks."""
    body = lines[place].lstrip(" ")
    indent = len(lines[place]) - len(body)
    depth = random.choice((1, 3, 19, 101, 300))
    head = random.choice(("if x:", "while x:", "for i in x:", "with x:", "def f(self):"))
    lines[place : place + 1] = [" " * (indent + i) + head for i in range(depth)]
    lines.insert(place + depth, " " * (indent + depth) + body)


def _characters(text: str, source: str, random: Random) -> str:
    place = random.randrange(len(text) + 1)
    wild = chr(random.choice((0, 9, 12, 13, 34, 39, 92, 0x85, 0xA0, 0x2028, 0xFEFF, 0x1F600)))
    return text[:place] + wild * random.choice((1, 1, 3)) + text[place + random.randrange(3) :]


_TOKENS = (
    *"()[]{}:;,.=+-*/%@<>~^|&!#\\'\"", "**", "//", "->", ":=", "==", "is", "in", "not", "lambda",
    "yield", "await", "async", "def", "class", "return", "if", "else", "for", "while", "0", "-1",
    "99999999999999999999", "1.5", "1e400", "__class__", "_", "None", "True", "torch", "self",
)  # fmt: skip
_NAMES = re.compile(r"\b[A-Za-z_]\w*\b")
_ANNOTATIONS = re.compile(r"(?:: |-> )([^\n,:=()]+)")
_TEXTUAL: tuple[_Change, ...] = (
    *(_statement,) * 4,
    *(_token, _name, _type, _line) * 2,
    *(_indent, _characters, _blocks),
)
# The first change is made to text that parses, so it may look for expressions.
_CHANGES = (*_TEXTUAL, *(_replace_expression,) * 4, _wrap_expression)
