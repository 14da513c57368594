"""Lowering: from the text of a function to its graph.

One method lowers one kind of statement or expression. It looks at the syntax; what the parts
mean by their types is found out in ``emitter.py``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from tsarchive.errors import SourceError
from tsarchive.ir.classes import Attribute, ClassType, method_schema
from tsarchive.ir.graph import MAX_TRIP_COUNT, Block, Node, Value
from tsarchive.ir.names import to_identifier
from tsarchive.ir.schema import Argument
from tsarchive.ir.subtyping import fits, flat_members, unify, union_of
from tsarchive.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    UNKNOWN,
    HandleType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
)

from .context import EARLY_RETURN, UNLOWERED, UNREACHABLE, Context
from .emitter import Emitter
from .folding import fold
from .grammar import BINARY, COMPARISONS, OF_PYTHON, UNARY
from .matching import Call, is_packed
from .places import CodePlace, Cursor, Located, shorten
from .plain import RESERVED, NotPlain, PlainReader, PlainText, Run
from .references import (
    BUILTINS,
    Builtin,
    Closure,
    Condition,
    Constructor,
    Frame,
    FunctionReference,
    MethodReference,
    Namespace,
    OperatorNamespace,
    OperatorReference,
    Reference,
    Results,
    Scope,
    Special,
    ToList,
    Typed,
    TypeReference,
    decide_isinstance,
    narrowed,
    none_status,
    typed,
)
from .syntax import decided_by_literal, number, parse_statements, string_value

_ROOTS: dict[str, Reference] = {
    **{special.value: special for special in Special},
    **{name: Builtin(name) for name in BUILTINS},
    "torch": OperatorNamespace("aten"),
    "__torch__": Namespace("__torch__"),
}
# The operators of ``x += y`` for tensors and lists. Other values take those of ``x + y``, except %.
_IN_PLACE: dict[type[ast.operator], str] = {
    ast.Add: "aten::add_", ast.Sub: "aten::sub_", ast.Mult: "aten::mul_", ast.Div: "aten::div_",
    ast.Mod: "aten::fmod_", ast.Pow: "aten::pow", ast.BitAnd: "aten::bitwise_and",
    ast.BitOr: "aten::bitwise_or", ast.BitXor: "aten::bitwise_xor",
    ast.LShift: "aten::__lshift__", ast.RShift: "aten::__irshift__",
}  # fmt: skip
_NUMBER_TYPES: dict[type, Type] = {int: INT, float: FLOAT, complex: COMPLEX}
_NOTHING: Final[Mapping[int, Run]] = MappingProxyType({})
_LOAD = ast.Load()
_RETURNED = "{0} is returned where {1} is declared"
_EXPECTED = "expected {1}, but found {0}"
# A function and its arguments.
_MOST_FORKED = 256
_CLOSURE_TYPES = {Special.FORK: "Future", Special.AWAITABLE: "Await"}


class FunctionLowering:
    """Lowers the body of one function, or a constant expression.

    ``version`` is that of its operators, None for the current one. ``emit`` appends to the body
    that is lowered now: of the function, or of a closure in it.
    """

    def __init__(self, context: Context, cursor: Cursor, version: int | None) -> None:
        self.context = context
        self.cursor = cursor
        self._world = context.open
        # Nodes of the tree that have been lowered, and how many branches that are never taken
        # stand around: for an open world.
        self._seen: set[int] = set()
        self._unreachable = 0
        self._runs: dict[int, Run] = {}
        self._is_plain = False
        self._plain_reader: PlainReader | None = None
        self._enter(version, None)

    def _enter(self, version: int | None, outer: Scope | None) -> None:
        """Begin a body; ``outer`` has the names around it."""
        is_open = self._world is not None
        self.frame = Frame(version, self.cursor.here, self._checked, keeps_constants=is_open)
        self.emit = Emitter(self.context, self.cursor, self.frame)
        self.scope = Scope(self.frame, outer)

    def _checked(self, type_: Type) -> Type:
        """Return a type that the current statement makes. Raises SourceError if it is too large."""
        try:
            return self.context.checked(type_)
        except SourceError as error:
            raise self.cursor.locate(error, self.cursor.statement) from None

    def lower(
        self,
        node: ast.FunctionDef,
        arguments: Sequence[Argument],
        declared: Type | None,
        runs: Mapping[int, Run] = _NOTHING,
    ) -> Block:
        """Return the graph of a function; ``declared`` is its return type, if annotated.

        ``runs`` are plain lines that stand where the tree has an empty tuple.
        """
        self._runs, self._is_plain = dict(runs), bool(runs)
        self._parameters(arguments)
        if self._world is not None:  # torch runs what stands there
            self._lower_rest(ast.Tuple([d for d in node.args.defaults if d is not None], _LOAD))
        self._function_body(node.body, declared)
        for run in self._runs.values():  # those of branches that are never taken
            text, record = f"def f():\n{run.as_statements()}", self.cursor.places.record
            parse_statements(text, record, run.line - 1)
        return self._finished()

    def lower_plain(self, plain: PlainText, arguments: Sequence[Argument], declared: Type) -> Block:
        """Return the graph of a function of plain statements alone."""
        self._is_plain = True
        self._parameters(arguments)
        reader = self._reader()
        for run in plain.runs.values():
            reader.read(run)
        assert plain.result is not None
        found = reader.result(plain.result)
        statement = self.cursor.statement
        given = self.emit.as_value(found, statement)
        given = self._converted(given, declared, statement, _RETURNED)
        self.frame.body.add_return(given.value)
        return self._finished()

    def _parameters(self, arguments: Sequence[Argument]) -> None:
        for argument in arguments:
            param = self.frame.body.add_param(argument.type, argument.name)
            self._bind(argument.name, typed(param))

    def _bind(self, name: str, reference: Reference) -> None:
        if self._is_plain and name in RESERVED:
            raise NotPlain
        self.scope.bind(name, reference)

    def _reader(self) -> PlainReader:
        """Return what reads plain statements of the body that is lowered now."""
        if self._plain_reader is None or self._plain_reader.frame is not self.frame:
            self._plain_reader = PlainReader(self)
        return self._plain_reader

    def _line(self, node: Located) -> int:
        return node.lineno + self.cursor.line_offset

    def _assigned_there(self, node: ast.Expr) -> set[str]:
        run = self._runs.get(self._line(node))
        return set() if run is None else run.assigned_names()

    def _finished(self) -> Block:
        self.frame.tidy()
        if self._world is None:
            fold(self.frame, self.context.evaluate)
        return self.frame.finish()

    def constant_of(self, node: ast.expr, type_: Type, owner: str, name: str) -> Any:
        """Return the value of a constant of a class, or of the default of a function's parameter.

        ``owner`` is the qualified name of the class or function.
        """
        self.cursor.statement = node
        converted = self._converted(self.value(node, type_), type_, node, _EXPECTED)
        if self._world is not None:
            self._world.constants[owner, name] = converted.value
        return self._folded(converted.value.node, node)

    def _folded(self, made: Node, node: Located) -> Any:
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
            case "aten::device" if self._world is not None:
                return parts  # where it is known what there is, this is a constant
        raise self.cursor.error(node, "this is not a constant")

    def _function_body(self, body: Sequence[ast.stmt], declared: Type | None) -> None:
        last = body[-1]
        is_return = isinstance(last, ast.Return)
        self.block(body[:-1] if is_return else body)
        self.cursor.statement = self.cursor.position = last
        try:
            if isinstance(last, ast.Return) and last.value is not None:
                given = self.value(last.value, declared)
            else:
                given = self.emit.none()
            if declared is not None:
                given = self._converted(given, declared, last, _RETURNED)
        except SourceError as error:
            given = self._refused(error, last)
        self.frame.body.add_return(given.value)

    def _converted(self, given: Typed, wanted: Type, node: Located, message: str) -> Typed:
        """Return a value converted as on assignment, or raise with both types in ``message``."""
        converted = self.emit.conversions.convert(given, wanted)
        if converted is None:
            raise self.cursor.error(node, message, given.type, wanted)
        return converted

    @contextmanager
    def _inside(self, block: Block, outer: Scope) -> Iterator[Scope]:
        """Lower into ``block``, with a new scope inside of ``outer``."""
        saved, around = self.scope, self.frame.block
        self.scope, self.frame.block = Scope(self.frame, outer), block
        try:
            yield self.scope
        finally:
            self.scope, self.frame.block = saved, around

    def _if(self, node: ast.If) -> None:
        condition = self.condition(node.test)
        if condition.known is not None:
            other = node.orelse if condition.known else node.body
            self._ruled_out(node, lambda: self.block(other))
            self._narrow(condition, condition.known, self.scope)
            self.block(node.body if condition.known else node.orelse)
            return
        made = self.frame.append("prim::If", [condition.value.value])
        first = self._branch(made, condition, True, node.body)
        second = self._branch(made, condition, False, node.orelse)
        for name in dict.fromkeys([*first.names, *second.names]):
            self._join(made, first.find(name), second.find(name), name, node)

    def _ruled_out(self, node: ast.If | ast.IfExp, branch: Callable[[], object]) -> None:
        """Lower a branch that is never taken, in an open world."""
        if self._world is None:
            return
        is_literal = decided_by_literal(node.test) is not None
        made = self.frame.append(UNREACHABLE, is_literal=is_literal)
        self._unreachable += 1
        with self._inside(made.add_block(), self.scope):
            branch()
        self._unreachable -= 1

    def _refused(self, error: SourceError, node: Located) -> Typed:
        """Put an unknown value in the place of what is refused, in an open world; else raise."""
        if self._world is None:
            raise error
        self._lower_rest(node)
        self.cursor.locate(error, node)
        if not self._unreachable:
            self._world.refuse(error)
        return self.emit.unresolved(UNLOWERED, Call(()), error)

    def _lower_rest(self, node: ast.AST) -> None:
        """Lower what stands in a node that was refused before all of it was lowered."""
        for child in ast.iter_child_nodes(node):
            if id(child) in self._seen or isinstance(child, ast.Name):
                continue
            if isinstance(child, ast.stmt):
                self.block([child])
            elif isinstance(child, ast.expr) and isinstance(getattr(child, "ctx", _LOAD), ast.Load):
                self.expression(child)
            else:
                self._lower_rest(child)

    def _early_return(self, node: ast.Return) -> None:
        """Refuse a return that is not the last statement; an open world keeps its value."""
        if self._world is not None:
            value = self.emit.none() if node.value is None else self.value(node.value)
            self.frame.append(EARLY_RETURN, [value.value])
        self.cursor.refuse(node, "a statement Return")

    def _give_up(self, error: SourceError, statement: ast.stmt) -> None:
        """Go on behind a statement that is refused: the names that it assigns hold anything."""
        given = self._refused(error, statement)
        names = _assigned_names([statement])
        if isinstance(statement, ast.FunctionDef):
            names.add(statement.name)
        for name in names:
            self.scope.bind(name, given)

    def _branch(
        self, made: Node, condition: Condition, taken: bool, body: Sequence[ast.stmt]
    ) -> Scope:
        head = Scope(self.frame, self.scope)
        with self._inside(made.add_block(), head) as scope:
            self._narrow(condition, taken, head)
            self.block(body)
        return scope

    def _narrow(self, condition: Condition, taken: bool, scope: Scope) -> None:
        """Give the variable of a condition its narrower type in ``scope``."""
        type_ = condition.when_true if taken else condition.when_false
        if condition.name is None or type_ is None:
            return
        given = scope.find(condition.name)
        if isinstance(given, Typed):
            made = self.frame.append("prim::unchecked_cast", [given.value], type_)
            made.output.name = _meaningful(condition.name)
            scope.bind(condition.name, typed(made.output))

    def _join(
        self, made: Node, first: Reference | None, second: Reference | None, name: str, node: ast.If
    ) -> None:
        """Make a name that the branches assign usable after the ``if``."""
        before = self.scope.find(name)
        if not isinstance(first, Typed) or not isinstance(second, Typed):
            line = self.cursor.place(node).line
            self.scope.unusable[name] = f"{name!r} is not assigned on all paths of line {line}"
            return
        or_union = isinstance(before, Typed) and (
            isinstance(before.type, UnionType | OptionalType) or before.type == NUMBER
        )
        type_ = unify(first.type, second.type, or_union=or_union)
        if type_ is None:
            types = annotation(first.type), annotation(second.type)
            message = f"{name!r} is {types[0]} in one branch and {types[1]} in the other"
            if before is not None:
                raise self.cursor.error(node, message)
            self.scope.unusable[name] = message
            return
        output = made.add_output(type_, _meaningful(name))
        for block, reference in zip(made.blocks, (first, second), strict=True):
            block.add_return(reference.value)
        self.scope.bind(name, typed(output))

    def _for(self, node: ast.For) -> None:
        match node.iter, node.target:
            case ast.Call(ast.Name("range"), [count], []), ast.Name(counter):
                pass
            case _:
                self.cursor.refuse(node, "a loop other than `for i in range(n)`")
        bound = self.value(count)
        if not fits(bound.type, INT):
            raise self.cursor.error(node, "the bound of range() must be an int, not {}", bound.type)
        self._loop(node, bound, lambda: self.emit.constant(True, BOOL), counter)

    def _while(self, node: ast.While) -> None:
        def condition() -> Typed:
            return self.emit.as_condition(self.value(node.test), node.test)

        made, params = self._loop(node, self.emit.constant(MAX_TRIP_COUNT, INT), condition)
        if isinstance(node.test, ast.Name) and node.test.id in params:
            self.frame.conditions.append((made, params[node.test.id]))

    def _loop(
        self,
        node: ast.For | ast.While,
        bound: Typed,
        condition: Callable[[], Typed],
        counter: str | None = None,
    ) -> tuple[Node, dict[str, Value]]:
        """Return the node of a loop, and the parameters of its body by the names that it carries.

        ``counter`` is the variable that counts the turns.
        """
        first = condition()
        # What the body assigns and what was there before is carried from turn to turn.
        found = {
            name: self.scope.find(name)
            for name in sorted(_assigned_names([node], self._assigned_there))
        }
        initial = {name: given for name, given in found.items() if isinstance(given, Typed)}
        made = self.frame.append("prim::Loop", [bound.value, first.value])
        body = made.add_block()
        turn = body.add_param(INT, _meaningful(counter))
        params = {
            name: body.add_param(given.type, _meaningful(name)) for name, given in initial.items()
        }
        head = Scope(self.frame, self.scope)
        head.names |= {name: typed(param) for name, param in params.items()}
        with self._inside(body, head) as scope:
            if counter is not None:
                self.bind(counter, typed(turn), node)
            self.block(node.body)
            body.add_return(condition().value)
        order = dict.fromkeys([*(name for name in scope.names if name in params), *params])
        body.params[1:] = [params[name] for name in order]
        for name in order:
            self._carry(made, name, initial[name], scope.find(name))
        return made, params

    def _carry(self, made: Node, name: str, initial: Typed, final: Reference | None) -> None:
        """Carry the value of a name from one turn of a loop to the next, and out of the loop."""
        assert isinstance(final, Typed)
        made.add_input(initial.value)
        made.blocks[0].add_return(final.value)
        output = made.add_output(initial.type, _meaningful(name))
        self.scope.bind(name, typed(output))

    def _with(self, node: ast.With) -> None:
        entered = []
        for item in node.items:
            given = self.value(item.context_expr)
            made = self.frame.append("prim::Enter", [given.value], self._entered(given, node))
            entered.append(given.value)
            if item.optional_vars is not None:
                since = len(self.frame.block.nodes) - 1
                self._store(item.optional_vars, typed(made.output), since)
        self.block(node.body)
        for value in reversed(entered):
            self.frame.append("prim::Exit", [value])

    def _entered(self, given: Typed, node: Located) -> Type:
        if self._world is not None and self._world.is_open(given.type):
            return UNKNOWN
        enter, leave = (
            method_schema(given.type, name) if isinstance(given.type, ClassType) else None
            for name in ("__enter__", "__exit__")
        )
        if enter is None or leave is None:
            raise self.cursor.error(node, "{} has no __enter__ and __exit__ methods", given.type)
        return enter.return_type

    def _closure(self, node: ast.FunctionDef) -> None:
        """``def __forked_function():`` — the body of a fork or awaitable."""
        if node.args.args:
            self.cursor.refuse(node, "a nested function with decorators or parameters")
        declared = None if node.returns is None else self.type_of(node.returns)
        closure = self.closure(node.body, declared)
        if self._world is not None:  # it may be that nothing forks it
            self.frame.append("prim::Closure", closure.captured, subgraph=closure.body)
        self.bind(node.name, closure, node)

    def closure(self, body: Sequence[ast.stmt], declared: Type | None) -> Closure:
        """Lower a closure, in which operators have the version of functions, not of methods."""
        around = self.frame, self.emit, self.scope, self._plain_reader
        self._enter(self.context.dialect.free_version, self.scope)
        try:
            self._function_body(body, declared)
            return Closure(self._finished(), list(self.frame.captured))
        finally:
            self.frame, self.emit, self.scope, self._plain_reader = around

    def _calling(self, node: ast.Call) -> Closure:
        """Return a closure that calls the first argument with the others, which are captured."""
        given: list[ast.expr] = []
        for index, argument in enumerate(node.args[1:]):
            # A name that no code can have.
            name = f"argument {index}"
            self.scope.bind(name, self.value(argument))
            given.append(ast.copy_location(ast.Name(name, ast.Load()), argument))
        call = ast.copy_location(ast.Call(node.args[0], given, []), node)
        closure = self.closure([ast.copy_location(ast.Return(call), node)], None)
        if self._world is not None:  # only what is defined in code is forked
            closure.body.returns[0].node.attributes["is_forked"] = True
        return closure

    def _choice(self, node: ast.IfExp, hint: Type | None) -> Reference:
        """``a if c else b``."""
        condition = self.condition(node.test)
        if condition.known is not None:
            other = node.orelse if condition.known else node.body
            self._ruled_out(node, lambda: self.expression(other, hint))
            return self.expression(node.body if condition.known else node.orelse, hint)
        branches = [lambda: self.value(node.body, hint), lambda: self.value(node.orelse, hint)]
        return self._either(condition, branches, node)

    def _either(
        self, condition: Condition, branches: Sequence[Callable[[], Typed]], node: Located
    ) -> Typed:
        made = self.frame.append("prim::If", [condition.value.value])
        found: list[Typed] = []
        for taken, branch in zip((True, False), branches, strict=True):
            block = made.add_block()
            with self._inside(block, self.scope):
                self._narrow(condition, taken, self.scope)
                found.append(branch())
            block.add_return(found[-1].value)
        type_ = unify(found[0].type, found[1].type)
        if type_ is None:
            types = [given.type for given in found]
            raise self.cursor.error(node, "the two sides have no common type: {} and {}", *types)
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
            lambda: self.emit.constant(is_or, BOOL),
        ]
        return self._either(condition, branches[::-1] if is_or else branches, node)

    def block(self, body: Sequence[ast.stmt]) -> None:
        cursor = self.cursor
        for statement in body:
            cursor.statement = cursor.position = statement
            if self._world is not None:
                self._seen.add(id(statement))
            try:
                STATEMENTS[type(statement)](self, statement)
            except SourceError as error:
                self._give_up(error, statement)

    def bind(self, name: str, reference: Reference, node: Located) -> None:
        """Assign without annotation."""
        outer = None if self.scope.outer is None else self.scope.find_outside(name)
        if outer is not None:  # which keeps its type
            if not isinstance(outer, Typed) or not isinstance(reference, Typed | Results):
                text = "{!r} cannot be assigned again inside a block"
                raise self.cursor.error(node, text, name)
            given = self.emit.as_value(reference, node)
            message = "was of type {1}, but is assigned a value of type {0}"
            reference = self._converted(given, outer.type, node, f"{name!r} {message}")
        if isinstance(reference, Typed) and reference.is_empty_list:
            # ``[]`` fits any list where it is written; a variable that holds it is a List[Tensor].
            reference = reference._replace(is_empty_list=False)
        self._bind(name, reference)

    def declare(self, name: str, given: Typed, type_: Type, node: Located) -> None:
        """Assign with annotation."""
        if self.scope.find_outside(name) is not None:
            text = "{!r} is defined in an outer block: it has a type already"
            raise self.cursor.error(node, text, name)
        if not fits(given.type, type_):
            text = "{!r} is annotated with {}, but is assigned a value of type {}"
            raise self.cursor.error(node, text, name, type_, given.type)
        self._bind(name, Typed(given.value, type_))

    def fresh_name(self, value: Value, name: str, since: int) -> None:
        """Name a value after the variable that holds it first.

        ``since`` is the number of nodes in the block before the value was computed: older
        values, and those of other blocks, are only aliases.
        """
        if value.name is not None or value.node not in self.frame.block.nodes[since:]:
            return
        if has_meaning(name):
            value.name = name
        elif value.node.kind == "prim::GetAttr":
            # Of an attribute "0", "_0" or "-0" the value is called _0, uniquely: _0, _00, _01, ...
            proposed = to_identifier(value.node.name)
            if not has_meaning(proposed) and name.startswith(proposed):
                self.frame.reads[value] = proposed

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) == 1:
            self._assign_to(node.targets[0], node.value)
            return
        reference = self.expression(node.value)
        for target in node.targets:
            self._store(target, reference, len(self.frame.block.nodes))

    def _assign_to(self, target: ast.expr, value: ast.expr) -> None:
        since = len(self.frame.block.nodes)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            self._assign_pairwise(target, value)
            return
        if isinstance(target, ast.Attribute):
            base = self.value(target.value)
            self._set_attribute(target, base, self.value(value))
            return
        constants = len(self.frame.constants)
        if isinstance(target, ast.Tuple):
            self.emit.unpacked = value, len(target.elts)
        reference = self.expression(value)
        self._store(target, reference, since)
        if isinstance(target, ast.Name) and isinstance(reference, Typed):
            self.name_constant(target.id, reference.value, constants)

    def name_constant(self, name: str, made: Value, before: int) -> None:
        """Name a constant that a statement makes, before which there were so many of them."""
        is_new = len(self.frame.constants) > before and made.node.is_constant
        is_at_top = self.frame.block is self.frame.body
        if is_new and made.name is None and has_meaning(name) and is_at_top:
            made.name = name

    def _assign_pairwise(self, target: ast.Tuple, value: ast.Tuple) -> None:
        """``a, b = x, y``: no tuple is made."""
        if len(target.elts) != len(value.elts):
            counts = len(value.elts), len(target.elts)
            raise self.cursor.error(target, "{} values for {} names", *counts)
        references = [self.expression(element) for element in value.elts]
        for element, reference in zip(target.elts, references, strict=True):
            self._store(element, reference, len(self.frame.block.nodes))

    def _store(self, target: ast.expr, reference: Reference, since: int) -> None:
        match target:
            case ast.Name(name):
                self.store_name(name, reference, since, target)
            case ast.Tuple(elements):
                self._unpack(elements, reference, target, since)
            case ast.Attribute():
                base = self.value(target.value)
                self._set_attribute(target, base, self.emit.as_value(reference, target))
            case ast.Subscript():
                given = self.emit.as_value(reference, target)
                call = Call([self.value(target.value), self.value(target.slice), given])
                self.emit.call_operator("aten::_set_item", call, target)
            case _:
                self.cursor.refuse(target, "an assignment to this")

    def store_name(self, name: str, reference: Reference, since: int, node: Located) -> None:
        """Assign to a name what a statement computes, before which there were so many nodes."""
        if type(reference) is Results:
            reference = self.emit.as_value(reference, node)
        if type(reference) is Typed:
            self.fresh_name(reference.value, name, since)
        if self._world is not None:
            self._note_mention(reference, node)
        self.bind(name, reference, node)

    def _unpack(
        self, targets: Sequence[ast.expr], reference: Reference, node: Located, since: int
    ) -> None:
        for target, part in zip(targets, self.parts_of(reference, len(targets), node), strict=True):
            self._store(target, part, since)

    def parts_of(self, reference: Reference, count: int, node: Located) -> list[Typed]:
        """Return the values that are unpacked into so many names."""
        if isinstance(reference, Results):
            parts = [typed(value) for value in reference.values]
        else:
            parts = self._parts(self.emit.as_value(reference, node), count, node)
        if len(parts) != count:
            text = "{} values to unpack into {} names"
            raise self.cursor.error(node, text, len(parts), count)
        return parts

    def _parts(self, given: Typed, count: int, node: Located) -> list[Typed]:
        if isinstance(given.type, TupleType):
            return self.emit.conversions.unpack(given)
        if isinstance(given.type, ListType) or given.type is UNKNOWN:
            element = given.type.element if isinstance(given.type, ListType) else UNKNOWN
            made = self.frame.append("prim::ListUnpack", [given.value], *[element] * count)
            return [typed(value) for value in made.outputs]
        raise self.cursor.error(node, "a value of type {} cannot be unpacked", given.type)

    def _set_attribute(self, target: ast.Attribute, base: Typed, given: Typed) -> None:
        slots = base.type.attributes if isinstance(base.type, ClassType) else {}
        slot = slots.get(target.attr) or self._declared_by_init(target, base, given)
        if slot is None and self._world is not None and self._world.is_open(base.type):
            slot = Attribute(target.attr, UNKNOWN)
        if slot is None:
            raise self.cursor.error(target, "{} has no attribute {!r}", base.type, target.attr)
        # torch reads it, too, where old archives declare packed weights as tensors.
        is_packed_tensor = slot.type == TENSOR and is_packed(given.type)
        if not fits(given.type, slot.type) and not is_packed_tensor:
            text = "attribute {!r} is of type {}, but is assigned a value of type {}"
            raise self.cursor.error(target, text, target.attr, slot.type, given.type)
        self.frame.append("prim::SetAttr", [base.value, given.value], name=target.attr)

    def _declared_by_init(
        self, target: ast.Attribute, base: Typed, given: Typed
    ) -> Attribute | None:
        class_ = self.context.initialising
        if class_ is None or base.type is not class_:
            return None
        if self.frame.block is not self.frame.body:
            text = "{} gets the attribute {!r} inside of a condition or loop"
            raise self.cursor.error(target, text, class_, target.attr)
        name = target.attr
        return class_.attributes.setdefault(name, Attribute(name, given.type))

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            self.cursor.refuse(node, "a declaration without value")
        type_ = self.type_of(node.annotation)
        since = len(self.frame.block.nodes)
        if isinstance(node.target, ast.Attribute):
            base = self.value(node.target.value)
            self._set_attribute(node.target, base, self.value(node.value, type_))
            return
        if not isinstance(node.target, ast.Name):
            self.cursor.refuse(node, "an annotation of this")
        given = self.value(node.value, type_)
        self.fresh_name(given.value, node.target.id, since)
        self.declare(node.target.id, given, type_, node)

    def _augmented(self, node: ast.AugAssign) -> None:
        """``x += y`` changes tensors and lists in place, and computes a new value of others."""
        match node.target:
            case ast.Name(name):
                load: ast.expr = ast.Name(name, ast.Load())
            case ast.Attribute(base, name):
                load = ast.Attribute(base, name, ast.Load())
            case _:
                self.cursor.refuse(node, "an assignment to this")
        kind = _IN_PLACE.get(type(node.op))
        if kind is None:
            self.cursor.refuse(node, "this sign")
        left = self.value(ast.copy_location(load, node.target))
        if left.type != TENSOR and not isinstance(left.type, ListType):
            kind = "aten::fmod" if isinstance(node.op, ast.Mod) else BINARY[type(node.op)]
        result = self.emit.operator_value(kind, node, left, self.value(node.value))
        self._store(node.target, result, len(self.frame.block.nodes))

    def _expression_statement(self, node: ast.Expr) -> None:
        run = self._runs.pop(self._line(node), None) if self._runs else None
        if run is not None:
            self._reader().read(run)
            self.cursor.statement = self.cursor.position = _last_line(node)
            return
        self._note_mention(self.expression(node.value), node.value)

    def _note_mention(self, reference: Reference, node: Located) -> None:
        """Note an operator that is named and not called there, in an open world."""
        if self._world is not None and isinstance(reference, OperatorReference):
            error = self.cursor.error(node, f"{reference.kind} is not called")
            given = Call([*filter(None, [reference.target])])
            self.emit.unresolved(reference.kind, given, error)

    def expression(self, node: ast.expr, hint: Type | None = None) -> Reference:
        """Return what an expression denotes; ``hint`` is the type that literals should take."""
        cursor = self.cursor
        around, cursor.position = cursor.position, node
        try:
            handler = EXPRESSIONS.get(type(node))
            if handler is None:
                cursor.refuse(node, f"a {type(node).__name__}")
            found = handler(self, node, hint)
        except SourceError as error:
            found = self._refused(error, node)
        if self._world is not None:
            self._seen.add(id(node))
        cursor.position = around
        return found

    def value(self, node: ast.expr, hint: Type | None = None) -> Typed:
        if type(node) is ast.Name:
            known = self.scope.names.get(node.id)
            if type(known) is Typed:
                return known
        found = self.expression(node, hint)
        if type(found) is Typed:
            return found
        try:
            return self.emit.as_value(found, node)
        except SourceError as error:
            return self._refused(error, node)

    def type_of(self, node: ast.expr) -> Type:
        """Return the type that an annotation writes."""
        try:
            return self.context.type_of(node)
        except SourceError as error:
            self.context.refuse(self.cursor.locate(error, node))
            return UNKNOWN

    def _name(self, node: ast.Name, hint: Type | None) -> Reference:
        found = self.reference_of(node.id) or self._number(node)
        if found is not None:
            return found
        reason = self.scope.why_unusable(node.id)
        error = self.cursor.error(node, reason or f"{node.id!r} is not defined here")
        if self._world is None or reason:
            raise error
        return self.emit.unknown_name(node.id, error)

    def reference_of(self, name: str) -> Reference | None:
        """Return what a name denotes, if it is no number."""
        return self.scope.names.get(name) or self.scope.find(name) or _ROOTS.get(name)

    def _attribute(self, node: ast.Attribute, hint: Type | None) -> Reference:
        return self.emit.attribute(self.expression(node.value), node.attr, node)

    def _constant(self, node: ast.Constant, hint: Type | None) -> Reference:
        kind = type(node.value)
        if kind is bool:
            return self.emit.constant(node.value, BOOL)
        if kind is str:
            return self.emit.constant(string_value(node, self.cursor.text), STRING)
        if node.value is None:
            return self.emit.none()
        found = self._number(node)
        assert found is not None  # the grammar knows no other literals
        return found

    def _number(self, node: ast.expr) -> Typed | None:
        try:
            found = number(node)
        except OverflowError:
            raise self.cursor.error(node, "an integer does not fit 64 bits") from None
        return None if found is None else self.emit.constant(found, _NUMBER_TYPES[type(found)])

    def _tuple(self, node: ast.Tuple, hint: Type | None) -> Reference:
        return self.emit.conversions.tuple_of([self.value(element) for element in node.elts])

    def _list(self, node: ast.List, hint: Type | None) -> Reference:
        return self.emit.list_literal(node, [self.value(element) for element in node.elts], hint)

    def _dict(self, node: ast.Dict, hint: Type | None) -> Reference:
        keys, values = [], []
        for key, value in zip(node.keys, node.values, strict=True):
            assert key is not None  # the grammar knows no dict with **
            keys.append(self.value(key))
            values.append(self.value(value))
        return self.emit.dict_literal(node, keys, values, hint)

    def _unary(self, node: ast.UnaryOp, hint: Type | None) -> Reference:
        literal = self._number(node)
        if literal is not None:
            return literal
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            operand = self.emit.as_condition(operand, node)
        return self.emit.call_operator(UNARY[type(node.op)], Call([operand]), node)

    def _binary(self, node: ast.BinOp, hint: Type | None) -> Reference:
        literal = self._number(node)
        if literal is not None:
            return literal
        sides = Call([self.value(node.left), self.value(node.right)])
        is_format = isinstance(node.op, ast.Mod) and sides.values[0].type == STRING
        kind = "aten::percentFormat" if is_format else BINARY[type(node.op)]
        return self.emit.call_operator(kind, sides, node)

    def _compare(self, node: ast.Compare, hint: Type | None) -> Reference:
        if len(node.ops) != 1 or type(node.ops[0]) not in COMPARISONS:
            self.cursor.refuse(node, "this comparison")
        sides = [self.value(node.left), self.value(node.comparators[0])]
        if isinstance(node.ops[0], ast.In):
            sides.reverse()
        return self.emit.call_operator(COMPARISONS[type(node.ops[0])], Call(sides), node)

    def _subscript(self, node: ast.Subscript, hint: Type | None) -> Reference:
        base = self.value(node.value)
        if base.type == TENSOR:
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            indices = [
                self._bounds(part) if isinstance(part, ast.Slice) else self.value(part)
                for part in parts
            ]
            return self.emit.tensor_element(base, indices, node)
        if not isinstance(node.slice, ast.Slice):
            return self.emit.element(base, self.value(node.slice), node, hint)
        bounds = self._bounds(node.slice)
        if isinstance(base.type, TupleType):
            return self.emit.tuple_slice(base, *(self._bound(bound, node) for bound in bounds))
        return self.emit.slice_of(base, None, bounds, node)

    def _bounds(self, node: ast.Slice) -> tuple[Typed | None, ...]:
        parts = (node.lower, node.upper, node.step)
        return tuple(None if part is None else self.value(part) for part in parts)

    def _bound(self, bound: Typed | None, node: Located) -> int | None:
        if bound is None:
            return None
        value = bound.value.constant
        if type(value) is not int:
            raise self.cursor.error(node, "the bounds of a tuple slice must be integer literals")
        return value

    def arguments(self, node: ast.Call, target: Typed | None = None) -> Call:
        given = [self.value(argument) for argument in node.args]
        keywords = {keyword.arg or "": self.value(keyword.value) for keyword in node.keywords}
        return Call(given, keywords, target)

    def _call(self, node: ast.Call, hint: Type | None) -> Reference:
        callee = self.expression(node.func)
        if type(callee) is OperatorReference:
            call = self.arguments(node, callee.target)
            found = self.emit.call_named_operator(callee.kind, call, node)
            if self._world is not None:
                self.frame.block.nodes[-1].attributes["arguments"] = self._places(node)
            return found
        if isinstance(callee, Special):
            return self._special(callee, node, hint)
        if isinstance(callee, Constructor):
            return self._new_object(callee, node)
        call = self.arguments(node)
        match callee:
            case FunctionReference(function):
                return self.emit.call_function(function, call, node)
            case MethodReference(target, name):
                return self.emit.call_method(target, name, call, node)
            case TypeReference(type_):
                return self.emit.construct(type_, call, node)
            case Builtin(name):
                return self.emit.call_builtin(name, call, node)
            case ToList(target):
                return self.emit.to_list(target, call, node, hint)
            case Typed(_, ClassType(is_module=is_module)):
                name = "forward" if is_module else "__call__"
                return self.emit.call_method(callee, name, call, node)
            case Typed(_, type_) if type_ is UNKNOWN:
                return self.emit.call_method(callee, "__call__", call, node)
        name = shorten(ast.unparse(node.func))
        error = self.cursor.error(node, f"{name!r} cannot be called")
        if self._world is None:
            raise error
        return self.emit.unknown_name(name, error)

    def _places(self, node: ast.Call) -> tuple[tuple[str | None, CodePlace], ...]:
        """Return the names and places of the arguments of a call."""
        places = [(None, self.cursor.place(argument)) for argument in node.args]
        return (*places, *((k.arg, self.cursor.place(k.value)) for k in node.keywords))

    def _new_object(self, callee: Constructor, node: ast.Call) -> Typed:
        same = len(node.args) == 1 and self.expression(node.args[0]) == TypeReference(callee.type)
        if not same or node.keywords:
            raise self.cursor.error(node, "__new__ takes its own class")
        return self.emit.append("prim::CreateObject", (), callee.type)

    def _special(self, form: Special, node: ast.Call, hint: Type | None) -> Reference:
        handler = _SPECIAL.get(form)
        if handler is None:
            raise self.cursor.error(node, f"{form.value} cannot be called")
        minimum, maximum, method = handler
        if node.keywords or not minimum <= len(node.args) <= maximum:
            raise self.cursor.error(node, f"wrong arguments for {form.value}")
        return method(self, node, form)

    def _annotate(self, node: ast.Call, form: Special) -> Typed:
        type_ = self.type_of(node.args[0])
        converted = self._converted(self.value(node.args[1], type_), type_, node, _EXPECTED)
        if converted.type == NONE and isinstance(type_, OptionalType | UnionType):
            # The type of None is worth keeping: it tells what a variable may hold later.
            return self.emit.constant(None, type_)
        return converted

    def _unchecked_cast(self, node: ast.Call, form: Special) -> Typed:
        type_ = self.type_of(node.args[0])
        given = self.value(node.args[1])
        is_repeated = isinstance(node.args[1], ast.Call) and given.type == type_
        if is_repeated and given.value.node.kind == "prim::unchecked_cast":
            return given
        return self.emit.append("prim::unchecked_cast", [given.value], type_)

    def _uninitialized(self, node: ast.Call, form: Special) -> Typed:
        return self.emit.append("prim::Uninitialized", (), self.type_of(node.args[0]))

    def _getattr(self, node: ast.Call, form: Special) -> Reference:
        base = self.expression(node.args[0])
        match node.args[1]:
            case ast.Constant(str(text)) as name:
                what = f"the attribute {text}"
                is_magic = text.startswith("__") and text.endswith("__")
                if self._world is not None and is_magic:
                    self.emit.unknown_name(what, self.cursor.error(node, what), attribute=text)
                if text in OF_PYTHON:
                    self.cursor.refuse(node, what)
                return self.emit.attribute(base, string_value(name, self.cursor.text), node)
        error = self.cursor.error(node, "the name given to getattr must be a string literal")
        if self._world is not None:
            self.emit.unknown_name("getattr with a computed name", error)
        raise error

    def _isinstance(self, node: ast.Call, form: Special) -> Typed:
        return self.emit.check_instance(self.value(node.args[0]), self.instance_types(node.args[1]))

    def instance_types(self, node: ast.expr) -> tuple[Type, ...]:
        if isinstance(node, ast.Tuple):
            return tuple(t for element in node.elts for t in self.instance_types(element))
        return (self.type_of(node),)

    def _fork(self, node: ast.Call, form: Special) -> Typed:
        """``fork(f, x)``: ``f`` is a closure, or is called in one."""
        started = self.expression(node.args[0])
        if isinstance(started, FunctionReference | MethodReference):
            started = self._calling(node)
        elif len(node.args) > 1:
            raise self.cursor.error(node, "wrong arguments for {}", form.value)
        elif not isinstance(started, Closure):
            text = "{} takes a function that is defined before it"
            raise self.cursor.error(node, text, form.value)
        type_ = HandleType(_CLOSURE_TYPES[form], started.body.returns[0].type)
        kind = f"prim::{form.value}"
        return self.emit.append(kind, started.captured, type_, subgraph=started.body)

    def condition(self, node: ast.expr) -> Condition:
        match node:
            case ast.Tuple([]) if self._runs and self._line(node) in self._runs:
                reference = self._reader().test(self._runs.pop(self._line(node)))
                return self._condition_of(self.emit.as_value(reference, node), node)
            case ast.Constant(bool() as known):
                return Condition(self.emit.constant(known, BOOL), known)
            case ast.UnaryOp(ast.Not(), operand):
                inner = self.condition(operand)
                if inner.known is not None:
                    return inner.inverted(self.emit.constant(not inner.known, BOOL))
                negated = self.emit.operator_value("aten::__not__", node, inner.value)
                return inner.inverted(negated)
            case ast.Call(ast.Name("isinstance"), [subject, _]) if not node.keywords:
                return self._instance_condition(node, subject)
            case ast.Compare(subject, [ast.Is() | ast.IsNot() as sign], [ast.Constant(None)]):
                return self._none_condition(node, subject, isinstance(sign, ast.Is))
        return self._condition_of(self.value(node), node)

    def _condition_of(self, value: Typed, node: Located) -> Condition:
        given = self.emit.as_condition(value, node)
        is_scripting = given.value.node.kind == "aten::is_scripting"
        return Condition(given, True if is_scripting else None)

    def _instance_condition(self, node: ast.Call, subject: ast.expr) -> Condition:
        types = self.instance_types(node.args[1])
        given = self.value(subject)
        known = decide_isinstance(given.type, types)
        made = self.emit.check_instance(given, types)
        if not isinstance(subject, ast.Name):
            return Condition(made, known)
        when_true, when_false = narrowed(given.type, types)
        return Condition(made, known, subject.id, when_true, when_false)

    def _none_condition(self, node: ast.Compare, subject: ast.expr, is_none: bool) -> Condition:
        given = self.value(subject)
        known = none_status(given)
        if known is not None:
            answer = known if is_none else not known
            return Condition(self.emit.constant(answer, BOOL), answer)
        kind = "aten::__is__" if is_none else "aten::__isnot__"
        made = self.emit.operator_value(kind, node, given, self.emit.none())
        if not isinstance(subject, ast.Name):
            return Condition(made)
        rest = union_of(member for member in flat_members(given.type) if member != NONE)
        found = Condition(made, None, subject.id, None, rest)
        return found if is_none else found.inverted(made)


def _last_line(node: ast.expr | ast.stmt) -> ast.Pass:
    """Return a statement that stands in the last line of a node that begins a line."""
    end = node.end_lineno or node.lineno
    return ast.Pass(
        lineno=end, col_offset=node.col_offset, end_lineno=end, end_col_offset=node.end_col_offset
    )


def _assigned_names(
    statements: Iterable[ast.stmt], plain: Callable[[ast.Expr], set[str]] = lambda _: set()
) -> set[str]:
    """Return every name that the statements assign, at any depth but in nested functions.

    ``plain`` gives those of the plain statements that stand where the tree has an empty tuple.
    """
    found: set[str] = set()
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Expr):
            found |= plain(node)
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


def has_meaning(name: str) -> bool:
    """Return whether a name is descriptive; ``_0`` and such only number values."""
    return not (name.startswith("_") and (len(name) == 1 or name[1:].isdigit()))


def _meaningful(name: str | None) -> str | None:
    return name if name is not None and has_meaning(name) else None


# How statements and expressions are lowered, by the kind of their node.
STATEMENTS: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Assign: FunctionLowering._assign,
    ast.AnnAssign: FunctionLowering._annotated,
    ast.AugAssign: FunctionLowering._augmented,
    ast.Expr: FunctionLowering._expression_statement,
    ast.Pass: lambda *_: None,
    ast.Return: FunctionLowering._early_return,
    ast.If: FunctionLowering._if,
    ast.For: FunctionLowering._for,
    ast.While: FunctionLowering._while,
    ast.With: FunctionLowering._with,
    ast.FunctionDef: FunctionLowering._closure,
}
EXPRESSIONS: dict[type[ast.expr], Callable[..., Reference]] = {
    ast.Name: FunctionLowering._name,
    ast.Attribute: FunctionLowering._attribute,
    ast.Constant: FunctionLowering._constant,
    ast.Tuple: FunctionLowering._tuple,
    ast.List: FunctionLowering._list,
    ast.Dict: FunctionLowering._dict,
    ast.UnaryOp: FunctionLowering._unary,
    ast.BinOp: FunctionLowering._binary,
    ast.Compare: FunctionLowering._compare,
    ast.Subscript: FunctionLowering._subscript,
    ast.Call: FunctionLowering._call,
    ast.IfExp: FunctionLowering._choice,
    ast.BoolOp: FunctionLowering._logic,
}
_SpecialHandler = Callable[[FunctionLowering, ast.Call, Special], Reference]
# For each form the least and largest number of arguments.
_SPECIAL: dict[Special, tuple[int, int, _SpecialHandler]] = {
    Special.ANNOTATE: (2, 2, FunctionLowering._annotate),
    Special.UNCHECKED_CAST: (2, 2, FunctionLowering._unchecked_cast),
    Special.UNINITIALIZED: (1, 1, FunctionLowering._uninitialized),
    Special.GETATTR: (2, 2, FunctionLowering._getattr),
    Special.ISINSTANCE: (2, 2, FunctionLowering._isinstance),
    Special.FORK: (1, _MOST_FORKED, FunctionLowering._fork),
    Special.AWAITABLE: (1, _MOST_FORKED, FunctionLowering._fork),
}
