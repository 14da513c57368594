"""Python functions that stand for operators take their arguments as the operators do.

torch ships stubs of its functions and methods; their parameters are held against the schemas.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from tests.support.archives import TORCH
from tsarchive.decompiler.operators import METHOD, callee, is_told_apart
from tsarchive.ir.graph import Block
from tsarchive.ir.types import INT, STRING, TENSOR, ListType
from tsarchive.run.operators import find_native, operator_schemas

STUBS = Path(torch.__file__).parent / "_C"
# Positional arguments that are keywords in Python; calls give them by name.
LATER_BY_NAME = {"memory_format"}
UNLIKE_NAMES = {"from": "from_", "src": "other", "requires_grad": "mode", "self": "input"}


def signatures(nodes) -> dict[str, list[list[str]]]:
    """The parameters of every overload of each function, those by position first."""
    found: dict[str, list[list[str]]] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            given = node.args
            names = [argument.arg for argument in (*given.posonlyargs, *given.args)]
            variable = [given.vararg.arg] if given.vararg else []
            later = [argument.arg for argument in given.kwonlyargs]
            found.setdefault(node.name, []).append([*names, *variable, *later])
    return found


@pytest.fixture(scope="module")
def stubs():
    functions = ast.parse((STUBS / "_VariableFunctions.pyi").read_text())
    classes = ast.parse((STUBS / "__init__.pyi").read_text())
    (tensor,) = (node for node in classes.body if getattr(node, "name", "") == "TensorBase")
    return {"function": signatures(functions.body), METHOD: signatures(tensor.body)}


def python_forms():
    """Every schema that is called as a function of torch or a method of tensors."""
    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    for name in sorted(name for name in names if name.startswith("aten::")):
        for schema in operator_schemas(name):
            if find_native(schema) is not None:
                continue  # called as a helper of the package, if at all
            by_position = [argument for argument in schema.arguments if not argument.kwarg_only]
            found = callee(schema, len(by_position))
            match found:
                case str():
                    yield schema, METHOD
                case ast.Attribute(ast.Name(key)) if key == "torch@torch:":
                    yield schema, "function"


def fits(names: list[str], wanted: list[str]) -> bool:
    return all(
        name == other or UNLIKE_NAMES.get(other) == name
        for name, other in zip(names, wanted, strict=False)
    ) and len(names) >= len(wanted)


@pytest.mark.skipif(TORCH < (2, 8), reason="stubs of torch 2.7 and older name some otherwise")
def test_arguments_stand_in_the_order_of_the_schema(stubs):
    misfits, checked = [], 0
    for schema, kind in python_forms():
        wanted = [
            argument.name
            for argument in schema.arguments
            if not argument.kwarg_only and argument.name not in LATER_BY_NAME
        ]
        overloads = stubs[kind].get(schema.name.partition("::")[2], [])
        checked += 1
        if not any(
            fits(names, wanted) or fits(names, ["input", *wanted[1:]]) for names in overloads
        ):
            misfits.append(schema.full_name)
    assert misfits == []
    assert checked > 1000


@pytest.mark.parametrize(
    ("operator", "given", "is_told"),
    [
        ("aten::add.Tensor", [TENSOR, TENSOR], True),
        ("aten::add.Scalar", [TENSOR, INT], False),  # a number may be a tensor
        ("aten::add.t", [ListType(INT), ListType(INT)], True),
        ("aten::add.int", [INT, INT], False),
        ("aten::einsum", [STRING, ListType(TENSOR)], True),
    ],
)
def test_overloads_are_told_apart_by_what_cannot_be_another(operator, given, is_told):
    name = operator.partition(".")[0]
    schema = next(each for each in operator_schemas(name) if each.full_name == operator)
    block = Block()
    values = [block.add_param(type_) for type_ in given]
    assert is_told_apart(schema, values, {}) == is_told
