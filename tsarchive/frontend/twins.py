"""Classes whose text differs from that of another in names of classes alone.

A network has hundreds of classes and few texts: a class of which such a twin is known takes over
what was read of it. The names are those of the class itself, behind ``self``, and of the classes
of its submodules; where text names a class in any other place, it has no twin.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tsarchive.ir.classes import Attribute, ClassType
from tsarchive.ir.names import unmangled

from .splitting import ClassParts, Line, Piece
from .structural_sharing import text_without_self

_CLASS_NAME = re.compile(r"__torch__(?:\.\w+)+", re.ASCII)
_MARK: Final = "\0"
# Longer texts are rare, and hardly ever those of several classes.
_LONGEST: Final = 1 << 16
_SCALARS: Final = frozenset({bool, int, float, str, type(None)})


class Outline(NamedTuple):
    """The text of a class, with marks in the places of ``names``."""

    key: tuple[str, str]
    names: list[str]


class Member(NamedTuple):
    """An attribute as a twin has it, on which line of the class, and which of the names is its
    type: -1 where that is no class."""

    attribute: Attribute
    line: int
    name: int


class Template(NamedTuple):
    """What the classes of one outline have in common.

    ``class_`` is the first of them, ``lists`` are the lists of names in their headers.
    """

    class_: ClassType
    members: Sequence[Member]
    lists: dict[str, list[str]]
    base: str
    lines: tuple[Line, ...]
    methods: Sequence[Piece]

    def parts(self, name: str, piece: Piece) -> ClassParts:
        """Return the parts of a class of this name. Its lines have the numbers of the twin."""
        first_line = piece.first_line
        methods = {
            method.name: Piece(
                piece.record,
                method.name,
                first_line + method.first_line,
                method.text.replace(_MARK, name),
            )
            for method in self.methods
        }
        return ClassParts(self.base, self.lines, methods)


def outline_of(name: str, piece: Piece) -> Outline | None:
    """Return the outline of a class; None for one that is not compared."""
    text = piece.text
    if len(text) > _LONGEST or _MARK in text:
        return None
    names = _CLASS_NAME.findall(text)
    return Outline((unmangled(name), _CLASS_NAME.sub(_MARK, text) if names else text), names)


class Twins:
    """The templates of the classes of one archive."""

    def __init__(self) -> None:
        # The first class of each outline, and its template once there is a second one.
        self._first: dict[tuple[str, str], _Read] = {}
        self._templates: dict[tuple[str, str], Template | None] = {}

    def find(self, name: str, outline: Outline) -> Template | None:
        """Return the template that a class of this name has."""
        first = self._first.pop(outline.key, None)
        if first is not None:
            self._templates[outline.key] = _template(first)
        found = self._templates.get(outline.key)
        if found is None:
            return None
        in_header = len(outline.names) - sum(_MARK in method.text for method in found.methods)
        return found if all(own == name for own in outline.names[in_header:]) else None

    def add(
        self,
        class_: ClassType,
        piece: Piece,
        outline: Outline,
        parts: ClassParts,
        lists: dict[str, list[str]],
    ) -> None:
        """Remember a class that was read, if it is the first one of its outline."""
        if outline.key not in self._templates:
            self._first[outline.key] = _Read(class_, piece, outline, parts, lists)


class _Read(NamedTuple):
    """A class with the text, parts and lists that it was made of."""

    class_: ClassType
    piece: Piece
    outline: Outline
    parts: ClassParts
    lists: dict[str, list[str]]


def _template(first: _Read) -> Template | None:
    """Return the template of a class; None where its names stand in other places."""
    class_, piece, outline, parts, lists = first
    methods = parts.methods.values()
    rest = "".join(method.text for method in methods)
    texts = [text_without_self(class_, method) for method in methods]
    is_plain = piece.text.endswith(rest) and not any(map(_CLASS_NAME.search, texts))
    if not is_plain or not all(_is_scalar(known.value) for known in class_.constants.values()):
        return None
    members = _members(class_, piece, outline, parts)
    named = sum(map(operator.ne, texts, [method.text for method in methods]))
    if sum(member.name >= 0 for member in members) + named != len(outline.names):
        return None
    outlines = [
        Piece("", m.name, m.first_line - piece.first_line, _CLASS_NAME.sub(_MARK, m.text))
        for m in methods
    ]
    return Template(class_, members, lists, parts.base, parts.lines, outlines)


def _members(class_: ClassType, piece: Piece, outline: Outline, parts: ClassParts) -> list[Member]:
    """Return the attributes, of which those with names of classes take these in their order."""
    found: list[Member] = []
    count = 0
    for line in parts.lines:
        attribute = class_.attributes.get(line.name)
        written = line.value if line.quoted else line.annotation
        if attribute is None or (line.annotation is not None and line.value is not None):
            continue
        is_named = written in outline.names[count : count + 1] and _is_submodule(attribute)
        offset = line.number - piece.first_line
        found.append(Member(attribute, offset, count if is_named else -1))
        count += is_named
    return found


def _is_submodule(attribute: Attribute) -> bool:
    return isinstance(attribute.type, ClassType) and attribute.type.is_module


def _is_scalar(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_scalar, value))
    return type(value) in _SCALARS
