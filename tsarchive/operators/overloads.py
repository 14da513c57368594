"""Schemas of the registry as data: overloads by name, and methods of classes that torch binds.

Torch is not needed to ask.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from tsarchive.errors import FormatError
from tsarchive.ir.classes import ClassType
from tsarchive.ir.schema import FunctionSchema, parse_schema_with
from tsarchive.ir.types import Type, VarType

from .registry import method_texts, schema_texts

__all__ = ["methods_of", "overloads_of"]

_CLASS: Final = "__torch__."


def overloads_of(name: str, version: str | None = None) -> tuple[FunctionSchema, ...]:
    """Return the overloads of an operator ("aten::add") in the order in which torch tries them.

    ``version`` of torch, such as "2.13"; without one it is the newest that has the operator.
    Empty where there is none.
    """
    return tuple(map(_parsed, schema_texts(name, version)))


def methods_of(class_name: str, version: str | None = None) -> dict[str, FunctionSchema]:
    """Return the methods of a class of torch, ``__torch__.torch.classes.rnn.CellParamsBase``."""
    texts = (text.removeprefix(f"{class_name}.") for text in method_texts(class_name, version))
    return {schema.name: schema for schema in map(_parsed, texts)}


@cache
def _parsed(text: str) -> FunctionSchema:
    return parse_schema_with(text, _named_type)


def _named_type(name: str) -> Type:
    """Return a class that a library binds, or a type variable, which starts in lower case."""
    if name.startswith(_CLASS):
        return ClassType(name, is_native=True)
    if name[0].islower():
        return VarType(name)
    raise FormatError(f"schema names the unknown type {name!r}")
