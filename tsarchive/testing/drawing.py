"""Drawing of the parts of programs: from expressions and statements to functions and models."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from .vocabulary import LITERALS, PLAIN_TYPES, Hole, Vocabulary, holes, parts, split

LOOPS: tuple[str, ...] = (
    "for <+int> in range(3)", "for <+int> in range(<int> % 4)", "for <+int> in range(1, <int> % 5)",
    "for <+int> in range(4, 0, -2)", "for <+int> in <List[int]>", "for <+Tensor> in <List[Tensor]>",
    "for <+str> in <List[str]>", "for <+int>, <+Tensor> in enumerate(<List[Tensor]>)",
    "for <+int>, <+int> in enumerate(<List[int]>, 1)",
    "for <+int>, <+str> in zip(<List[int]>, <List[str]>)",
    "for <+int>, (<+int>, <+float>) in enumerate(zip(<List[int]>, <List[float]>))",
    "for <+str> in <Dict[str, int]>", "for <+str>, <+int> in <Dict[str, int]>.items()",
    "for <+Tensor> in <Dict[int, Tensor]>.values()", "for <+str> in <str>",
    "for <+Tensor> in <Tensor>", "for <+int>, <+str> in <List[Tuple[int, str]]>",
    "for <+int> in <List[int]>[::-1]", "for <+List[int]> in <List[List[int]]>",
)  # fmt: skip

# Loops that are unrolled: nothing may leave their body.
UNROLLED: tuple[str, ...] = (
    "for <+Tensor> in (<Tensor>, <Tensor>)",
    "for <+int>, <+Tensor> in enumerate((<Tensor>, <Tensor>))",
)  # fmt: skip

WITH: tuple[str, ...] = (
    "with torch.no_grad()",
    "with torch.autograd.profiler.record_function('a name')",
)

# Ways out after which torch refines nothing: what comes next is reached in another turn as well.
_OF_LOOPS = ("break", "continue")
_EXPRESSION_DEPTH = 2
_MOST_STATEMENTS = 4
_MOST_TURNS = 4


@dataclass(slots=True)
class Scope:
    """The variables in scope.

    ``types``: the type of every variable that may be read; ``fixed``: those of them that may not be
    assigned; ``used``: every name of the function, since torch compiles some blocks as part of
    their surroundings.
    """

    types: dict[str, str] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    def inner(self) -> Scope:
        return replace(self, types={**self.types}, fixed={*self.fixed})

    def closed(self) -> Scope:
        """Return an inner scope in which no variable of this one may be assigned."""
        return replace(self.inner(), fixed={*self.types})

    def named(self, type_: str) -> list[str]:
        return [name for name, found in self.types.items() if found == type_]

    def declare(self, name: str, type_: str) -> None:
        self.types[name] = type_
        self.used.add(name)

    def refine(self, name: str, type_: str) -> None:
        """Refine a variable to ``type_``; assigning it would undo that."""
        self.types[name] = type_
        self.fixed.add(name)

    def join(self, before: Container[str], branches: Iterable[Scope]) -> None:
        """Adopt the variables that every branch that falls through defines with the same type.

        ``before`` are the names that existed before the branches.
        """
        first, *rest = branches
        for name, type_ in first.types.items():
            if name not in before and all(branch.types.get(name) == type_ for branch in rest):
                self.declare(name, type_)


@dataclass(frozen=True, slots=True)
class Place:
    """The context of a statement: how many blocks deeper it may nest, and what may leave it.

    ``exits`` says whether the function has return, break and continue anywhere but at its end.
    """

    depth: int
    result: str
    exits: bool
    nested: bool = False
    in_loop: bool = False
    may_return: bool = True

    def inside(self) -> Place:
        return replace(self, depth=self.depth - 1, nested=True)


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of code, indented from zero; ``leaves`` when control never reaches their end."""

    lines: list[str]
    leaves: bool = False

    def indented(self) -> list[str]:
        return ["    " + line for line in self.lines]


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition and its refinements: a variable's type where it holds, and where it does not.

    An empty type is one that stays unknown.
    """

    text: str
    variable: str = ""
    holds: str = ""
    fails: str = ""


class Statements:
    """Draws expressions of a wanted type, statements and blocks."""

    def __init__(self, draw: DrawFn, vocabulary: Vocabulary) -> None:
        self.draw = draw
        self.vocabulary: Vocabulary = vocabulary

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(options))

    def chance(self, out_of: int) -> bool:
        """Return True once in ``out_of`` draws; False is the simpler answer."""
        return self.draw(st.integers(1, out_of)) == out_of

    def expression(self, type_: str, scope: Scope, depth: int) -> str:
        """Draw an expression of ``type_``, of forms nested up to ``depth`` deep."""
        options = scope.named(type_)
        options += [_LITERAL] if type_ in LITERALS else self.vocabulary.leaves_of(type_)
        if depth:
            options += self.usable(self.vocabulary.expressions.get(type_, []), scope)
        chosen = self.pick(options)
        if chosen == _LITERAL:
            return self.draw(LITERALS[type_])
        return self.fill(chosen, scope, max(depth - 1, 0))[0]

    def usable(self, forms: Sequence[str], scope: Scope) -> list[str]:
        """Return the forms whose holes can be filled from the scope."""
        return [
            form
            for form in forms
            if all(_variables(hole, scope) for hole in holes(form) if hole.needs_variable)
        ]

    def fill(self, form: str, scope: Scope, depth: int) -> tuple[str, dict[str, str]]:
        """Return the text of a form, and the variables that it defines."""
        texts: list[str] = []
        labelled: dict[str, str] = {}
        defined: dict[str, str] = {}
        for part in parts(form):
            if isinstance(part, str):
                texts.append(part)
                continue
            if not part.type:
                name = labelled[part.label]
            elif part.marker == "+":
                name = self.new_name(scope, defined)
                defined[name] = part.type
            elif part.needs_variable:
                name = self.pick(_variables(part, scope))
            else:
                inside = scope.inner() if part.extra else scope
                if part.extra:
                    inside.declare(*part.extra)
                name = self.expression(part.type, inside, depth)
            labelled[part.label] = name
            texts.append(name)
        return "".join(texts), defined

    def new_name(self, scope: Scope, also_taken: Container[str] = ()) -> str:
        stem = name = self.pick(_NAMES)
        count = 1
        while name in also_taken or name in scope.used:
            count += 1
            name = f"{stem}_{count}"
        return name

    def body(self, scope: Scope, result: str, depth: int) -> list[str]:
        """Return the lines of a function that returns ``result``."""
        block = self.block(scope, Place(depth, result, exits=self.chance(2)))
        if block.leaves:
            return block.lines
        return [*block.lines, self._return(scope, result)]

    def block(self, scope: Scope, place: Place) -> Block:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, _MOST_STATEMENTS))):
            statement = self._statement(scope, place)
            lines += statement.lines
            if statement.leaves:
                return Block(lines, leaves=True)
        return Block(lines)

    def _statement(self, scope: Scope, place: Place) -> Block:
        kinds = [Statements._simple] * 4 + [Statements._refining_assert]
        kinds += [Statements._exit] * 3 * (place.in_loop and place.exits)
        if place.depth:
            kinds += [
                Statements._if, Statements._if, Statements._loop, Statements._while,
                Statements._unrolled, Statements._with, Statements._exit,
            ]  # fmt: skip
        return self.pick(kinds)(self, scope, place)

    def _text(self, type_: str, scope: Scope) -> str:
        return self.expression(type_, scope, self.draw(st.integers(0, _EXPRESSION_DEPTH)))

    def _filled(self, form: str, scope: Scope) -> tuple[str, dict[str, str]]:
        return self.fill(form, scope, self.draw(st.integers(0, _EXPRESSION_DEPTH)))

    def _simple(self, scope: Scope, place: Place) -> Block:
        form = self.pick(self.usable(self.vocabulary.statements, scope))
        text, defined = self._filled(form, scope)
        _declare(scope, defined)
        return Block(text.split("\n"))

    def _return(self, scope: Scope, result: str) -> str:
        return "return" if result == "None" else f"return {self._text(result, scope)}"

    def _refining_assert(self, scope: Scope, place: Place) -> Block:
        optional = [name for name, type_ in scope.types.items() if type_.startswith("Optional[")]
        if not optional:
            return self._simple(scope, place)
        name = self.pick(optional)
        (inner,) = split(scope.types[name])[1]
        scope.refine(name, inner)
        return Block([f"assert {name} is not None"])

    def _exit(self, scope: Scope, place: Place) -> Block:
        """Draw a conditional exit from the block."""
        condition = self._condition(scope)
        inner = scope.inner()
        _refine(inner, condition.variable, condition.holds)
        way = self._way_out(inner, place)
        if way not in _OF_LOOPS:
            _refine(scope, condition.variable, condition.fails)
        return Block([f"if {condition.text}:", f"    {way}"])

    def _way_out(self, scope: Scope, place: Place) -> str:
        ways = ["raise"]
        if place.exits:
            ways += ["return"] * 2 * place.may_return + [*_OF_LOOPS] * place.in_loop
        way = self.pick(ways[::-1])
        if way == "raise":
            return f"raise {self.pick(_RAISED)}({self._text('str', scope)})"
        return self._return(scope, place.result) if way == "return" else way

    def _condition(self, scope: Scope) -> _Condition:
        refining = [
            name for name, type_ in scope.types.items() if split(type_)[0] in ("Optional", "Union")
        ]
        if refining and self.chance(2):
            return self._refining_condition(self.pick(refining), scope)
        plain = self.pick(("<bool>", "<Tensor>.sum() > 0", "<int>", "<bool> and <bool>"))
        return _Condition(self._filled(plain, scope)[0])

    def _refining_condition(self, name: str, scope: Scope) -> _Condition:
        head, arguments = split(scope.types[name])
        if head == "Union":
            first, second = arguments
            return _Condition(f"isinstance({name}, {first})", name, first, second)
        (inner,) = arguments
        known = scope.inner()
        known.refine(name, inner)
        more = self._text("bool", known)
        return self.pick(
            (
                _Condition(f"{name} is not None", name, inner, "None"),
                _Condition(f"{name} is None", name, "None", inner),
                _Condition(f"{name} is not None and {more}", name, holds=inner),
                _Condition(f"{name} is None or {more}", name, fails=inner),
            )
        )

    def _if(self, scope: Scope, place: Place) -> Block:
        condition = self._condition(scope)
        # Refinements of older variables end with the branch: torch forgets them in loops.
        before = frozenset((*scope.used, *scope.types))
        branches = [scope.inner(), scope.inner()]
        _refine(branches[0], condition.variable, condition.holds)
        _refine(branches[1], condition.variable, condition.fails)
        then = self.block(branches[0], place.inside())
        lines = [f"if {condition.text}:", *then.indented()]
        if self.chance(2):
            other = self._otherwise(branches[1], place)
            lines += other.lines
        else:
            other = Block([])
        going_on = [b for b, block in zip(branches, (then, other), strict=True) if not block.leaves]
        if not going_on:
            return Block(lines, leaves=True)
        scope.join(before, going_on)
        return Block(lines)

    def _otherwise(self, scope: Scope, place: Place) -> Block:
        """Draw `else`, or `elif` for an `else` that consists of another `if`."""
        if place.depth > 1 and self.chance(3):
            nested = self._if(scope, place.inside())
            return Block([f"el{nested.lines[0]}", *nested.lines[1:]], nested.leaves)
        block = self.block(scope, place.inside())
        return Block(["else:", *block.indented()], block.leaves)

    def _loop(self, scope: Scope, place: Place) -> Block:
        form = self.pick(self.usable(LOOPS, scope))
        return self._repeated(form, scope, replace(place.inside(), in_loop=True))

    def _unrolled(self, scope: Scope, place: Place) -> Block:
        form = self.pick(self.usable(UNROLLED, scope))
        # All iterations share one scope, in which blocks may not declare a variable again.
        return self._repeated(form, scope, replace(place.inside(), depth=0, in_loop=False))

    def _repeated(self, form: str, scope: Scope, place: Place) -> Block:
        header, defined = self._filled(form, scope)
        inner = scope.inner()
        _declare(inner, defined)
        return Block([f"{header}:", *self.block(inner, place).indented()])

    def _while(self, scope: Scope, place: Place) -> Block:
        turns = self.new_name(scope)
        scope.declare(turns, "int")
        scope.fixed.add(turns)
        condition = self._text("bool", scope)
        header = self.pick((f"while {turns} < {_MOST_TURNS}", f"while {turns} < 3 and {condition}"))
        inner = scope.inner()
        block = self.block(inner, replace(place.inside(), in_loop=True))
        lines = [f"{turns} = 0", f"{header}:", f"    {turns} += 1", *block.indented()]
        return Block(lines)

    def _with(self, scope: Scope, place: Place) -> Block:
        inside = replace(place.inside(), in_loop=False, may_return=False)
        if place.exits or place.nested:
            # Here torch may fail on variables that are first assigned inside `with`.
            scope = scope.closed()
        block = self.block(scope, inside)
        return Block([f"{self.pick(WITH)}:", *block.indented()], block.leaves)


_RAISED = ("ValueError", "RuntimeError", "AssertionError", "NotImplementedError")


def _declare(scope: Scope, defined: dict[str, str]) -> None:
    for name, type_ in defined.items():
        scope.declare(name, type_)


def _refine(scope: Scope, name: str, type_: str) -> None:
    if type_ == "None":
        del scope.types[name]
    elif type_:
        scope.refine(name, type_)


T = TypeVar("T")

_LITERAL = ""
# Names with a meaning in serialized code, and names that look generated.
_NAMES = (
    "a", "b", "x", "y", "out", "n", "x1", "x10", "_0", "_1", "_x", "value", "result", "attribute",
    "aten", "ops", "fork", "inf", "nan", "getattr", "uninitialized", "CONSTANTS", "self_",
    "a_variable_with_a_name_that_is_long",
)  # fmt: skip


def _variables(hole: Hole, scope: Scope) -> list[str]:
    """Return the variables that may stand in a hole."""
    is_assigned = hole.marker == "="
    return [name for name in scope.named(hole.type) if not (is_assigned and name in scope.fixed)]


_MOST_DEFINITIONS = 3
_HELPERS = ("f", "helper", "helper_whose_name_is_too_long_for_one_line", "twice", "g")
_CLASSES = ("Pair", "State", "Kind", "AClassWithANameThatIsLongerThanOthers", "C", "Counter")
_FIELDS = ("x", "count", "label", "values", "a_field_with_a_long_name", "_0")


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str
    default: str = ""
    keyword_only: bool = False

    @property
    def text(self) -> str:
        return f"{self.name}: {self.type}" + (f" = {self.default}" if self.default else "")


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a function. ``owner`` is "self" for methods and empty for functions."""

    name: str
    parameters: tuple[Parameter, ...]
    result: str
    owner: str = ""

    def header(self) -> str:
        shown = [self.owner] * bool(self.owner)
        for parameter in self.parameters:
            if parameter.keyword_only and "*" not in shown:
                shown.append("*")
            shown.append(parameter.text)
        return f"def {self.name}({', '.join(shown)}) -> {self.result}:"

    def commented_header(self) -> list[str]:
        """Return a header in the old style, with a type comment."""
        shown = [self.owner] * bool(self.owner)
        shown += [p.name + (f"={p.default}" if p.default else "") for p in self.parameters]
        types = ", ".join(parameter.type for parameter in self.parameters)
        return [
            f"def {self.name}({', '.join(shown)}):",
            f"    # type: ({types}) -> {self.result}",
        ]

    def calls(self, callee: str) -> list[str]:
        """Return calls with all arguments, only the required ones, and all of them by name."""
        positional = [p for p in self.parameters if not p.keyword_only]
        named = [f"{p.name}=<{p.type}>" for p in self.parameters if p.keyword_only]
        needed = [f"<{p.type}>" for p in positional if not p.default]
        by_name = [f"{p.name}=<{p.type}>" for p in reversed(self.parameters)]
        ways = (
            [*(f"<{p.type}>" for p in positional), *named],
            [*needed, *(f"{p.name}=<{p.type}>" for p in self.parameters
                        if p.keyword_only and not p.default)],
            by_name,
        )  # fmt: skip
        return [f"{callee}({', '.join(way)})" for way in ways]


