"""Builds Python syntax trees of values, templates, calls and assignments.

Nothing of an archive reaches generated code but through these nodes: as an identifier that was
checked, or as a literal.

What a module imports or defines is a reference: an ``ast.Name`` whose identifier is a key until the
module that holds it is laid out; then it gets a name that no variable of the module has.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import math
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any


def name(identifier: str) -> ast.Name:
    return ast.Name(identifier, ast.Load())


def attribute(base: ast.expr, *path: str) -> ast.expr:
    for part in path:
        base = ast.Attribute(base, part, ast.Load())
    return base


def call(
    function: ast.expr,
    arguments: Iterable[ast.expr] = (),
    keywords: Mapping[str, ast.expr] | None = None,
) -> ast.Call:
    named = [_keyword(key, value) for key, value in (keywords or {}).items()]
    return ast.Call(function, list(arguments), named)


def _keyword(key: str, value: ast.expr) -> ast.keyword:
    """Return ``key=value``, also where the key is a keyword of Python."""
    if keyword.iskeyword(key):
        return ast.keyword(None, ast.Dict([literal(key)], [value]))
    return ast.keyword(key, value)


def subscript(base: ast.expr, *indices: ast.expr) -> ast.Subscript:
    """Return ``base[a]``, or ``base[a, b]``."""
    index = indices[0] if len(indices) == 1 else ast.Tuple(list(indices), ast.Load())
    return ast.Subscript(base, index, ast.Load())


def assign(targets: Sequence[str], value: ast.expr, *, unpack: bool = False) -> ast.stmt:
    """Return ``a = value``, or ``a, b = value``; with ``unpack``, ``a, = value`` as well.

    A value that ``may_augment`` allows gives ``a += b``.
    """
    names = [ast.Name(identifier, ast.Store()) for identifier in targets]
    if len(names) == 1 and not unpack:
        sign, operand = getattr(value, _AUGMENTED, (None, None))
        match value:
            case ast.BinOp(ast.Name(left)) | ast.Call(ast.Attribute(ast.Name(left))) if sign:
                if left == targets[0] and operand is not None:
                    return ast.AugAssign(names[0], sign, operand)
        return ast.Assign([names[0]], value)
    return ast.Assign([ast.Tuple([*names], ast.Store())], value)


_AUGMENTED = "augmented"
_IN_PLACE: dict[str, type[ast.operator]] = {
    "add_": ast.Add, "sub_": ast.Sub, "mul_": ast.Mult, "div_": ast.Div,
}  # fmt: skip


def may_augment(value: ast.expr) -> None:
    """Let ``a + b`` become ``a += b`` where it is assigned to a; ``a.add_(b)`` likewise."""
    match value:
        case ast.BinOp(_, sign, operand):
            setattr(value, _AUGMENTED, (sign, operand))
        case ast.Call(ast.Attribute(_, name), [operand], []) if name in _IN_PLACE:
            setattr(value, _AUGMENTED, (_IN_PLACE[name](), operand))


def augmented(statement: ast.stmt) -> ast.AugAssign | None:
    """Return ``a[k] += b`` for ``a[k] = a[k] + b`` that ``may_augment`` allows; None for others."""
    match statement:
        case ast.Assign([ast.Subscript(base, index) as place], ast.BinOp(read) as value):
            sign, operand = getattr(value, _AUGMENTED, (None, None))
            is_plain = is_atom(base) and is_atom(index)
            if (
                sign is not None
                and operand is not None
                and is_plain
                and same(subscript(base, index), read)
            ):
                return ast.AugAssign(place, sign, operand)
    return None


def augmented_part(value: ast.expr) -> ast.AugAssign | None:
    """Return ``a[k] += b`` for ``a[k].add_(b)``, and others alike; None for others."""
    match value:
        case ast.Call(ast.Attribute(ast.Subscript(base, index), name), [operand], []):
            if name in _IN_PLACE:
                place = ast.Subscript(base, index, ast.Store())
                return ast.AugAssign(place, _IN_PLACE[name](), operand)
    return None


def extended(values: ast.expr, others: ast.expr) -> ast.stmt | None:
    """Return ``values += others`` for a list in a variable; None for others."""
    if isinstance(values, ast.Name) and reference_of(values) is None:
        return ast.AugAssign(ast.Name(values.id, ast.Store()), ast.Add(), others)
    return None


def store(place: ast.expr, value: ast.expr) -> ast.Assign:
    """Return ``place = value`` for an attribute or a subscript."""
    place.ctx = ast.Store()  # type: ignore[attr-defined]
    return ast.Assign([place], value)


def unpack_to(unpacked: ast.stmt | None, variable: ast.expr, place: ast.expr) -> bool:
    """Unpack to an attribute what ``unpacked`` gives a variable; return whether it does."""
    match unpacked, variable, place:
        case (
            ast.Assign([ast.Tuple(targets)]),
            ast.Name(stored),
            ast.Attribute(base, attribute_name),
        ) if is_atom(base):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            if names.count(stored) == 1 and not names_in(base) & {*names}:
                made = ast.Attribute(base, attribute_name, ast.Store())
                targets[:] = [
                    made if isinstance(target, ast.Name) and target.id == stored else target
                    for target in targets
                ]
                return True
    return False


def function(
    name: str,
    arguments: list[ast.arg],
    defaults: list[ast.expr],
    body: list[ast.stmt],
    returns: ast.expr | None,
) -> ast.FunctionDef:
    # Parsed, since definitions have fields that older Pythons lack.
    (made,) = ast.parse("def f(): pass").body
    assert isinstance(made, ast.FunctionDef)
    made.name, made.body, made.returns = name, body or made.body, returns
    made.args.args, made.args.defaults = arguments, defaults
    return made


def docstring(text: str) -> ast.stmt:
    return ast.Expr(literal(text))


def f_string(pieces: Sequence[str], values: Sequence[ast.expr]) -> ast.JoinedStr:
    """Return an f-string of the text around values, and the values between."""
    parts: list[ast.expr] = [ast.FormattedValue(value, -1) for value in values]
    for position in reversed(range(len(pieces))):
        if pieces[position]:
            parts.insert(position, ast.Constant(pieces[position]))
    return ast.JoinedStr(parts)


def lambda_(result: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), result)


def class_(name: str, bases: list[ast.expr], body: list[ast.stmt]) -> ast.ClassDef:
    (made,) = ast.parse("class C: pass").body
    assert isinstance(made, ast.ClassDef)
    made.name, made.bases, made.body = name, bases, body or made.body
    return made


def literal(value: Any) -> ast.expr:
    """Return the literal of a plain value: a number, a string, None, or a container of them."""
    match value:
        case bool() | None | str() | bytes() | types.EllipsisType():
            return ast.Constant(value)
        case int() | float():
            return _number(value)
        case complex():
            parts = [_number(value.real), _number(value.imag)]
            return call(name("complex"), parts)
        case tuple():
            return ast.Tuple([literal(item) for item in value], ast.Load())
        case list():
            return ast.List([literal(item) for item in value], ast.Load())
    raise TypeError(f"{type(value).__name__} has no literal")


def _number(value: float) -> ast.expr:
    if isinstance(value, float) and not math.isfinite(value):
        return call(name("float"), [literal(repr(value))])
    if value == _SMALLEST and isinstance(value, int):
        # Without its sign it is no int of TorchScript.
        return ast.BinOp(_number(value + 1), ast.Sub(), ast.Constant(1))
    if value < 0 or (isinstance(value, float) and math.copysign(1.0, value) < 0):
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


_SMALLEST = -(2**63)


def is_atom(node: ast.expr) -> bool:
    """Return whether evaluating the expression earlier or later makes no difference."""
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute(base):
            return is_atom(base)
        case ast.UnaryOp(ast.USub(), ast.Constant()):
            return True
    return False


def same(one: ast.AST, two: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(two)


_PARAMETER = re.compile(r"\b_(\d+)\b")


@cache
def parameters(text: str) -> list[int]:
    """Return the numbers of the arguments that a template uses, in the order of evaluation."""
    place, is_assigned, value = text.partition(" = ")
    ordered = f"{value} {place}" if is_assigned else text
    return [int(number) for number in _PARAMETER.findall(ordered)]


def move(targets: Sequence[str], values: Sequence[ast.expr]) -> ast.stmt | None:
    """Assign in parallel, leaving out what is in place already."""
    pairs = [
        (name, value)
        for name, value in zip(targets, values, strict=True)
        if not (isinstance(value, ast.Name) and value.id == name)
    ]
    if not pairs:
        return None
    names, shown = zip(*pairs, strict=True)
    if len(names) == 1:
        return assign(names, shown[0])
    return assign(names, ast.Tuple(list(shown), ast.Load()))


def moves(targets: Sequence[str], values: Sequence[ast.expr]) -> list[ast.stmt]:
    """Assign as ``move`` does, in one statement for each target where none is read afterwards."""
    moved = move(targets, values)
    match moved:
        case ast.Assign([ast.Tuple(names)], ast.Tuple(shown)):
            stored = [name.id for name in names if isinstance(name, ast.Name)]
            later = [set().union(*map(names_in, shown[i + 1 :])) for i in range(len(shown))]
            if not any(name in behind for name, behind in zip(stored, later, strict=True)):
                return [assign([n], v) for n, v in zip(stored, shown, strict=True)]
    return [] if moved is None else [moved]


_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPPOSITE_EQUALITY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_OPPOSITE_ORDER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
_OPPOSITES = "opposites"


def compares_plainly(value: ast.Compare, *, is_ordered: bool) -> None:
    """Let ``not a == b`` become ``a != b``, since a comparison gives a bool.

    Where the operands are ordered, as ints are and floats are not, ``not a < b`` likewise.
    """
    opposites = _OPPOSITE_EQUALITY | (_OPPOSITE_ORDER if is_ordered else {})
    setattr(value, _OPPOSITES, opposites)


def negated(condition: ast.expr) -> ast.expr:
    """Return what is true where a condition is false."""
    opposites = _OPPOSITE | getattr(condition, _OPPOSITES, {})
    match condition:
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Compare(left, [sign], [right]) if type(sign) in opposites:
            made = ast.Compare(left, [opposites[type(sign)]()], [right])
            setattr(made, _OPPOSITES, opposites)
            return made
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
    return ast.UnaryOp(ast.Not(), condition)


def condition(tree: ast.expr) -> ast.expr:
    """Return an expression as the condition of a statement, where ``bool`` says nothing."""
    match tree:
        case ast.Call(function, [inner], []) if reference_of(function) == _BOOL:
            return condition(inner)
        case ast.BoolOp(sign, parts):
            return ast.BoolOp(sign, list(map(condition, parts)))
        case ast.UnaryOp(ast.Not() as sign, inner):
            return ast.UnaryOp(sign, condition(inner))
    return tree


def names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def ends(body: Sequence[ast.stmt]) -> bool:
    """Return whether control never leaves this code at its end."""
    match body[-1] if body else None:
        case ast.Raise() | ast.Return() | ast.Break() | ast.Continue():
            return True
        case ast.With(_, [*_, ast.Return() | ast.Break() | ast.Continue()]):
            return True  # unlike what raises, which the manager may hold back
        case ast.If(_, inner, other):
            return ends(inner) and ends(other)
    return False


HELPERS = "_torchscript"
"""The module of a package that holds operators which Python and torch do not have."""
OBJECTS = "_objects"
WEIGHTS = "_weights"

_MODULES = {
    "F": "torch.nn.functional", "enum": "enum", "math": "math", "nn": "torch.nn", "torch": "torch",
}  # fmt: skip
"""The modules that forms name, by the name that they have there."""

_HOMES = {
    **dict.fromkeys(
        ("casting", "entered", "foreign", "missing", "native", "new", "operator"), OBJECTS
    ),
    **dict.fromkeys(("build", "shared", "tensor"), WEIGHTS),
    **dict.fromkeys(("Any", "NamedTuple", "Optional", "Protocol", "Union"), "typing"),
}
"""The modules from which forms take what is no builtin, by its name."""

_REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class Reference:
    """Something that a module imports or defines.

    ``home``: the module it comes from, "" for builtins; ``name``: its name there, "" for the
    module itself; ``shown``: the name that the importing module should give it. ``definition``
    takes the place of all three for what the package itself defines.
    """

    home: str
    name: str
    shown: str
    definition: Any = None

    @property
    def wanted_name(self) -> str:
        return self.shown if self.definition is None else str(self.definition.name)

    @property
    def key(self) -> str:
        if self.definition is not None:
            return f"definition@{self.definition.number}"
        return f"{self.shown}@{self.home}:{self.name}"

    def __deepcopy__(self, memo: object) -> Reference:
        return self  # copies of a tree refer to the same


_BOOL = Reference("", "bool", "bool")


def _to(reference: Reference) -> ast.Name:
    made = ast.Name(reference.key, ast.Load())
    setattr(made, _REFERENCE, reference)
    return made


def reference_of(node: ast.AST) -> Reference | None:
    """Return what a node refers to; None for other nodes."""
    return getattr(node, _REFERENCE, None)


def to_definition(definition: Any) -> ast.Name:
    return _to(Reference("", "", "", definition))


def builtin(name: str) -> ast.Name:
    return _to(Reference("", name, name))


def imported(home: str, name: str) -> ast.Name:
    return _to(Reference(home, name, name))


def helper(key: str) -> ast.Name:
    """Refer to a function of the package's own small run time."""
    return _to(Reference(HELPERS, key, helper_name(key)))


