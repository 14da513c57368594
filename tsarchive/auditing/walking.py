"""What a function of the archive names: operators, and other functions that it leads to."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from tsarchive.auditing.inference import Inference
from tsarchive.auditing.program import Program
from tsarchive.formats.torchscript.program_text import FunctionText, dotted
from tsarchive.frontend.references import BUILTINS
from tsarchive.ir.names import NATIVE_PREFIX

# Functions with a bare name that are more than arithmetic.
_BARE: Final = {
    "print": "prim::Print",
    "fork": "prim::fork",
    "awaitable": "prim::awaitable",
    "rpc_sync": "prim::rpc_sync",
    "rpc_async": "prim::rpc_async",
    "rpc_remote": "prim::rpc_remote",
}
# The one method of a tensor that is no operator of the namespace aten.
_TO_LIST: Final = {"aten::tolist": "prim::tolist"}
_LIBRARIES: Final = frozenset({"torch", "ops"})
_FUNCTIONS: Final = frozenset(
    {
        *BUILTINS, *_BARE, "annotate", "enumerate", "getattr", "hasattr", "isinstance", "range",
        "tuple", "unchecked_cast", "uninitialized", "zip",
    }
)  # fmt: skip
_ROOTS: Final = frozenset({"torch", "ops", "__torch__"})
# What a class may give meaning to by a method whose name begins and ends like this.
_MAGIC: Final = "__"
_NOT_BY_SYNTAX: Final = frozenset({"__init__", "__setstate__", "__getstate__"})


@dataclass(frozen=True, slots=True)
class NamedOperator:
    """An operator where it is named: ``node`` is the call, or the name where it is not called."""

    operator: str
    node: ast.expr
    is_certain: bool

    @property
    def line(self) -> int:
        return self.node.lineno


@dataclass(frozen=True, slots=True)
class Walked:
    """``leads_to`` are qualified names of functions of the archive, ``unknown`` the names that
    are called and mean nothing, with their lines."""

    operators: tuple[NamedOperator, ...]
    leads_to: frozenset[str]
    unknown: tuple[tuple[str, int], ...]
    inference: Inference


def operator_of(name: str) -> str | None:
    """The operator that a dotted name means: ``torch.save`` or ``ops.aten.save``."""
    parts = [part for part in name.split(".") if part != "autograd"]
    match parts:
        case ["torch", operator]:
            return f"aten::{operator}"
        case ["ops", namespace, operator] | ["torch", "ops", namespace, operator]:
            return f"{namespace}::{operator}"
    return None


def walk_function(program: Program, function: FunctionText) -> Walked:
    """Read one function; each part of it is looked at a fixed number of times."""
    return _Walk(program, function).walked()


class _Walk:
    def __init__(self, program: Program, function: FunctionText) -> None:
        self.program = program
        self.inference = Inference(program, function)
        self.operators: list[NamedOperator] = []
        self.leads_to: set[str] = set()
        self.unknown: list[tuple[str, int]] = []
        self._led_by_name: set[str] = set()
        self._magic_of: set[str] = set()

    def walked(self) -> Walked:
        seen = set()
        for node in self.inference.nodes:
            if isinstance(node, ast.Call):
                seen.add(id(node.func))
                self._call(node)
            elif isinstance(node, ast.Attribute):
                seen.add(id(node.value))  # a part of a longer name
        for node in self.inference.nodes:
            if isinstance(node, ast.Attribute | ast.Name | ast.BinOp) and id(node) not in seen:
                self._mention(node)
            self._syntax(node)
            self._attribute(node)
        if not self.inference.is_settled:
            self._all_magic()
        operators = sorted(self.operators, key=lambda named: named.line)
        return Walked(
            tuple(operators), frozenset(self.leads_to), tuple(self.unknown), self.inference
        )

    def _call(self, call: ast.Call) -> None:
        match call.func:
            case ast.Name(name) if name in _BARE and name not in self.inference.assigned:
                self.operators.append(NamedOperator(_BARE[name], call, is_certain=True))
            case ast.Name("getattr") if len(call.args) == 2:
                self._mention(call)
        if not self._named(call.func, call):
            self._unknown(call)
        if isinstance(call.func, ast.Attribute):
            self._method(call.func, call)

    def _unknown(self, call: ast.Call) -> None:
        """A name that is no variable, no function of TorchScript, and not of the archive."""
        name = dotted(call.func)
        root = name.partition(".")[0]
        is_bare = name == root and name not in _FUNCTIONS
        if name and not self.inference.is_local(root) and (is_bare or root in _LIBRARIES):
            self.unknown.append((name, call.lineno))

    def _named(self, node: ast.expr, place: ast.expr) -> bool:
        """Note operators, functions and constructors; whether the expression is one."""
        is_known = False
        for name in self.inference.names(node):
            operator = operator_of(name)
            if operator is not None:
                self.operators.append(NamedOperator(operator, place, is_certain=True))
            class_ = name.removesuffix(".__new__")
            for function in (name, f"{class_}.__init__"):
                if function in self.program.functions:
                    self.leads_to.add(function)
            is_known |= operator is not None or name in self.program.functions
            is_known |= class_ in self.program.classes
        return is_known

    def _method(self, node: ast.Attribute, place: ast.expr) -> None:
        """A method of an object of the archive or, as it may be of another value, an operator."""
        root = dotted(node).partition(".")[0]
        if root in _ROOTS and not self.inference.is_local(root):
            return
        found = self.inference.callees(node)
        if found and self.inference.is_settled:
            self.leads_to |= {function.qualified_name for function in found}
            return
        if self.inference.is_settled and is_native(self.inference.classes(node.value)):
            return  # methods of classes bound from C++ are theirs
        same_name = self._lead_by_name(node.attr)
        operator = f"aten::{node.attr}"
        operator = _TO_LIST.get(operator, operator)
        self.operators.append(NamedOperator(operator, place, is_certain=not same_name))

    def _lead_by_name(self, name: str) -> bool:
        """Every function of this name may be meant; whether there is any."""
        same_name = self.program.by_last_name.get(name, ())
        if name not in self._led_by_name:
            self._led_by_name.add(name)
            self.leads_to |= {function.qualified_name for function in same_name}
        return bool(same_name)

    def _mention(self, node: ast.expr) -> None:
        """A function or operator that is passed on rather than called."""
        self._named(node, node)
        if isinstance(node, ast.Attribute):
            self.leads_to |= {f.qualified_name for f in self.inference.callees(node)}
            if not self.inference.is_settled:
                self._lead_by_name(node.attr)

    def _attribute(self, node: ast.AST) -> None:
        """Attributes that only Python's own objects have, and those whose name is computed;
        written behind a dot, the parser refuses the former."""
        match node:
            case ast.Call(ast.Name("getattr"), [_, ast.Constant(str() as name), *_]):
                is_magic = name.startswith(_MAGIC) and name.endswith(_MAGIC)
                if is_magic and name not in self.program.by_last_name:
                    self.unknown.append((f"the attribute {name}", node.lineno))
            case ast.Call(ast.Name("getattr")):
                self.unknown.append(("getattr with a computed name", node.lineno))

    def _syntax(self, node: ast.AST) -> None:
        """Operators of Python's syntax, which classes may define by methods."""
        for operand in _operands(node):
            for class_ in self.inference.classes(operand):
                self._magic(class_)

    def _all_magic(self) -> None:
        for class_ in self.program.classes:
            self._magic(class_)

    def _magic(self, class_: str) -> None:
        if class_ in self._magic_of:
            return
        self._magic_of.add(class_)
        found = self.program.classes.get(class_)
        for name, method in found.methods.items() if found is not None else ():
            if name.startswith(_MAGIC) and name not in _NOT_BY_SYNTAX:
                self.leads_to.add(method.qualified_name)


def is_native(classes: Collection[str]) -> bool:
    """Whether a value is known to be of classes bound from C++ alone."""
    return bool(classes) and all(name.startswith(NATIVE_PREFIX) for name in classes)


def _operands(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left, _, right):
            yield from (left, right)
        case ast.UnaryOp(_, operand) | ast.Subscript(operand, _) | ast.withitem(operand, _):
            yield operand
        case ast.Compare(left, _, others):
            yield from (left, *others)
        case ast.AugAssign(target, _, value):
            yield from (target, value)
        case ast.For(_, iterated):
            yield iterated
        case ast.Call(ast.Name(), arguments):
            yield from arguments
