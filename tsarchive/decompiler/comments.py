"""Tells whether code says what a line of the original program says: no comment repeats it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from textwrap import dedent
from typing import Final

_MOST_LINES: Final = 24


def repeats(original: str, following: Sequence[str]) -> bool:
    """Return whether the statement that ``following`` lines begin with is the original one.

    What the result is called, or that it is returned, does not count. Of an original statement
    whose first line is known alone, that line counts.
    """
    wanted = _normal(original)
    found = _first_statement(following)
    if found is None:
        return False
    if wanted is not None:
        return _result(wanted) == _result(found)
    begun = _result(original.strip()).replace("'", '"')
    return begun.endswith("(") and _result(found).replace("'", '"').startswith(begun)


_GIVEN = re.compile(r"(?:return\b|(?:\w+, )*\w+(?:: [^=]+)? =(?!=)) *")


def _result(statement: str) -> str:
    """Return what a statement assigns to variables, or returns; all of another statement."""
    match = _GIVEN.match(statement)
    return statement[match.end() :] if match else statement


def _first_statement(lines: Sequence[str]) -> str | None:
    for count in range(1, min(len(lines), _MOST_LINES) + 1):
        found = _normal(dedent("\n".join(lines[:count])))
        if found is not None:
            return found
    return None


def _normal(text: str) -> str | None:
    """Return a statement, or the head of one, as ``ast`` writes it; None for other text."""
    found = statement_of(text)
    return None if found is None else ast.unparse(found).split("\n    pass")[0]


_ELIF = re.compile(r"^el(?=if\b)")


def statement_of(text: str) -> ast.stmt | None:
    """Return the statement that a text is, or is the head of; None for other text."""
    text = _ELIF.sub("", text.strip().rstrip(": "))
    for whole in (text, f"{text}:\n    pass"):
        try:
            found = ast.parse(whole).body
        except (SyntaxError, ValueError):
            continue
        return found[0] if len(found) == 1 else None
    return None
