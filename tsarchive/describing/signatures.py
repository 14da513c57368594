"""Signatures of methods as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tsarchive.errors import UnknownOperatorError, UnsupportedError
from tsarchive.ir.classes import ClassType, Function
from tsarchive.ir.schema import Argument
from tsarchive.ir.types import annotation

if TYPE_CHECKING:
    from tsarchive.describing.facts import ModuleInfo
    from tsarchive.frontend import CodeImporter


def signatures(class_: ClassType) -> Iterator[str]:
    """``forward(x: Tensor, scale: float=1.0) -> Tensor`` for each method, without self."""
    for name, method in class_.methods.items():
        yield f"{name}{_signature(method)}"


def with_signatures(module: ModuleInfo, classes: CodeImporter) -> ModuleInfo:
    """A module tree with the signature of each method in place of its name."""
    class_ = classes.find_class(module.qualified_class)
    assert isinstance(class_, ClassType)
    children = tuple(with_signatures(child, classes) for child in module.children)
    return replace(module, methods=tuple(signatures(class_)), children=children)


def _signature(method: Function) -> str:
    try:
        schema = method.schema
    except (UnknownOperatorError, UnsupportedError):
        # Only operators would tell the type of its result, or a constant that of a default.
        return "(...)"
    arguments = ", ".join(map(_argument, schema.arguments[1:]))
    return f"({arguments}) -> {annotation(schema.return_type)}"


def _argument(argument: Argument) -> str:
    text = f"{argument.name}: {annotation(argument.type)}"
    if not argument.has_default:
        return text
    is_plain = argument.default is None or isinstance(argument.default, bool | int | float | str)
    return f"{text}={argument.default!r}" if is_plain else f"{text}=..."
