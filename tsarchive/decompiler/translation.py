"""Translates the graph of a function to statements of a Python function.

Nodes are taken in order. An expression waits until the node that uses it is met, and becomes part
of that one's expression when nothing else was computed in between; otherwise it gets a variable.
So everything is computed in the order of the archive's code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tsarchive.errors import UnsupportedError
from tsarchive.ir.classes import ClassType, Function, FunctionType, InterfaceType
from tsarchive.ir.constants import Device, EnumMember, GeneratorSeed, ObjectValue, TableConstant
from tsarchive.ir.graph import Block, Node, Use, Value, carried_index, must_be_none
from tsarchive.ir.types import BOOL, FLOAT, INT, NONE, STRING, ListType, TupleType, Type
from tsarchive.ir.values import is_default
from tsarchive.operators.python_forms import READABLE_FORMS, READABLE_STATEMENTS
from tsarchive.run.checks import enum_names
from tsarchive.run.expressions import NAME_OF_KIND
from tsarchive.run.operators import find_native
from tsarchive.run.passes.liveness import all_nodes, called_function
from tsarchive.run.passes.object_identity import must_differ

from . import syntax
from .flow import text_of
from .iteration import ELEMENT, ENUMERATE, ITEMS, RANGE, ZIP, Target, values_of
from .naming import is_plain, members_of, method_name
from .operators import Operators, by_call, is_default_list, is_index, is_quotient, known_number
from .preparing import PARTS, prepared
from .program import Program, is_of_library, type_test
from .variables import (
    CHOSEN_MODULE,
    LiveRanges,
    Point,
    Variables,
    dtype_values,
    is_movable,
    is_vague,
)

_CAPTURING = frozenset({"prim::fork", "prim::awaitable"})
# Expressions that nest deeper are hard to read, and at some depth Python refuses them.
_DEEPEST = 16
_DEPTH = "nesting_depth"
_NAME_OF_KIND = NAME_OF_KIND | {
    "prim::Param": "value", "prim::If": "result", "prim::isinstance": "is_instance",
    "aten::__getitem__": "item", ELEMENT: "item",
    "aten::__isnot__": "is_not_none", "aten::__is__": "is_none",
}  # fmt: skip
_COUNTERS = ("i", "j", "k")
_NAME_OF_OPERATOR = {
    "size": "n", "len": "n", "format": "text", "str": "text", "to": "converted", "select": "item",
    "slice": "part", "dim": "n_dim", "item": "number", "Int": "number", "Float": "number",
}  # fmt: skip


class OpenLoop(NamedTuple):
    """A loop whose body is being written: the variables of what it carries by position.

    ``condition`` is the variable that says whether another turn follows; "" where there is none.
    """

    node: Node
    targets: Mapping[int, str]
    condition: str = ""


class Translation:
    """The state of translating one function.

    ``known`` holds the expressions of values that are computed, ``waiting`` those that their user
    may take.
    """

    def __init__(self, function: Function, graph: Block, program: Program) -> None:
        made = prepared(graph, program, known_number)
        nodes = list(all_nodes(made.graph.nodes))
        self.graph = made.graph
        self.function = function
        self.program = program
        self.comments = program.comments
        dtypes = dtype_values(nodes, _takes_dtype)
        self.operators = Operators(function, program, dtypes, made.counters)
        self.known: dict[Value, ast.expr] = {}
        # Nodes whose result is their first operand.
        self._unchanged = made.unchanged
        self.live_ranges = LiveRanges(self.graph, self.movable)
        made_values = [output for node in nodes for output in node.outputs]
        told = [*filter(None, map(told_name, made_values))]
        told += [value.name for value in self.graph.params if value.name is not None]
        self.variables = Variables(self.live_ranges, _names(self.graph, nodes), told)
        self.statements: list[ast.stmt] = []
        self.waiting: list[tuple[Value, ast.expr]] = []
        self.wishes: dict[Value, str] = {}
        self.told: dict[Value, str] = {}
        self.block = self.graph
        self.loops: list[OpenLoop] = []

    def movable(self, node: Node) -> bool:
        """Return whether the value of a node may be computed where it is used."""
        return is_index(node) or is_movable(self.program.assigned, node)

    def unsupported(self, fault: str) -> UnsupportedError:
        """Return an error that says what the function has that Python cannot."""
        return UnsupportedError(f"{self.function.qualified_name} {fault}")

    def is_carried(self, loop: Node, index: int) -> bool:
        """Return whether anything reads a value that a loop carries."""
        return bool(loop.outputs[index].uses or loop.blocks[0].params[index + 1].uses)

    def emit(self, statement: ast.stmt, node: Node | None = None) -> None:
        """Add a statement after all waiting expressions."""
        self.flush()
        if node is not None:
            self.comment(node)
        self.statements.append(statement)

    def comment(self, node: Node) -> None:
        """Name the original line of a node, unless a comment of the function did."""
        comment = self.comments.before(node)
        if comment is not None:
            self.statements.append(comment)

    def flush(self) -> None:
        """Assign all waiting expressions to variables."""
        waiting, self.waiting = self.waiting, []
        for value, shown in waiting:
            self._assign(value, shown)

    def _flush_to(self, last: Value) -> None:
        """Assign the waiting expressions to variables, in their order, up to a value."""
        count = next(i for i, (value, _) in enumerate(self.waiting, 1) if value is last)
        later = self.waiting[count:]
        del self.waiting[count:]
        self.flush()
        self.waiting = later

    def _assign(self, value: Value, shown: ast.expr) -> None:
        name = self.define(value)
        if isinstance(shown, ast.Name) and shown.id == name:
            return
        self.comment(value.node)
        self.statements.append(syntax.assign([name], shown))

    def define(self, value: Value, point: Point | None = None, besides: Sequence[str] = ()) -> str:
        """Return a variable for a new value."""
        if point is None:
            is_if = value.node.kind == "prim::If"
            point = (self.live_ranges.end if is_if else self.live_ranges.start)(value.node)
        name = self.choose(value, point, besides)
        self.hold(name, value)
        return name

    def choose(self, value: Value, point: Point, besides: Sequence[str]) -> str:
        """Return a variable that a value may have at ``point``."""
        wish = self.wishes.get(value, "")
        candidate = self.candidate(value)
        return self.variables.choose(candidate, value.type, point, besides=besides, wish=wish)

    def hold(self, name: str, value: Value) -> None:
        self.variables.hold(name, value)
        self.known[value] = syntax.name(name)

    def candidate(self, value: Value) -> str:
        told = self.told[value] if value in self.told else told_name(value)
        if value.name is not None and (told or not _is_of_tracer(value)):
            return told if _is_version(value.name, told) else value.name
        node = value.node
        if told:
            return told
        if node.kind == "prim::Param" and value is node.outputs[0]:
            return _COUNTERS[min(len(self.loops), len(_COUNTERS) - 1)]
        if node.kind in _NAME_OF_KIND:
            return _NAME_OF_KIND[node.kind]
        if node.kind == "prim::CallMethod":
            return _name_of_call(node)
        if value.name is not None:
            return "x"
        if "name" in node.attributes:
            return node.name
        shown = node.kind.rpartition("::")[2].strip("_")
        return _NAME_OF_OPERATOR.get(shown, shown)

    def operands(self, node: Node, offsets: Sequence[int] | None = None) -> list[ast.expr]:
        """Return the expressions of the inputs; waiting ones are used where the order allows it."""
        chosen = range(len(node.inputs)) if offsets is None else offsets
        taken: dict[int, ast.expr] = {}
        for offset in reversed(chosen):
            value = node.inputs[offset]
            if self.waiting and self.waiting[-1][0] is value:
                taken[offset] = self.waiting.pop()[1]
            elif any(value is waiting for waiting, _ in self.waiting):
                self._flush_to(value)
        return [taken[i] if i in taken else self.use(node.inputs[i]) for i in chosen]

    def in_order(self, node: Node, order: Sequence[int]) -> list[ast.expr]:
        """Return the expressions of the inputs for a form that evaluates them in this order."""
        if sorted(order) != list(range(len(node.inputs))):
            self.flush()
            return self.operands(node)
        shown = dict(zip(order, self.operands(node, order), strict=True))
        return [shown[offset] for offset in range(len(order))]

    def simple(self, node: Node) -> None:
        """Translate a node without blocks of its own."""
        statement = READABLE_STATEMENTS.get(node.operator)
        statement = statement or form_of_method(node, is_statement=True)
        form = statement or READABLE_FORMS.get(node.operator) or form_of_method(node)
        numbers = syntax.parameters(form)
        if numbers != sorted(numbers):
            arguments = self.in_order(node, numbers)
        else:
            arguments = self.operands(node)
        if statement:
            made = syntax.extended(*arguments) if node.operator == _EXTENDING else None
            made = made or syntax.statement(form, *arguments)
            self.emit(syntax.augmented(made) or made, node)
            for output in node.outputs:  # the first operand
                if self.is_live(output):
                    self._assign(output, arguments[0])
            return
        self.finish(node, self.expression(node, arguments), arguments)

    def finish(self, node: Node, shown: ast.expr, arguments: Sequence[ast.expr]) -> None:
        """Keep the expression of a node for its user, or give its results variables."""
        live = [output for output in node.outputs if self.is_live(output)]
        if not live:
            if not isinstance(shown, ast.Name | ast.Constant):
                self.emit(_changed_part(node, shown) or ast.Expr(shown), node)
            return
        if len(node.outputs) > 1:
            self.unpack(node, shown)
            return
        if all(shown is not argument for argument in arguments):
            _note_depth(shown, arguments)
        if _is_augmented(node):
            syntax.may_augment(shown)
        if self.movable(node) and all(map(self._is_at_hand, node.inputs, arguments)):
            self.known[node.output] = shown
        else:
            self.keep(node.output, shown)

    def made(self, value: Value, shown: ast.expr, init: Node) -> None:
        """Keep the call of a class for the user of an object that ``init`` fills."""
        _note_depth(shown, shown.args if isinstance(shown, ast.Call) else ())
        # What a ``with`` enters, it leaves.
        users = [use for use in value.uses if use.user is not init and use.user.kind != _LEAVING]
        self.keep(value, shown, users)

    def keep(self, value: Value, shown: ast.expr, uses: Sequence[Use] | None = None) -> None:
        """Let an expression wait for the user of its value, or assign it.

        ``uses`` are those of the value where others are part of the expression.
        """
        waits = self._waits(value, value.uses if uses is None else uses)
        if waits and getattr(shown, _DEPTH, 0) <= _DEEPEST:
            self.waiting.append((value, shown))
        else:
            self.flush()
            self._assign(value, shown)

    def _is_at_hand(self, value: Value, shown: ast.expr) -> bool:
        return value.node.is_constant or self.known.get(value) is shown

    def _waits(self, value: Value, uses: Sequence[Use]) -> bool:
        """Return whether the only use of a value can take its expression."""
        if len(uses) != 1:
            return False
        if is_vague(value) or not self._can_take(*uses[0]):
            return False
        if value.name is None:
            return True
        # Its name may be only that of the attribute that it was read from.
        base, node = value.name.rstrip("0123456789"), value.node
        is_read = node.kind == "prim::GetAttr"
        return is_read and base in (node.name, node.name.rstrip("0123456789"))

    def _can_take(self, user: Node, offset: int) -> bool:
        """Return whether a user can take an expression, which is computed right before it."""
        if user.kind in _CAPTURING or carried_index(user, offset) is not None:
            return False
        return user is self.block.return_node or user in self.block.nodes

    def unpack(self, node: Node, shown: ast.expr) -> None:
        self.flush()
        names: list[str] = []
        for output in node.outputs:
            names.append(self.define(output, besides=names) if self.is_live(output) else "_")
        self.emit(syntax.assign(names, shown, unpack=True), node)

    def target(self, target: Target, point: Point, besides: list[str]) -> ast.expr:
        """Return what assigns the parts of a target of a loop; ``besides`` gets their names."""
        if isinstance(target, tuple):
            parts = [self.target(part, point, besides) for part in target]
            return ast.Tuple(parts, ast.Store())
        if target is None or not self.is_live(target):
            return ast.Name("_", ast.Store())
        besides.append(self.define(target, point, besides))
        return ast.Name(besides[-1], ast.Store())

    def replaced(self, value: Value, shown: ast.expr, filling: Block) -> None:
        """Let an expression stand for a value whose assignment was taken back.

        What ``filling`` does with it is part of the expression.
        """
        users = [use for use in value.uses if use.user not in filling.nodes]
        if value.name is None and len(users) == 1 and self._can_take(*users[0]):
            self.waiting.append((value, shown))
        else:
            name = self.known[value]
            assert isinstance(name, ast.Name)
            self.statements.append(syntax.assign([name.id], shown))

    @contextmanager
    def inside(self, block: Block) -> Iterator[list[ast.stmt]]:
        """Collect the statements written inside in the list that this yields."""
        outer = self.statements, self.waiting, self.block
        self.statements, self.waiting, self.block = [], [], block
        with self.variables.branch():
            yield self.statements
        self.statements, self.waiting, self.block = outer

    @contextmanager
    def wishing(self, values: Sequence[Value], names: Sequence[str]) -> Iterator[None]:
        """Prefer these variables for these values inside."""
        for value, name in zip(values, names, strict=True):
            self.wishes.setdefault(value, name)
        yield
        for value, name in zip(values, names, strict=True):
            if self.wishes.get(value) == name:
                del self.wishes[value]

    def is_live(self, value: Value) -> bool:
        return bool(value.uses)

    def use(self, value: Value) -> ast.expr:
        """Return what stands for ``value``: a variable, a constant, or what can move."""
        found = self.known.get(value)
        if found is None:
            if not value.node.is_constant and not self.is_live(value):
                return syntax.literal(None)  # its users ignore it
            if not value.node.is_constant:
                raise self.unsupported("uses a value before it is computed")
            found = self.known[value] = self.constant(value)
        return found

    def constant(self, value: Value) -> ast.expr:
        type_ = value.type
        if isinstance(type_, FunctionType):
            return self.program.reference(type_.function)
        if must_be_none(value):
            return syntax.literal(None)
        content = value.constant
        if type_ == FLOAT and isinstance(content, int):
            content = float(content)
        return self.value(content, type_)

    def value(self, content: Any, type_: Type) -> ast.expr:
        """Return the expression for a constant of a graph."""
        match content:
            case Device(text):
                return syntax.form("torch.device(_0)", syntax.literal(text))
            case EnumMember(enum, name):
                member = self.program.enum_member(enum, name)
                return syntax.attribute(self.program.reference(enum), member)
            case TableConstant() | GeneratorSeed() | ObjectValue():
                return self.program.constant(content)
            case tuple() if isinstance(type_, TupleType):
                items = [self.value(*pair) for pair in zip(content, type_.elements, strict=True)]
                return self._tuple_of(type_, items)
            case list() if isinstance(type_, ListType):
                items = [self.value(item, type_.element) for item in content]
                return ast.List(items, ast.Load())
        try:
            return syntax.literal(content)
        except TypeError:
            shown = type(content).__name__
            raise self.unsupported(f"has a constant of type {shown}") from None

    def expression(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        """Return the expression of a node whose operands are ``arguments``."""
        if node in self._unchanged and not is_quotient(node):
            return arguments[0]
        if node.kind in _FORMS:
            return syntax.form(_FORMS[node.kind], *arguments)
        build = _BY_KIND.get(node.kind)
        if build is not None:
            return build(self, node, arguments)
        return self.operators.operator(node, arguments)

    def _call_function(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        """Call a function: one of a library with what differs from its defaults, by name."""
        callee, *given = arguments
        type_ = node.input.type
        if not isinstance(type_, FunctionType) or not is_of_library(callee):
            return syntax.call(callee, given)
        positional: list[ast.expr] = []
        keywords: dict[str, ast.expr] = {}
        values = node.inputs[1:]
        for argument, value, shown in zip(
            type_.function.schema.arguments, values, given, strict=True
        ):
            if not argument.has_default:
                positional.append(shown)
            elif not (is_default(argument.default, value) or is_default_list(argument, shown)):
                keywords[argument.name] = self.operators.dtype_argument(argument, value, shown)
        return syntax.call(callee, positional, keywords)

    def _tuple_of(self, type_: Type, items: Sequence[ast.expr]) -> ast.expr:
        if isinstance(type_, TupleType) and type_.qualified_name:
            return syntax.call(self.program.reference(type_), items)
        return ast.Tuple(list(items), ast.Load())

    def _tuple_index(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        values, index = arguments
        type_, position = node.inputs[0].type, node.inputs[1].constant
        if isinstance(type_, TupleType) and type_.qualified_name and isinstance(position, int):
            field = type_.fields[position]
            if is_plain(field) and not field.startswith("_"):
                return syntax.attribute(values, field)
        return syntax.subscript(values, index)

    def _tuple_slice(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        bounds = [syntax.literal(int(node.attributes[key])) for key in ("beg", "end")]
        return syntax.subscript(arguments[0], ast.Slice(*bounds))

    def _create_object(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        class_ = self.program.reference(node.output.type)
        return syntax.form("_0.__new__(_0)", class_)

    def _iterable(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        """Return what a loop goes through."""
        match arguments:
            case [ast.Call(_, [inner], [])] if node.attributes.get("is_listed"):
                match inner:
                    case ast.Call(ast.Attribute(owner, "keys"), []):
                        return owner
                return inner
            case [low, high, ast.Constant(1)] if node.kind == RANGE:
                arguments = [low, high]
            case [values, ast.Constant(0)] if node.kind == ENUMERATE:
                arguments = [values]
        if node.kind == ITEMS:
            return arguments[0]
        return syntax.call(syntax.builtin(node.kind.rpartition("::")[2]), arguments)

    def _get_attr(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        owner = node.input.type
        if not isinstance(owner, ClassType):
            raise self.unsupported("reads an attribute of no class")
        return members_of(owner).reach(arguments[0], node.name)

    def _call_method(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        form = form_of_method(node)
        if form:
            return syntax.form(form, *arguments)
        receiver, *rest = arguments
        type_ = node.input.type
        keywords: dict[str, ast.expr] = {}
        called = called_function(node)
        if called is not None and len(called.schema.arguments) == len(arguments):
            rest, keywords = by_call(called.schema, node.inputs, rest, text_of(node))
        is_module = isinstance(type_, ClassType | InterfaceType) and type_.is_module
        # Code that runs hooks itself must not go through ``__call__``.
        has_hooks = isinstance(type_, ClassType) and (
            type_.forward_hooks or type_.forward_pre_hooks
        )
        is_forward = node.name == "forward" or self._is_overload_of_library(node)
        is_called = node.name == "__call__" and _is_plain_object(type_)
        is_interface = isinstance(type_, InterfaceType)
        if (is_forward and is_module and not has_hooks and not is_interface) or is_called:
            return syntax.call(receiver, rest, keywords)
        if isinstance(type_, ClassType) and not type_.is_native:
            members = members_of(type_)
            found = syntax.attribute(receiver, members.methods[node.name])
            return found if node.name in members.getters else syntax.call(found, rest, keywords)
        name = method_name(node.name, is_module=is_module)
        return syntax.call(syntax.attribute(receiver, name), rest, keywords)

    def _is_overload_of_library(self, node: Node) -> bool:
        """Return whether ``forward__0`` is called of what a library has: one method does it all."""
        type_ = node.input.type
        if not isinstance(type_, ClassType) or not node.name.startswith("forward__"):
            return False
        return self.program.modules_of_libraries.class_(type_) is not None

    def _isinstance(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        types = tuple(node.attributes["types"])
        return type_test(self.program, arguments[0], types, node.input.type)

    def _identity(self, node: Node, arguments: Sequence[ast.expr]) -> ast.expr:
        first, second = node.inputs
        negated = node.kind == "aten::__isnot__"
        if must_differ(first, second, self.graph):
            return syntax.literal(negated)
        if must_be_none(first) or must_be_none(second):
            ordered = arguments if must_be_none(second) else arguments[::-1]
            return syntax.form("_0 is not _1" if negated else "_0 is _1", *ordered)
        return self.operators.helper(node, arguments)


def _note_depth(shown: ast.expr, parts: Sequence[ast.expr]) -> None:
    """Note how deep an expression of these parts nests."""
    setattr(shown, _DEPTH, 1 + max((getattr(part, _DEPTH, 0) for part in parts), default=0))


def _names(graph: Block, nodes: Sequence[Node]) -> Iterator[str]:
    values = [*graph.params, *(output for node in nodes for output in node.outputs)]
    values += [param for node in nodes for block in node.blocks for param in block.params]
    values += [value for node in nodes for value in values_of(node.attributes.get("targets"))]
    return (value.name for value in values if value.name is not None)


def _is_version(name: str, told: str) -> bool:
    """Return whether a name in an archive is one of the program, told apart by digits behind it."""
    return bool(told) and name.startswith(told) and name[len(told) :].strip("0123456789") == ""


def told_targets(loop: Node, target: Target) -> dict[Value, str]:
    """Return the variables that the line of a loop names its targets by, none where it differs."""
    match = _FOR.match(text_of(loop))
    try:
        written = ast.parse(match[1], mode="eval").body if match else None
    except SyntaxError:
        written = None
    return dict(_paired(target, written))


def _paired(target: Target, written: ast.expr | None) -> Iterator[tuple[Value, str]]:
    match target, written:
        case Value(), ast.Name(name) if name != "_":
            yield target, name
        case tuple(), ast.Tuple(parts) if len(parts) == len(target):
            for pair in zip(target, parts, strict=True):
                yield from _paired(*pair)


_FOR = re.compile(r"for (.+?) in ")
_ASSIGNED = re.compile(r"((?:\w+ *, *)*\w+) *(?::[^=]*)?=(?!=)")


def told_name(value: Value) -> str:
    """Return the variable that the line of a value assigns it to; "" where the line does not tell.

    What the same line goes on with is only a part of what it assigns. Of several lists that it
    assigns, the lines that append to them tell.
    """
    node = value.node
    match = _ASSIGNED.match(text_of(node))
    if match is None or any(_is_on_line(user, node) for user, _ in value.uses):
        return ""
    names = match[1].replace(" ", "").split(",")
    if len(names) != len(node.outputs) or not names[0].isidentifier():
        filled = _filled_as(value)
        return filled if filled in names else ""
    found = names[node.outputs.index(value)]
    return found if found.isidentifier() and found != "_" else ""


def _filled_as(value: Value) -> str:
    """Return the variable whose ``append`` all lines that add to a list call; "" without one."""
    fillers = [user for user, offset in value.uses if (user.kind, offset) == ("aten::append", 0)]
    found = {text_of(user).partition(".append(")[0] for user in fillers}
    return found.pop() if len(found) == 1 else ""


_NAMES_OF_TRACER = ("forward", "input")


def _is_of_tracer(value: Value) -> bool:
    """Return whether torch's tracer may have named a value, by what it is for others."""
    name = (value.name or "").rstrip("0123456789")
    return name in _NAMES_OF_TRACER and value.node.kind != "prim::Param"


