"""Limits on the text of code, checked before Python's parser sees it.

The parser is written in C: on long chains (``1+1+1+...``) it builds trees so deep that building,
walking or freeing them exhausts the stack. So depth is bounded from the tokens alone, in one pass.
"""

from __future__ import annotations

import ast
import re
import threading
from dataclasses import dataclass
from functools import cache
from typing import Final, NoReturn, TypeVar

from tsarchive.errors import SourceError

_DEEPEST: Final = 4
# So much text is read line by line, rather than that one more pattern is compiled.
_SHORT: Final = 16_000
# What needs no look at its neighbours: words and signs, but for brackets, quotes and `#;?$`\`.
_SIGNS: Final = r"\w .,:=+\-*/<>&|^%~@!"
_QUOTED: Final = r"""(?:"[^"\\\n]*(?:\\.[^"\\\n]*)*"(?!")|'[^'\\\n]*(?:\\.[^'\\\n]*)*'(?!'))"""
# Letters in front would change its meaning.
_STRING: Final = rf"(?<!\w){_QUOTED}"
_EXPONENT: Final = r"(?:e[-+]?[0-9]{1,3})?(?![\w.])"
# Strings, and what may be wrong: a quote that begins none (to look for the end of each takes long),
# and numbers that may be malformed or long, by their first digit or a point before it.
_DOUBTFUL: Final = re.compile(
    rf"{_QUOTED}|(?P<doubt>[\"']|[0-9](?<![\w.].)(?![0-9]{{0,30}}(?:\.[0-9]{{0,40}})?{_EXPONENT})"
    rf"|\.[0-9](?![0-9]{{0,40}}{_EXPONENT}))",
    re.ASCII | re.DOTALL,
)


def _bracketed(levels: int) -> str:
    """Anything in brackets, of which ``levels`` more may nest; only there do lines go on."""
    inside = _sequence(_bracketed(levels - 1) if levels else None, rf"[{_SIGNS}\n]*")
    return rf"[(\[{{]{inside}[)\]}}]"


def _sequence(bracketed: str | None, signs: str) -> str:
    parts = _STRING if bracketed is None else f"{_STRING}|{bracketed}"
    return f"{signs}(?:(?:{parts}){signs})*"


_LINE: Final = rf"{_sequence(_bracketed(_DEEPEST - 1), f'[{_SIGNS}]*')}\n"


@cache
def _lines() -> re.Pattern[str]:
    """Patterns with nested brackets take a millisecond to compile; most processes need one."""
    return re.compile(f"(?:{_LINE})+", re.ASCII | re.DOTALL)


@cache
def logical_line() -> re.Pattern[str]:
    """A line, and those that its brackets join to it, where strings and brackets are plain."""
    return re.compile(_LINE, re.ASCII | re.DOTALL)


def plain_end(text: str, longest: int) -> int:
    """Return how far the text is plain; a line begins there.

    No line before has more than ``longest`` characters, those of brackets that it opens included.
    """
    doubtful = (match.start() for match in _DOUBTFUL.finditer(text) if match["doubt"])
    limit = next(doubtful, len(text))
    position, lines = 0, logical_line() if limit < _SHORT else _lines()
    while found := lines.match(text, position, min(limit, position + longest)):
        position = found.end()
    return position


# One code record. The largest seen, of an unrolled recurrent network, has 6 MB.
MAX_CODE_CHARACTERS: Final = 2**26
# Classes and functions of one code record, methods of one class.
MAX_DEFINITIONS: Final = 100_000
# Signs and words of one expression that may each put another level on its tree.
MAX_DEPTH: Final = 2_000
# Letters of a name: a part of a path, which may have 4 KiB in a zip.
MAX_NAME: Final = 4_096
# Digits of a number. The longest double has 309 before its point; Python prints no int of
# more than 640 where it is set up so.
MAX_NUMBER: Final = 400

# As Python cuts text: comments, strings, joined lines, lines, numbers, words, signs.
_TOKEN: Final = r"""[ \t\f]+ | \#[^\n]* | \\\n
    | (?P<string>\"{3}[^\\\"]*(?:(?:\\.|\"{1,2}(?!\"))[^\\\"]*)*\"{3}
                | '{3}[^\\']*(?:(?:\\.|'{1,2}(?!'))[^\\']*)*'{3}
                | (?!\"{3}|'{3})(?:\"[^\\\"\n]*(?:\\.[^\\\"\n]*)*\"|'[^\\'\n]*(?:\\.[^\\'\n]*)*'))
    | (?P<line>\n) | (?P<number>\.?\d(?:[eE][+-]\d|[\w.])*) | (?P<word>\w+) | (?P<sign>.)"""
_NUMBER = re.compile(
    r"0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[jJ]?"
)
# Words of Python that begin, or continue, an expression inside of another.
_NESTING: Final = frozenset({"not", "lambda", "if", "else", "and", "or", "in", "is", "await"})
_LONGEST_SHOWN: Final = 200
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_QUOTES: Final = frozenset("\"'")
_FOREIGN: Final = frozenset(";?$`\\\0")


def check_size(text: str, record: str | None) -> None:
    """Raise SourceError for a record of more text than any writer makes."""
    if len(text) > MAX_CODE_CHARACTERS:
        message = f"a code record of more than {MAX_CODE_CHARACTERS} characters is not read"
        raise SourceError(message, record=record, limit=MAX_CODE_CHARACTERS)


