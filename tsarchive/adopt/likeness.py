"""The shape of a graph, by the text that torch prints of it.

The shape leaves out what its code does not say: where the code came from, the numbers of values,
the shapes of tensors, and the names of classes.
"""

from __future__ import annotations

import re

from tsarchive.ir.names import base_name

_DTYPES = (
    "Tensor|Float|Double|Half|BFloat16|Int|Long|Short|Char|Byte|Bool|ComplexFloat|ComplexDouble"
)
# A type follows a blank or a bracket: ``aten::Float(%x)`` is none.
_TENSOR = re.compile(rf"(?<![\w:.])(?:{_DTYPES})(?![\w.])(?:\([^()\n]*\))?")
_CLASS = re.compile(r"__torch__[\w.]*")
_SCOPE = re.compile(r", scope: [^\n]*")
_VALUE = re.compile(r"%([\w.]+)")
# What stands for them is in no text that is kept.
_KEPT = re.compile(r"[ !#$&(-\[\]-~]*")
_ANY_TENSOR, _ANY_CLASS, _ANY_VALUE = "\1", "\2", "\3"


def shape_of(printed: str) -> str:
    """Return the shape of a graph of which torch prints this, without the places of nodes."""
    names: dict[str, str] = {}

    def value(match: re.Match[str]) -> str:
        name = match[1]
        known = names.get(name)
        if known is None:
            known = names[name] = f"{_ANY_VALUE}{len(names)}{_ANY_VALUE}{base_name(name) or ''}"
        return known

    text = _TENSOR.sub(_ANY_TENSOR, _SCOPE.sub("", printed))
    return _VALUE.sub(value, _CLASS.sub(_ANY_CLASS, text))


def is_kept(text: str) -> bool:
    """Return whether a text in a graph stands in its shape as it is, and only that text does."""
    left_out = (_TENSOR, _CLASS, _SCOPE)
    return _KEPT.fullmatch(text) is not None and not any(one.search(text) for one in left_out)
