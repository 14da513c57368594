"""What a file needs of the process that loads it: operators, and classes bound from C++.

Code is read as torch.jit reads it: from the classes of the objects on, all their methods, and
what those name. Branches that a literal decides are never compiled, so they need nothing.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tsarchive.describing.contents import Needs
from tsarchive.errors import SourceError
from tsarchive.frontend.syntax import dotted, live_nodes, parse_statements
from tsarchive.ir.names import MANGLE_PREFIX, NATIVE_PREFIX

from .pickled import names_in

# Most nodes are of these; a name by itself is that of a local.
_NAMING_NOTHING: Final = frozenset({ast.Constant, ast.Load, ast.Name, ast.Store})
# Bytes that are not UTF-8, and carriage returns, which are not line ends here.
_UNPARSABLE: Final = re.compile("[\udc80-\udcff\r]")
_NUMBER: Final = re.compile(rf"(?<={MANGLE_PREFIX})[0-9]+")


def needs_of(code: Mapping[str, str], data: Iterable[Any]) -> Needs:
    """Return the needs of code that is reached from the classes in ``data``, pickle values.

    Raises SourceError for code that does not parse.
    """
    reader = _Reader(code)
    for value in data:
        for name in names_in(value):
            reader.mention(name)
    return reader.needs()


def needs_of_all(code: Mapping[str, str], renamed: Mapping[str, str]) -> Needs:
    """Return the needs of all code, where no names lead from one record to another.

    ``renamed`` gives the names of today of operators that have changed theirs.
    Raises SourceError for code that does not parse.
    """
    reader = _Reader(code, renamed)
    for record in code:
        reader.read(record)
    return reader.needs()


class _Mentions:
    """The operators that a statement calls, and the names of the archive's definitions in it."""

    def __init__(self, root: ast.stmt) -> None:
        self.operators: Counter[str] = Counter()
        self.names: dict[str, None] = {}  # in an order that is the same in every process
        for node in live_nodes(root, _NAMING_NOTHING):
            match node:
                case ast.Call(func):
                    self.operators.update(_operator(dotted(func)))
                # The parts of a longer name are nodes of their own.
                case ast.Attribute() | ast.BinOp():
                    name = dotted(node)
                    if name.startswith("__torch__."):
                        self.names[name] = None


class _Text(NamedTuple):
    """The statements of a record, and those of them that define something, by its name."""

    body: list[ast.stmt]
    definitions: dict[str, ast.stmt]


def _parse(record: str, text: str) -> list[ast.stmt]:
    return parse_statements(_UNPARSABLE.sub(" ", text), record, 1)


class _Reader:
    """Collects what definitions mention, and goes on with the definitions among that.

    Records that differ in mangled names alone are parsed once.
    """

    def __init__(self, code: Mapping[str, str], renamed: Mapping[str, str] | None = None) -> None:
        self._code = code
        self._renamed = renamed or {}
        self._texts: dict[str, _Text] = {}
        self._of_records: dict[str, tuple[_Text, tuple[str, ...]]] = {}
        self._in_statements: dict[ast.stmt, _Mentions] = {}
        self._operators: Counter[str] = Counter()
        self._native: set[str] = set()
        self._pending: list[tuple[ast.stmt, tuple[str, ...]]] = []
        self._mentioned: set[str] = set()

    def read(self, record: str) -> None:
        """Read all of a record."""
        text, numbers = self._text(record)
        self._pending += [(statement, numbers) for statement in text.body]

    def mention(self, name: str) -> None:
        """Go on with a dotted name, of which the start may be that of a definition."""
        if name in self._mentioned:
            return
        self._mentioned.add(name)
        if name.startswith(NATIVE_PREFIX):
            if name.count(".") == NATIVE_PREFIX.count(".") + 1:
                self._native.add(name)
            return
        module, _, own_name = name.rpartition(".")
        record = f"code/{module.replace('.', '/')}.py"
        if record in self._code:
            text, numbers = self._text(record)
            if own_name in text.definitions:
                self._pending.append((text.definitions[own_name], numbers))

    def _text(self, record: str) -> tuple[_Text, tuple[str, ...]]:
        """Return a text, and the numbers in mangled names by their place in this list."""
        if record not in self._of_records:
            text, numbers = renumbered(self._code[record])
            if text not in self._texts:
                body = self._parsed(record, text)
                kinds = ast.ClassDef | ast.FunctionDef
                definitions = {node.name: node for node in body if isinstance(node, kinds)}
                self._texts[text] = _Text(body, {**definitions})
            self._of_records[record] = self._texts[text], numbers
        return self._of_records[record]

    def _parsed(self, record: str, text: str) -> list[ast.stmt]:
        try:
            return _parse(record, text)
        except SourceError:
            _parse(record, self._code[record])  # errors show names as they are written
            raise

    def needs(self) -> Needs:
        """Read all that is pending; return what has been collected."""
        while self._pending:
            statement, numbers = self._pending.pop()
            if statement not in self._in_statements:
                self._in_statements[statement] = _Mentions(statement)
            mentions = self._in_statements[statement]
            for written, count in mentions.operators.items():
                name = restored(written, numbers)
                self._operators[self._renamed.get(name, name)] += count
            for name in mentions.names:
                self.mention(restored(name, numbers))
        classes = sorted(name.removeprefix(NATIVE_PREFIX) for name in self._native)
        return Needs(dict(self._operators), tuple(classes))


def renumbered(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace the numbers in mangled names by their places in the tuple that is returned.

    One with letters that Python may take for others stays as it is.
    """
    places: dict[str, str] = {}
    if text.isascii():
        text = _NUMBER.sub(lambda match: places.setdefault(match[0], str(len(places))), text)
    return text, tuple(places)


def restored(name: str, numbers: tuple[str, ...]) -> str:
    """Return a name from such a text as the text had it before."""
    return _NUMBER.sub(lambda match: numbers[int(match[0])], name) if numbers else name


def _operator(name: str) -> Iterator[str]:
    """Yield the operator that a call of a dotted name means."""
    match name.split("."):
        case ["torch", name] | ["torch", "autograd", name]:
            yield f"aten::{name}"
        case ["ops", namespace, name]:
            yield f"{namespace}::{name}"
