"""The modules of a package: definitions in the order in which they need each other, as text."""

from __future__ import annotations

import ast
import builtins
import copy
import re
import warnings
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tsarchive.errors import UnsupportedError

from . import syntax
from .comments import Comment, is_marker, marker_name, with_comments
from .line_breaks import wrapped
from .naming import Pool
from .references import HELPERS, Reference, References, helper_name


@contextmanager
def _old_names_of_ast() -> Iterator[None]:
    """Let astor ask `ast` for the classes that Python 3.12 deprecates."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "ast\\.", DeprecationWarning)
        yield


with _old_names_of_ast():
    import astor


_EXTERNAL = ("torch", "typing", "enum", "math", "collections")


@dataclass(eq=False, slots=True)
class Definition:
    """A class or function of the package.

    ``body`` holds keys of references in the place of names of globals, ``variables`` are the
    names that its functions use themselves, ``types`` those of slots that the body does not say.
    """

    number: int
    name: str
    path: tuple[str, ...]
    qualified_name: str = ""
    body: list[ast.stmt] = field(default_factory=list)
    variables: set[str] = field(default_factory=set)
    types: list[str] = field(default_factory=list)

    def rename(self, name: str) -> None:
        self.name = name
        for statement in self.body:
            if isinstance(statement, ast.ClassDef | ast.FunctionDef):
                statement.name = name


@dataclass(slots=True)
class Module:
    """One Python file of the package, ``a/b.py`` for the path ("a", "b")."""

    path: tuple[str, ...]
    definitions: list[Definition] = field(default_factory=list)
    names: Pool = field(default_factory=lambda: Pool(fold=False))

    @property
    def file(self) -> str:
        return "/".join(self.path) + ".py"

    def move(self, path: tuple[str, ...]) -> None:
        self.path = path
        for definition in self.definitions:
            definition.path = path


def settle_paths(
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
        module.move((*folder, pools[folder].unique(name)))


class Layout:
    """Lays out modules."""

    def __init__(
        self, modules: Sequence[Module], references: References, comments: Sequence[Comment]
    ) -> None:
        self._modules = {module.path: module for module in modules}
        self._references = references
        self._comments = comments
        self.used: set[Reference] = set()
        self._needs = {path: self._needed(module) for path, module in self._modules.items()}

    def text(self, module: Module) -> str:
        """The source of a module."""
        used = list(_references_in(module.definitions, self._references))
        self.used.update(used)
        names = _names_of(used, module)
        body: list[ast.stmt] = []
        for definition in module.definitions:
            # Modules may share expressions, and each names things in its own way.
            body += copy.deepcopy(definition.body)
        for statement in body:
            _Naming(names).visit(statement)
        early, late = self._imports(module, names)
        source = written([*early, *body, *late])
        return with_comments(source, self._comments)

    def _needed(self, module: Module) -> set[tuple[str, ...]]:
        found = {
            reference.definition.path
            for reference in _references_in(module.definitions, self._references)
            if reference.definition is not None
        }
        return found - {module.path}

    def _reaches(self, start: tuple[str, ...], goal: tuple[str, ...]) -> bool:
        seen, pending = set(), [start]
        while pending:
            path = pending.pop()
            if path == goal:
                return True
            if path not in seen:
                seen.add(path)
                pending += self._needs.get(path, ())
        return False

    def _imports(
        self, module: Module, names: Mapping[Reference, str]
    ) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Imports for the top, and those that must wait because the modules need each other."""
        early: list[ast.stmt] = [_from("__future__", 0, [("annotations", None)])]
        late: list[ast.stmt] = []
        modules: list[tuple[str, str]] = []
        froms: dict[tuple[int, str], list[tuple[str, str | None]]] = {}
        for reference, name in names.items():
            if reference.definition is not None:
                self._own(module, reference, name, froms, late)
            elif not reference.name:
                modules.append((reference.home, name))
            elif reference.home:
                _add(froms, module, reference, name)
            elif name != reference.name:
                froms.setdefault((0, "builtins"), []).append((reference.name, name))
        early += [_import(home, name) for home, name in sorted(modules)]
        outside = sorted(key for key in froms if key[0] == 0)
        inside = sorted(key for key in froms if key[0])
        early += [_from(home, level, sorted(froms[level, home])) for level, home in outside]
        early += [_from(home, level, sorted(froms[level, home])) for level, home in inside]
        return early, late

    def _own(
        self,
        module: Module,
        reference: Reference,
        name: str,
        froms: dict[tuple[int, str], list[tuple[str, str | None]]],
        late: list[ast.stmt],
    ) -> None:
        path = reference.definition.path
        if path == module.path:
            if name != reference.wanted_name:
                late.append(syntax.assign([name], syntax.name(reference.wanted_name)))
            return
        shown = (reference.wanted_name, name if name != reference.wanted_name else None)
        level, home = len(module.path), ".".join(path)
        if self._reaches(path, module.path):
            late.append(_from(home, level, [shown]))
        else:
            froms.setdefault((level, home), []).append(shown)


