"""The text of the modules of a package: imports, definitions, comments.

Comments lead back to the lines of the original program. A syntax tree has no comments: a marker
statement stands for one until the text is written.
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Final, NamedTuple

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import Function
from tsarchive.ir.graph import Node, closure, walk
from tsarchive.ir.source_ranges import Location, Range, Source, byte_length

from . import syntax
from .comments import repeats
from .naming import ROOT, Pool, numbered
from .syntax import Reference, reference_of

_BUILTINS_HOME = (0, "builtins")


@dataclass(eq=False, slots=True)
class Definition:
    """A class or function of the package.

    ``body`` holds keys of references in the place of names of globals, ``types`` the types of slots
    that the body does not say. ``line`` is where the original begins in its file, 0 where no record
    tells.
    """

    number: int
    name: str
    path: tuple[str, ...]
    qualified_name: str = ""
    body: list[ast.stmt] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    line: int = 0

    @property
    def origin(self) -> str:
        """The name in the program that was scripted or traced, as docstrings show it.

        Empty where no module is known, and so nothing that ``name`` does not tell.
        """
        name = self.qualified_name.removeprefix(f"{ROOT}.")
        return f"``{name}``" if "." in name else ""

    def rename(self, name: str) -> None:
        self.name = name
        for statement in self.body:
            if isinstance(statement, ast.ClassDef | ast.FunctionDef):
                statement.name = name


@dataclass(slots=True)
class Module:
    """One Python file of the package, ``a/b.py`` for the path ("a", "b").

    ``about`` is its docstring.
    """

    path: tuple[str, ...]
    about: str
    definitions: list[Definition] = field(default_factory=list)
    names: Pool = field(default_factory=lambda: Pool(fold=False))


def make_paths_unique(
    modules: Iterable[Module], reserved: Iterable[str], shadowing: Container[str] = ()
) -> None:
    """Give modules and folders of one folder unique names, also where case is ignored.

    Those of the package's own folder avoid the names in ``shadowing``: whoever stands in there
    imports by such a name what they expect.
    """
    pools: dict[tuple[str, ...], Pool] = {(): Pool(reserved)}
    folders: dict[tuple[str, ...], tuple[str, ...]] = {(): ()}
    for module in modules:
        first, *others = module.path
        *parents, name = (f"{first}_" if first in shadowing else first, *others)
        original: tuple[str, ...] = ()
        for part in parents:
            folder, original = folders[original], (*original, part)
            if original not in folders:
                folders[original] = (*folder, pools[folder].unique(part))
                pools[folders[original]] = Pool()
        folder = folders[original]
        module.path = (*folder, pools[folder].unique(name))
        for definition in module.definitions:
            definition.path = module.path


class Layout:
    """Lays out modules."""

    def __init__(self, modules: Sequence[Module], comments: Sequence[Comment]) -> None:
        self._comments = comments
        for module in modules:
            module.definitions = _in_order(module.definitions)
        self._used = {m.path: list(_references_in(m.definitions)) for m in modules}
        self.used = frozenset(chain(*self._used.values()))
        needs = {
            path: {one.definition.path for one in used if one.definition is not None}
            for path, used in self._used.items()
        }
        self._reached = {path: closure([path], lambda p: needs.get(p, ())) for path in needs}

    def text(self, module: Module) -> str:
        """Return the source of a module."""
        names = _Names(self._used[module.path], module)
        body: list[ast.stmt] = []
        for definition in module.definitions:
            # Modules may share expressions, and each names things in its own way.
            body += copy.deepcopy(definition.body)
        names.put(body)
        early, late = self._imports(module, names)
        if self._looks_ahead(module, names):
            early.insert(0, _from("__future__", 0, [("annotations", None)]))
        source = written([syntax.docstring(module.about), *early, *body, *late])
        return with_comments(source, self._comments)

    def _imports(self, module: Module, names: _Names) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Return imports for the top, and those that wait because modules need each other."""
        early: list[ast.stmt] = []
        late: list[ast.stmt] = []
        modules: list[tuple[str, str]] = []
        froms: dict[tuple[int, str], list[tuple[str, str | None]]] = {}
        for reference, name in names.given():
            own, definition = reference.wanted_name, reference.definition
            key, shown = _home(module, reference), (own, name if name != own else None)
            if definition is None and not reference.name:
                modules.append((reference.home, name))
            elif definition is None or definition.path != module.path:
                if definition is not None and self._is_late(module, definition):
                    late.append(_from(key[1], key[0], [shown]))
                elif name != own or key != _BUILTINS_HOME:
                    froms.setdefault(key, []).append(shown)
            elif name != own:
                late.append(syntax.assign([name], syntax.name(own)))
        for home, name in sorted(modules):
            parent, _, last = home.rpartition(".")
            if parent and name == last:
                early.append(_from(parent, 0, [(name, None)]))
            else:
                early.append(ast.Import([ast.alias(home, name if name != home else None)]))
        for level, home in sorted(froms):
            names_of_home = sorted(froms[level, home], key=lambda pair: (pair[0], pair[1] or ""))
            early.append(_from(home, level, names_of_home))
        return early, late

    def _is_late(self, module: Module, definition: Definition) -> bool:
        """Return whether the module of a definition imports this one, which so has to wait."""
        reached = self._reached.get(definition.path, ())
        return definition.path != module.path and module.path in reached

    def _looks_ahead(self, module: Module, names: _Names) -> bool:
        """Return whether an annotation names what is not there yet when the module runs to it.

        Otherwise annotations are what they say, not strings: TorchScript takes no others.
        """
        present: set[Definition] = set()
        for owner in module.definitions:
            for reference in _references_of(chain.from_iterable(map(_annotations, owner.body))):
                named = reference.definition
                if named is None:
                    continue
                is_there = named in present or named.path != module.path
                has_alias = named.path == module.path and names.has_alias(reference)
                if not is_there or has_alias or self._is_late(module, named):
                    return True
            present.add(owner)
        return False


