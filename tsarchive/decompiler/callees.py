"""The name by which Python calls an operator of torch: ``torch.relu``, a method, ``torch.ops``.

``torch.relu`` and the methods of tensors are made from the same schemas as the operators, as
long as no Python function stands in front of them.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Collection
from types import MethodDescriptorType

import torch
import torch.nn.functional

from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.types import TENSOR, ListType, OptionalType, Type
from tsarchive.operators.bindings import BOUND_BY_HAND, FUNCTIONALS, WITHOUT_ALPHA
from tsarchive.run.checks import MEMORY_FORMATS
from tsarchive.run.natives.dtypes import DTYPES, LAYOUTS

from . import syntax
from .references import References

METHOD = "method"
"""Stands for the method of the first argument."""

_functions = torch._C._VariableFunctions
_nn = torch._C._nn

_OPERANDS = 2
_GAPPY = ListType(OptionalType(TENSOR))
_TO_OVERLOADS = frozenset({"device", "dtype", "other"})


def callee(
    schema: FunctionSchema, count: int, references: References, keywords: Collection[str] = ()
) -> ast.expr | str | None:
    """The callee for an operator with the first ``count`` arguments by position.

    ``keywords`` are the names of those that are given by name.

    ``METHOD`` means the method of the first argument that has the operator's name, None that
    the operator is reached by its overload alone.
    """
    namespace, _, name = schema.name.partition("::")
    is_usual = _has_no_out(schema) and not _is_misread(schema, count)
    if namespace == "aten" and is_usual and _concerns_tensors(schema):
        if name in FUNCTIONALS and count <= FUNCTIONALS[name]:
            return syntax.attribute(_functional(references), name)
        if _is_function(name):
            return syntax.attribute(references.module("torch"), name)
        shared = getattr(_nn, name, None)
        if shared is not None and getattr(torch.nn.functional, name, None) is shared:
            return syntax.attribute(_functional(references), name)
        if name == "to":
            return METHOD if _is_to(schema, count, keywords) else None
        if _is_method(schema, name):
            return METHOD
    return None


def by_overload(schema: FunctionSchema, references: References) -> ast.expr:
    """``torch.ops.aten.relu.default``, which also takes numbers in the place of dtypes."""
    namespace, _, name = schema.name.partition("::")
    found: ast.expr = references.module("torch")
    for part in ("ops", namespace, name, schema.overload or "default"):
        if part.isidentifier() and not keyword.iskeyword(part):
            found = syntax.attribute(found, part)
        else:
            found = syntax.call(references.builtin("getattr"), [found, syntax.string(part)])
    return found


def _functional(references: References) -> ast.expr:
    return references.module("torch.nn.functional", "F")


def _has_no_out(schema: FunctionSchema) -> bool:
    return not any(argument.is_out for argument in schema.arguments)


def _concerns_tensors(schema: FunctionSchema) -> bool:
    """Functions of torch make tensors of numbers, where TorchScript has operators on numbers."""
    types = [argument.type for argument in (*schema.arguments, *schema.returns)]
    return any(map(_holds_tensor, types))


def _holds_tensor(type_: Type) -> bool:
    return type_ == TENSOR or any(map(_holds_tensor, type_.parts()))


def _is_function(name: str) -> bool:
    found = getattr(_functions, name, None)
    return found is not None and getattr(torch, name, None) is found


def _is_misread(schema: FunctionSchema, count: int) -> bool:
    """Whether torch's Python functions take these arguments for others, or not at all."""
    name = schema.name.partition("::")[2]
    if name in BOUND_BY_HAND or (schema.full_name in WITHOUT_ALPHA and count > _OPERANDS):
        return True
    return any(argument.type == _GAPPY for argument in schema.arguments)


def _is_to(schema: FunctionSchema, count: int, keywords: Collection[str]) -> bool:
    """Whether ``x.to`` of Python takes the arguments."""
    if schema.overload == "prim_Device":
        return count <= _OPERANDS
    if schema.overload == "dtype_layout":
        return bool(keywords) and not {"layout", "pin_memory"} & set(keywords)
    return schema.overload in _TO_OVERLOADS


def _is_method(schema: FunctionSchema, name: str) -> bool:
    if not schema.arguments or schema.arguments[0].type != TENSOR:
        return False
    if schema.arguments[0].name not in ("self", "input") or name.startswith("__"):
        return False
    bound = getattr(torch._C.TensorBase, name, None)
    return isinstance(bound, MethodDescriptorType) and name not in torch.Tensor.__dict__


def enum_literal(kind: str, number: int, references: References) -> ast.expr | None:
    """``torch.float32`` for the number of a ScalarType, likewise the others; None if unknown."""
    if kind == "ScalarType":
        shown = str(DTYPES.get(number, "")).removeprefix("torch.")
    elif kind == "Layout":
        layouts = {position: str(layout) for layout, position in LAYOUTS.items()}
        shown = layouts.get(number, "").removeprefix("torch.")
    else:
        shown = MEMORY_FORMATS.get(number, "")
    return syntax.attribute(references.module("torch"), shown) if shown else None
