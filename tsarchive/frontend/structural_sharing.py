"""Structural sharing: classes that differ in mangled names alone share schemas and code.

A network holds hundreds of classes, few of which are distinct. They are compared by their text,
which is not parsed. Two classes are structurally equal if their texts are, once each submodule's
class is replaced by its canonical one, the first that was found equal to it. The class's own name
behind ``self`` is left out, and so are constants of the class that no method names: torch writes
their values into the code. Everything else is compared as it stands, so classes that do the same
may still count as distinct.

A class whose text differs from that of an earlier one, its twin, in names of classes alone takes
over what was read of that one. These names are its own, behind ``self``, and those of the classes
of its submodules; where text names a class in any other place, it has no twin.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tsarchive.errors import SourceError
from tsarchive.ir.classes import Attribute, ClassType, Function, SharedMethod
from tsarchive.ir.graph import Placed
from tsarchive.ir.names import unmangled
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import Type

from .places import CodePlace
from .splitting import ClassParts, Line, Piece, Sources

_ROOT: Final = "__torch__"
# A name, and what would go on with it. No part of a long one is looked at twice.
_MENTION = re.compile(rf"(?<!\w){_ROOT}((?:\.\w+)+)(\s*[.\\])?")
# How definitions begin that are of no module. Those of modules may be written in many ways.
_NO_MODULE = re.compile(r"def |class \w+(?:\((?!Module)\w*\))?:\n", re.ASCII)
_WORD = re.compile(r"\w+")
# In such text a name may stand in parts or otherwise: letters that Python takes for others,
# escapes, strings side by side.
_UNCLEAR = re.compile(r"""[^\x00-\x7f]|[\\#]|["']\s*[A-Za-z]{0,2}["']""")
_NO_NAMES: Final = frozenset[str]()


class StructuralSharing:
    """Finds structurally equal classes of an archive."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._canonical: dict[Hashable, ClassType] = {}
        self._canonical_of: dict[Type, ClassType] = {}
        self._left_out: dict[ClassType, frozenset[str]] = {}
        self._words: dict[str, frozenset[str] | None] = {}
        self._schemas: dict[Function, FunctionSchema] = {}

    def add(self, class_: ClassType, parts: ClassParts) -> None:
        """Compare a module class, once it is read, with those that are known."""
        texts = {name: _text_without_self(class_, piece) for name, piece in parts.methods.items()}
        submodules = self._submodules(class_)
        within = _NO_NAMES.union(*(self._left_out.get(inner, ()) for inner in submodules.values()))
        own = frozenset(filter(str.isidentifier, class_.constants))
        named = self._named_in(texts.values(), within | own)
        lines = _lines(parts.lines, submodules, own - named)
        # The rest of the name decides how some slots of old archives are read.
        name = unmangled(class_.qualified_name)
        key: Hashable = name, parts.base, lines, tuple(texts.items())
        if named & within:
            key = class_  # its code may depend on what was left out in the class of a submodule
        canonical = self._canonical.setdefault(key, class_)
        if left_out := within | (own - named):
            self._left_out[canonical] = self._left_out.get(canonical, _NO_NAMES) | left_out
        self._share(class_, canonical, parts)

    def add_twin(self, class_: ClassType, twin: ClassType, parts: ClassParts) -> bool:
        """Add a class whose text is that of another but for names; return whether they are equal.

        They are where their submodules have the same canonical classes. Names that were left out
        in these may tell more classes apart, which takes a look at all of the text.
        """
        for attribute, other in zip(
            class_.attributes.values(), twin.attributes.values(), strict=True
        ):
            if attribute is not other:
                own, others = map(self._canonical_of.get, (attribute.type, other.type))
                if own is None or own is not others or own in self._left_out:
                    return False
        self._share(class_, self._canonical_of[twin], parts)
        return True

    def _share(self, class_: ClassType, canonical: ClassType, parts: ClassParts) -> None:
        self._canonical_of[class_] = canonical
        for function in (*class_.methods.values(), *class_.hooks()):
            piece = parts.methods[function.name]
            function.sharing = _SharedMethod(self, class_, canonical, piece)

    def _submodules(self, class_: ClassType) -> dict[str, ClassType]:
        """Return the canonical classes of the submodules, by attribute."""
        found = {}
        for attribute in class_.attributes.values():
            type_ = attribute.type
            if isinstance(type_, ClassType) and type_.is_module:
                # A class that contains itself has no canonical one yet, and equals no other.
                found[attribute.name] = self._canonical_of.get(type_, type_)
        return found

    def _named_in(self, texts: Iterable[str], names: Set[str]) -> Set[str]:
        """Return the ``names`` that methods may name."""
        found: Set[str] = _NO_NAMES
        for text in texts if names else ():
            if text not in self._words:
                is_clear = _UNCLEAR.search(text) is None
                self._words[text] = frozenset(_WORD.findall(text)) if is_clear else None
            words = self._words[text]
            found |= names if words is None else names & words
        return found

    def schema(self, function: Function, read: Callable[[], FunctionSchema]) -> FunctionSchema:
        """Return the schema of a function, which equals that of its original but for ``self``."""
        if function.sharing is None:
            return read()
        original = function.original
        known = self._schemas.get(original)
        if known is None:
            known = self._schemas[original] = read()
        self_, *others = known.arguments
        owner = function.sharing.owner
        if self_.type is owner:
            return known
        return known._replace(arguments=(self_._replace(type=owner), *others))

    def names_no_module(self, text: str) -> bool:
        """Return whether a method names no module class, and so means the same in equal classes."""
        if not text.isascii():
            return False
        count = text.count(_ROOT)
        mentions = _MENTION.findall(text) if count else []
        names = [name for name, goes_on in mentions if not goes_on]
        return len(names) == count and all(map(self._is_free, set(names)))

    def _is_free(self, name: str) -> bool:
        """Return whether a name is that of a definition, or a member of one, and of no module."""
        qualified_name = _ROOT + name
        try:
            text = self.sources.text_of(qualified_name)
            if text is None:
                text = self.sources.text_of(qualified_name.rpartition(".")[0])
        except SourceError:
            return False
        return text is not None and _NO_MODULE.match(text) is not None


@dataclass(eq=False, slots=True)
class _SharedMethod:
    """A method of ``owner``, of which ``canonical`` is the canonical class."""

    sharing: StructuralSharing
    owner: ClassType
    canonical: ClassType
    piece: Piece
    _original: Function | None = field(default=None, repr=False)

    @property
    def original(self) -> Function:
        if self._original is None:
            class_, text = self.owner, _text_without_self(self.owner, self.piece)
            if self.canonical is not class_ and self.sharing.names_no_module(text):
                class_ = self.canonical
            self._original = class_.function(self.piece.name)
        return self._original

    def moved(self, place: Placed, other: SharedMethod) -> Placed:
        assert isinstance(place, CodePlace)
        assert isinstance(other, _SharedMethod)
        places = self.sharing.sources.places(self.piece.record)
        start = self._moved(place.line, place.column, other)
        return CodePlace(places, *start, *self._moved(place.end_line, place.end_column, other))

    def _moved(self, line: int, column: int, other: _SharedMethod) -> tuple[int, int]:
        within = line - other.piece.first_line
        if within == 0 and column >= other._header_end:
            column += self._header_end - other._header_end
        return within + self.piece.first_line, column

    @property
    def _header_end(self) -> int:
        """The column behind the type of ``self``."""
        return len(self.piece.text) - len(_text_without_self(self.owner, self.piece))


def shared_method(sharing: StructuralSharing, owner: ClassType, piece: Piece) -> SharedMethod:
    """Return a method of a class that is compared with no other."""
    return _SharedMethod(sharing, owner, owner, piece)


def _lines(
    lines: Iterable[Line], submodules: Mapping[str, ClassType], left_out: Set[str]
) -> Hashable:
    """Return the header of a class, with ``submodules`` in the place of their types."""
    return tuple(
        (line.name, line.quoted, submodules[line.name])
        if line.name in submodules
        else (line.name, line.quoted, line.annotation, line.value)
        for line in lines
        # Lists of hooks, parameters and buffers have no annotation; a constant may have their name.
        if line.name not in left_out or line.annotation is None
    )


def _text_without_self(class_: ClassType, piece: Piece) -> str:
    """Return the text of a method behind ``self : C``; all of it where it starts otherwise."""
    start = f"  def {piece.name}(self: {class_.qualified_name}"
    if piece.text.startswith((f"{start},", f"{start})")):
        return piece.text[len(start) :]
    return piece.text


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
    texts = [_text_without_self(class_, method) for method in methods]
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
