"""Classes, functions and methods in the text of code records, found by indentation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

CLASS = "class"
FUNCTION = "function"
METHOD = "method"

_HEADER = re.compile(r"^(?P<indent>  |)(?P<word>class|def) (?P<name>[^\s(:]+)", re.MULTILINE)
_FOLDER = re.compile(r"(code|libs)/")
# Functions write the types of all parameters. Old records hold methods outside of classes.
_UNTYPED_SELF = re.compile(r"def [^\s(]+\(self[,)]")
_KINDS = {("class", ""): CLASS, ("def", ""): FUNCTION, ("def", "  "): METHOD}


@dataclass(frozen=True, slots=True)
class Definition:
    """A piece of a code record. ``line`` is 1-based; ``text`` is as in the record."""

    kind: str
    qualified_name: str
    record: str
    line: int
    text: str


def module_of_record(record: str) -> str:
    """``code/__torch__/models/net.py`` holds ``__torch__.models.net``."""
    return _FOLDER.sub("", record, count=1).removesuffix(".py").replace("/", ".")


def definitions(record: str, text: str) -> Iterator[Definition]:
    """Yield all that a code record defines, a class before its methods."""
    lines = text.split("\n")
    scope = module_of_record(record)
    class_name, line, start = "", 0, 0
    for kind, header in _headers(text):
        name = f"{class_name if header['indent'] else scope}.{header['name']}"
        if kind != METHOD:
            class_name = name
        line += text.count("\n", start, header.start())
        start = header.start()
        end = _end(lines, line, header["indent"])
        yield Definition(kind, name, record, line + 1, "\n".join(lines[line:end]))


def kinds_of(text: str) -> Iterator[str]:
    """Yield the kind of each definition of a code record."""
    return (kind for kind, _ in _headers(text))


def _headers(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield the kind of each definition, and the start of its first line."""
    is_in_class = False
    for header in _HEADER.finditer(text):
        kind = _KINDS.get((header["word"], header["indent"]))
        if kind is None or (header["indent"] and not is_in_class):
            continue
        if kind == FUNCTION and _UNTYPED_SELF.match(text, header.start()):
            kind = METHOD
        elif kind != METHOD:
            is_in_class = kind == CLASS
        yield kind, header


def _end(lines: list[str], start: int, indent: str) -> int:
    """Return the line after the last one of the definition that begins at ``start``."""
    inside = indent + "  "
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(inside)):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return end


def all_definitions(code: Mapping[str, str]) -> Iterator[Definition]:
    """Yield the definitions of all records, and each record as a whole under its own name."""
    for record, text in code.items():
        yield Definition("record", record, record, 1, text)
        yield from definitions(record, text)


def matching(wanted: str, candidates: list[Definition]) -> list[Definition]:
    """Return those of exactly this name or, if there is none, those whose name ends with it."""
    exact = [found for found in candidates if found.qualified_name == wanted]
    endings = (f".{wanted}", f"/{wanted}")
    return exact or [found for found in candidates if found.qualified_name.endswith(endings)]