def _name_of_call(node: Node) -> str:
    """Return a name for what a method gives: its own, but for ``forward`` that of the submodule."""
    if node.name != "forward":
        return node.name
    owner = node.input.node
    is_named = owner.kind == "prim::GetAttr" and owner.name.isidentifier()
    return owner.name if is_named else "x"


def _is_on_line(one: Node, other: Node) -> bool:
    places = [None if node.range is None else node.range.location for node in (one, other)]
    return places[0] == places[1]


_AUGMENTED = re.compile(r"(?:[-+*/%&|^]|<<|>>)=(?!=)")


def _is_augmented(node: Node) -> bool:
    """Return whether the result can take the place of the first operand by ``x += y``.

    What is mutable is changed by that: then only where the operator does it as well.
    """
    if not node.inputs or len(node.outputs) != 1:
        return False
    is_plain = node.output.type in (INT, FLOAT, BOOL, STRING)
    if not is_plain:
        return node.kind.endswith("_")
    text = text_of(node)
    is_written = not text or _AUGMENTED.search(text) is not None
    return is_written and node.input.type == node.output.type


def _changed_part(node: Node, shown: ast.expr) -> ast.stmt | None:
    """Return ``x[0] += y`` for what a line writes so; None for other calls."""
    is_part = bool(node.inputs) and node.inputs[0].node.operator in PARTS
    is_written = is_part and _AUGMENTED.search(text_of(node)) is not None
    return syntax.augmented_part(shown) if is_written else None


