"""Plain statements, as torch prints most code: from their text to nodes without Python's parser.

A plain statement stands on one line: an assignment to names, a call or a last ``return``, of names,
attributes, calls, literals and elements. Runs of such lines are cut out of the text of a function,
and the parser reads what is left, with an empty tuple in the place of each run.

What is read here has the meaning that the parser and :mod:`.lowering` would give it. Anything that
this reader does not know, and every error, makes it give up the whole function, which is then
lowered from its tree: :class:`NotPlain` says so.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple, Protocol

from tsarchive.ir.classes import ClassType
from tsarchive.ir.graph import Node, Value
from tsarchive.ir.schema import NO_DEFAULT, Argument
from tsarchive.ir.text_limits import logical_line
from tsarchive.ir.types import BOOL, FLOAT, INT, NONE, STRING, TENSOR, ListType, Type
from tsarchive.ir.values import is_default

from .context import Context
from .emitter import Emitter
from .grammar import OF_PYTHON
from .matching import Call, Plan
from .places import CodePlace, Cursor, Located
from .references import (
    Builtin,
    Frame,
    FunctionReference,
    MethodReference,
    OperatorReference,
    Reference,
    Scope,
    Special,
    Typed,
    TypeReference,
    typed,
)


class NotPlain(Exception):
    """The text of a function that is to be read by the parser."""


class Lowering(Protocol):
    """What lowers the function around plain statements."""

    context: Context
    cursor: Cursor
    frame: Frame
    emit: Emitter
    scope: Scope

    def reference_of(self, name: str) -> Reference | None: ...
    def parts_of(self, reference: Reference, count: int, node: Located) -> list[Typed]: ...
    def store_name(self, name: str, reference: Reference, since: int, node: Located) -> None: ...
    def name_constant(self, name: str, made: Value, before: int) -> None: ...


class Run(NamedTuple):
    """Plain lines of one block, or a line with ``if`` and a plain test.

    ``line`` is the number of the first in the record.
    """

    text: str
    line: int

    def as_statements(self) -> str:
        """Return text that parses where the plain parts of this do."""
        return self.text if self.text.endswith("\n") else f"{self.text} pass\n"

    def assigned_names(self) -> set[str]:
        """Return every name that the statements assign."""
        found = _ASSIGNED.findall(self.text)
        return {name for names in found for name in names.split(", ")}


class PlainText(NamedTuple):
    """The text of a function cut up: ``runs`` by their first lines, ``rest`` for the parser.

    ``result`` is the last statement, a ``return`` on the line behind the one run, where that is all
    that the function has; there is nothing to parse then.
    """

    runs: dict[int, Run]
    rest: str
    result: Run | None


_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
# Their first argument is a type, or they have rules of their own.
_NOT_CALLED: Final = "".join(
    rf"(?<!\b{name}\()"
    for name in ("annotate", "awaitable", "fork", "isinstance", "unchecked_cast", "uninitialized",
                 "__new__", "tolist")
)  # fmt: skip
_STRING: Final = r'"[ !#-\[\]-~]*"'
# Names, numbers, signs between and around them; that they fit together is found out by reading.
_WORDS_AND_SIGNS: Final = r"[A-Za-z0-9_.=)\]\[]*"
_EXPRESSION: Final = (
    rf"{_WORDS_AND_SIGNS}(?:(?:, |\({_NOT_CALLED}|{_STRING}|-(?=[0-9])){_WORDS_AND_SIGNS})*"
)
_TARGETS: Final = rf"{_NAME}(?:, {_NAME})*"
_LINE: Final = rf"(?:{_TARGETS},? = )?(?=[A-Za-z_0-9\"(\[-]){_EXPRESSION}\n"
_WORDS: Final = r"(?!(?:return|pass|else|break|continue|import|global|raise|del)\b)"
_RUN: Final = re.compile(rf"( +){_WORDS}{_LINE}(?:\1{_WORDS}{_LINE})*")
_RESULT: Final = re.compile(rf"( +)return {_EXPRESSION}\n")
_TEST: Final = re.compile(rf"( +)if (?!True\b|False\b|not\b)({_EXPRESSION}):\n")
_ASSIGNED: Final = re.compile(rf"^ *({_TARGETS}),? = ", re.MULTILINE)
# Of other lines; where brackets and quotes do not end, it takes long to see that.
_LONGEST: Final = 4_000
_MOST_IN_LINE: Final = 2_000
_DEEPEST: Final = 50


def plain_text(text: str, first_line: int) -> PlainText | None:
    """Cut the plain statements out of the text of a function; None where there are none.

    ``first_line`` is the number of its first line in the record.
    """
    runs: dict[int, Run] = {}
    pieces: list[str] = []
    position, line, end, other = 0, first_line, len(text), logical_line()
    while position < end:
        run = _RUN.match(text, position)
        found = run or other.match(text, position, position + _LONGEST)
        if found is None:
            return None
        position = found.end()
        count = found[0].count("\n")
        if run is not None:
            runs[line] = Run(run[0], line)
            pieces.append(_standing_for(run[0], len(run[1]), count))
        elif (test := _TEST.fullmatch(found[0])) and len(test[2]) > 1:
            runs[line] = Run(found[0][:-1], line)
            pieces.append(f"{test[1]}if ({' ' * (len(test[2]) - 2)}):\n")
        else:
            pieces.append(found[0])
        line += count
    result = _result(pieces, line) if len(pieces) == 2 + len(runs) else None
    return PlainText(runs, "".join(pieces), result) if runs or result else None


def _standing_for(text: str, column: int, lines: int) -> str:
    """Return a statement that begins and ends where some lines do: an empty tuple."""
    width = len(text) - 1 - (text.rfind("\n", 0, -1) + 1)
    room = width - column - 2 if lines == 1 else width - 1
    return " " * column + "(" + "\n" * (lines - 1) + " " * room + ")\n"


def _result(pieces: list[str], line: int) -> Run | None:
    """Return the last piece, if it is a plain ``return`` behind a header and one run at most."""
    header, *run, last = pieces
    found = _RESULT.fullmatch(last)
    if found is None or len(run) > 1 or not all(text.startswith(f"{found[1]}(") for text in run):
        return None
    code = header.lstrip(" ")
    is_inside = code.startswith("def ") and len(found[1]) > len(header) - len(code)
    return Run(last, line - 1) if is_inside else None


_TOKEN: Final = re.compile(
    rf"{_STRING}|\[-?[0-9]{{1,18}}(?:, -?[0-9]{{1,18}})*\]"
    rf"|getattr\({_NAME}(?:\.{_NAME})*, {_STRING}\)"
    r"|[A-Za-z_.][A-Za-z0-9_.]*[(=]?|, |-?[0-9][0-9.e]*(?:(?<=e)-[0-9]+)?|.",
    re.DOTALL,
)
_TARGET: Final = re.compile(rf" +(?:return |({_TARGETS})(,?) = )?")
_WORD: Final = re.compile(r"(\.?)([A-Za-z_][A-Za-z0-9_.]*)([(=]?)")
_GETTING: Final = re.compile(rf'getattr\(({_NAME}(?:\.{_NAME})*), "(.*)"\)')
_INTEGER: Final = re.compile("-?(?:0|[1-9][0-9]{0,18})")
_FLOAT: Final = re.compile(r"-?[0-9]{1,18}\.[0-9]{0,20}(?:e-?[0-9]{1,3})?")
_INT64: Final = range(-(2**63), 2**63)
_CONSTANT: Final = re.compile(r"CONSTANTS\.c(?:0|[1-9][0-9]{0,8})")
_LITERALS: Final[dict[str, tuple[Any, Type]]] = {
    "True": (True, BOOL), "False": (False, BOOL), "None": (None, NONE),
}  # fmt: skip
_NUMBERS: Final = ("inf", "nan")
_LIST: Final = "prim::ListConstruct"
_INTS_TYPE: Final = ListType(INT)
_NOT_NAMES: Final = OF_PYTHON | {*keyword.kwlist, ""}
RESERVED: Final = frozenset(
    {*keyword.kwlist, *(form.value for form in Special), "torch", "__torch__"}
)
"""Names that mean always the same in plain statements: code that assigns them is not read here."""

# What a token is: a sign, the start of a bracket, or something with a value.
_CLOSING, _KEYWORD, _OPERATOR, _CALLED, _METHOD, _PARENTHESIS, _BRACKET, _ELEMENT = range(8)
_VALUE, _LITERAL, _INTS, _TABLE, _GETATTR, _NAMED = range(8, 14)
_CALLS: Final = (_OPERATOR, _CALLED)
_Token = tuple[int, Any]
_SIGNS: Final[dict[str, _Token]] = {
    "(": (_PARENTHESIS, None), "[": (_BRACKET, None),
    ")": (_CLOSING, (*_CALLS, _PARENTHESIS)), "]": (_CLOSING, (_BRACKET, _ELEMENT)),
}  # fmt: skip


# Half the time of a call of the class.
_new = tuple.__new__


class PlainReader:
    """Appends the nodes of plain statements to the frame of a lowering.

    Raises NotPlain, or the error of what it calls; then some nodes may be there already.
    """

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self.frame = lowering.frame
        self.emit = lowering.emit
        self.cursor = lowering.cursor
        self.constant = lowering.context.constant
        self.plans = lowering.context.overloads.plans(lowering.frame.version)
        self.known: dict[str, _Token] = dict(_SIGNS)
        self._line = 0
        self._defaults: dict[int, Value] = {}
        self._has_empty_list = False

    def read(self, run: Run) -> None:
        """Append the nodes of all statements."""
        self._line = run.line
        for text in run.text.splitlines():
            self._statement(text)
            self._line += 1
        self.cursor.spot = None

    def test(self, run: Run) -> Reference:
        """Return what the test of an ``if`` denotes."""
        self._line = run.line
        reference, *others = self._expressions(run.text[:-1], run.text.index("if ") + len("if "))
        if others:
            raise NotPlain
        self.cursor.spot = None
        return reference  # type: ignore[no-any-return]

    def result(self, run: Run) -> Reference:
        """Return what a ``return`` gives back; the place stays that of the statement."""
        self._line, text = run.line, run.text[:-1]
        start = text.index("return")
        reference, *others = self._expressions(text, start + len("return "))
        if others:
            raise NotPlain
        self._move(start, len(text))
        return reference  # type: ignore[no-any-return]

    def _statement(self, text: str) -> None:
        found = _TARGET.match(text)
        assert found is not None
        target, comma = found.groups()
        frame = self.frame
        since, constants = len(frame.block.nodes), len(frame.constants)
        at, end = found.end(), len(text)
        is_several = comma or (target is not None and "," in target)
        while is_several and _is_in_parentheses(text, at, end):
            at, end = at + 1, end - 1
        reference, *others = self._expressions(text[:end], at)
        if target is None:
            if others:
                raise NotPlain
            return
        if is_several:
            self._move(found.start(1), len(text))
            self._unpack(target.split(", "), [reference, *others], since)
            return
        is_value = type(reference) is Typed
        if others:
            raise NotPlain
        if not is_value:
            self._move(found.start(1), len(text))
        self.lowering.store_name(target, reference, since, self.cursor.statement)
        if is_value and len(frame.constants) > constants:
            self.lowering.name_constant(target, reference.value, constants)

    def _unpack(self, targets: list[str], references: list[Reference], since: int) -> None:
        """Assign to several names: the parts of one value, or as many values as there are names."""
        lowering, node = self.lowering, self.cursor.statement
        parts: Sequence[Reference] = references
        if len(references) == 1:
            parts = lowering.parts_of(references[0], len(targets), node)
        if len(parts) != len(targets):
            raise NotPlain
        for target, part in zip(targets, parts, strict=True):
            if len(references) > 1:
                since = len(self.frame.block.nodes)
            lowering.store_name(target, part, since, node)

    def _move(self, start: int, end: int) -> None:
        """Let nodes that are appended from now on have this place."""
        self.cursor.spot = self._place(start, end)

    def _place(self, start: int, end: int) -> CodePlace:
        line = self._line
        return _new(CodePlace, (self.cursor.places, line, start, line, end))

    def _expressions(self, text: str, at: int) -> list[Any]:
        """Return what the expressions denote that begin at a column and end with the line.

        ``given`` are the values in the innermost bracket so far, ``names`` the positions of those
        that are given by keyword, and ``begun`` is where the last of them begins; ``commas``
        counts. ``opened`` is what the bracket belongs to, ``callee``, which begins at ``start``.
        """
        if len(text) > _MOST_IN_LINE:
            raise NotPlain
        values, known = self.lowering.scope.names, self.known
        self._has_empty_list = False
        around: list[tuple[Any, ...]] = []
        given: list[Any] = []
        names: dict[str, int] | None = None
        opened: int = _PARENTHESIS
        callee: Any = None
        begun = start = commas = 0
        for token in _TOKEN.findall(text, at):
            before, at = at, at + len(token)
            if token == ", ":
                commas += 1
                if commas != len(given):
                    raise NotPlain
                continue
            made = values.get(token)
            if made is None:
                code, content = known.get(token) or self._classified(token)
                if code == _VALUE:
                    made = content
                elif code == _CLOSING:
                    if not around or opened not in content or not 0 <= len(given) - commas <= 1:
                        raise NotPlain
                    if opened == _OPERATOR:
                        made = self._operator(callee, given, names, start, at)
                    else:
                        made = self._closed(opened, callee, given, commas, names, start, at)
                    before = start
                    given, names, commas, opened, callee, start = around.pop()
                elif code <= _BRACKET:
                    if code == _KEYWORD:
                        names = {} if names is None else names
                        if content in names or opened not in _CALLS:
                            raise NotPlain
                        names[content] = len(given)
                        continue
                    if len(around) > _DEEPEST:
                        raise NotPlain
                    if code != _OPERATOR:
                        place = begun, before, at
                        code, content, before = self._opened(code, content, given, commas, place)
                    around.append((given, names, commas, opened, callee, start))
                    given, names, commas = [], None, 0
                    opened, callee, start = code, content, before
                    continue
                elif len(given) == commas:
                    made = self._value(code, content, before, at)
                else:
                    before = begun
                    made = self._element_at(code, content, given.pop(), before, at)
            if type(made) is not Typed and opened != _PARENTHESIS:
                raise NotPlain  # where it becomes a value is not known yet
            given.append(made)
            begun = before
        if around or commas != len(given) - 1:
            raise NotPlain
        return given

    def _opened(
        self, code: int, content: Any, given: list[Any], commas: int, place: tuple[int, int, int]
    ) -> tuple[int, Any, int]:
        """Return what a bracket is, what it belongs to, and where that begins."""
        begun, before, at = place
        if len(given) == commas:
            if code == _METHOD:
                raise NotPlain
            return code, self._resolved(content, before) if code == _CALLED else None, before
        if code == _METHOD:
            self._move(begun, at - 1)
            return _CALLED, self.emit.attribute(given.pop(), content, self.cursor.statement), begun
        if code == _BRACKET:
            return _ELEMENT, given.pop(), begun
        raise NotPlain

    def _closed(
        self, opened: int, callee: Any, given: list[Any], commas: int, names: dict[str, int] | None,
        start: int, end: int,
    ) -> Reference:  # fmt: skip
        """Return what a bracket stands for, with what it belongs to."""
        if opened == _CALLED:
            self._move(start, end)
            return self._call(callee, _arguments(given, names))
        if len(given) == commas and opened != _BRACKET:
            raise NotPlain
        if opened == _PARENTHESIS and not commas:
            return given[0]  # type: ignore[no-any-return]
        if opened == _ELEMENT:
            if commas:
                raise NotPlain
            return self._element(callee, given[0], start, end)
        self._move(start, end)
        if opened == _PARENTHESIS:
            if any(type(value) is not Typed for value in given):
                raise NotPlain
            return self.emit.conversions.tuple_of(given)
        made = self.emit.list_literal(self.cursor.statement, given, None)
        self._has_empty_list = self._has_empty_list or made.is_empty_list
        return made

    def _call(self, callee: Reference, call: Call) -> Reference:
        node = self.cursor.statement
        match callee:
            case OperatorReference(kind, target):
                if target is not None:
                    call = Call(call.positional, call.keywords, target)
                return self.emit.call_named_operator(kind, call, node)
            case FunctionReference(function):
                return self.emit.call_function(function, call, node)
            case MethodReference(target, name):
                return self.emit.call_method(target, name, call, node)
            case Builtin(name):
                return self.emit.call_builtin(name, call, node)
            case TypeReference(type_):
                return self.emit.construct(type_, call, node)
            case Typed(_, ClassType(is_module=is_module)):
                name = "forward" if is_module else "__call__"
                return self.emit.call_method(callee, name, call, node)
        raise NotPlain

    def _operator(
        self, kind: str, given: list[Typed], names: dict[str, int] | None, start: int, end: int
    ) -> Reference:
        """Call an operator, by a plan for calls with arguments of these types if there is one."""
        place = self._place(start, end)
        plan: Plan | Literal[False] | None = None
        if not (names or self._has_empty_list):
            key = (kind, *[value[1] for value in given])
            plan = self.plans.get(key, False)
            if plan is False:
                plan = self.plans[key] = self.emit.plan(kind, Call(given))
        if not plan:
            self.cursor.spot = place
            call = _arguments(given, names)
            return self.emit.call_named_operator(kind, call, self.cursor.statement)
        inputs = [value[0] for value in given]
        for argument in plan.defaults:
            inputs.append(self._defaults.get(id(argument)) or self._default(argument))
        made = self.frame.add(Node(kind, inputs, [], [], {}, plan.schema, place), plan.result)
        default = plan.last_default
        if default is not NO_DEFAULT and is_default(default, given[-1][0]):
            made.written_arguments = len(given)
        return typed(made.outputs[0])

    def _default(self, argument: Argument) -> Value:
        found = self._defaults[id(argument)] = self.frame.default(argument)
        return found

    def _element_at(
        self, code: int, content: Any, base: Reference, start: int, end: int
    ) -> Reference:
        """Return ``base[1]``."""
        if code != _INTS or len(content) != 1:
            raise NotPlain
        return self._element(base, typed(content[0]), start, end)

    def _element(self, base: Reference, index: Reference, start: int, end: int) -> Reference:
        if type(base) is not Typed or type(index) is not Typed or isinstance(base.type, ClassType):
            raise NotPlain  # elements of modules have types that are told around them
        self._move(start, end)
        if base.type is TENSOR:
            return self.emit.tensor_element(base, [index], self.cursor.statement)
        return self.emit.element(base, index, self.cursor.statement, None)

    def _value(self, code: int, content: Any, start: int, end: int) -> Reference:
        """Return what a token stands for that is no literal of one value."""
        if code == _TABLE:
            try:
                return typed(self.frame.constant(*self.constant(content)))
            except IndexError:
                raise NotPlain from None
        if code == _NAMED:
            return self._resolved(content, start)
        if code == _INTS:
            node = Node(_LIST, [*content], [], [], {}, None, self._place(start, end))
            return typed(self.frame.add(node, _INTS_TYPE).outputs[0])
        parts, attribute = content
        base = self._resolved(parts, start + len("getattr("))
        self._move(start, end)
        return self.emit.attribute(base, attribute, self.cursor.statement)

    def _resolved(self, parts: list[str], start: int) -> Reference:
        """Return what a name with attributes denotes."""
        root, *attributes = parts
        found = self.lowering.reference_of(root)
        if found is None:
            if root not in _NUMBERS or attributes:
                raise NotPlain
            return typed(self.frame.constant(float(root), FLOAT))
        end = start + len(root)
        for attribute in attributes:
            end += len(attribute) + 1
            self._move(start, end)
            found = self.emit.attribute(found, attribute, self.cursor.statement)
        return found

    def _classified(self, token: str) -> _Token:
        """Return what a token is that is no variable of the innermost block."""
        code, content = _token(token)
        if code == _LITERAL:
            found: _Token = _VALUE, typed(self.frame.constant(*content))
        elif code == _INTS:
            found = code, [self.frame.constant(item, INT) for item in content]
        else:
            found = code, content
        self.known[token] = found
        return found


@lru_cache(4096)  # archives give the names
def _token(token: str) -> _Token:
    """Return what a token is, whatever stands around it. Raises NotPlain for one that is none."""
    match = _WORD.fullmatch(token)
    if match is None:
        return _literal_token(token)
    if token in _LITERALS:
        return _LITERAL, _LITERALS[token]
    point, name, sign = match.groups()
    parts = name.split(".")
    if _CONSTANT.fullmatch(token):
        return _TABLE, int(parts[1][1:])
    if not _NOT_NAMES.isdisjoint(parts) or (len(parts) > 1 and (point or sign == "=")):
        raise NotPlain
    if sign == "=":
        return _KEYWORD, name
    if point:
        if not sign:
            raise NotPlain
        return _METHOD, name
    kind = _operator_kind(parts) if sign else None
    if kind is not None:
        return _OPERATOR, kind
    return (_CALLED if sign else _NAMED), parts


def _literal_token(token: str) -> _Token:
    """Return what a literal is, of a string, of a number, or of a list of ints."""
    if token[0] == '"' and len(token) > 1:
        return _LITERAL, (token[1:-1], STRING)
    if token[0] == "[":
        return _INTS, [*map(_int, token[1:-1].split(", "))]
    if _FLOAT.fullmatch(token):
        return _LITERAL, (float(token), FLOAT)
    found = _GETTING.fullmatch(token)
    if found is None:
        return _LITERAL, (_int(token), INT)
    name, attribute = found.groups()
    parts = name.split(".")
    if attribute in OF_PYTHON or not _NOT_NAMES.isdisjoint(parts):
        raise NotPlain
    return _GETATTR, (parts, attribute)


def _is_in_parentheses(text: str, start: int, end: int) -> bool:
    """Return whether an expression begins with a parenthesis that ends with it."""
    if text[start] != "(" or text[end - 1] != ")":
        return False
    depths = [*accumulate(_DEPTHS.get(token[-1:], 0) for token in _signs(text, start, end))]
    return depths.index(0) == len(depths) - 1 if 0 in depths else False


def _signs(text: str, start: int, end: int) -> list[str]:
    """Return the tokens that open or close a bracket and do not do both."""
    tokens = _TOKEN.findall(text, start, end)
    return [token for token in tokens if token[-1:] in "([" or token in (")", "]")]


_DEPTHS: Final = {"(": 1, "[": 1, ")": -1, "]": -1}


def _operator_kind(parts: list[str]) -> str | None:
    """Return the operator that a name with attributes means: ``torch.add``, ``ops.prim.dtype``."""
    match parts:
        case ["torch", name] if name != "autograd":
            return f"aten::{name}"
        case ["ops", namespace, name] if namespace != "aten" or name != "autograd":
            return f"{namespace}::{name}"
    return None


def _int(text: str) -> int:
    if not _INTEGER.fullmatch(text) or int(text) not in _INT64:
        raise NotPlain
    return int(text)


def _arguments(given: list[Typed], names: dict[str, int] | None) -> Call:
    """Return the arguments of a call, of which those with names stand last."""
    if names is None:
        return Call(given)
    first = len(given) - len(names)
    if [*names.values()] != [*range(first, len(given))]:
        raise NotPlain
    return Call(given[:first], {name: given[place] for name, place in names.items()})
