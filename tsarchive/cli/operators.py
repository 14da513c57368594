"""The operators that serialized code names, found in its text."""

from __future__ import annotations

import re
from collections.abc import Iterator

# String literals come first, so that nothing inside them counts.
_CALL = re.compile(
    r""""(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
    | (?<![\w.]) (?: torch\.(?:\w+\.)*(?P<aten>\w+) | ops\.(?P<space>\w+)\.(?P<name>\w+) ) \(""",
    re.VERBOSE,
)
_NATIVE_CLASS = re.compile(r"(?<![\w.])__torch__\.torch\.classes\.\w+(?:\.\w+)*")


def operators_in(code: str) -> Iterator[str]:
    """The name of each operator called, without overload: ``aten::conv2d``.

    ``torch.name`` stands for ``aten::name``, ``ops.space.name`` for any other namespace.
    Arithmetic that is written with Python's operators is not an operator call here.
    """
    for call in _CALL.finditer(code):
        if call["aten"]:
            yield f"aten::{call['aten']}"
        elif call["name"]:
            yield f"{call['space']}::{call['name']}"


def native_classes_in(code: str) -> set[str]:
    """The qualified names of the torchbind classes that the code mentions."""
    return set(_NATIVE_CLASS.findall(code))
