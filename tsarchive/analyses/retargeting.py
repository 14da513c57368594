"""Code for one release of torch: each call of an operator as that release has it and means it.

A call stays where the release chooses the same overload for its text. Otherwise it is spelled with
the arguments of the schema of that release, under an older name, or as a call of a function of
operators that the release has. What is left cannot be said there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from tsarchive.errors import ArchiveError, UnknownOperatorError
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.context import Dialect, no_constant
from tsarchive.frontend.matching import (
    BLOCKED,
    Call,
    Match,
    Overloads,
    Question,
    Step,
    is_packed,
)
from tsarchive.frontend.places import CodePlace
from tsarchive.frontend.references import Typed
from tsarchive.ir.classes import ClassType, Function, FunctionType
from tsarchive.ir.constants import EnumMember, TableConstant
from tsarchive.ir.graph import CONSTANT, Block, Node, Value, must_be_none, nested_blocks, walk
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import (
    ANY,
    COMPLEX,
    INT,
    NONE,
    TENSOR,
    EnumType,
    HandleType,
    NamedType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
    own_name,
)
from tsarchive.ir.values import Builder, is_default
from tsarchive.operators import older_forms, removed
from tsarchive.operators.overloads import builtins_of, native_class, parsed
from tsarchive.operators.registry import listed_versions, schema_texts, versions_of
from tsarchive.operators.releases import CONSTRUCTS, Release
from tsarchive.operators.upgraders import UPGRADERS, Age, Candidate, candidates, old_overloads

_CLASS: Final = "__torch__."
_INT64: Final = 4
# The class of an exception, which torch does not tell apart when it raises; whether to use a
# format of numbers that releases without the argument do not use.
_LOST: Final = frozenset({("prim::RaiseException", "cls"), ("aten::_convolution", "allow_tf32")})
# The text declares the type of their results.
_DECLARED: Final = frozenset({"prim::ModuleContainerIndex"})
STATEMENTS: Final = {"prim::Enter": "a with statement", "prim::tolist": "the method tolist()"}
# Recurrent layers whose weights are tensors, or packed into some.
_LISTS_OF_WEIGHTS: Final = frozenset(
    f"aten::quantized_{cell}.{overload}_legacy"
    for cell in ("lstm", "gru")
    for overload in ("input", "data")
)
_TOO_FEW: Final = "without some of these arguments"
_CLOSURES: Final = frozenset({"prim::fork", "prim::awaitable"})


class Obstacle(NamedTuple):
    """What code cannot say for a release, and where; ``since`` is the first release that can."""

    record: str
    line: int
    operator: str
    reason: str
    since: str | None = None
    construct: str = ""

    def __str__(self) -> str:
        ability = "takes them" if self.reason.endswith(_TOO_FEW) else "can"
        since = f"; torch {self.since} is the first that {ability}" if self.since else ""
        place = f"{self.record}:{self.line}" if self.line else self.record
        return f"{place}: {self.reason}{since}" + (
            f"\n    {self.construct}" if self.construct else ""
        )


class Rewriting(NamedTuple):
    """An operator that calls were written otherwise for, and the operators that stand there."""

    operator: str
    written_as: tuple[str, ...]


class Spelling(NamedTuple):
    """A call as a release has it.

    ``written`` arguments stand before those named ``out`` if that is more than it needs, else 0.
    """

    kind: str
    schema: FunctionSchema
    inputs: list[Value | Argument]
    written: int


Library = Callable[[str], tuple[FunctionSchema, ...]]


class Target:
    """A release that reads code of an archive of format ``version``.

    ``library`` gives the overloads of an operator in this process, which stand for those that no
    torch registers; ``class_named`` the classes that are bound in it.
    """

    def __init__(
        self,
        release: Release,
        version: int,
        library: Library,
        class_named: Callable[[str], ClassType | None],
    ) -> None:
        self.release = release
        self.version = version
        self._library = library
        self._class_named = class_named
        self._known: dict[str, Sequence[FunctionSchema]] = {}
        self._as_read: dict[str, bool] = {}
        self._others: dict[Release, Target] = {}
        self.age = Age(release.operator_version, revives=False)
        self.overloads = Overloads(self.operators, self.age)

    @property
    def free_version(self) -> int | None:
        """The version that says what operators mean in functions and closures; None is today's."""
        return None if self.release.reads_functions_as_current else self.version

    def of(self, release: Release) -> Target:
        """Return the same of another release, for archives of the newest format that it reads."""
        if release not in self._others:
            made = Target(release, release.newest_format, self._library, self._class_named)
            self._others[release] = made
        return self._others[release]

    @property
    def asked(self) -> Collection[str]:
        """The operators whose overloads were asked for."""
        return self._known.keys()

    def answer(self, name: str) -> tuple[Any, ...]:
        """Return what decides about calls of an operator: releases that give the same choose alike.

        That is its overloads, and those of them that have an old meaning in methods or functions.
        """
        versions = self.version, self.free_version
        old = tuple(old_overloads(name, version, self.age) for version in versions)
        return schema_texts(name, self.release.name), old

    def meaning(self, call: Question) -> Hashable:
        """Return what code with a call depends on: the types that it gives, its old meaning, what
        is asked of its node; or why there is no overload for it."""
        try:
            candidate, match = self.overloads.choose(call.kind, call.version, call.call)
        except UnknownOperatorError as error:
            return error.message, error.hint
        operator = candidate.schema.full_name
        taken = zip(candidate.schema.arguments, match.inputs, strict=False)
        pairs = [
            (argument.type, call.call.values[given.source].type)
            for argument, given in taken
            if isinstance(given.source, int)
        ]
        old = candidate.upgrader and (candidate.upgrader, operator)
        names = tuple(result.name for result in candidate.schema.returns)
        asked = (
            operator in _LISTS_OF_WEIGHTS,
            _mix_packed(pairs),
            removed.for_real_tensors(operator),
        )
        return old, candidate.refusal, names, tuple(match.returns), asked

    def in_place_of(self, other: Target, version: int | None) -> Iterator[int | None]:
        """Yield the versions that stand here for one of another release: of methods, functions,
        hooks."""
        mine, theirs = ((target.version, target.free_version, None) for target in (self, other))
        yield from {here for here, there in zip(mine, theirs, strict=True) if there == version}

    def operators(self, name: str) -> Sequence[FunctionSchema]:
        """Return the overloads of an operator in the order in which the release tries them."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._overloads_of(name)
        return found

    def _overloads_of(self, name: str) -> Sequence[FunctionSchema]:
        if not versions_of(name):
            return self._library(name)
        texts = schema_texts(name, self.release.name)
        return (*(parsed(text, self.class_named) for text in texts), *builtins_of(name))

    def class_named(self, name: str) -> ClassType | None:
        """Return the class that a schema names; None for a name that is no class."""
        if not name.startswith(_CLASS):
            return None
        if name in removed.defined_classes():
            return native_class(name)  # ours, which is the same in every process
        return self._class_named(name) or native_class(name)

    def code(self, texts: Any, **options: Any) -> CodeImporter:
        """Return a reader of code records as this release reads them."""
        return CodeImporter(
            texts,
            operators=self.operators,
            version=self.version,
            native_class=self._class_named,
            age=self.age,
            dialect=Dialect(free_version=self.free_version),
            **options,
        )

    def is_old(self, full_name: str) -> bool:
        """Return whether an operator has a meaning here that archives of today do not give it."""
        entry, changed = UPGRADERS.get(full_name), older_forms.changed_in(full_name)
        if entry is not None and self.release.operator_version < entry.bumped_at:
            return True
        return changed is not None and not self.release.is_since(changed)

    def is_as_read(self, name: str) -> bool:
        """Return whether an operator is here what it is in this process, for every call of it."""
        found = self._as_read.get(name)
        if found is None:
            schemas = self.operators(name)
            changes = any(s.full_name in UPGRADERS or self.is_old(s.full_name) for s in schemas)
            found = self._as_read[name] = not changes and tuple(schemas) == self._library(name)
        return found

    def expression(
        self, node: Node, version: int | None, *, in_branch: bool
    ) -> Spelling | Function | None:
        """Return how a call is written, or a function that does the same; None for neither.

        ``version`` says what operators mean where the call stands, ``in_branch`` whether that is
        in a branch.
        """
        for kind in (node.kind, *older_forms.older_names().get(node.kind, ())):
            found = self.spelling(node, kind, version)
            if found is not None:
                return found
        return self.function(node, in_branch=in_branch)

    def spelling(self, node: Node, kind: str, version: int | None) -> Spelling | None:
        """Return how a call of an operator is written under the name ``kind``, if it can be."""
        known = [candidate.schema for candidate in self._candidates(kind, version)]
        schemas = [schema for schema in known if schema.full_name not in BLOCKED]
        schemas.sort(key=lambda schema: schema.full_name != node.operator)
        for schema in schemas:
            inputs = adapted(node, schema) if _may_mean(node, schema) else None
            if inputs is not None:
                found = self._selected(node, schema, inputs, version)
                if found is not None:
                    return found
        return None

    def _candidates(self, kind: str, version: int | None) -> tuple[Candidate, ...]:
        return candidates(self.operators(kind), version, self.age)

    def _selected(
        self,
        node: Node,
        schema: FunctionSchema,
        inputs: list[Value | Argument],
        version: int | None,
    ) -> Spelling | None:
        """Return the shortest call that this release takes for one of the overload ``schema``."""
        needed, most = _lengths(schema, inputs)
        for count in range(max(needed, min(node.written_arguments, most)), most + 1):
            call = _call(schema, inputs, count, most)
            try:
                candidate, match = self.overloads.choose(schema.name, version, call)
            except UnknownOperatorError:
                continue
            if candidate.schema == schema and self._is_exact(node, candidate, match):
                return Spelling(schema.name, schema, inputs, count if count > needed else 0)
        return None

    def _is_exact(self, node: Node, candidate: Candidate, match: Match) -> bool:
        """Return whether the overload does what the call does."""
        if any(_converts(step) for input_ in match.inputs for step in input_.steps):
            return False
        given = [annotation(type_) for type_ in match.returns]
        if node.kind not in _DECLARED and given != [annotation(v.type) for v in node.outputs]:
            return False
        is_old = candidate.upgrader is not None or self.is_old(candidate.schema.full_name)
        return was_old(node) == is_old or not (was_old(node) or older_forms.is_changed(node))

    @cached_property
    def _functions(self) -> CodeImporter:
        texts = {older_forms.RECORD: older_forms.text(), removed.RECORD: removed.text()}
        return self.code(texts, constant=no_constant, evaluate=lambda schema: None)

    def function(self, node: Node, *, in_branch: bool) -> Function | None:
        """Return a function of operators of this release that does what a call does."""
        older = older_forms.older_functions().get(node.operator, ())
        names = [function.name for function in older if in_branch or not function.only_in_branch]
        for name in (*_removed_forms(node), *names):
            found = self._functions.find(name)
            if isinstance(found, FunctionType) and self._is_one_for(found.function, node):
                return found.function
        return None

    def function_of_real(self, node: Node) -> Function | None:
        """Return a function that takes the real tensors that an operator refuses here, and took.

        None for calls that say what they give, and for those of other operators.
        """
        if not (refuses_real_tensors(self.release) and may_give_real(node)):
            return None
        found = self._functions.find(removed.for_real_tensors(node.operator) or "")
        assert isinstance(found, FunctionType)
        rest = node.inputs[len(found.function.schema.arguments) :]
        return found.function if all(map(must_be_none, rest)) else None

    def _is_one_for(self, function: Function, node: Node) -> bool:
        """Return whether a function takes what a call gives, and has operators of this release."""
        schemas = (function.schema, node.schema)
        names = [[a.name for a in schema.arguments] for schema in schemas if schema is not None]
        return names[0] == names[1] and self._is_whole(function)

    def _is_whole(self, function: Function) -> bool:
        try:
            nodes = walk(function.graph.nodes)
            if any(node.upgrader is not None for node in nodes):
                return False
            return all(map(self._is_whole, called_by(function)))
        except ArchiveError:
            return False


def refuses_real_tensors(release: Release) -> bool:
    """Return whether operators on complex numbers refuse pairs of real ones in their place."""
    return release.is_since(removed.REAL_REFUSED_SINCE)


def may_give_real(node: Node) -> bool:
    """Return whether a call may be of an operator on complex numbers that took real ones."""
    if node.upgrader is not None or removed.for_real_tensors(node.operator) is None:
        return False
    return not _is_told(node)


def _is_told(node: Node) -> bool:
    """Return whether a call of stft says whether it gives complex numbers."""
    assert node.schema is not None
    given = zip(node.schema.arguments, node.inputs, strict=True)
    told = (value for argument, value in given if argument.name == "return_complex")
    return node.kind == "aten::stft" and any(isinstance(value.constant, bool) for value in told)


def _removed_forms(node: Node) -> Iterator[str]:
    """Yield the names of functions for an operator that torch removed."""
    for candidate in removed.removed(node.kind):
        names = [argument.name for argument in candidate.schema.arguments]
        given = [argument.name for argument in node.schema.arguments] if node.schema else None
        if candidate.upgrader and candidate.schema.full_name == node.operator and names == given:
            yield candidate.upgrader


def called_by(function: Function) -> list[Function]:
    """Return the functions that one calls."""
    constants = (
        node.attributes["value"] for node in walk(function.graph.nodes) if node.is_constant
    )
    return [value for value in constants if isinstance(value, Function)]


def _may_mean(node: Node, schema: FunctionSchema) -> bool:
    """Return whether an overload may do what a call does: one that torch removed is one alone."""
    is_removed = node.upgrader is not None and not was_old(node)
    return not is_removed or schema == node.schema


def was_old(node: Node) -> bool:
    """Return whether a call means what its operator did before the version of some archive."""
    return node.upgrader is not None and "." not in node.upgrader


def _converts(step: Step) -> bool:
    return step.kind.startswith("aten::") or any(_converts(s) for part in step.parts for s in part)


def _lengths(schema: FunctionSchema, inputs: Sequence[Value | Argument]) -> tuple[int, int]:
    """Return how many arguments have to be written before those named ``out``, and may be."""
    most = len(inputs)
    if len(schema.arguments) >= most:
        while most and schema.arguments[most - 1].is_out:
            most -= 1
    needed = most
    while needed and needed <= len(schema.arguments):
        if not _is_left_out(schema.arguments[needed - 1], inputs[needed - 1]):
            break
        needed -= 1
    return needed, most


def _is_left_out(argument: Argument, given: Value | Argument) -> bool:
    return isinstance(given, Argument) or is_default(argument.default, given)


def _call(
    schema: FunctionSchema, inputs: Sequence[Value | Argument], count: int, most: int
) -> Call:
    positional: list[Typed] = []
    keywords: dict[str, Typed] = {}
    for place, given in enumerate(inputs):
        if count <= place < most:
            continue
        value = _default(given) if isinstance(given, Argument) else given
        typed = Typed(value, NONE if must_be_none(value) else value.type)
        if place < len(schema.arguments) and schema.arguments[place].kwarg_only:
            keywords[schema.arguments[place].name] = typed
        else:
            positional.append(typed)
    return Call(positional, keywords)


def _default(argument: Argument) -> Value:
    return Builder(Block(), lambda: None).default(argument)


def adapted(node: Node, schema: FunctionSchema) -> list[Value | Argument] | None:
    """Return the inputs of a call as arguments of another schema; an Argument is left out.

    None where an argument would be lost, or is missing.
    """
    old = node.schema
    assert old is not None
    if len(node.inputs) != len(old.arguments):
        return list(node.inputs) if old == schema else None
    given = _paired(old, schema, node.inputs)
    found: list[Value | Argument] = []
    rest = {argument.name: argument for argument in old.arguments}
    for argument in schema.arguments:
        value = given.pop(argument.name, None)
        if value is None and not argument.has_default:
            return None
        is_left_out = value is None or _stands_for_default(rest.get(argument.name), argument, value)
        found.append(argument if value is None or is_left_out else value)
    if all(_may_go(node, rest[name], value) for name, value in given.items() if name in rest):
        return found
    return None


def _paired(old: FunctionSchema, new: FunctionSchema, inputs: Sequence[Value]) -> dict[str, Value]:
    """Return the inputs by the names of the new arguments: those of the old, or by position."""
    names = [argument.name for argument in old.arguments]
    if old.name != new.name or old.overload == new.overload:
        types = [[annotation(a.type) for a in schema.arguments] for schema in (old, new)]
        if types[0] == types[1]:
            names = [argument.name for argument in new.arguments]
    return dict(zip(names, inputs, strict=True))


def _stands_for_default(old: Argument | None, new: Argument, value: Value) -> bool:
    """Return whether None stands for a default that could not be None yet."""
    if old is None or old.default is not None or not must_be_none(value):
        return False
    had_value = new.has_default and new.default is not None
    return had_value and old.type in (new.type, OptionalType(new.type))


def _may_go(node: Node, argument: Argument, value: Value) -> bool:
    """Return whether an argument that a schema does not have can be left out."""
    return (node.kind, argument.name) in _LOST or is_default(argument.default, value)


class Retargeting:
    """Rewrites the graphs of one program, and notes what cannot be said.

    ``functions`` are those that rewritten calls need besides the program's own. Where the program
    ``may_be_of_torch_1``, its transforms take real tensors.
    """

    def __init__(self, target: Target, *, may_be_of_torch_1: bool = False) -> None:
        self.target = target
        self.may_be_of_torch_1 = may_be_of_torch_1
        self.obstacles: list[Obstacle] = []
        self.rewritten: Counter[Rewriting] = Counter()
        self.functions: dict[Function, None] = {}
        self.has_old_meanings = False

    def rewrite(self, function: Function, record: str, *, version: int | None) -> bool:
        """Rewrite the calls of a function; return whether its text is another now.

        ``version`` is the one that says what operators mean in it, None for their meaning of today.
        """
        body = _Body(self, function, record)
        body.block(function.graph, version)
        arguments = (*function.schema.arguments, *function.schema.returns)
        self.check_types([argument.type for argument in arguments], record)
        body.builder.finish()
        return body.is_changed

    def check_types(self, types: Iterable[Type], record: str, node: Node | None = None) -> None:
        """Note types whose text the release does not read."""
        for type_ in types:
            for name in constructs_of(type_):
                self.check_construct(name, record, node)

    def check_construct(self, name: str, record: str, node: Node | None = None) -> None:
        """Note a construct, by its name in ``CONSTRUCTS``, if the release does not read it."""
        if not self.target.release.is_since(CONSTRUCTS[name]):
            reason = f"torch {self.target.release} does not read {name}"
            self.refuse(record, node, reason, since=CONSTRUCTS[name])

    def refuse(
        self,
        record: str,
        node: Node | None,
        reason: str,
        *,
        operator: str = "",
        since: str | None = None,
    ) -> None:
        """Note, once, what cannot be said."""
        place = node.place if node is not None else None
        line, text = (place.line, place.text) if isinstance(place, CodePlace) else (0, "")
        obstacle = Obstacle(record, line, operator, reason, since, text)
        if obstacle not in self.obstacles:
            self.obstacles.append(obstacle)

    def require(self, function: Function) -> None:
        """Note a function that a call needs, with those that it calls."""
        if function not in self.functions:
            for called in called_by(function):
                self.require(called)
            self.functions[function] = None


class _Body:
    """Rewrites the graph of one function."""

    def __init__(self, program: Retargeting, function: Function, record: str) -> None:
        self.program = program
        self.target = program.target
        self.record = record
        self.is_changed = False
        self.builder = Builder(function.graph, lambda: None, hoists_constants=True)

    def block(self, block: Block, version: int | None, *, in_branch: bool = False) -> None:
        for node in tuple(block.nodes):
            if node.schema is not None:
                self._operator(block, node, version, in_branch=in_branch)
            elif node.kind in STATEMENTS:
                self.program.check_construct(STATEMENTS[node.kind], self.record, node)
            elif node.kind == "prim::SetAttr":
                self._packed(node)
            self.program.check_types((v.type for v in node.outputs), self.record, node)
            inner_version = self.target.free_version if node.kind in _CLOSURES else version
            for inner in nested_blocks(node):
                inside = in_branch or node.kind == "prim::If"
                self.block(inner, inner_version, in_branch=inside)

    def _operator(self, block: Block, node: Node, version: int | None, *, in_branch: bool) -> None:
        self.program.has_old_meanings |= was_old(node)
        self._packed(node)
        of_real = self._function_of_real(node)
        if of_real is not None:
            _set_inputs(node, node.inputs[: len(of_real.schema.arguments)])
            self._replace(block, node, of_real)
            return
        if node.upgrader is None and self.target.is_as_read(node.kind):
            return
        before = _form(node)
        self._with_dtype(node)
        found = self.target.expression(node, version, in_branch=in_branch)
        if found is None:
            self._cannot(node, version)
        elif isinstance(found, Spelling):
            self._spell(node, found, before)
        else:
            self._replace(block, node, found)

    def _function_of_real(self, node: Node) -> Function | None:
        is_own = self.record == removed.RECORD  # the functions that stand for others do not change
        is_old = self.program.may_be_of_torch_1 and not is_own
        return self.target.function_of_real(node) if is_old else None

    def _replace(self, block: Block, node: Node, function: Function) -> None:
        self.program.require(function)
        names = dict.fromkeys(n.operator for n in _all_nodes(function) if n.schema is not None)
        self.program.rewritten[Rewriting(node.operator, tuple(names))] += 1
        self._call_function(block, node, function)

    def _packed(self, node: Node) -> None:
        """Note packed weights in the place of a tensor, or a tensor in theirs."""
        release = self.target.release
        operator = node.operator if node.schema is not None else ""
        if only_raises(node, release):
            reason = f"{operator} only raises an error in torch {release}; torch 1.11 runs it"
            self.program.refuse(self.record, node, reason, operator=operator)
        elif mixes_packed(node, release):
            reason = f"torch {release} does not take packed weights for tensors; torch 1.11 does"
            self.program.refuse(self.record, node, reason, operator=operator)

    def _with_dtype(self, node: Node) -> None:
        """Say the dtype that ``full`` takes from the value, where releases took that for float."""
        is_old = self.target.is_old(node.operator) and node.upgrader is None
        if node.kind != "aten::full" or not is_old or not older_forms.is_changed(node):
            return
        assert node.schema is not None
        places = {argument.name: place for place, argument in enumerate(node.schema.arguments)}
        if node.inputs[places["fill_value"]].type == INT:
            inputs = list(node.inputs)
            inputs[places["dtype"]] = self.builder.constant(_INT64, INT)
            _set_inputs(node, inputs)

    def _spell(self, node: Node, found: Spelling, before: tuple[Any, ...]) -> None:
        inputs = [
            self.builder.default(given) if isinstance(given, Argument) else given
            for given in found.inputs
        ]
        operator = node.operator
        _set_inputs(node, inputs)
        node.kind, node.schema, node.written_arguments = found.kind, found.schema, found.written
        if _form(node) != before:
            self.is_changed = True
            self.program.rewritten[Rewriting(operator, (node.operator,))] += 1

    def _call_function(self, block: Block, node: Node, function: Function) -> None:
        """Let a function compute what the node did, and the node unpack it."""
        self.is_changed = True
        callee = self.builder.constant(function, function.type)
        call = Node("prim::CallFunction", place=node.place)
        for value in (callee, *node.inputs):
            call.add_input(value)
        node.schema = node.upgrader = node.stand_in = None
        node.written_arguments = 0
        if len(node.outputs) == 1:
            _set_inputs(node, call.inputs)
            call.drop_inputs()
            node.kind = call.kind
            return
        result = call.add_output(function.schema.return_type)
        block.nodes.insert(block.nodes.index(node), call)
        _set_inputs(node, [result])
        node.kind = "prim::TupleUnpack"

    def _cannot(self, node: Node, version: int | None) -> None:
        release, kind = self.target.release, node.kind
        later = (Release(name) for name in listed_versions() if Release(name) > release)
        since = next((r.name for r in later if self._has_expression(r, node, version)), None)
        if not self.target.operators(kind):
            reason = f"torch {release} has no operator {node.operator}, and none to write it with"
        elif self.target.is_old(node.operator) and older_forms.is_changed(node):
            reason = f"{node.operator} means something else in torch {release}"
        else:
            reason = f"torch {release} has {kind} {_TOO_FEW}"
        self.program.refuse(self.record, node, reason, operator=node.operator, since=since)

    def _has_expression(self, release: Release, node: Node, version: int | None) -> bool:
        """Return whether another release has a form for a call in an archive written for it."""
        if version is not None and not was_old(node):
            version = release.newest_format
        return self.target.of(release).expression(node, version, in_branch=False) is not None


def only_raises(node: Node, release: Release) -> bool:
    """Return whether a release reads a call of an operator, and does not run it."""
    return _lists_weights(node) and not release.packs_into_tensors


def mixes_packed(node: Node, release: Release) -> bool:
    """Return whether packed weights are given for a tensor, or a tensor for packed weights,
    which a release does not take."""
    return not release.packs_into_tensors and _mixes_packed(node)


def depends_on_packing(node: Node) -> bool:
    """Return whether releases differ about a node by what they pack into tensors."""
    return _lists_weights(node) or _mixes_packed(node)


def _lists_weights(node: Node) -> bool:
    return node.schema is not None and node.operator in _LISTS_OF_WEIGHTS


def _mix_packed(types: Iterable[tuple[Type, Type]]) -> bool:
    """Return whether of a taken and a given type one is that of packed weights, one of tensors."""
    return any(
        (taken == TENSOR and is_packed(given)) or (is_packed(taken) and given == TENSOR)
        for taken, given in types
    )


def _mixes_packed(node: Node) -> bool:
    if node.schema is not None:
        taken = zip(node.schema.arguments, node.inputs, strict=False)
        return _mix_packed((argument.type, value.type) for argument, value in taken)
    owner, value = node.inputs
    slots = owner.type.attributes if isinstance(owner.type, ClassType) else {}
    slot = slots.get(node.attributes["name"])
    return is_packed(value.type) and slot is not None and slot.type == TENSOR


def _all_nodes(function: Function) -> Iterator[Node]:
    """Yield the nodes of a function and of those that it calls."""
    yield from walk(function.graph.nodes)
    for called in called_by(function):
        yield from _all_nodes(called)


def _set_inputs(node: Node, inputs: Sequence[Value]) -> None:
    node.drop_inputs()
    for value in inputs:
        node.add_input(value)


def _form(node: Node) -> tuple[Any, ...]:
    """Return what the text of a call says: two calls with equal forms have the same text."""
    assert node.schema is not None
    arguments = node.schema.arguments
    needed, most = _lengths(node.schema, node.inputs)
    count = max(needed, node.written_arguments)
    shown = [
        (arguments[i].name if i < len(arguments) and arguments[i].kwarg_only else "", id(value))
        for i, value in enumerate(node.inputs)
        if not count <= i < most
    ]
    return (node.kind, *shown)


def constructs_of(type_: Type) -> Iterator[str]:
    """Yield the constructs, by their names in ``CONSTRUCTS``, that the text of a type has."""
    match type_:
        case UnionType():
            yield "the type Union"
        case EnumType():
            yield "an enum"
            return
        case HandleType("Await", _):
            yield "the type Await"
        case ClassType():
            return
    if type_ is COMPLEX:
        yield "the type complex"
    if type_ is ANY:
        yield "the type Any"
    if not (isinstance(type_, TupleType) and type_.qualified_name):
        for part in type_.parts():
            yield from constructs_of(part)


class Disagreement(NamedTuple):
    """A node of a program, and what another reading has in its place, if anything."""

    node: Node
    other: Node | None


class _Comparison:
    """Whether two graphs say the same: one of a program, the other of its text as it was read.

    ``name`` gives the names of the program's types in the text.
    """

    def __init__(self, name: Callable[[NamedType], str]) -> None:
        self.same: dict[Value, Value] = {}
        self._name = name

    def block(self, one: Block, other: Block) -> Disagreement | None:
        self.same |= zip(one.params, other.params, strict=False)
        nodes, others = ([n for n in b.nodes if not n.is_constant] for b in (one, other))
        for node, found in zip(nodes, others, strict=False):
            if not self._node(node, found):
                return Disagreement(node, found)
            self.same |= zip(node.outputs, found.outputs, strict=True)
            for inner, again in zip(nested_blocks(node), nested_blocks(found), strict=True):
                problem = self.block(inner, again)
                if problem is not None:
                    return problem
        if len(nodes) != len(others):
            longer, short = (nodes, others) if len(nodes) > len(others) else (others, nodes)
            return Disagreement(longer[len(short)], None)
        if not self._all_equal(one.returns, other.returns):
            return Disagreement(one.return_node, other.return_node)
        return None

    def _node(self, node: Node, other: Node) -> bool:
        has_shape = (
            node.kind == other.kind
            and len(node.outputs) == len(other.outputs)
            and len(nested_blocks(node)) == len(nested_blocks(other))
            and [annotation(v.type, self._name) for v in node.outputs]
            == [annotation(v.type) for v in other.outputs]
            and node.attributes.get("name") == other.attributes.get("name")
        )
        return has_shape and self._inputs(node, other)

    def _inputs(self, node: Node, other: Node) -> bool:
        if node.schema is None or other.schema is None:
            return self._all_equal(node.inputs, other.inputs)
        inputs = adapted(node, other.schema)
        return inputs is not None and self._all_equal(inputs, other.inputs)

    def _all_equal(self, ones: Sequence[Value | Argument], others: Sequence[Value]) -> bool:
        return len(ones) == len(others) and all(map(self._equal, ones, others))

    def _equal(self, one: Value | Argument, other: Value) -> bool:
        if isinstance(one, Argument):
            return is_default(one.default, other)
        if CONSTANT in (one.node.kind, other.node.kind):
            return one.node.kind == other.node.kind and _same_constant(one.constant, other.constant)
        return self.same.get(one) is other


def _same_constant(one: Any, other: Any) -> bool:
    if isinstance(one, Function) and isinstance(other, Function):
        return one.qualified_name == other.qualified_name
    if isinstance(one, TableConstant) and isinstance(other, TableConstant):
        return one.value is other.value
    if isinstance(one, EnumMember) and isinstance(other, EnumMember):
        return one.name == other.name
    return type(one) is type(other) and (one == other or repr(one) == repr(other))


def disagreement(
    program: Function, read: Function, name: Callable[[NamedType], str] = own_name
) -> Disagreement | None:
    """Return the first place where a function says something else when its text is read.

    ``name`` gives the names of the program's types in the text.
    """
    return _Comparison(name).block(program.graph, read.graph)
