"""The operators that a package brings along, cut from the native modules of the runner.

A package needs a few functions of them, and what these refer to. Statements of the native modules
are the unit: a copy of each module runs, statement by statement, which tells the operators that one
enters into the table; the names in it tell what else it needs. All that is needed becomes one file.
"""

from __future__ import annotations
import __future__

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from tsarchive.ir.graph import closure
from tsarchive.run import natives

from . import syntax
from .naming import numbered
from .syntax import helper_name

_FOLDER = Path(natives.__file__).parent
_PACKAGE = "tsarchive.run.natives"
_TABLES = {"upgrader": ("upgraders", "UPGRADERS"), "builtin": ("tensors", "BUILTINS")}
_NOT_COPIED = ("__init__", "all_natives")
_ERRORS = '''
class ScriptError(RuntimeError):
    """A fault of the running program; ``exception`` names the class that was raised."""

    def __init__(self, message: str, exception: str = "RuntimeError") -> None:
        super().__init__(message)
        self.exception = exception
        self.limit: int | None = None
        self.hint: str | None = None


class ArchiveError(RuntimeError):
    """A defect of the table of operators."""


class UnsupportedError(ArchiveError):
    """A call that has no form here."""
'''
_HEAD = '''"""Operators of TorchScript that Python and torch do not have."""

from __future__ import annotations
'''


class _Global(NamedTuple):
    """A name of a native module."""

    module: str
    name: str


class _Piece(NamedTuple):
    """A statement or an expression of a native module."""

    module: str
    tree: ast.AST

    def needs(self) -> list[_Global]:
        """Return the names of native modules that the piece refers to."""
        own = {one.name for one in self.binds()}
        names = (_Global(self.module, name) for name in sorted(syntax.names_in(self.tree) - own))
        return [home for home in map(_natives().home, names) if home in _natives().bound]

    def binds(self) -> list[_Global]:
        """Return the names that the piece gives something to."""
        return [_Global(self.module, name) for name in _bound_by(self.tree)]

    def written(self, names: Mapping[_Global, str]) -> ast.AST:
        """Return the tree with ``names`` in the place of those of native modules."""
        made: ast.AST = _Renamed(self.module, names).visit(copy.deepcopy(self.tree))
        if isinstance(made, ast.FunctionDef | ast.ClassDef):
            made.name = names[_Global(self.module, made.name)]
        return made


@dataclass(slots=True)
class _Natives:
    """The native modules: pieces that bind names, in order, and pieces that enter operators.

    ``imported`` tells where names of native modules are from that others of them import, ``plain``
    the operators that are functions by a name.
    """

    bound: dict[_Global, list[_Piece]] = field(default_factory=dict)
    entered: dict[str, _Piece] = field(default_factory=dict)
    imported: dict[_Global, _Global] = field(default_factory=dict)
    plain: dict[str, _Global] = field(default_factory=dict)
    order: dict[_Piece, int] = field(default_factory=dict)
    _values: dict[str, dict[str, Any]] = field(default_factory=dict)

    def home(self, name: _Global) -> _Global:
        return self.imported.get(name, name)

    def read(self, module: str, text: str) -> None:
        """Run a module, statement by statement; those that it imports were read before."""
        self._values[module] = {"__name__": _PACKAGE}
        for statement in ast.parse(text).body:
            if _imports_native(statement):
                self._import(module, statement)
            elif not isinstance(statement, ast.Expr) or isinstance(statement.value, ast.Call):
                self._add(module, statement)

    def _import(self, module: str, statement: ast.ImportFrom) -> None:
        source = str(statement.module).rpartition(".")[2]
        for alias in statement.names:
            self.imported[_Global(module, alias.name)] = _Global(source, alias.name)
            self._values[module][alias.name] = self._values[source][alias.name]

    def _add(self, module: str, statement: ast.stmt) -> None:
        self._run(module, statement)
        table = self._values.get("table", {}).get("NATIVES", {})
        for tree in _parts(statement):
            piece = _Piece(module, tree)
            self.order[piece] = len(self.order)
            for name in piece.binds():
                self.bound.setdefault(name, []).append(piece)
            for key in list(table)[len(self.entered) :]:
                self.entered[key] = piece
        if isinstance(statement, ast.FunctionDef):
            self._note_plain(module, statement)

    def _run(self, module: str, statement: ast.stmt) -> None:
        flags = __future__.annotations.compiler_flag
        code = compile(ast.Module([statement], []), module, "exec", flags, dont_inherit=True)
        exec(code, self._values[module])

    def _note_plain(self, module: str, function: ast.FunctionDef) -> None:
        """Take decorators that enter a function into the table off it."""
        for decorator in list(function.decorator_list):
            match decorator:
                case ast.Call(ast.Name("native"), keys) if all(map(_is_key, keys)):
                    function.decorator_list.remove(decorator)
                    name = _Global(module, function.name)
                    self.plain |= {ast.literal_eval(key): name for key in keys}