class Definitions(Statements):
    """Draws functions and methods, named tuples, enums and script classes beside the model."""

    def signature(self, name: str, owner: str = "") -> Signature:
        result = self.pick([*self.vocabulary.types, "None"])
        return Signature(name, self.parameters(self.vocabulary.types), result, owner)

    def parameters(
        self, types: Sequence[str], *, by_name: bool = True, least: int = 0
    ) -> tuple[Parameter, ...]:
        """Draw up to three parameters; ``by_name`` allows keyword-only ones."""
        # TorchScript does not read back a keyword-only parameter behind one with a default.
        by_name = by_name and self.chance(4)
        scope = Scope()
        found: list[Parameter] = []
        for _ in range(self.draw(st.integers(least, 3))):
            type_, name = self.pick(types), self.new_name(scope)
            scope.declare(name, type_)
            default = "" if by_name else self._default(type_)
            found.append(Parameter(name, type_, default, by_name and self.chance(2)))
        return tuple(sorted(found, key=lambda p: (p.keyword_only, bool(p.default))))

    def _default(self, type_: str) -> str:
        """Draw a default, empty for none."""
        is_optional = type_.startswith("Optional")
        if not (is_optional or type_ in LITERALS) or not self.chance(3):
            return ""
        return "None" if is_optional else self.draw(LITERALS[type_])

    def function(self, signature: Signature, depth: int = 2) -> list[str]:
        """Return the lines of the definition."""
        scope = Scope()
        for parameter in signature.parameters:
            scope.declare(parameter.name, parameter.type)
        header = [signature.header()]
        if not any(p.keyword_only for p in signature.parameters) and self.chance(6):
            header = signature.commented_header()
        body = self.body(scope, signature.result, depth)
        return [*header, *("    " + line for line in body)]

    def add_forms(self, result: str, calls: list[str]) -> None:
        """Add calls as expressions, or as statements where they return nothing."""
        if result == "None":
            self.vocabulary.statements += calls
        else:
            self.vocabulary.add(result, *calls)

    def definitions(self) -> list[str]:
        kinds = (
            Definitions._helper, Definitions._helper, Definitions._named_tuple,
            Definitions._enum, Definitions._class,
        )  # fmt: skip
        lines: list[str] = []
        for _ in range(self.draw(st.integers(0, _MOST_DEFINITIONS))):
            lines += [*self.pick(kinds)(self), ""]
        return lines

    def definition_name(self, names: tuple[str, ...]) -> str:
        free = [name for name in names if name not in self.vocabulary.names]
        name = self.pick(free) if free else f"{names[0]}{len(self.vocabulary.names)}"
        self.vocabulary.names.add(name)
        return name

    def _helper(self) -> list[str]:
        signature = self.signature(self.definition_name(_HELPERS))
        lines = self.function(signature)
        self.add_forms(signature.result, signature.calls(signature.name))
        return lines

    def fields(self, types: list[str]) -> dict[str, str]:
        count = self.draw(st.integers(1, 3))
        return {name: self.pick(types) for name in _FIELDS[:count]}

    def _new_type(self, name: str, *constructors: str) -> None:
        self.vocabulary.types.append(name)
        self.vocabulary.leaves[name] = list(constructors)
        self.vocabulary.add(name, f"(<{name}> if <bool> else <{name}>)")
        self.vocabulary.statements += [f"<+{name}> = <{name}>", f"<={name}> = <{name}>"]

    def _named_tuple(self) -> list[str]:
        name = self.definition_name(_CLASSES)
        # torch fails to compare two tuple constants with complex numbers.
        types = [type_ for type_ in self.vocabulary.types if type_ != "complex"]
        fields = {f"f{member}" if member[0] == "_" else member: type_
                  for member, type_ in self.fields(types).items()}  # fmt: skip
        values = [f"<{type_}>" for type_ in fields.values()]
        named = [f"{member}={value}" for member, value in zip(fields, values, strict=True)]
        self._new_type(name, f"{name}({', '.join(values)})", f"{name}({', '.join(named)})")
        for index, (member, type_) in enumerate(fields.items()):
            self.vocabulary.add(type_, f"<{name}>.{member}", f"<{name}>[{index}]")
        defined = [f"    {member}: {type_}" for member, type_ in fields.items()]
        return [f"class {name}(NamedTuple):", *defined]

    def _enum(self) -> list[str]:
        name = self.definition_name(_CLASSES)
        type_, values = self.pick(
            (("int", ("1", "2", "-3")), ("str", ("'one'", "'two'")), ("float", ("0.5", "2.0")))
        )
        members = dict(zip(("RED", "GREEN", "blue_with_a_name_that_is_quite_long"), values))  # noqa: B905
        self._new_type(name, *(f"{name}.{member}" for member in members))
        self.vocabulary.add("str", f"<.{name}>.name")
        self.vocabulary.add(type_, f"<.{name}>.value", f"{name}.RED.value")
        self.vocabulary.add("bool", f"(<{name}> == <{name}>)", f"(<{name}> is {name}.RED)")
        return [f"class {name}(Enum):", *(f"    {m} = {value}" for m, value in members.items())]

    def _class(self) -> list[str]:
        """Draw a script class: fields that ``__init__`` sets, and methods."""
        name = self.definition_name(_CLASSES)
        fields = self.fields([*PLAIN_TYPES, "List[int]", "Optional[int]", "Dict[str, int]"])
        methods = type(self)(self.draw, self.vocabulary.copy())
        methods.add_fields("self", fields)
        lines: list[str] = []
        outside: list[tuple[str, list[str]]] = []
        for method in ("step", "a_method_with_a_name_that_is_long")[: self.draw(st.integers(0, 2))]:
            signature = methods.signature(method, "self")
            lines += methods.function(signature)
            # Inside the class, its methods have no defaults yet.
            methods.add_forms(signature.result, signature.calls(f"self.{method}")[:1])
            outside.append((signature.result, signature.calls(f"<{name}>.{method}")))
        parameters = ", ".join(f"{member}: {type_}" for member, type_ in fields.items())
        init = [f"def __init__(self, {parameters}):", *(f"    self.{f} = {f}" for f in fields)]
        self._new_type(name, f"{name}({', '.join(f'<{type_}>' for type_ in fields.values())})")
        self.vocabulary.objects.add(name)
        self.add_fields(f"<.{name}>", fields)
        for result, calls in outside:
            self.add_forms(result, calls)
        return [f"class {name}:", *(f"    {line}" for line in (*init, *lines))]

    def add_fields(self, owner: str, fields: dict[str, str]) -> None:
        """Add forms that read and write the fields of ``owner``."""
        for member, type_ in fields.items():
            self.vocabulary.add(type_, f"{owner}.{member}")
            self.vocabulary.statements.append(f"{owner}.{member} = <{type_}>")
            if type_ in ("int", "float", "Tensor"):
                self.vocabulary.statements.append(f"{owner}.{member} += <{type_}>")
            if type_ == "List[int]":
                self.vocabulary.statements.append(f"{owner}.{member}.append(<int>)")


