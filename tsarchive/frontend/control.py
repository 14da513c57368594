"""Statements with blocks: if, loops, with, and nested functions; and whole function bodies."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import MAX_TRIP_COUNT, Block, Node
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.subtyping import unify
from tsarchive.ir.types import BOOL, INT, NUMBER, OptionalType, Type, UnionType

from .conditions import Condition, Conditions
from .environment import Frame, Scope, shown
from .folding import fold
from .references import (
    Closure,
    FunctionReference,
    MethodReference,
    Reference,
    Special,
    Typed,
    typed,
)
from .statements import PLAIN_STATEMENTS, Statements, has_meaning


class FunctionCompiler(Conditions, Statements):
    """Compiles the body of one function into a graph."""

    def compile(
        self,
        node: ast.FunctionDef,
        arguments: Sequence[Argument],
        version: int | None,
        declared: Type | None,
    ) -> Block:
        """The graph of a function; ``declared`` is its return type, None when not annotated."""
        self.enter(Frame(version))
        for argument in arguments:
            param = self.frame.body.add_param(argument.type, argument.name)
            self.scope.bind(argument.name, typed(param))
        self._function_body(node.body, declared)
        return self._finished()

    def _finished(self) -> Block:
        self.frame.tidy()
        fold(self.frame, self.importer.evaluate)
        return self.frame.finish()

    def constant_of(self, node: ast.expr, type_: Type) -> Any:
        """The value of a constant expression: a class constant or the default of a parameter."""
        self.enter(Frame(None))
        self.statement = node
        given = self.value(node, type_)
        converted = self.convert(given, type_)
        if converted is None:
            raise self.error(node, f"expected {shown(type_)}, but found {shown(given.type)}")
        return self._folded(converted.value.node, node)

    def _folded(self, made: Node, node: ast.AST) -> Any:
        if made.is_constant:
            return made.attributes["value"]
        parts = [self._folded(value.node, node) for value in made.inputs]
        match made.kind:
            case "prim::ListConstruct":
                return parts
            case "prim::TupleConstruct":
                return tuple(parts)
            case "prim::DictConstruct":
                return dict(zip(parts[::2], parts[1::2], strict=True))
        raise self.error(node, "this is not a constant")

    def _function_body(self, body: Sequence[ast.stmt], declared: Type | None) -> None:
        last = body[-1]
        is_return = isinstance(last, ast.Return)
        self.block(body[:-1] if is_return else body)
        self.statement = self.position = last
        if isinstance(last, ast.Return) and last.value is not None:
            given = self.value(last.value, declared)
        else:
            given = self.none()
        self.frame.body.add_return(self._returned(given, declared, last).value)

    def _returned(self, given: Typed, declared: Type | None, node: ast.AST) -> Typed:
        if declared is None:
            return given
        converted = self.convert(given, declared)
        if converted is None:
            message = f"{shown(given.type)} is returned where {shown(declared)} is declared"
            raise self.error(node, message)
        return converted

    def inside(self, block: Block, statements: Callable[[], None], outer: Scope) -> Scope:
        """Run ``statements`` with a new scope for ``block``, and give that scope."""
        saved = self.scope
        inner = self.scope = Scope(self.frame, block, outer)
        try:
            statements()
        finally:
            self.scope = saved
        return inner

    def _if(self, node: ast.If) -> None:
        condition = self.condition(node.test)
        if condition.known is not None:
            self._narrow(condition, condition.known, self.scope)
            self.block(node.body if condition.known else node.orelse)
            return
        made = self.append("prim::If", [condition.value.value])
        scopes = [
            self._branch(made, condition, taken, body)
            for taken, body in ((True, node.body), (False, node.orelse))
        ]
        for name in dict.fromkeys([*scopes[0].names, *scopes[1].names]):
            self._join(made, scopes, name, node)

    def _branch(
        self, made: Node, condition: Condition, taken: bool, body: Sequence[ast.stmt]
    ) -> Scope:
        def statements() -> None:
            self._narrow(condition, taken, head)
            self.block(body)

        head = Scope(self.frame, made.add_block(), self.scope)
        return self.inside(head.block, statements, head)

    def _narrow(self, condition: Condition, taken: bool, scope: Scope) -> None:
        """Give the variable of a condition its narrower type in ``scope``."""
        type_ = condition.when_true if taken else condition.when_false
        if condition.name is None or type_ is None:
            return
        given = scope.find(condition.name)
        if isinstance(given, Typed):
            made = self.append("prim::unchecked_cast", [given.value], type_)
            made.output.name = condition.name if has_meaning(condition.name) else None
            scope.bind(condition.name, typed(made.output))

    def _join(self, made: Node, scopes: Sequence[Scope], name: str, node: ast.If) -> None:
        """Make a name that the branches assign usable after the ``if``."""
        before = self.scope.find(name)
        found = [scope.find(name) for scope in scopes]
        first, second = found
        if not isinstance(first, Typed) or not isinstance(second, Typed):
            line = self.place(node).line
            self.scope.unusable[name] = f"{name!r} is not assigned on all paths of line {line}"
            return
        or_union = isinstance(before, Typed) and (
            isinstance(before.type, UnionType | OptionalType) or before.type == NUMBER
        )
        type_ = unify(first.type, second.type, or_union=or_union)
        if type_ is None:
            self._disagree(name, first.type, second.type, node, is_error=before is not None)
            return
        output = made.add_output(type_, name if has_meaning(name) else None)
        for block, reference in zip(made.blocks, (first, second), strict=True):
            block.add_return(reference.value)
        self.scope.bind(name, typed(output))

    def _disagree(
        self, name: str, first: Type, second: Type, node: ast.If, *, is_error: bool
    ) -> None:
        message = f"{name!r} is {shown(first)} in one branch and {shown(second)} in the other"
        if is_error:
            raise self.error(node, message)
        self.scope.unusable[name] = message

    def _for(self, node: ast.For) -> None:
        match node.iter, node.target:
            case ast.Call(ast.Name("range"), [count], []), ast.Name(counter):
                pass
            case _:
                self.refuse(node, "a loop other than `for i in range(n)`")
        if node.orelse:
            self.refuse(node, "a loop with else")
        bound = self.value(count)
        if bound.type != INT:
            raise self.error(node, f"the bound of range() must be an int, not {shown(bound.type)}")
        loop = _Loop(self, node, bound, self.constant(True, BOOL))
        loop.count(counter)
        loop.run(lambda: self.constant(True, BOOL))

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            self.refuse(node, "a loop with else")

        def condition() -> Typed:
            return self.as_condition(self.value(node.test), node.test)

        loop = _Loop(self, node, self.constant(MAX_TRIP_COUNT, INT), condition())
        loop.run(condition)
        if isinstance(node.test, ast.Name) and node.test.id in loop.params:
            self.frame.conditions.append((loop.node, loop.params[node.test.id]))

    def _with(self, node: ast.With) -> None:
        entered = []
        for item in node.items:
            given = self.value(item.context_expr)
            schema = self._enter_schema(given, node)
            made = self.append("prim::Enter", [given.value], schema.return_type)
            entered.append(given.value)
            if item.optional_vars is not None:
                since = len(self.scope.block.nodes) - 1
                self._store(item.optional_vars, typed(made.output), since)
        self.block(node.body)
        for value in reversed(entered):
            self.append("prim::Exit", [value])

    def _enter_schema(self, given: Typed, node: ast.AST) -> FunctionSchema:
        enter, leave = (
            self.method_schema(given.type, name) if isinstance(given.type, ClassType) else None
            for name in ("__enter__", "__exit__")
        )
        if enter is None or leave is None:
            raise self.error(node, f"{shown(given.type)} has no __enter__ and __exit__ methods")
        return enter

    def _closure(self, node: ast.FunctionDef) -> None:
        """``def __forked_function():`` — the body of a fork or awaitable."""
        arguments = node.args
        if node.decorator_list or ast.unparse(arguments):
            self.refuse(node, "a nested function with decorators or parameters")
        declared = None if node.returns is None else self.type_of(node.returns)
        self.bind(node.name, self.closure(node.body, declared), node)

    def closure(self, body: Sequence[ast.stmt], declared: Type | None) -> Closure:
        saved = self.frame, self.scope
        # Closures are compiled like functions, whatever the version of the method around them.
        self.frame = Frame(self.importer.dialect.free_version)
        self.scope = Scope(self.frame, self.frame.body, saved[1])
        try:
            self._function_body(body, declared)
            return Closure(self._finished(), list(self.frame.captured))
        finally:
            self.frame, self.scope = saved

    def forked(self, node: ast.Call, form: Special) -> Closure:
        """``fork(self.f, x)`` is the fork of a closure that calls ``self.f(x)``."""
        if not isinstance(self.expression(node.args[0]), FunctionReference | MethodReference):
            return super().forked(node, form)
        given: list[ast.expr] = []
        for index, argument in enumerate(node.args[1:]):
            # A name that no code can have.
            name = f"argument {index}"
            self.scope.bind(name, self.value(argument))
            given.append(ast.Name(name, ast.Load()))
        call = ast.copy_location(ast.Call(node.args[0], given, []), node)
        return self.closure([ast.copy_location(ast.Return(call), node)], None)

    def _choice(self, node: ast.IfExp, hint: Type | None) -> Reference:
        """``a if c else b``."""
        condition = self.condition(node.test)
        if condition.known is not None:
            return self.expression(node.body if condition.known else node.orelse, hint)
        branches = [lambda: self.value(node.body, hint), lambda: self.value(node.orelse, hint)]
        return self._either(condition, branches, node)

    def _either(
        self, condition: Condition, branches: Sequence[Callable[[], Typed]], node: ast.AST
    ) -> Typed:
        made = self.append("prim::If", [condition.value.value])
        found: list[Typed] = []
        for taken, branch in zip((True, False), branches, strict=True):

            def statements(taken: bool = taken, branch: Callable[[], Typed] = branch) -> None:
                self._narrow(condition, taken, self.scope)
                found.append(branch())

            block = made.add_block()
            self.inside(block, statements, self.scope)
            block.add_return(found[-1].value)
        type_ = unify(found[0].type, found[1].type)
        if type_ is None:
            types = " and ".join(shown(given.type) for given in found)
            raise self.error(node, f"the two sides have no common type: {types}")
        return typed(made.add_output(type_))

    def _logic(self, node: ast.BoolOp, hint: Type | None) -> Reference:
        """``a and b``, ``a or b``: the second side runs only if the first does not decide."""
        first, *rest = node.values
        is_or = isinstance(node.op, ast.Or)
        remaining = (
            rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(node.op, rest), node)
        )
        condition = self.condition(first)
        branches: list[Callable[[], Typed]] = [
            lambda: self.condition(remaining).value,
            lambda: self.constant(is_or, BOOL),
        ]
        return self._either(condition, branches[::-1] if is_or else branches, node)


class _Loop:
    """A loop under construction."""

    def __init__(
        self, compiler: FunctionCompiler, node: ast.For | ast.While, bound: Typed, first: Typed
    ) -> None:
        self.compiler = compiler
        self.source = node
        names = assigned_names([node])
        # What the body assigns and what was there before is carried from turn to turn.
        self.initial = {
            name: found
            for name in sorted(names)
            if isinstance(found := compiler.scope.find(name), Typed)
        }
        self.node = compiler.append("prim::Loop", [bound.value, first.value])
        self.body = self.node.add_block()
        self.counter = self.body.add_param(INT)
        self.target: str | None = None
        self.head = Scope(compiler.frame, self.body, compiler.scope)
        self.params = {}
        for name, found in self.initial.items():
            param = self.body.add_param(found.type, name if has_meaning(name) else None)
            self.params[name] = param
            self.head.bind(name, typed(param))

    def count(self, name: str) -> None:
        """The counter is assigned to a variable at the start of each turn."""
        self.target = name
        if has_meaning(name):
            self.counter.name = name

    def run(self, condition: Callable[[], Typed]) -> None:
        results: list[Typed] = []

        def statements() -> None:
            if self.target is not None:
                self.compiler.bind(self.target, typed(self.counter), self.source)
            self.compiler.block(self.source.body)
            results.append(condition())

        inner = self.compiler.inside(self.body, statements, self.head)
        self.body.add_return(results[0].value)
        assigned = [name for name in inner.names if name in self.params]
        order = dict.fromkeys([*assigned, *self.params])
        self.body.params[1:] = [self.params[name] for name in order]
        for name in order:
            self._carry(name, inner)

    def _carry(self, name: str, inner: Scope) -> None:
        initial = self.initial[name]
        final = inner.find(name)
        assert isinstance(final, Typed)
        self.node.add_input(initial.value)
        self.body.add_return(final.value)
        output = self.node.add_output(initial.type, name if has_meaning(name) else None)
        self.compiler.scope.bind(name, typed(output))


def assigned_names(statements: Iterable[ast.stmt]) -> set[str]:
    """Every name that the statements assign, at any depth but in nested functions."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        else:
            for field in _ASSIGNING.get(type(node), ()):
                part = getattr(node, field)
                waiting += part if isinstance(part, list) else [part] if part else []
    return found


# Where names that are assigned, and statements, stand in other nodes; expressions assign none.
_ASSIGNING: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Assign: ("targets",), ast.AnnAssign: ("target",), ast.AugAssign: ("target",),
    ast.For: ("target", "body"), ast.While: ("body",), ast.If: ("body", "orelse"),
    ast.With: ("items", "body"), ast.withitem: ("optional_vars",), ast.Tuple: ("elts",),
}  # fmt: skip


FunctionCompiler.handlers = {
    **PLAIN_STATEMENTS,
    ast.If: FunctionCompiler._if,
    ast.For: FunctionCompiler._for,
    ast.While: FunctionCompiler._while,
    ast.With: FunctionCompiler._with,
    ast.FunctionDef: FunctionCompiler._closure,
}
FunctionCompiler.expression_handlers = {
    **FunctionCompiler.expression_handlers,
    ast.IfExp: FunctionCompiler._choice,
    ast.BoolOp: FunctionCompiler._logic,
}
