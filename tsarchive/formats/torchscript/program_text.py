"""The code of an archive as untyped syntax trees with byte positions.

Operators need not be registered, and torch is not imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tsarchive.frontend.syntax import parse_statements

# Bytes that are not UTF-8, and carriage returns, which are not line ends here: each is replaced for
# the parser by one valid byte.
_UNPARSABLE = re.compile("[\udc80-\udcff\r]")
# A hyphenated file name has at most this many parts.
_MOST_PARTS = 32
Span = tuple[int, int]


def record_of(module: str) -> str:
    """Return ``code/__torch__/a/b.py`` for ``__torch__.a.b``."""
    return f"code/{module.replace('.', '/')}.py"


def dotted(node: ast.expr | None) -> str:
    """Return ``a.b.c`` for names with attributes, else empty.

    Names of modules need not be identifiers: ``__torch__.my-model.Net`` is a name, too.
    """
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and len(parts) < _MOST_PARTS:
        parts.append(_dotted(node.right))
        node = node.left
    parts.append(_dotted(node))
    if len(parts) > 1 and not (all(parts) and parts[-1].startswith("__torch__.")):
        return ""
    return "-".join(reversed(parts))


def _dotted(node: ast.expr | None) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


@dataclass(eq=False)
class FunctionText:
    """A function or method. ``owner`` is the qualified name of its class, or empty."""

    record: RecordText
    node: ast.FunctionDef
    qualified_name: str
    owner: str

    @cached_property
    def parameters(self) -> list[str]:
        return [parameter.arg for parameter in self.node.args.args]

    @cached_property
    def calls(self) -> list[ast.Call]:
        return [node for node in ast.walk(self.node) if isinstance(node, ast.Call)]

    @cached_property
    def assigned(self) -> Mapping[str, list[ast.expr]]:
        """The values assigned to each local name; for an element of a result, the result."""
        found: dict[str, list[ast.expr]] = {}
        for target, value in self.assignments():
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)
        return found

    def assignments(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        """Yield each assignment target with its value; tuples on both sides are unpacked."""
        for node in ast.walk(self.node):
            match node:
                case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(
                    values
                ):
                    yield from zip(targets, values, strict=True)
                case ast.Assign([ast.Tuple(targets)], value):
                    yield from ((target, value) for target in targets)
                case ast.Assign([target], value) | ast.AnnAssign(target, _, ast.expr() as value):
                    yield target, value

    def default(self, name: str) -> ast.expr | None:
        """Return the default of a parameter."""
        given = self.node.args
        missing: list[ast.expr | None] = [None] * (len(given.args) - len(given.defaults))
        defaults = dict(zip(self.parameters, [*missing, *given.defaults], strict=True))
        return defaults.get(name)

    def annotation(self, name: str) -> str:
        """Return the annotation of a parameter if it is a name."""
        found = (p.annotation for p in self.node.args.args if p.arg == name)
        return dotted(next(found, None))


@dataclass(eq=False)
class RecordText:
    """A code record, parsed on first use, which may raise SourceError."""

    name: str
    data: bytes = field(repr=False)

    @property
    def module(self) -> str:
        """Return ``__torch__.a.b`` for ``code/__torch__/a/b.py``."""
        return self.name.removeprefix("code/").removesuffix(".py").replace("/", ".")

    @cached_property
    def tree(self) -> list[ast.stmt]:
        text = self.data.decode("utf-8", "surrogateescape")
        return parse_statements(_UNPARSABLE.sub(" ", text), self.name, 1)

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        """The classes and functions by name."""
        kinds = ast.ClassDef | ast.FunctionDef
        return {node.name: node for node in self.tree if isinstance(node, kinds)}

    @cached_property
    def functions(self) -> list[FunctionText]:
        found = []
        for node in self.tree:
            name = f"{self.module}.{getattr(node, 'name', '')}"
            if isinstance(node, ast.FunctionDef):
                found.append(FunctionText(self, node, name, ""))
            elif isinstance(node, ast.ClassDef):
                methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
                found += [FunctionText(self, m, f"{name}.{m.name}", name) for m in methods]
        return found

    @cached_property
    def _lines(self) -> list[int]:
        """The start of each line."""
        return [0, *(match.end() for match in re.finditer(rb"\n", self.data))]

    def span(self, first: ast.expr | ast.keyword, last: ast.expr | None = None) -> Span:
        """Return the bytes from the start of one expression to the end of another, or its own."""
        end = last or first
        assert end.end_lineno is not None
        assert end.end_col_offset is not None
        return (
            self._lines[first.lineno - 1] + first.col_offset,
            self._lines[end.end_lineno - 1] + end.end_col_offset,
        )


class ProgramText:
    """All code records of an archive, with name resolution."""

    def __init__(self, data: Mapping[str, bytes]) -> None:
        self.records = {name: RecordText(name, content) for name, content in data.items()}
        self._attributes: dict[str, dict[str, str]] = {}

    def definition(self, qualified_name: str) -> ast.stmt | None:
        """Return the class or function of this name."""
        module, _, name = qualified_name.rpartition(".")
        record = self.records.get(record_of(module))
        return None if record is None else record.definitions.get(name)

    def function(self, qualified_name: str) -> FunctionText | None:
        """Return the function or method of this name."""
        owner = qualified_name.rpartition(".")[0]
        for module in (owner, owner.rpartition(".")[0]):
            record = self.records.get(record_of(module))
            for found in record.functions if record is not None else ():
                if found.qualified_name == qualified_name:
                    return found
        return None

    def functions_mentioning(self, text: str) -> Iterator[FunctionText]:
        """Yield the functions of records that contain this text."""
        wanted = text.encode()
        for record in self.records.values():
            if wanted in record.data:
                yield from record.functions

    def class_of(self, function: FunctionText, node: ast.expr, seen: set[str] | None = None) -> str:
        """Return the qualified name of an expression's class, empty if unknown.

        ``seen`` are names that have been or are being examined.
        """
        seen = set() if seen is None else seen
        match node:
            case ast.Name(name) if name not in seen:
                seen.add(name)
                values = function.assigned.get(name, [])
                found = (self.class_of(function, value, seen) for value in values)
                return function.annotation(name) or next(filter(None, found), "")
            case ast.Attribute(value, name) | ast.Call(
                ast.Name("getattr"), [value, ast.Constant(str() as name)]
            ):
                return self._class_of_attribute(self.class_of(function, value, seen), name)
            case ast.Call(ast.Name("unchecked_cast" | "annotate"), [type_, _]):
                return dotted(type_)
            case ast.Call(ast.Attribute(made, "__new__")):
                return dotted(made)
        return ""

    def callee(self, function: FunctionText, call: ast.Call) -> str:
        """Return the qualified name of the archive's function or method that is called."""
        match call.func:
            case ast.Name(name):
                values = function.assigned.get(name, [])
                return dotted(values[0]) if len(values) == 1 else ""
            case ast.Attribute(value, name):
                written = dotted(call.func)
                if written.startswith(("__torch__.", "torch.", "ops.")):
                    return written
                owner = self.class_of(function, value)
                return f"{owner}.{name}" if owner else ""
        return ""

    def _class_of_attribute(self, owner: str, name: str) -> str:
        if owner not in self._attributes:
            self._attributes[owner] = dict(self._declared(owner))
        return self._attributes[owner].get(name, "")

    def _declared(self, owner: str) -> Iterator[tuple[str, str]]:
        """Yield the attributes of a class whose annotation is a name."""
        class_ = self.definition(owner)
        for line in class_.body if isinstance(class_, ast.ClassDef) else ():
            match line:
                case ast.AnnAssign(ast.Name(attribute), annotation):
                    yield attribute, dotted(annotation)
                case ast.Assign([ast.Subscript(_, ast.Constant(str() as attribute))], value):
                    yield attribute, dotted(value)
