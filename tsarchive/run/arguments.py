"""The arguments of an operator in generated source."""

from __future__ import annotations

import keyword
from collections.abc import Container, Sequence

from tsarchive.ir.names import is_identifier
from tsarchive.ir.schema import FunctionSchema

__all__ = ["all_arguments"]


def all_arguments(
    schema: FunctionSchema, texts: Sequence[str], left_out: Container[int] = ()
) -> str:
    """Arguments by position, those after ``*`` by name."""
    parts = []
    for offset, text in enumerate(texts):
        if offset in left_out:
            continue
        is_named = offset < len(schema.arguments) and schema.arguments[offset].kwarg_only
        parts.append(_named(schema.arguments[offset].name, text) if is_named else text)
    return ", ".join(parts)


def _named(name: str, text: str) -> str:
    if is_identifier(name) and not keyword.iskeyword(name):
        return f"{name}={text}"
    return f"**{{{name!a}: {text}}}"
