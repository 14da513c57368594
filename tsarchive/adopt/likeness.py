"""The shape of a graph, by the text that torch prints of it.

The shape leaves out what its code does not say: where the code came from, the numbers of values,
the shapes of tensors, and the names of classes. Strings of the code stand in it as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b

from tsarchive.ir.names import base_name

_DTYPES = (
    "Tensor|Float|Double|Half|BFloat16|Int|Long|Short|Char|Byte|Bool|ComplexFloat|ComplexDouble"
)
# A type follows a blank or a bracket: ``aten::Float(%x)`` is none, nor is the value ``%Float``.
_TENSOR = re.compile(rf"(?<![\w:.%])(?:{_DTYPES})(?![\w.])(?:\([^()\n]*\))?")
_CLASS = re.compile(r"(?<![\w.%])__torch__[\w.]*")
_SCOPE = re.compile(r", scope: [\w./]*$", re.MULTILINE)
_VALUE = re.compile(r"%([\w.]+)")
# torch escapes quotes, backslashes and all that is not ASCII in them.
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Names of values and scopes may be any text, and stand in what torch prints as they are.
_ODD_NAME = re.compile(r"%(?![\w.]+[ ,):\]])")
# What stands for them is in no text that torch prints.
_ANY_TENSOR, _ANY_CLASS, _ANY_VALUE = "\1", "\2", "\3"
# Strings have no values in them, and what torch prints is never taken for a text without types.
_PERCENT, _NO_PRINT = "\4", "\5"
# A text has two entries as a rule: with the types in it, and without them.
_MOST_SHAPES = 1 << 13
_DIGEST_BYTES = 32


class _Values(dict[str, str]):
    """What stands in a shape for the values of a graph, numbered as they are met."""

    def __missing__(self, name: str) -> str:
        self[name] = shown = f"{_ANY_VALUE}{len(self)}{_ANY_VALUE}{base_name(name) or ''}"
        return shown


# The shapes of texts, by their digests: a module that is saved again has the same graphs, and
# modules of one kind often give their values the same numbers.
_known: dict[bytes, bytes | None] = {}


def shape_of(printed: str) -> bytes | None:
    """Return the shape of a graph of which torch prints this, without the places of nodes.

    Shapes are digests. None for a text that may be read in two ways, as names in it have other
    characters than those of identifiers.
    """
    return _kept(printed, _shape)


def _shape(printed: str) -> bytes | None:
    text = _without_types(printed)
    return None if text is None else _kept(text, _shape_without_types)


def _shape_without_types(text: str) -> bytes:
    parts = _VALUE.split(text)
    parts[1::2] = map(_Values().__getitem__, parts[1::2])
    return _digest("".join(parts))


def _kept(text: str, shape: Callable[[str], bytes | None]) -> bytes | None:
    key = _digest(text)
    found = _known.get(key, key)
    if found is key:
        while len(_known) >= _MOST_SHAPES:
            _known.pop(next(iter(_known)), None)
        found = _known[key] = shape(text)
    return found


def _digest(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _without_types(printed: str) -> str | None:
    """Return the text without types, scopes and strings, which follow behind.

    None where it is not known what is what.
    """
    text = _SCOPE.sub("", printed) if ", scope: " in printed else printed
    if ", scope: " in text or '\\"' in text:
        return None
    strings = _STRING.findall(text)
    text = _STRING.sub('""', text) if strings else text
    if _ODD_NAME.search(text) is not None:
        return None
    text = _CLASS.sub(_ANY_CLASS, _TENSOR.sub(_ANY_TENSOR, text))
    return "\n".join((text, *(string.replace("%", _PERCENT) for string in strings), _NO_PRINT))