def _in_order(definitions: Iterable[Definition]) -> list[Definition]:
    """Return definitions by their lines, each behind those that it needs when the module runs."""
    by_line = sorted(definitions, key=lambda one: one.line)
    position = {one: number for number, one in enumerate(by_line)}
    needed = {
        one: [r.definition for r in _references_of(chain.from_iterable(map(_at_once, one.body)))]
        for one in by_line
    }
    found: dict[Definition, None] = {}

    def place(one: Definition, around: tuple[Definition, ...]) -> None:
        others = {other for other in needed[one] if other in position} - {one, *around}
        for other in sorted(others, key=lambda other: position[other]):
            place(other, (*around, one))
        found.setdefault(one)

    for one in by_line:
        place(one, ())
    return list(found)


def _at_once(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the expressions of a definition that run with the module: not bodies of functions."""
    for name, value in ast.iter_fields(tree):
        if isinstance(tree, ast.FunctionDef) and name == "body":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.stmt):
                yield from _at_once(child)
            elif isinstance(child, ast.AST):
                yield child


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations that run with the module."""
    for node in ast.walk(tree):
        found: list[ast.expr | None] = []
        match node:
            case ast.FunctionDef():
                found = [node.returns, *(argument.annotation for argument in node.args.args)]
            case ast.ClassDef(body=body):
                found = [one.annotation for one in body if isinstance(one, ast.AnnAssign)]
        yield from (one for one in found if one is not None)


def _home(module: Module, reference: Reference) -> tuple[int, str]:
    """Return the level and the name of the module that ``module`` imports a reference from.

    Those that the package brings along begin with an underscore.
    """
    if reference.definition is not None:
        return len(module.path), ".".join(reference.definition.path)
    home = reference.home or "builtins"
    return len(module.path) if home.startswith("_") else 0, home


def _from(home: str, level: int, names: Iterable[tuple[str, str | None]]) -> ast.stmt:
    return ast.ImportFrom(home, [ast.alias(name, shown) for name, shown in names], level)


def _references_in(definitions: Iterable[Definition]) -> Iterable[Reference]:
    """Return the references in the trees of the definitions, each once, in order."""
    return _references_of(chain.from_iterable(definition.body for definition in definitions))


def _references_of(trees: Iterable[ast.AST]) -> Iterable[Reference]:
    nodes = chain.from_iterable(map(ast.walk, trees))
    known = map(reference_of, nodes)
    return dict.fromkeys(reference for reference in known if reference is not None)


class _Names:
    """The names that a module has for what it refers to.

    A variable of a function, or a member of a class, hides what has its name: there alone this has
    another one.
    """

    def __init__(self, used: Iterable[Reference], module: Module) -> None:
        self._known: dict[Reference, str] = {}
        self._aliases: dict[Reference, str] = {}
        statements = [one for definition in module.definitions for one in definition.body]
        self._taken = {*_members(statements)}
        hiding: dict[Reference, set[frozenset[str]]] = {}
        for node, hidden in chain.from_iterable(map(_in_scopes, statements)):
            reference = reference_of(node)
            if reference is not None:
                hiding.setdefault(reference, set()).add(hidden)
        every = {name for all_hidden in hiding.values() for one in all_hidden for name in one}
        for reference in used:
            name = self._known[reference] = self._free(reference, module)
            if any(name in hidden for hidden in hiding[reference]):
                alias = next(n for n in numbered(name) if n not in self._taken | every | _BUILTINS)
                self._aliases[reference] = alias
                self._taken.add(alias)
        self._visible = {
            reference
            for reference, all_hidden in hiding.items()
            if any(self._known[reference] not in hidden for hidden in all_hidden)
        }

    def _free(self, reference: Reference, module: Module) -> str:
        wanted, definition = reference.wanted_name, reference.definition
        if definition is not None and definition.path == module.path:
            return wanted
        is_builtin = not reference.home and definition is None
        unfit = self._taken if is_builtin else self._taken | _BUILTINS
        found = next(name for name in numbered(wanted) if name not in unfit)
        self._taken.add(found)
        return found

    def given(self) -> Iterator[tuple[Reference, str]]:
        """Yield what is referred to, with each name that it has."""
        for reference, name in self._known.items():
            if reference in self._visible:
                yield reference, name
            if reference in self._aliases:
                yield reference, self._aliases[reference]

    def has_alias(self, reference: Reference) -> bool:
        return reference in self._aliases

    def put(self, body: Iterable[ast.stmt]) -> None:
        """Put names in the place of keys of references, and numbers behind those of comments."""
        for node, hidden in chain.from_iterable(map(_in_scopes, body)):
            reference = reference_of(node)
            if isinstance(node, ast.Name) and is_marker(node):
                node.id = f"{_MARKER}{getattr(node, _NUMBER)}"
            elif isinstance(node, ast.Name) and reference is not None:
                name = self._known[reference]
                node.id = self._aliases[reference] if name in hidden else name


_BUILTINS = frozenset(dir(builtins))


def _in_scopes(
    node: ast.AST, hidden: frozenset[str] = frozenset(), outer: frozenset[str] = frozenset()
) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Yield the nodes of a tree, each with the names of globals that mean something else there.

    Functions see what the functions around them hide, ``outer``, and not what classes do.
    """
    yield node, hidden
    inner = outer | _bound(node) if isinstance(node, _SCOPES) else hidden
    function = inner if isinstance(node, ast.FunctionDef) else outer
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                is_inside = name == "body"
                yield from _in_scopes(child, inner if is_inside else hidden, function)


def _bound(scope: ast.FunctionDef | ast.ClassDef) -> frozenset[str]:
    """Return the names that a function or class gives to things of its own."""
    if isinstance(scope, ast.ClassDef):
        return _members(scope.body)
    parts = chain.from_iterable(map(ast.walk, ast.iter_child_nodes(scope)))
    return frozenset(filter(None, map(_named, parts)))


def _members(body: Iterable[ast.stmt]) -> frozenset[str]:
    """Return the names that statements of a class or a module give, and not functions in it."""
    parts = ([one] if isinstance(one, _SCOPES) else ast.walk(one) for one in body)
    return frozenset(filter(None, map(_named, chain.from_iterable(parts))))


_SCOPES = (ast.FunctionDef, ast.ClassDef)


def _named(node: ast.AST) -> str | None:
    """Return the name that a node gives to something; None where it gives none."""
    match node:
        case ast.Name(name, ast.Store() | ast.Del()) | ast.arg(name):
            return name
        case ast.FunctionDef(name) | ast.ClassDef(name) | ast.ExceptHandler(_, name):
            return name
        case ast.alias(name, shown):
            return shown or name
    return None


def written(body: list[ast.stmt]) -> str:
    """Return the text of statements.

    Raises UnsupportedError where Python refuses it, such as for nesting deeper than it allows.
    """
    try:
        text = ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))
        compile(text, "module", "exec", dont_inherit=True)
        return _without_brackets(text)
    except (SyntaxError, RecursionError) as error:
        raise UnsupportedError(f"a module has code that Python refuses: {error}") from error


def _without_brackets(text: str) -> str:
    """Return the text with tuples as people return and assign them: ``return a, b``."""
    lines = text.encode().split(b"\n")
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Return(ast.Tuple([_, _, *_]) as value) | ast.Assign(
                _, ast.Tuple([_, _, *_]) as value
            ) if value.lineno == value.end_lineno:
                line, end = lines[value.lineno - 1], value.end_col_offset or 0
                inner = line[value.col_offset + 1 : end - 1]
                if line[value.col_offset : end] == b"(" + inner + b")":
                    lines[value.lineno - 1] = line[: value.col_offset] + inner + line[end:]
    return b"\n".join(lines).decode()


_MARKER = "comment_number_"
_MARKED = re.compile(rf"( *){_MARKER}([0-9]+)")
_NUMBER = "comment_number"
_WIDTH: Final = 88
_BEFORE_COMMENT = r"""(?:[^#"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*"""
_SEPARATORS = re.compile(r"[/\\]")


class Comments:
    """Makes a comment for each line of a function's original. ``full_paths`` keeps folders."""

    def __init__(self, *, full_paths: bool = False) -> None:
        self.all: list[Comment] = []
        self._full_paths = full_paths
        self._told: set[Comment] = set()
        self._source: Source | None = None
        self._is_of_torch = False

    def before(self, node: Node) -> ast.stmt | None:
        """Return the marker for the line that ``node`` comes from; None where it stands already."""
        location = self._location(node)
        if location is None or not location.filename:
            return None
        where = self._place(location.filename, location.line)
        comment = Comment(where, _without_comment(_printable(location.text)))
        if comment in self._told:
            return None
        self._told.add(comment)
        return self._marker(comment)

    def ignored(self, error: str) -> ast.stmt:
        """Return the marker that has mypy ignore an error of the line that follows."""
        return self._marker(Comment("", f"type: ignore[{error}]"))

    def _marker(self, comment: Comment) -> ast.stmt:
        self.all.append(comment)
        marker = ast.Name(_MARKER, ast.Load())
        setattr(marker, _NUMBER, len(self.all) - 1)
        return ast.Expr(marker)

    def origin(self, function: Function) -> str | None:
        """Return ``file:line`` of the ``def`` of a function; None where the archive has no file."""
        source, line = _source_of(function), self.line(function)
        if source is None or not source.filename or line is None:
            return None
        return self._place(source.filename, line)

    def line(self, function: Function) -> int | None:
        """Return the line of the ``def`` of a function in its file; None where there is no file."""
        source = _source_of(function)
        if source is None or not source.filename:
            return None
        lines = source.text.split("\n")
        starts = (index for index, line in enumerate(lines) if line.lstrip().startswith("def "))
        first = next(starts, None)
        return None if first is None else source.first_line + first

    def _place(self, filename: str, line: int) -> str:
        path = filename if self._full_paths else _SEPARATORS.split(filename)[-1]
        return f"{_printable(path)}:{line}"

    @contextmanager
    def of(self, function: Function) -> Iterator[None]:
        """Make comments for another function inside; it may be met within one."""
        outer = self._told, self._source, self._is_of_torch
        self._told = set()
        self._source = _source_of(function)
        self._is_of_torch = function.qualified_name.startswith(f"{ROOT}.torch.")
        yield
        self._told, self._source, self._is_of_torch = outer

    def _location(self, node: Node) -> Location | None:
        """Return the line of the function for a node: not that of a builtin which it calls, nor,
        of a trace, of torch's own code."""
        found = node.range
        if found is None or (_is_builtin(found.source) and not _is_builtin(self._source)):
            return None
        return found.location if self._is_of_torch else _outside_of_torch(found)


_BUILTINS_FILE = "<string>"
_INSTALLED_TORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]")


def _source_of(function: Function) -> Source | None:
    """Return the source of a function: the first of its nodes' that torch has from a file."""
    ranges = (node.range for node in walk(function.graph.nodes) if node.range is not None)
    sources = list(dict.fromkeys(found.source for found in ranges))
    return next((one for one in sources if not _is_builtin(one)), next(iter(sources), None))


def _is_builtin(source: Source | None) -> bool:
    """Return whether a source may be that of torch's builtins, which are compiled from strings."""
    return source is not None and source.filename == _BUILTINS_FILE


def _outside_of_torch(found: Range) -> Location | None:
    """Return the innermost frame of a recorded stack that is not torch's, or the place itself."""
    innermost = found.location
    if innermost is None or innermost.text:
        return innermost
    *lines, _ = found.source.text.rstrip("\n").split("\n")
    starts = accumulate((byte_length(line) + 1 for line in lines), initial=0)
    frames = (found._replace(begin=start).location for start in starts)
    others = (one for one in frames if one and not _INSTALLED_TORCH.search(one.filename))
    return next(others, innermost)


class Comment(NamedTuple):
    """A line of the original program: ``file:line``, and its text.

    One without a place is for tools, and stands at the end of the line that follows.
    """

    where: str
    text: str

    def __str__(self) -> str:
        return f"# {self.where}: {self.text}" if self.text else f"# {self.where}"


def _without_comment(line: str) -> str:
    """Return a line without the comment at its end, which would mean something to linters here."""
    found = re.match(_BEFORE_COMMENT, line)
    return (found[0] if found else line).rstrip(": ")


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def is_marker(node: ast.expr) -> bool:
    return hasattr(node, _NUMBER)


def without_markers(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that are no comments."""
    return [one for one in body if not (isinstance(one, ast.Expr) and is_marker(one.value))]


def with_comments(text: str, comments: Sequence[Comment]) -> str:
    """Return the text with comments in the place of their markers, but where code says the same."""
    lines = text.split("\n")
    found: list[str] = []
    for number, line in enumerate(lines):
        match = _MARKED.fullmatch(line)
        if match is None:
            found.append(line)
            continue
        comment = comments[int(match[2])]
        if not comment.where:
            following = next(i for i in range(number + 1, len(lines)) if lines[i])
            lines[following] += f"  # {comment.text}"
        elif not repeats(comment.text, lines[number + 1 :]):
            shown = f"{match[1]}{comment}"
            found.append(shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 3]}...")
    return "\n".join(found)