_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "matmul": "@",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_METHOD_FORMS = {
    **{f"__{name}__": f"_0 {sign} _1" for name, sign in _SIGNS.items()},
    "__neg__": "-_0",
    "__len__": "len(_0)",
    "__contains__": "_1 in _0",
    "__getitem__": "_0[_1]",
}
"""What Python calls these methods of objects for."""
_METHOD_STATEMENTS = {"__setitem__": "_0[_1] = _2", "__delitem__": "del _0[_1]"}
_METHOD_RESULTS = {"__contains__": BOOL, "__len__": INT}
"""The results that Python wants of methods, whatever others give."""


def form_of_method(node: Node, *, is_statement: bool = False) -> str:
    """Return the expression or statement that calls a method of an object; "" where none does.

    A line that names such a method keeps the call.
    """
    if node.kind != "prim::CallMethod" or not _is_plain_object(node.input.type):
        return ""
    form = (_METHOD_STATEMENTS if is_statement else _METHOD_FORMS).get(node.name, "")
    called = called_function(node)
    if called is None or len(syntax.parameters(form)) != len(node.inputs):
        return ""
    wanted = _METHOD_RESULTS.get(node.name)
    is_given = wanted is None or called.schema.return_type == wanted
    return form if is_given and node.name not in text_of(node) else ""


