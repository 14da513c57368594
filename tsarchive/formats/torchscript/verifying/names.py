"""Checks of the bare and the qualified names in code, before anything is compiled."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tsarchive.frontend.grammar import OF_PYTHON
from tsarchive.frontend.references import BUILTINS, Special
from tsarchive.frontend.syntax import dotted, live_nodes, nodes_in
from tsarchive.ir.types import SIMPLE_TYPES

ARCHIVE_CODE = "__torch__"
_TYPES = frozenset(
    {
        *SIMPLE_TYPES,
        "Await", "BoolTensor", "ByteTensor", "CharTensor", "Dict", "DoubleTensor", "Final",
        "FloatTensor", "Future", "HalfTensor", "IntTensor", "List", "LongTensor", "NoneType",
        "Optional", "RRef", "ShortTensor", "Tensor", "Tuple", "Union", "dict", "list", "tuple",
    }
)  # fmt: skip
_KNOWN = frozenset(
    {
        *BUILTINS, *_TYPES, *(special.value for special in Special),
        "AssertionError", "enumerate", "hasattr", "inf", "infj", "nan", "nanj", "range", "torch",
        "zip", ARCHIVE_CODE,
    }
)  # fmt: skip
_SIZED_TYPE = re.compile(r"_size_\d_t|BroadcastingList\d{1,2}")
# What Python knows by a bare name and TorchScript does not: names to get out with.
_PYTHON_FUNCTIONS = frozenset(
    {
        "__builtins__", "__import__", "breakpoint", "compile", "delattr", "eval", "exec",
        "globals", "help", "input", "locals", "memoryview", "object", "open", "setattr", "super",
        "type", "vars",
    }
)  # fmt: skip


class Mention(NamedTuple):
    """A name that code mentions and that stands for nothing known, on ``line`` of its record."""

    name: str
    line: int

    @property
    def is_pythons(self) -> bool:
        """Whether it is one that code would leave TorchScript with."""
        return self.name in _PYTHON_FUNCTIONS or self.name in OF_PYTHON


def mentions(
    body: list[ast.stmt], is_defined: Callable[[str], bool], constants: int | None
) -> Iterator[Mention]:
    """Yield the names in functions that no definition, operator or type has.

    ``is_defined`` tells for a qualified name whether code records define it, or a class that it
    is inside of; ``constants`` is the length of the table of constants, None where that is
    not known.
    """
    for function in _functions(body):
        yield from _mentions_in(function, is_defined, constants)


def _functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body)


def _mentions_in(
    function: ast.FunctionDef, is_defined: Callable[[str], bool], constants: int | None
) -> Iterator[Mention]:
    known_names = _KNOWN.union(_local_names(function))
    known: set[int] = set()
    for node in live_nodes(function):
        if isinstance(node, ast.Call) and (name := _name_of_getattr(node)) in OF_PYTHON:
            yield Mention(name, node.lineno)
        if id(node) in known or not isinstance(node, ast.Attribute | ast.BinOp | ast.Name):
            continue
        name = dotted(node)
        if isinstance(node, ast.Name):
            is_known = name in known_names or _SIZED_TYPE.fullmatch(name) is not None
        elif name.startswith(f"{ARCHIVE_CODE}."):
            # The parts of the name are nodes of their own.
            known.update(map(id, nodes_in(node)))
            is_known = is_defined(name)
        else:
            is_known = not name.startswith("CONSTANTS.") or _is_constant(name, constants)
        if not is_known:
            yield Mention(name, node.lineno)


def _is_constant(name: str, constants: int | None) -> bool:
    number = name.split(".")[1].removeprefix("c")
    if not (number.isdecimal() and len(number) < 10):
        return False
    return constants is None or int(number) < constants


def _name_of_getattr(call: ast.Call) -> str:
    """Return the name in ``getattr(x, "name")``; an empty one for other calls."""
    match call:
        case ast.Call(ast.Name("getattr"), [_, ast.Constant(str() as name)]):
            return name
    return ""


def _local_names(function: ast.FunctionDef) -> Iterator[str]:
    """Yield what is assigned or defined in a function or around a function inside it."""
    for node in nodes_in(function):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef):
            yield node.name
