"""Packages bring the operators along that they need, and nothing of this library."""

from __future__ import annotations

import ast
import types

import pytest

from tests.natives.oracle import OF_EXECUTORCH
from tsarchive.decompiler.copied_natives import runtime_module
from tsarchive.decompiler.layout import written
from tsarchive.decompiler.syntax import helper_name
from tsarchive.run.natives import BUILTINS, NATIVES, UPGRADERS

# Those of ExecuTorch's programs are in the table once one is read; packages do not hold them.
KEYS = sorted(
    [key for key in (*NATIVES, *BUILTINS) if not OF_EXECUTORCH.match(key)]
    + [f"upgrader::{name}" for name in UPGRADERS]
)


def ran(keys: list[str]) -> types.SimpleNamespace:
    """The module of these operators as Python runs it, away from the library."""
    names = {"__name__": "builtins"}
    exec(compile(written(runtime_module(keys)), "_torchscript", "exec", dont_inherit=True), names)
    return types.SimpleNamespace(**names)


def test_one_module_can_have_all_operators():
    whole = ran(KEYS)
    assert all(callable(getattr(whole, helper_name(key))) for key in KEYS)


@pytest.mark.sample(20)
@pytest.mark.parametrize("key", KEYS)
def test_a_module_can_have_one_operator_alone(key):
    assert callable(getattr(ran([key]), helper_name(key)))


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        ("aten::mul.int", (1 << 40, 1 << 30), 0),
        ("aten::lower", ("ÄB",), "Äb"),
        ("aten::sum.int", ([1, 2, 3],), 6),
        ("aten::sorted.int", ([3, 1, 2],), [1, 2, 3]),
        ("aten::format", ("{} {}", 1.5, True), "1.5 True"),
        ("prim::min.self_float", ([2.0, 1.0],), 1.0),
    ],
)
def test_operators_mean_what_they_mean_here(key, given, expected):
    assert getattr(ran([key]), helper_name(key))(*given) == NATIVES[key](*given) == expected


def test_what_is_no_operator_has_the_name_of_its_module():
    assert ran(["futures::Future"]).Future(lambda: 3).wait() == 3


def test_a_module_has_nothing_that_its_operators_do_not_need():
    tree = ast.parse(written(runtime_module(["aten::sum.int"])))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert "sum_int" in ast.unparse(tree)
    assert "format_value" not in names


def test_copied_modules_import_nothing_of_this_library():
    nodes = ast.walk(ast.parse(written(runtime_module(KEYS))))
    imports = [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    assert "typing" in imports
    assert [name for name in imports if name is None or name.startswith("tsarchive")] == []