def _is_plain_object(type_: Type) -> bool:
    """Return whether values of a type are objects of classes that the package has."""
    return isinstance(type_, ClassType) and not type_.is_module and not type_.is_native


def _takes_dtype(user: Node, offset: int) -> bool:
    if user.schema is None or user.upgrader is not None:
        return False
    if user.schema.full_name in ("aten::eq.int", "aten::ne.int"):
        return True
    if find_native(user.schema) is not None:
        return False
    return enum_names(user.schema.full_name).get(offset) == "ScalarType"


def is_call_of_setter(node: Node) -> bool:
    """Return whether the node sets a property."""
    if node.kind != "prim::CallMethod" or called_function(node) is None:
        return False
    type_ = node.input.type
    return isinstance(type_, ClassType) and node.name in members_of(type_).setters


def is_call_of_init(node: Node) -> bool:
    """Return whether the node calls the ``__init__`` of an object that was made for it."""
    return (
        node.kind == "prim::CallMethod"
        and node.name == "__init__"
        and node.input.node.kind == "prim::CreateObject"
        and called_function(node) is not None
        and node.output.type == NONE
    )


_LEAVING = "prim::Exit"
_EXTENDING = "aten::add_.t"
_FORMS = {
    "prim::Uninitialized": "None",
    # A number below 0 chooses nothing.
    CHOSEN_MODULE: "_0._modules[str(_1)]",
    "prim::EnumValue": "_0.value",
    "prim::EnumName": "_0.name",
    "prim::unchecked_cast": "_0",
    "prim::unchecked_unwrap_optional": "_0",
    "prim::tolist": "_0.tolist()",
}
_BY_KIND: dict[str, Callable[[Translation, Node, Sequence[ast.expr]], ast.expr]] = {
    "prim::TupleConstruct": lambda translation, node, arguments: translation._tuple_of(
        node.output.type, arguments
    ),
    "prim::TupleIndex": Translation._tuple_index,
    "prim::TupleSlice": Translation._tuple_slice,
    "prim::ListConstruct": lambda _t, _n, arguments: ast.List(list(arguments), ast.Load()),
    "prim::DictConstruct": lambda _t, _n, arguments: ast.Dict(
        list(arguments[::2]), list(arguments[1::2])
    ),
    **dict.fromkeys((ITEMS, RANGE, ENUMERATE, ZIP), Translation._iterable),
    "prim::CreateObject": Translation._create_object,
    "prim::GetAttr": Translation._get_attr,
    "prim::CallFunction": Translation._call_function,
    "prim::CallMethod": Translation._call_method,
    "prim::isinstance": Translation._isinstance,
    "aten::__is__": Translation._identity,
    "aten::__isnot__": Translation._identity,
}
