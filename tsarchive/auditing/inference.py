"""Which classes of the archive an expression may be an object of, and which names it may mean.

Containers count as what they hold, branches are all taken, and assignments hold everywhere in
their function: the answer may be too wide, and is empty where nothing is known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tsarchive.auditing.program import Program, names_in_type
from tsarchive.formats.torchscript.needs import live_nodes
from tsarchive.formats.torchscript.program_text import FunctionText, dotted
from tsarchive.ir.names import NATIVE_PREFIX

Names = frozenset[str]
_NONE: Final[Names] = frozenset()
# Rounds until the classes of local names stay as they are; code of torch takes two or three.
_MOST_ROUNDS: Final = 12
_MOST_NAMES: Final = 64
# Beyond so many, a value may be of any class.
_MOST_CLASSES: Final = 128
_CASTS: Final = frozenset({"unchecked_cast", "annotate", "uninitialized"})


class Inference:
    """What is known of the expressions in one function.

    ``nodes`` are those that can run, in the order of the text. ``is_settled`` is False once there
    was too much to follow: then values may be of other classes than is said of them.
    """

    def __init__(self, program: Program, function: FunctionText) -> None:
        self.program = program
        self.function = function
        self.nodes = sorted(live_nodes(function.node), key=_position)
        self.assigned: dict[str, list[ast.expr]] = {}
        self._locals: dict[str, Names] = {}
        self._memo: dict[int, Names] = {}
        self._aliases: dict[str, Names] = {}
        self._read_assignments()
        self._read_parameters()
        self.is_settled = True
        self._settle()

    def classes(self, node: ast.expr) -> Names:
        """The classes that an expression may be an object of."""
        found = self._memo.get(id(node))
        if found is None:
            self._memo[id(node)] = _NONE  # trees have no cycles: this is for equal ids only
            found = self._memo[id(node)] = self._known(self._classes(node))
        return found

    def _known(self, classes: Names) -> Names:
        """Classes that are not too many to follow."""
        if len(classes) <= _MOST_CLASSES:
            return classes
        self.is_settled = False
        return _NONE

    def names(self, node: ast.expr) -> Names:
        """The dotted names that an expression may stand for, through local names for them."""
        match node:
            case ast.Name(name):
                return self._aliases.get(name, _NONE) | {name}
            case ast.Attribute(value, attribute) | ast.Call(
                ast.Name("getattr"), [value, ast.Constant(str() as attribute)]
            ):
                return frozenset(f"{name}.{attribute}" for name in self.names(value))
            case ast.BinOp(_, ast.Sub(), _):
                written = dotted(node)  # the name of a module may have a hyphen
                return frozenset((written,)) if written else _NONE
            case ast.IfExp(_, body, orelse):
                return self.names(body) | self.names(orelse)
        return _NONE

    def is_local(self, name: str) -> bool:
        """Whether the function has a variable of this name."""
        return name in self.assigned or name in self._locals

    def _read_assignments(self) -> None:
        for node in self.nodes:
            for target, value in _bindings(node):
                self._bind(target, value)
        self._read_aliases()

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(name), _:
                self.assigned.setdefault(name, []).append(value)
            case ((ast.Tuple(targets) | ast.List(targets)), ast.Tuple(values)) if len(
                targets
            ) == len(values):
                for inner, given in zip(targets, values, strict=True):
                    self._bind(inner, given)
            case ((ast.Tuple(targets) | ast.List(targets)), _):
                for inner in targets:
                    self._bind(inner, value)

    def _read_aliases(self) -> None:
        """Local names for namespaces and operators: ``t = torch``, ``f = torch.save``."""
        for _ in range(_MOST_ROUNDS):
            known = dict(self._aliases)
            for name, values in self.assigned.items():
                meant = _NONE.union(*map(self.names, values))
                self._aliases[name] = frozenset(sorted(meant)[:_MOST_NAMES])
            if known == self._aliases:
                return

    def _read_parameters(self) -> None:
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef):
                self._add_local(node.name, _NONE)
                for parameter in node.args.args:
                    self._add_local(parameter.arg, self._of_type(parameter.annotation))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                self._add_local(node.target.id, self._of_type(node.annotation))
        first = next(iter(self.function.parameters), None)
        if self.function.owner and first is not None and not self._locals.get(first):
            self._add_local(first, frozenset((self.function.owner,)))

    def _add_local(self, name: str, classes: Names) -> None:
        self._locals[name] = self._known(self._locals.get(name, _NONE) | classes)

    def _settle(self) -> None:
        """Follow assignments until nothing new is learned, or it takes too long."""
        for _ in range(_MOST_ROUNDS):
            self._memo.clear()
            changed = False
            for name, values in self.assigned.items():
                known = self._locals.get(name, _NONE)
                found = self._known(known.union(*map(self.classes, values)))
                changed |= found != known
                self._locals[name] = found
            if not changed:
                return
        self.is_settled = False

    def _classes(self, node: ast.expr) -> Names:
        match node:
            case ast.Name(name):
                return self._locals.get(name, _NONE)
            case ast.Attribute(value, attribute) | ast.Call(
                ast.Name("getattr"), [value, ast.Constant(str() as attribute)]
            ):
                return self._of_slot(self.classes(value), attribute)
            case ast.Call(ast.Name(name), [type_, *_]) if name in _CASTS:
                return self._of_type(type_) | self._of_all(node.args[1:])
            case ast.Call():
                return self._of_call(node)
        return self._of_all(n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))

    def _of_all(self, nodes: Iterator[ast.expr] | list[ast.expr]) -> Names:
        return _NONE.union(*map(self.classes, nodes))

    def _of_type(self, annotation: ast.expr | None) -> Names:
        known = self.program.classes_in_types
        if id(annotation) not in known:
            known[id(annotation)] = frozenset(filter(self._is_class, names_in_type(annotation)))
        return self._known(known[id(annotation)])

    def _is_class(self, name: str) -> bool:
        return name in self.program.classes or name.startswith(NATIVE_PREFIX)

    def _of_slot(self, owners: Names, attribute: str) -> Names:
        known = (self.program.classes.get(owner) for owner in owners)
        slots = (class_.slots.get(attribute) for class_ in known if class_ is not None)
        return _NONE.union(*map(self._of_type, slots))

    def _of_call(self, call: ast.Call) -> Names:
        """The class that is made, what functions give back, or what is passed on."""
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        for name in self.names(call.func):
            made = name.removesuffix(".__new__")
            if self._is_class(made):
                return frozenset((made,)) | self._of_all(arguments)
        functions = self.callees(call.func)
        if functions:
            return _NONE.union(*(self._of_type(f.node.returns) for f in functions))
        receiver = [call.func.value] if isinstance(call.func, ast.Attribute) else [call.func]
        return self._of_all([*receiver, *arguments])

    def callees(self, node: ast.expr) -> list[FunctionText]:
        """The functions and methods of the archive that an expression certainly stands for; none
        where they are too many to follow."""
        found = [self.program.functions[n] for n in self.names(node) if n in self.program.functions]
        match node:
            case ast.Attribute(value, method) | ast.Call(
                ast.Name("getattr"), [value, ast.Constant(str() as method)]
            ):
                for class_ in self.classes(value):
                    found += self.program.implementations(class_, method)[: _MOST_CLASSES + 1]
        if len(found) > _MOST_CLASSES:
            self.is_settled = False
            return []
        return found


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement assigns to what; a loop assigns what it goes over."""
    match node:
        case ast.Assign(targets, value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target, _, ast.expr() as value) | ast.AugAssign(target, _, value):
            yield target, value
        case ast.For(target, iterated):
            yield target, iterated
        case ast.withitem(entered, ast.expr() as target):
            yield target, entered
        case ast.NamedExpr(target, value):
            yield target, value
