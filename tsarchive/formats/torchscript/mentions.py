"""What definitions mention, read from plain text without Python's parser.

Text is plain where each statement stands on a line of its own, blocks are indented by two, and the
signs are those that torch's printer writes. Each token of it becomes one letter, and brackets are
folded from the inside out; what is left of a line then has to be one of a few forms. That decides
that a text parses, and that its tree is one that TorchScript may have, in a part of the parser's
time. Of any other text nothing is said here: the parser reads it, and tells what is wrong with it.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from tsarchive.frontend.grammar import OF_PYTHON
from tsarchive.ir.text_limits import MAX_CODE_CHARACTERS

_OF_ARCHIVE: Final = "__torch__."


class Mentions(NamedTuple):
    """The operators that a definition calls, and the names of the archive's definitions in it."""

    operators: Counter[str]
    names: dict[str, None]  # in an order that is the same in every process

    def call(self, name: str) -> None:
        """Note a call of a dotted name."""
        match name.split("."):
            case ["torch", own] | ["torch", "autograd", own]:
                self.operators[f"aten::{own}"] += 1
            case ["ops", namespace, own]:
                self.operators[f"{namespace}::{own}"] += 1

    def name(self, name: str) -> None:
        """Note a dotted name."""
        if name.startswith(_OF_ARCHIVE):
            self.names[name] = None


_NOT_READ: Final = re.compile(r"[^ -~\n]")
_TOKEN: Final = re.compile(
    r'(?<!\w)"[^"\\\n]*(?:\\[abfnrtv\\\'"][^"\\\n]*)*"|[A-Za-z_.][A-Za-z0-9_.]*'
    r"|[0-9](?:[0-9A-Za-z_.]|(?<=e)[-+])*|\n[ \n]*|[=<>]=|->|[^ ]"
)
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{0,30})?(?:e[-+]?[0-9]{1,3})?")
_NAMED: Final = frozenset({"torch", "ops", "__torch__"})
# Letters for tokens: "n" for names, "d" for dotted ones, "t" for those that may be mentions, "a"
# for attributes of what stands before, "c" for literals, "o" for signs between operands.
_LETTERS: Final = {
    **dict.fromkeys(("None", "True", "False"), "c"),
    **dict.fromkeys(("+", "*", "/", "<", ">", "==", "<=", ">="), "o"),
    **{sign: sign for sign in "()[]{},:=-"},
    "->": "A", "class": "C", "def": "D", "else": "E", "for": "F", "if": "I", "in": "i",
    "pass": "P", "range": "r", "return": "R", "while": "W",
}  # fmt: skip
_NO_LETTER: Final = "?"


class _Letters(dict[str, str]):
    """The letters of tokens that have been seen."""

    def __missing__(self, token: str) -> str:
        letter = self[token] = _letter(token)
        return letter


def _letter(token: str) -> str:
    first = token[0]
    if first == "\n" or (first == '"' and len(token) > 1):
        return "\n" if first == "\n" else "c"
    if first in "0123456789":
        return "c" if _NUMBER.fullmatch(token) else _NO_LETTER
    start, *attributes = token.split(".")
    is_attribute = not start and attributes
    if not (start.isidentifier() or is_attribute) or (start in _NAMED and not attributes):
        return _NO_LETTER
    for part in attributes:
        if not part.isidentifier() or part in OF_PYTHON or part in _RESERVED:
            return _NO_LETTER
    if is_attribute:
        return "a"
    if start in _RESERVED:
        return _NO_LETTER
    return "n" if not attributes else "t" if start in _NAMED else "d"


_RESERVED: Final = frozenset({*keyword.kwlist, "__debug__"})
_DEEPEST: Final = 12
_LONGEST: Final = 2_000
"""Of a line, and so of what its signs may nest."""

