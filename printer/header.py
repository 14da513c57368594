"""Reads the header of a printed class: the facts about a class that no binding of torch gives."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ATTRIBUTE = re.compile(r'  (?:(\w+) : (?!Final\[)|__annotations__\["(.*)"\] = )')
_CONSTANT = re.compile(r"  (\w+) : Final\[")
_FLAGS = re.compile(r"  (__parameters__|__buffers__) = \[(.*)\]")
_QUOTED = re.compile(r'"(.*?)", ')


@dataclass(frozen=True, slots=True)
class ClassHeader:
    """Attribute names in slot order, constant names in order, and which slots are flagged."""

    is_module: bool
    attributes: tuple[str, ...]
    constants: tuple[str, ...]
    parameters: frozenset[str]
    buffers: frozenset[str]


def read_header(code: str) -> ClassHeader:
    """The header of the class that ``code`` begins with; methods are not looked at."""
    first, *lines = code.partition("\n  def ")[0].split("\n")
    attributes = [match for line in lines if (match := _ATTRIBUTE.match(line))]
    constants = [match for line in lines if (match := _CONSTANT.match(line))]
    flags = [match for line in lines if (match := _FLAGS.fullmatch(line))]
    flagged = {match[1]: frozenset(_QUOTED.findall(match[2])) for match in flags}
    return ClassHeader(
        first.endswith("(Module):"),
        tuple(match[1] or match[2] for match in attributes),
        tuple(match[1] for match in constants),
        flagged.get("__parameters__", frozenset()),
        flagged.get("__buffers__", frozenset()),
    )


def field_names(shown: str) -> tuple[str, ...]:
    """The fields of ``NamedTuple(a : Tensor, b : NamedTuple(...))``, outermost level only."""
    depth, level_one = 0, []
    for char in shown:
        depth -= char in ")]"
        level_one.append(char if depth == 1 else "")
        depth += char in "(["
    return tuple(re.findall(r"(\w+) : ", "".join(level_one)))
