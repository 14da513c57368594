"""The shape of a graph, by the text that torch prints of it.

The shape leaves out what its code does not say: where the code came from, the numbers of values,
the shapes of tensors, and the names of classes. Strings of the code stand in it as they are.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tsarchive.ir.names import base_name

_DTYPES = (
    "Tensor|Float|Double|Half|BFloat16|Int|Long|Short|Char|Byte|Bool|ComplexFloat|ComplexDouble"
)
# A type follows a blank or a bracket: ``aten::Float(%x)`` is none.
_TENSOR = re.compile(rf"(?<![\w:.])(?:{_DTYPES})(?![\w.])(?:\([^()\n]*\))?")
_CLASS = re.compile(r"__torch__[\w.]*")
_SCOPE = re.compile(r", scope: [^\n]*")
_VALUE = re.compile(r"%([\w.]+)")
# torch escapes quotes, backslashes and all that is not ASCII in them.
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
# What stands for them is in no text that torch prints.
_ANY_TENSOR, _ANY_CLASS, _ANY_VALUE = "\1", "\2", "\3"


class _Values(dict[str, str]):
    """What stands in a shape for the values of a graph, numbered as they are met."""

    def __missing__(self, name: str) -> str:
        self[name] = shown = f"{_ANY_VALUE}{len(self)}{_ANY_VALUE}{base_name(name) or ''}"
        return shown


@lru_cache(maxsize=1 << 10)
def shape_of(printed: str) -> str:
    """Return the shape of a graph of which torch prints this, without the places of nodes.

    Cached: a module that is saved again has the same graphs.
    """
    strings = _STRING.findall(printed)
    text = _STRING.sub('""', printed) if strings else printed
    text = _SCOPE.sub("", text) if ", scope: " in text else text
    text = _CLASS.sub(_ANY_CLASS, _TENSOR.sub(_ANY_TENSOR, text))
    parts = _VALUE.split(text)
    parts[1::2] = map(_Values().__getitem__, parts[1::2])
    return "\n".join(("".join(parts), *strings))
