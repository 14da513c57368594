"""Parsing of the header of a printed class, for facts that no binding of torch exposes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tsarchive.errors import SaveError

_ATTRIBUTE = re.compile(r'  (?:(\w+) : (?!Final\[)|__annotations__\["(.*)"\] = )')
_FLAGS = re.compile(r"\n  __parameters__ = \[(.*?)\]\n  __buffers__ = \[(.*?)\](?:\n|$)", re.DOTALL)
_QUOTED = re.compile(r'"(.*?)", ', re.DOTALL)
_QUOTED_SLOT = '  __annotations__["'
# A slot may be named ``def``.
_METHODS = re.compile(r"\n  def (?!: )")


@dataclass(frozen=True, slots=True)
class ClassHeader:
    """Attribute names in slot order, their flags, and whether constants follow.

    No attributes are given when one of them has a line break in its name.
    """

    is_module: bool
    attributes: tuple[str, ...]
    has_constants: bool
    parameters: frozenset[str]
    buffers: frozenset[str]


def code_of(printed: Any, name: str) -> str:
    """Return torch's printed form of the class ``name``.

    Raises SaveError where it cannot print it.
    """
    try:
        code: str = printed.code
    except RuntimeError as error:
        raise SaveError(
            f"torch cannot print the class {name}: {error}",
            hint="An argument of type Tensor whose default is None wants Optional[Tensor]",
        ) from error
    return code


def read_header(code: str) -> ClassHeader:
    """Parse the header of the class that ``code`` begins with; methods are ignored."""
    header = _METHODS.split(code, 1)[0]
    first, *lines = header.split("\n")
    attributes = [match for line in lines if (match := _ATTRIBUTE.match(line))]
    if sum(line.startswith(_QUOTED_SLOT) for line in lines) > sum(m[1] is None for m in attributes):
        attributes = []  # a name contains a line break
    flags = _FLAGS.search(header)
    parameters, buffers = flags.groups() if flags else ("", "")
    return ClassHeader(
        first.endswith("(Module):"),
        tuple(match[1] or match[2] for match in attributes),
        " : Final[" in header,
        frozenset(_QUOTED.findall(parameters)),
        frozenset(_QUOTED.findall(buffers)),
    )


def in_header_order(names: Iterable[str], code: str) -> tuple[str, ...]:
    """Return known names of attributes or constants in the order of their lines.

    Such names may contain anything, even line breaks.
    """

    places: dict[str, int] = {}
    # A long name may contain text that looks like the line of a short one.
    for name in sorted(names, key=len, reverse=True):
        for line in (f'\n  __annotations__["{name}"] = ', f"\n  {name} : "):
            if (found := code.find(line)) >= 0:
                places[name] = found
                code = code.replace(line, "\n" * len(line), 1)
                break
    return tuple(sorted(places, key=places.__getitem__))


def field_names(shown: str) -> tuple[str, ...]:
    """Return the fields of ``NamedTuple(a : Tensor, b : NamedTuple(...))``, not nested ones."""
    depth, level_one = 0, []
    for char in shown:
        depth -= char in ")]"
        level_one.append(char if depth == 1 else "")
        depth += char in "(["
    return tuple(re.findall(r"(\w+) : ", "".join(level_one)))
