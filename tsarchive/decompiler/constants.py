"""Constants that are objects, one for all calls: tensors, generators, packed weights."""

from __future__ import annotations

import ast
from typing import Any

import torch

from tsarchive.errors import UnsupportedError
from tsarchive.ir.values import GeneratorSeed, TableConstant

from . import syntax
from .references import References

CONSTANTS = "_constants"
_SMALL = 16
_FITTING = (torch.float32, torch.float64, torch.int64, torch.int32, torch.bool)


class Constants:
    """The constants of a package, each under a name of the module ``_constants``."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self.values: dict[str, Any] = {}

    def reference(self, content: Any, references: References) -> ast.expr:
        """A reference to a constant of the table, an object, or a generator."""
        if isinstance(content, GeneratorSeed):
            key: Any = id(content)
            value: Any = content
        else:
            value = content.value if isinstance(content, TableConstant) else content
            key = id(value)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"c{len(self._names)}"
            self.values[name] = value
        return references.imported(CONSTANTS, name)


def small_tensor(tensor: torch.Tensor, torch_module: ast.expr) -> ast.expr | None:
    """``torch.tensor([...])`` for a few plain numbers; None for other tensors."""
    is_plain = tensor.layout == torch.strided and tensor.dtype in _FITTING
    if not is_plain or tensor.numel() > _SMALL or tensor.requires_grad or tensor.is_meta:
        return None
    if tensor.numel() == 0 or not tensor.is_contiguous():
        return None
    dtype = syntax.attribute(torch_module, str(tensor.dtype).removeprefix("torch."))
    made = syntax.attribute(torch_module, "tensor")
    try:
        return syntax.call(made, [syntax.literal(tensor.tolist())], {"dtype": dtype})
    except TypeError as error:
        raise UnsupportedError(f"a constant tensor has no literal: {error}") from error
