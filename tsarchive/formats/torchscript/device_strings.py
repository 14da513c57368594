"""Data flow of strings into ``torch.device(d)``.

Traced backwards through local names, parameters with their defaults and calls, attributes, and
elements of lists and tuples. Strings that are only compared with such a string are not traced.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from tsarchive.frontend.syntax import bounded
from tsarchive.ir.values import is_device

from .program_text import FunctionText, ProgramText, Span, dotted

# String composition in code; the device type is in the first argument.
_COMPOSING = frozenset({"torch.add", "torch.format", "torch.percentFormat", "torch.join"})
_FILLING = frozenset({"torch.append", "torch.insert", "torch._set_item", "torch.extend"})
_PURE = _COMPOSING | frozenset({"str", "int", "unchecked_cast", "annotate", "torch.len"})


@dataclass(frozen=True, slots=True)
class DeviceString:
    """A string expression in a record that names ``device`` for ``torch.device``."""

    record: str
    span: Span
    device: str


@dataclass(slots=True)
class DeviceStrings:
    """The strings found; ``attributes`` are (class, name) whose values name devices, too."""

    program: ProgramText
    strings: list[DeviceString] = field(default_factory=list)
    attributes: set[tuple[str, str]] = field(default_factory=set)
    _parameters: set[tuple[str, str]] = field(default_factory=set)
    _seen: set[ast.expr] = field(default_factory=set)
    _pending: list[tuple[FunctionText, ast.expr]] = field(default_factory=list)

    def follow(self, function: FunctionText, argument: ast.expr) -> None:
        """Trace the argument of a ``torch.device`` call in ``function`` to its origins."""
        self._pending.append((function, argument))
        while self._pending:
            where, node = self._pending.pop()
            if node not in self._seen:
                self._seen.add(node)
                with bounded(where.record.name):
                    self._visit(where, node)

    def _visit(self, function: FunctionText, node: ast.expr) -> None:
        match node:
            case ast.Constant(str() as text) if is_device(text):
                self._found(function, node, text)
            case ast.Name(name):
                self._name(function, name)
            case ast.Subscript(value):
                self._pending.append((function, value))
            case ast.List(elements) | ast.Tuple(elements) | ast.Dict(values=elements):
                self._pending += [(function, element) for element in elements]
            case ast.Attribute(value, name):
                self._attribute(self.program.class_of(function, value), name)
            case ast.Call(ast.Name("unchecked_cast" | "annotate"), [_, value]):
                self._pending.append((function, value))
            case ast.Call():
                device = self._leading_device(function, node, set())
                if device and _is_pure(node):
                    self._found(function, node, device)
                else:
                    self._result(self.program.callee(function, node))

    def _found(self, function: FunctionText, node: ast.expr, device: str) -> None:
        record = function.record
        self.strings.append(DeviceString(record.name, record.span(node), device))

    def _result(self, callee: str) -> None:
        """Trace what a function of the archive returns."""
        found = self.program.function(callee)
        if found is not None:
            returned = (node for node in ast.walk(found.node) if isinstance(node, ast.Return))
            self._pending += [(found, node.value) for node in returned if node.value]

    def _name(self, function: FunctionText, name: str) -> None:
        self._pending += [(function, value) for value in function.assigned.get(name, [])]
        self._pending += [(function, value) for value in _put_into(function, name)]
        if name in function.parameters and (function.qualified_name, name) not in self._parameters:
            self._parameters.add((function.qualified_name, name))
            self._parameter(function, name)

    def _parameter(self, function: FunctionText, name: str) -> None:
        """Trace a parameter to its default, and to the arguments of calls."""
        default = function.default(name)
        if default is not None:
            self._pending.append((function, default))
        # self is passed before the dot.
        position = function.parameters.index(name) - bool(function.owner)
        for caller in self.program.functions_mentioning(function.node.name):
            for call in caller.calls:
                if position < len(call.args) and (
                    self.program.callee(caller, call) == function.qualified_name
                ):
                    self._pending.append((caller, call.args[position]))

    def _attribute(self, owner: str, name: str) -> None:
        """Trace an attribute of a class to its values, and to assignments in code."""
        if not owner or (owner, name) in self.attributes:
            return
        self.attributes.add((owner, name))
        for function in self.program.functions_mentioning(f".{name} = "):
            for target, value in function.assignments():
                match target:
                    case ast.Attribute(base, attribute) if (
                        attribute == name and self.program.class_of(function, base) == owner
                    ):
                        self._pending.append((function, value))

    def _leading_device(self, function: FunctionText, node: ast.expr, seen: set[str]) -> str:
        """Return the device type at the start of a composed string, empty if unknown."""
        match node:
            case ast.Constant(str() as text):
                type_ = text.partition(":")[0]
                return type_ if is_device(type_) else ""
            case ast.Name(name) if name not in seen and name not in function.parameters:
                seen.add(name)
                values = function.assigned.get(name, [])
                found = (self._leading_device(function, value, seen) for value in values)
                return next(filter(None, found), "")
            case ast.Call(func, [ast.Constant("{}" | "{}:{}" | "%s:%d"), first, *_]) if (
                dotted(func) in _COMPOSING
            ):
                return self._leading_device(function, first, seen)
            case ast.Call(func, [first, *_]) if dotted(func) in _COMPOSING:
                return self._leading_device(function, first, seen)
        return ""


def _put_into(function: FunctionText, name: str) -> Iterator[ast.expr]:
    """Yield the items that the function adds to a list or dict."""
    for call in function.calls:
        match call.args:
            case [ast.Name(container), *_, value] if (
                container == name and dotted(call.func) in _FILLING
            ):
                yield value


def _is_pure(node: ast.expr) -> bool:
    """Return whether an expression can be dropped without losing side effects."""
    calls = (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))
    return all(dotted(call.func) in _PURE for call in calls)