def _add(
    froms: dict[tuple[int, str], list[tuple[str, str | None]]],
    module: Module,
    reference: Reference,
    name: str,
) -> None:
    own = helper_name(reference.name) if reference.home == HELPERS else reference.name
    is_external = reference.home.partition(".")[0] in _EXTERNAL
    key = (0 if is_external else len(module.path), reference.home)
    froms.setdefault(key, []).append((own, name if name != own else None))


def _import(home: str, name: str) -> ast.stmt:
    return ast.Import([ast.alias(home, name if name != home else None)])


def _from(home: str, level: int, names: Iterable[tuple[str, str | None]]) -> ast.stmt:
    return ast.ImportFrom(home, [ast.alias(name, shown) for name, shown in names], level)


def _references_in(
    definitions: Iterable[Definition], references: References
) -> Iterable[Reference]:
    """The references in the trees of the definitions, each once, in order."""
    found: dict[Reference, None] = {}
    for definition in definitions:
        for statement in definition.body:
            for node in ast.walk(statement):
                known = references.by_key(node.id) if isinstance(node, ast.Name) else None
                if known is not None:
                    found.setdefault(known)
    return found


def _names_of(used: Iterable[Reference], module: Module) -> dict[Reference, str]:
    """A name for everything a module refers to that no variable of it has."""
    variables = set().union(*(definition.variables for definition in module.definitions))
    taken = variables | {definition.name for definition in module.definitions}
    names: dict[Reference, str] = {}
    for reference in used:
        is_own = reference.definition is not None and reference.definition.path == module.path
        if is_own and reference.wanted_name not in variables:
            names[reference] = reference.wanted_name
        else:
            names[reference] = _free(reference, taken)
            taken.add(names[reference])
    return names


def _free(reference: Reference, taken: set[str]) -> str:
    name, number = reference.wanted_name, 1
    is_builtin = not reference.home and reference.definition is None
    while name in taken or (not is_builtin and name in _BUILTINS):
        name = f"{reference.wanted_name}_{number}"
        number += 1
    return name


_BUILTINS = frozenset(dir(builtins))


class _Naming(ast.NodeVisitor):
    """Puts names in the place of the keys of references."""

    def __init__(self, names: Mapping[Reference, str]) -> None:
        self._names = {reference.key: name for reference, name in names.items()}

    def visit_Name(self, node: ast.Name) -> None:
        if is_marker(node):
            node.id = marker_name(node)
        node.id = self._names.get(node.id, node.id)


def written(body: list[ast.stmt]) -> str:
    """The text of statements.

    Raises UnsupportedError where Python refuses it, such as for nesting deeper than it allows.
    """
    try:
        return _checked_text(body)
    except (SyntaxError, RecursionError) as error:
        raise UnsupportedError(f"a module has code that Python refuses: {error}") from error


def _checked_text(body: list[ast.stmt]) -> str:
    tree = ast.fix_missing_locations(ast.Module(body, []))
    plain = ast.unparse(tree)
    wanted = ast.dump(ast.parse(plain))
    text = next(text for text in _texts(tree, plain) if _reads_as(text, wanted))
    compile(text, "module", "exec", dont_inherit=True)
    return text


def _reads_as(text: str, wanted: str) -> bool:
    try:
        return ast.dump(ast.parse(text)) == wanted
    except SyntaxError:
        return False


def _texts(tree: ast.Module, plain: str) -> Iterator[str]:
    """The texts of a module, the best laid out first and the plain one of Python last."""
    try:
        with _old_names_of_ast():
            text: str = astor.to_source(
                tree, pretty_source="".join, source_generator_class=_Generator
            )
    except AttributeError:  # astor does not know the syntax, or asks `ast` for what Python dropped.
        pass
    else:
        yield from (_tidied(text), text)
    yield plain


_ARROW = re.compile(r"^( *def .*\)) ->(?=\S)")
_HEAD = "from __future__ import annotations"


def _tidied(text: str) -> str:
    lines = [_ARROW.sub(r"\1 -> ", line.rstrip()) for line in text.split("\n")]
    lines = [line.replace("(lambda : ", "(lambda: ") for line in lines]
    lines = [f"{line}\n" if line == _HEAD else wrapped(line) for line in lines]
    return "\n".join(lines)


class _Generator(astor.SourceGenerator):  # type: ignore[misc]  # astor has no types
    def visit_Constant(self, node: ast.Constant) -> None:
        # astor would join all that is written so far for each string.
        if isinstance(node.value, str):
            self.write(_string(node.value))
        else:
            super().visit_Constant(node)


def _string(text: str) -> str:
    """In double quotes, where none have to be escaped for it."""
    shown = repr(text)
    if shown[0] == "'" and '"' not in shown:
        return f'"{shown[1:-1]}"'
    return shown
