"""Classes, functions and methods in the text of code records, found by indentation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

CLASS = "class"
FUNCTION = "function"
METHOD = "method"

_HEADER = re.compile(r"(?P<indent>  |)(?P<word>class|def) (?P<name>[^\s(:]+)")
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
    class_name = ""
    for index, line in enumerate(lines):
        header = _HEADER.match(line)
        kind = _KINDS.get((header["word"], header["indent"])) if header else None
        if header is None or kind is None or (kind == METHOD and not class_name):
            continue
        name = f"{class_name if kind == METHOD else scope}.{header['name']}"
        if kind == FUNCTION and _UNTYPED_SELF.match(line):
            kind = METHOD
        elif kind != METHOD:
            class_name = name if kind == CLASS else ""
        end = _end(lines, index, header["indent"])
        yield Definition(kind, name, record, index + 1, "\n".join(lines[index:end]))


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