def _bound_by(tree: ast.AST) -> Iterator[str]:
    match tree:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import([alias]) | ast.ImportFrom(_, [alias]):
            yield alias.asname or alias.name
        case ast.Assign(targets):
            for target in targets:
                yield from sorted(syntax.names_in(target))
        case ast.AnnAssign(target):
            yield from syntax.names_in(target)
        case ast.For(target, _, body):
            yield from sorted(syntax.names_in(target))
            for statement in body:
                yield from _bound_by(statement)


def _imports_native(statement: ast.stmt) -> TypeGuard[ast.ImportFrom]:
    if not isinstance(statement, ast.ImportFrom):
        return False
    return statement.level > 0 or str(statement.module).startswith("tsarchive")


def _is_key(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Constant)


def _parts(statement: ast.stmt) -> list[ast.stmt]:
    """Return an import as one statement for each name; others as they are."""
    match statement:
        case ast.ImportFrom("__future__"):
            return []
        case ast.ImportFrom(module, aliases, level):
            return [ast.ImportFrom(module, [alias], level) for alias in aliases]
        case ast.Import(aliases):
            return [ast.Import([alias]) for alias in aliases]
    return [statement]


@cache
def _natives() -> _Natives:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in _FOLDER.glob("*.py")}
    texts = {"errors": _ERRORS} | {name: texts[name] for name in texts if name not in _NOT_COPIED}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    needs = {
        name: {str(one.module).rpartition(".")[2] for one in tree.body if _imports_native(one)}
        for name, tree in trees.items()
    }
    found = _Natives()
    for name in TopologicalSorter(needs).static_order():
        found.read(name, texts[name])
    return found


def runtime_module(keys: Iterable[str]) -> list[ast.stmt]:
    """Return the module of the operators ``keys``, each under its ``helper_name``.

    The key of what is no operator, such as a class, has the native module in its namespace:
    ``futures::Future``.
    """
    entered: list[_Piece] = []
    operators = {helper_name(key): _operator(key, entered) for key in sorted(set(keys))}
    needs = [name for piece in operators.values() for name in piece.needs()]
    roots = [*entered, *_binding(needs)]
    pieces = closure(roots, _leads_to)
    chosen = sorted(pieces, key=_place)
    names = _names(chosen, operators)
    body: list[ast.AST | None] = [piece.written(names) for piece in chosen]
    body += [_named(name, piece.written(names)) for name, piece in operators.items()]
    statements = [one for one in body if isinstance(one, ast.stmt)]
    return [*ast.parse(_HEAD).body, *{ast.dump(one): one for one in statements}.values()]


def _place(piece: _Piece) -> tuple[bool, int]:
    """Return what sorts the pieces of a file: imports stand first."""
    is_import = isinstance(piece.tree, ast.Import | ast.ImportFrom)
    return not is_import, _natives().order[piece]