_LAYERS = (
    "nn.Linear(3, 3)", "nn.ReLU()", "nn.Dropout(0.5)", "nn.Identity()", "nn.LayerNorm(3)",
    "nn.Sequential(nn.Linear(3, 3), nn.Tanh())", "nn.Flatten(0)", "nn.Softmax(-1)",
    "nn.Linear(3, 3, bias=False)",
)  # fmt: skip
_ATTRIBUTES = ("scale", "_0", "limit", "an_attribute_with_a_long_name", "attribute", "state")
_METHODS = ("prepare", "_step", "a_method_whose_name_is_much_too_long_for_a_line")
_MUTABLE = ("List[int]", "Dict[str, int]", "Optional[int]", "Optional[Tensor]", "List[Tensor]",
            "Tuple[int, float]", "Dict[str, List[int]]")  # fmt: skip


class Models(Definitions):
    """Writes one class at a time; forms that begin with ``self`` belong to that class."""

    def __init__(self, draw: st.DrawFn, vocabulary: Vocabulary) -> None:
        super().__init__(draw, vocabulary)
        self.outside: Vocabulary = vocabulary.copy()
        self.annotations: list[str] = []
        self.init: list[str] = []

    def module_class(self, name: str, forward: Signature) -> list[str]:
        self._attributes()
        self._tensors()
        self._layers()
        methods = [line for _ in range(self.draw(st.integers(0, 2))) for line in self._method()]
        methods += self.function(forward)
        init = ["def __init__(self) -> None:", "    super().__init__()"]
        body = [*self.annotations, *init, *(f"    {line}" for line in self.init), *methods]
        return [f"class {name}(nn.Module):", *(f"    {line}" for line in body), ""]

    def add_part(self) -> list[str]:
        """Add a class of which the model holds an instance."""
        part = Models(self.draw, self.vocabulary.copy())
        forward = part.signature("forward", "self")
        self.init.append("self.part = Part()")
        self.add_forms(forward.result, forward.calls("self.part"))
        return part.module_class("Part", forward)

    def _attributes(self) -> None:
        for name in _ATTRIBUTES[: self.draw(st.integers(0, len(_ATTRIBUTES) - 2))]:
            if self.chance(4):
                self._constant(name)
            else:
                self._attribute(name, self.pick([*PLAIN_TYPES, *_MUTABLE]))

    def _attribute(self, name: str, type_: str) -> None:
        if type_ not in PLAIN_TYPES or self.draw(st.booleans()):
            self.annotations.append(f"{name}: {type_}")
        self.init.append(f"self.{name} = {self.expression(type_, Scope(), 0)}")
        self.add_fields("self", {name: type_})

    def _constant(self, name: str) -> None:
        type_ = self.pick(("int", "float", "bool", "str", "Tuple[int, float]"))
        self.annotations.append(f"{name}: Final[{type_}]")
        self.init.append(f"self.{name} = {self.expression(type_, Scope(), 0)}")
        self.vocabulary.add(type_, f"self.{name}")

    def _tensors(self) -> None:
        if self.draw(st.booleans()):
            self.init.append("self.weight = nn.Parameter(torch.ones(3, 3))")
            self.vocabulary.add("Tensor", "self.weight", "F.linear(<Tensor>, self.weight)")
        if self.draw(st.booleans()):
            self.init.append('self.register_buffer("count", torch.zeros(3))')
            self.vocabulary.add("Tensor", "self.count")
            self.vocabulary.statements += ["self.count += 1", "self.count = <Tensor>"]

    def _layers(self) -> None:
        layers = self.draw(st.lists(st.sampled_from(_LAYERS), max_size=3))
        match layers:
            case [one]:
                self.init.append(f"self.layer = {one}")
                self.vocabulary.add("Tensor", "self.layer(<Tensor>)")
            case [_, _]:
                self._layer_list(layers)
            case [_, _, _]:
                self._layer_table(layers)

    def _layer_list(self, layers: list[str]) -> None:
        self.init.append(f"self.layers = nn.ModuleList([{', '.join(layers)}])")
        self.vocabulary.add("Tensor", "self.layers[0](<Tensor>)", "self.layers[-1](<Tensor>)")
        self.vocabulary.add("int", "len(self.layers)")
        self.vocabulary.statements += [
            "for layer in self.layers:\n    <=Tensor> = layer(<Tensor>)",
            "for i, layer in enumerate(self.layers):\n    <=Tensor> = layer(<Tensor>) + i",
        ]

    def _layer_table(self, layers: list[str]) -> None:
        pairs = ", ".join(f"'k{index}': {layer}" for index, layer in enumerate(layers))
        self.init.append(f"self.table = nn.ModuleDict({{{pairs}}})")
        self.vocabulary.add("Tensor", "self.table['k1'](<Tensor>)")
        self.vocabulary.add("bool", "('k0' in self.table)")
        self.vocabulary.statements += [
            "for key, layer in self.table.items():\n    <=Tensor> = layer(<Tensor>)",
            "for layer in self.table.values():\n    <=Tensor> += layer(<Tensor>)",
        ]

    def _method(self) -> list[str]:
        kind = self.pick(("method", "export", "property", "static"))
        name = self.definition_name(_METHODS)
        if kind == "property":
            return self._property(name)
        if kind == "static":
            return self._static_method(name)
        signature = self.signature(name, "self")
        lines = self.function(signature)
        calls = signature.calls(f"self.{name}")
        if kind == "export":
            # Exported methods are compiled together, before any of them has its defaults.
            self.add_forms(signature.result, calls[::2])
            return ["@torch.jit.export", *lines]
        self.add_forms(signature.result, calls)
        return lines

    def _property(self, name: str) -> list[str]:
        # torch.jit.script evaluates properties: they must not raise.
        type_ = self.pick(PLAIN_TYPES)
        value = self.expression(type_, Scope(), 0)
        self.vocabulary.add(type_, f"self.{name}")
        return ["@property", f"def {name}(self) -> {type_}:", f"    return {value}"]

    def _static_method(self, name: str) -> list[str]:
        inside, self.vocabulary = self.vocabulary, self.outside
        signature = self.signature(name)
        lines = self.function(signature, 1)
        self.vocabulary = inside
        self.add_forms(signature.result, signature.calls(f"self.{name}"))
        return ["@staticmethod", *lines]