def helper_name(key: str) -> str:
    """Return the name of the function for an operator: ``aten::sorted.int`` is ``sorted_int``."""
    shown = key.partition("::")[2].replace(".", "_").strip("_")
    is_taken = keyword.iskeyword(shown) or hasattr(builtins, shown)
    return f"{shown}_" if is_taken else shown


def form(text: str, *arguments: ast.expr) -> ast.expr:
    """Return an expression such as ``torch.device(_0)`` with its arguments filled in.

    Its other names are those of modules, builtins, and what packages import by its name.
    """
    filled = statement(text, *arguments)
    assert isinstance(filled, ast.Expr)
    return filled.value


def statement(text: str, *arguments: ast.expr) -> ast.stmt:
    """Return a statement such as ``del _0[_1]`` with its arguments filled in."""
    (parsed,) = ast.parse(text).body
    filled: ast.stmt = _Fill(arguments).visit(parsed)
    return filled


class _Fill(ast.NodeTransformer):
    def __init__(self, arguments: Sequence[ast.expr]) -> None:
        self._arguments = arguments

    def visit_Name(self, node: ast.Name) -> ast.AST:
        name = node.id
        if _PARAMETER.fullmatch(name):
            return self._arguments[int(name[1:])]
        if name in _MODULES:
            return _to(Reference(_MODULES[name], "", name))
        return imported(_HOMES[name], name) if name in _HOMES else builtin(name)