@cache
def _leads_to(piece: _Piece) -> list[_Piece]:
    return _binding(piece.needs())


def _binding(names: Iterable[_Global]) -> list[_Piece]:
    return [piece for name in names for piece in _natives().bound[name]]


def _operator(key: str, entered: list[_Piece]) -> _Piece:
    """Return what is the operator: a function, an expression, or an item of a table.

    ``entered`` takes the statement that fills the table.
    """
    namespace, _, name = key.partition("::")
    if namespace in _TABLES:
        return _item(*_TABLES[namespace], name)
    if key in natives.BUILTINS:
        return _item(*_TABLES["builtin"], key)
    if _Global(namespace, name) in _natives().bound:
        return _Piece(namespace, syntax.name(name))
    if key in _natives().plain:
        return _Piece(_natives().plain[key].module, syntax.name(_natives().plain[key].name))
    piece = _natives().entered[key]
    match piece.tree:
        case ast.Expr(ast.Call(ast.Call(ast.Name("native")), [value])):
            return _Piece(piece.module, value)
    entered.append(piece)
    return _Piece("table", syntax.subscript(syntax.name("NATIVES"), syntax.literal(key)))


def _item(module: str, table: str, key: str) -> _Piece:
    """Return the value for a key that stands in the display of a table, else ``TABLE[key]``."""
    ((_, tree),) = _natives().bound[_Global(module, table)]
    assert isinstance(tree, ast.AnnAssign)
    assert isinstance(tree.value, ast.Dict)
    for known, value in zip(tree.value.keys, tree.value.values, strict=True):
        if isinstance(known, ast.Constant) and known.value == key:
            return _Piece(module, value)
    return _Piece(module, syntax.subscript(syntax.name(table), syntax.literal(key)))


def _named(name: str, operator: ast.AST) -> ast.stmt | None:
    """Return the statement that gives an operator its name, unless it has this name."""
    match operator:
        case ast.Lambda(arguments, result):
            made = syntax.function(name, [], [], [ast.Return(result)], None)
            made.args = arguments
            return made
        case ast.Name(own) if own == name:
            return None
    assert isinstance(operator, ast.expr)
    return syntax.assign([name], operator)


def _names(pieces: Iterable[_Piece], operators: Mapping[str, _Piece]) -> dict[_Global, str]:
    """Give the names of several modules one each in one module, besides those of operators."""
    meanings = {name: _meaning(piece) for name, piece in operators.items()}
    names: dict[_Global, str] = {}
    for one in (name for piece in pieces for name in piece.binds()):
        if one not in names:
            text = _meaning(_Piece(one.module, syntax.name(one.name)))
            free = (n for n in numbered(one.name) if meanings.setdefault(n, text) == text)
            names[one] = next(free)
    return names


def _meaning(piece: _Piece) -> str:
    """Return a text that is the same for what is the same, whatever module it stands in."""
    match piece.tree:
        case ast.Name(name):
            bound = _natives().bound.get(_natives().home(_Global(piece.module, name)), ())
            return "".join(ast.dump(one.tree) for one in bound) or name
    return f"{piece.module}: {ast.dump(piece.tree)}"


class _Renamed(ast.NodeTransformer):
    """Puts other names in the place of those of one native module."""

    def __init__(self, module: str, names: Mapping[_Global, str]) -> None:
        self._module = module
        self._names = names
        self._hidden: frozenset[str] = frozenset()

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self._hidden:
            key = _natives().home(_Global(self._module, node.id))
            node.id = self._names.get(key, node.id)
        return node

    def _visit_function(self, node: ast.FunctionDef | ast.Lambda) -> ast.AST:
        """Leave the names of arguments alone, which hide those of the module."""
        outer = self._hidden
        self._hidden |= {inner.arg for inner in ast.walk(node.args) if isinstance(inner, ast.arg)}
        self.generic_visit(node)
        self._hidden = outer
        return node

    visit_FunctionDef = visit_Lambda = _visit_function