# Round brackets become "@", those with keywords "!", square ones "%", those with slices "$".
_OPERAND: Final = "-?[ndtc@%][a@!%$]*"
_EXPRESSION: Final = f"{_OPERAND}(?:[o-]{_OPERAND})*"
_LIST: Final = f"{_EXPRESSION}(?:,{_EXPRESSION})*"
_KEYWORDS: Final = f"n={_EXPRESSION}(?:,n={_EXPRESSION})*"
_SLICE: Final = f"(?:{_EXPRESSION})?:(?:{_EXPRESSION})?"
_ENTRIES: Final = f"[nc]:{_EXPRESSION}(?:,[nc]:{_EXPRESSION})*"
_TYPE: Final = "[ndtc]%?"
_PARAMETERS: Final = f"n(?::{_TYPE})?(?:,n:{_TYPE})*(?:,n:{_TYPE}={_EXPRESSION})*"
# Brackets around a literal decide a branch as it does, those around a name are no part of it, names
# of modules may have hyphens, and a space may stand before an attribute.
_DECEPTIVE: Final = re.compile(r"(?<![ndta)\]}])\([ct]\)|t-|[ndt]a")


class _Patterns(NamedTuple):
    folds: tuple[tuple[re.Pattern[str], str], ...]
    line: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Return the patterns that take long to compile."""
    return _Patterns(
        (
            (re.compile(rf"\((?:{_LIST},?)?\)"), "@"),
            (re.compile(rf"\[{_LIST},?\]"), "%"),
            (re.compile(rf"\((?:{_LIST},)?{_KEYWORDS},?\)"), "!"),
            (re.compile(rf"\[{_SLICE}\]"), "$"),
            (re.compile(rf"(?<=[=(,R])(?:{{(?:{_ENTRIES},?)?}}|\[\])"), "c"),
        ),
        re.compile(
            "(?P<class>Cn:)"
            rf"|(?P<function>Dn(?:&|\({_PARAMETERS}\))(?:A{_TYPE})?:)"
            rf"|(?P<if>I(?!c:){_EXPRESSION}:)"
            rf"|(?P<loop>W{_EXPRESSION}:|Fnir@:)"
            "|(?P<else>E:)"
            rf"|(?P<return>R(?:{_LIST})?)"
            rf"|(?P<attribute>P|n:{_TYPE}(?:={_EXPRESSION})?|(?:n(?:,n)*,?|[nd]%|d)={_LIST})"
            rf"|(?P<expression>{_EXPRESSION})"
        ),
    )


class PlainReader:
    """Reads texts that have most of their words in common."""

    def __init__(self) -> None:
        self._letters = _Letters(_LETTERS)

    def mentions(self, text: str) -> dict[str, Mentions] | None:
        """Return what each definition of a record mentions, by name; None if it is not plain."""
        if text[:1] not in ("c", "d") or len(text) > MAX_CODE_CHARACTERS or _NOT_READ.search(text):
            return None
        text = text.replace(",\n    ", ", ")  # parameters stand on lines of their own
        if max(map(len, text.split("\n"))) > _LONGEST:
            return None
        tokens = _TOKEN.findall(text)
        letters = "".join(map(self._letters.__getitem__, tokens))
        if _NO_LETTER in letters or _DECEPTIVE.search(letters):
            return None
        kinds, columns = _kinds(_folded(letters)), _columns(tokens)
        if kinds is None or not _are_nested(kinds, columns):
            return None
        return _read(tokens, letters.split("\n"), kinds, columns)


def _folded(text: str) -> str:
    """Return the letters with one for each pair of brackets, but for those of definitions."""
    text = text.replace("Cn(n):", "Cn:").replace("Dn()", "Dn&")
    for _ in range(_DEEPEST):
        before = len(text)
        for pattern, sign in _patterns().folds:
            text = pattern.sub(sign, text)
        if len(text) == before:
            break
    return text


_HEADERS: Final = frozenset({"class", "else", "function", "if", "loop"})
# What may stand in the text of a record, of a class, and of a function.
_RECORD: Final = frozenset({"class", "function"})
_CLASS: Final = frozenset({"attribute", "function"})
_FUNCTION: Final = frozenset({"attribute", "else", "expression", "if", "loop", "return"})


def _kinds(folded: str) -> list[str] | None:
    """Return what each line is; None if one is nothing that is read here."""
    match = _patterns().line.fullmatch
    found = [match(line) for line in folded.rstrip("\n").split("\n")]
    return [line.lastgroup or "" for line in found if line] if all(found) else None


def _columns(tokens: Sequence[str]) -> list[int]:
    """Return the columns of the lines."""
    return [0, *(len(token) - token.rindex("\n") - 1 for token in tokens if token[0] == "\n")]


def _are_nested(kinds: list[str], columns: Sequence[int]) -> bool:
    """Return whether each line may stand where it does."""
    # By depth: what may stand there, and the last line that did.
    allowed, last = [_RECORD], [""]
    for kind, column in zip(kinds, columns, strict=False):
        around = last[-1]
        if around in _HEADERS:
            allowed.append(_CLASS if around == "class" else _FUNCTION)
            last.append("")
            if column != 2 * len(last) - 2:
                return False
        depth = column // 2
        if column % 2 or depth >= len(last):
            return False
        del allowed[depth + 1 :], last[depth + 1 :]
        if kind not in allowed[-1] or (kind == "else" and last[-1] != "if"):
            return False
        last[-1] = kind
    return last[-1] not in _HEADERS


_Mention = tuple[str, bool]  # a dotted name, and whether it is called


def _read(
    tokens: Sequence[str], lines: list[str], kinds: list[str], columns: Sequence[int]
) -> dict[str, Mentions] | None:
    """Return what the definitions mention; None where their order in the tree is not known."""
    found: dict[str, list[_Mention]] = {}
    own: list[_Mention] = []
    of_result: list[_Mention] = []
    start = 0
    for kind, column, letters in zip(kinds, columns, lines, strict=False):
        if kind in _RECORD:
            own += of_result  # in the tree that stands behind the body
            of_result = []
        if column == 0:
            name = tokens[start + 1]
            if name in found:
                return None
            own = found[name] = []
        if "t" in letters:
            places = _in_order(letters, tokens[start : start + len(letters)])
            own += [(tokens[start + i], letters.startswith("(", i + 1)) for i in places]
            if kind == "function":
                if _IN_DEFAULT.search(letters):
                    return None
                of_parameters = len(own) - letters.partition("A")[2].count("t")
                of_result = own[of_parameters:]
                del own[of_parameters:]
        start += len(letters) + 1
    own += of_result
    return {name: _mentions(own) for name, own in found.items()}


# A default that may have one: in the tree it stands behind the types of all parameters.
_IN_DEFAULT: Final = re.compile("=(?!-?[cdn][,)]).*t")


def _in_order(letters: str, tokens: Sequence[str]) -> list[int]:
    """Return the places of mentions in a line: names in their order, calls of operators by where
    their brackets end. In the tree a call stands behind its arguments, and they behind its name."""
    places = [place for place, letter in enumerate(letters) if letter == "t"]

    def order(place: int) -> int:
        return place if tokens[place].startswith(_OF_ARCHIVE) else _end(letters, place + 1)

    return sorted(places, key=order) if places[1:] else places


def _end(letters: str, place: int) -> int:
    depth = int(letters.startswith("(", place))
    while depth:
        place += 1
        depth += {"(": 1, ")": -1}.get(letters[place], 0)
    return place


def _mentions(own: list[_Mention]) -> Mentions:
    """Return mentions in the order in which the parser's tree is walked: from the last node on."""
    found = Mentions(Counter(), {})
    for name, is_called in reversed(own):
        if not name.startswith(_OF_ARCHIVE):
            if is_called:
                found.call(name)
            continue
        while "." in name:  # parts of a name are nodes, too
            found.name(name)
            name = name.rpartition(".")[0]
    return found