def check_text(text: str, record: str | None = None, first_line: int | None = None) -> None:
    """Raise SourceError for text that Python's parser should not see.

    That is text beyond the bounds of this module, and tokens that TorchScript does not have.
    """
    check_size(text, record)
    start = plain_end(text if text.endswith("\n") else f"{text}\n", MAX_DEPTH)
    if start < len(text):
        _Scan(text, record, first_line).run(start)


@cache
def _token() -> re.Pattern[str]:
    """Most text is plain, and this takes long to compile."""
    return re.compile(_TOKEN, re.VERBOSE | re.DOTALL | re.ASCII)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Goes through the tokens. ``depth`` counts what may nest at the present token, ``outer``
    how much of that stands in front of each bracket that is open."""

    text: str
    record: str | None
    first_line: int | None

    def run(self, position: int) -> None:
        """Look at every token from ``position`` on, where a line begins."""
        depth, start = 0, 0
        outer: list[int] = []
        starts: list[int] = []
        is_word = False
        for match in _token().finditer(self.text, position):
            kind = match.lastgroup
            if kind == "sign":
                sign = match[0]
                if sign == ",":
                    depth = start
                elif sign in _OPENING:
                    depth += 1
                    outer.append(depth)
                    starts.append(start)
                    start = depth
                elif sign in _CLOSING:
                    if outer:
                        depth, start = outer.pop(), starts.pop()
                else:
                    depth += 1
                    self._check_sign(sign, match.start())
            elif kind == "word":
                depth += match[0] in _NESTING
                self._check_length(match, MAX_NAME, "a name")
            elif kind == "number":
                self._check_number(match)
            elif kind == "line" and not outer:
                depth = 0
            elif kind == "string" and is_word:
                self._fail(match.start(), "a string with letters in front of it")
            if depth > MAX_DEPTH:
                message = f"more than {MAX_DEPTH} signs in one expression"
                message = f"the code is nested too deeply: {message}"
                raise self._error(match.start(), message, limit=MAX_DEPTH)
            is_word = kind == "word"

    def _check_sign(self, sign: str, position: int) -> None:
        if sign in _QUOTES:
            raise self._error(position, "the code does not parse: a string does not end")
        if sign in _FOREIGN or not sign.isascii():
            self._fail(position, f"the sign {sign!a} outside of a string")

    def _check_number(self, match: re.Match[str]) -> None:
        self._check_length(match, MAX_NUMBER, "a number")
        if not _NUMBER.fullmatch(match[0]):
            self._fail(match.start(), f"the number {match[0]!r}")

    def _check_length(self, match: re.Match[str], limit: int, what: str) -> None:
        if match.end() - match.start() > limit:
            message = f"{what} of more than {limit} characters is not read"
            raise self._error(match.start(), message, limit=limit)

    def _fail(self, position: int, what: str) -> NoReturn:
        start = self.text.rfind("\n", 0, position) + 1
        shown = self.text[start : position + 1].strip()[-_LONGEST_SHOWN:]
        message = f"{what} cannot stand in TorchScript code"
        raise self._error(position, message, construct=shown)

    def _error(
        self, position: int, message: str, *, limit: int | None = None, construct: str | None = None
    ) -> SourceError:
        line = self.first_line
        if line is not None:
            line += self.text.count("\n", 0, position)
        return SourceError(message, record=self.record, line=line, limit=limit, construct=construct)


_lock = threading.RLock()


_EMPTY_TUPLE: Final = re.compile(
    r"""(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?<![\w.])Tuple\[\]"""
)


def with_empty_tuples(text: str) -> str:
    """Return the text with ``Tuple[()]`` for ``Tuple[]``, which torch wrote before 1.9."""
    return _EMPTY_TUPLE.sub(lambda match: match["string"] or "Tuple[()]", text)


def parse_module(text: str) -> ast.Module:
    """Parse as ``ast.parse`` does; strings may hold NUL, which torch writes as it is."""
    hidden, sign = _without_nul(text)
    with _lock:
        tree = ast.parse(hidden)
    return _with_nul(tree, sign)


def parse_expression(text: str) -> ast.Expression:
    """Parse one expression as :func:`parse_module` does."""
    hidden, sign = _without_nul(text)
    with _lock:
        tree = ast.parse(hidden, mode="eval")
    return _with_nul(tree, sign)


# Python takes none of these outside of strings and comments.
_STAND_INS: Final = "\1\2\3\4\5\6\7\b\16\17\20\21\22\23\24\25\26\27\30\31"
_Tree = TypeVar("_Tree", bound=ast.AST)


def _without_nul(text: str) -> tuple[str, str]:
    """Put a sign that the text does not hold in the place of NUL; also return the sign, if any."""
    if "\0" not in text:
        return text, ""
    sign = next((sign for sign in _STAND_INS if sign not in text), "")
    return text.replace("\0", sign or "\0"), sign


def _with_nul(tree: _Tree, sign: str) -> _Tree:
    """Put NUL back into the strings of a tree."""
    for node in ast.walk(tree) if sign else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = node.value.replace(sign, "\0")
    return tree
