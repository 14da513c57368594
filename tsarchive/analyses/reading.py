"""What a release of torch finds when it reads code: without that release, and without running it.

Code is lowered with the operators, classes and meanings of the release, in an open world, so that
all that stands in its way is found, and not the first fault alone. Releases that answer alike what
lowering asked read alike: code is lowered once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tsarchive.errors import ArchiveError, UnknownClassError, UnknownOperatorError
from tsarchive.frontend.context import UNREACHABLE
from tsarchive.frontend.importer import revived_class
from tsarchive.frontend.matching import Question
from tsarchive.frontend.places import CodePlace
from tsarchive.frontend.splitting import check_code
from tsarchive.frontend.syntax import bounded
from tsarchive.ir.classes import ClassType, Function, FunctionType, InterfaceType
from tsarchive.ir.graph import Node, nested_blocks
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.source_ranges import Location, TaggedRange
from tsarchive.ir.subtyping import has_unknown
from tsarchive.ir.types import EnumType, NamedType, TupleType, Type
from tsarchive.operators.libraries import is_of_torch, what_registers
from tsarchive.operators.overloads import parsed, with_methods
from tsarchive.operators.registry import (
    class_names,
    listed_versions,
    method_texts,
    versions_of,
    versions_of_class,
)
from tsarchive.operators.releases import Release
from tsarchive.operators.removed import defined_classes

from .retargeting import (
    STATEMENTS,
    Target,
    constructs_of,
    depends_on_packing,
    may_give_real,
    mixes_packed,
    only_raises,
    refuses_real_tensors,
)


class Fault(NamedTuple):
    """What a release does not read, or reads and does not run where ``is_run`` is set.

    ``kind`` is ``operator``, ``overload``, ``class``, ``library``, ``construct`` or ``code``, and
    ``about`` the operator, class or construct; ``line`` is 0 where it concerns no line, ``code``
    its text, ``source`` that of the user, if the archive tells it.
    """

    kind: str
    text: str
    about: str = ""
    record: str = ""
    line: int = 0
    code: str = ""
    source: Location | None = None
    hint: str = ""
    is_run: bool = False


class Mention(NamedTuple):
    """A construct that not all releases read, and the first place of it."""

    construct: str
    record: str
    line: int = 0
    code: str = ""
    source: Location | None = None


@dataclass(slots=True)
class Reading:
    """The outcome of reading: what stands in the way, the constructs that code has, and the
    operators that keep an old meaning for it, by the overloads of today."""

    faults: list[Fault] = field(default_factory=list)
    constructs: dict[str, Mention] = field(default_factory=dict)
    kept_meanings: dict[str, str] = field(default_factory=dict)


class ReadCode(NamedTuple):
    """Code as one release reads it: its functions with their records, and its classes by name."""

    reading: Reading
    functions: Sequence[tuple[Function, str]]
    class_named: Callable[[str], NamedType]

    def nodes(self, function: Function) -> Iterator[Node]:
        """Yield the nodes of a function, those aside that never run."""
        return _live(function.graph.nodes)


_Rule: TypeAlias = Callable[[Release], bool]
_ClassNamed: TypeAlias = Callable[[str], ClassType | None]


def _packs_into_tensors(release: Release) -> bool:
    return release.packs_into_tensors


class _Answers:
    """What lowering asked of a release: who answers alike, reads alike.

    ``calls`` are all of which was asked what they mean, ``classes`` the names of those that code
    has. ``rules`` were asked of single nodes, whose overloads have to be equal altogether.
    """

    def __init__(
        self,
        target: Target,
        operators: Iterable[str],
        calls: Iterable[Question],
        classes: Iterable[str],
        rules: Iterable[_Rule],
    ) -> None:
        self._target = target
        self._operators = {name: target.answer(name) for name in operators}
        self._classes = {name: _class_texts(target.release, name) for name in classes}
        self._rules = {rule: rule(target.release) for rule in rules}
        self._calls: dict[str, list[tuple[Question, Hashable]]] = {}
        for call in calls:
            self._calls.setdefault(call.kind, []).append((call, target.meaning(call)))

    def are_of(self, target: Target) -> bool:
        """Return whether a release, with the classes of this one, answers the same."""
        release = target.release
        return (
            all(rule(release) == answer for rule, answer in self._rules.items())
            and all(_class_texts(release, n) == texts for n, texts in self._classes.items())
            and all(self._means_same(name, target) for name in self._operators)
        )

    def _means_same(self, name: str, target: Target) -> bool:
        mine, theirs = self._operators[name], target.answer(name)
        if mine == theirs:
            return True
        if self._rules or not (mine[0] and theirs[0]):
            return False
        return all(
            target.meaning(call._replace(version=version)) == meaning
            for call, meaning in self._calls.get(name, ())
            for version in target.in_place_of(self._target, call.version)
        )


class _Once(Mapping[str, Sequence[TaggedRange]]):
    """Records of debugging, each read once for all releases."""

    def __init__(self, given: Mapping[str, Sequence[TaggedRange]]) -> None:
        self._given = given
        self._read: dict[str, Sequence[TaggedRange]] = {}

    def __getitem__(self, record: str) -> Sequence[TaggedRange]:
        if record not in self._read:
            try:
                self._read[record] = self._given[record]
            except (ArchiveError, KeyError):
                self._read[record] = ()
        return self._read[record]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


class Code:
    """The code of an archive of a format version, for releases to read.

    ``roots`` are the classes that its values name, ``constant`` gives an entry of the table of
    constants with its type, or the name of its class, and ``debug`` the user's source of records.
    ``may_be_of_torch_1`` tells that operators may be given real tensors, which torch 2 refuses.
    """

    def __init__(
        self,
        texts: Mapping[str, str],
        roots: Iterable[str],
        version: int,
        constant: Callable[[int], tuple[Any, Type | str]],
        debug: Mapping[str, Sequence[TaggedRange]],
        *,
        may_be_of_torch_1: bool,
    ) -> None:
        self.texts = texts
        self.roots = [*roots]
        self.version = version
        self.constant = constant
        self.debug = _Once(debug)
        self.may_be_of_torch_1 = may_be_of_torch_1
        self._known: list[tuple[_Answers, _ClassNamed, Reading]] = []
        self._checked: dict[str, ArchiveError | None] = {}

    def fault_of_text(self, record: str) -> ArchiveError | None:
        """Return why the text of a record is no code, if it is none."""
        if record not in self._checked:
            try:
                with bounded(record):
                    check_code(self.texts[record], record)
                self._checked[record] = None
            except ArchiveError as error:
                self._checked[record] = error
        return self._checked[record]

    def read_by(self, release: Release) -> Reading:
        """Return what a release finds in all code that the roots lead to."""
        for answers, class_named, reading in self._known:
            if answers.are_of(self.target(release, class_named)):
                return reading
        return self.code_of(release).reading

    def code_of(self, release: Release) -> ReadCode:
        """Return the code as a release reads it."""
        reader = _Reader(self, release)
        reader.read()
        self._known.append((reader.answers(), reader.known_class, reader.reading))
        return ReadCode(reader.reading, reader.functions, reader.code.find_class)

    def target(self, release: Release, class_named: _ClassNamed) -> Target:
        """Return a release as a reader of this code, without libraries."""
        version = min(self.version, release.newest_format)
        return Target(release, version, lambda name: (), class_named)


class _Reader:
    """Reads the code of an archive as one release does."""

    def __init__(self, code: Code, release: Release) -> None:
        self.given = code
        self.release = release
        self.reading = Reading()
        self.functions: list[tuple[Function, str]] = []
        self._classes: dict[str, ClassType | None] = {}
        self._faults: dict[Fault, None] = {}
        self._rules: set[_Rule] = set()
        self.target = code.target(release, self._class_named)
        self.code = self.target.code(
            code.texts,
            constant=self._constant,
            evaluate=lambda schema: None,
            debug=code.debug,
            open_world=True,
        )
        self.code.overloads.asked = {}

    def _class_named(self, name: str) -> ClassType | None:
        """Return a class as the release binds it: classes of one reading compare by identity."""
        if name not in self._classes:
            made = ClassType(name, is_native=True) if _binds(self.release, name) else None
            self._classes[name] = made  # before its methods, which name it
            if made is not None:
                with_methods(made, self._methods(name))
        return self._classes[name]

    def _methods(self, name: str) -> list[FunctionSchema]:
        texts = method_texts(name, self.release.name)
        return [parsed(text.removeprefix(f"{name}."), self.target.class_named) for text in texts]

    def _constant(self, index: int) -> tuple[Any, Type]:
        value, type_ = self.given.constant(index)
        return value, self.code.find_class(type_) if isinstance(type_, str) else type_

    @property
    def known_class(self) -> _ClassNamed:
        """What gives a class that was asked for; None for all others."""
        return self._classes.get

    def answers(self) -> _Answers:
        asked = self.code.overloads.asked
        assert asked is not None
        # Of a target without this reader, which would keep all programs.
        target = self.given.target(self.release, self.known_class)
        return _Answers(target, self.target.asked, [*asked.values()], self._natives(), self._rules)

    def read(self) -> None:
        for name in defined_classes():
            revived_class(name)  # from here on schemas that name it know its methods
        for name in self.given.roots:
            self.code.find_class(name)
        done: set[str] = set()
        while waiting := [name for name in self.code.found if name not in done]:
            done.update(waiting)
            for name in waiting:
                self._definition(self.code.found[name])
        self._check_classes()
        self._check_text()
        assert self.code.open is not None
        for error in self.code.open.refused:
            self._note(self._of_error(error))
        self.reading.faults = [*self._faults]

    def _definition(self, named: NamedType | None) -> None:
        match named:
            case FunctionType(function):
                self._function(function)
            case ClassType(is_native=True) | ClassType(is_revived=True):
                pass
            case ClassType():
                record = self._record_of(named.qualified_name)
                self._types([member.type for member in named.attributes.values()], record)
                self._types([member.type for member in named.constants.values()], record)
                for function in (*named.methods.values(), *named.hooks()):
                    self._function(function)
                for hook in named.hooks():
                    self._construct("a hook", self._record_of(hook.qualified_name), None)
            case TupleType():
                self._types(named.elements, self._record_of(named.qualified_name or ""))
            case InterfaceType():
                record = self._record_of(named.qualified_name)
                for schema in named.methods.values():
                    self._types([a.type for a in (*schema.arguments, *schema.returns)], record)
            case EnumType():
                self._construct("an enum", self._record_of(named.qualified_name), None)

    def _function(self, function: Function) -> None:
        record = self._record_of(function.qualified_name)
        try:
            with bounded(record):
                schema, graph = function.schema, function.graph
        except ArchiveError as error:
            return self._note(self._of_error(error, record))
        self.functions.append((function, record))
        self._types([a.type for a in (*schema.arguments, *schema.returns)], record)
        for node in _live(graph.nodes):
            self._node(node, record)

    def _node(self, node: Node, record: str) -> None:
        if node.refusal is not None:
            if self._is_first_fault(node):
                self._note(self._of_error(node.refusal, record, node))
            return
        self._types([value.type for value in node.outputs], record, node)
        if node.kind in STATEMENTS:
            self._construct(STATEMENTS[node.kind], record, node)
        if node.schema is not None:
            self._operator(node, record)
        elif node.kind == "prim::SetAttr":
            self._packed(node, record)
        elif node.kind == "prim::CallMethod":
            self._method(node, record)

    def _is_first_fault(self, node: Node) -> bool:
        """Return whether a call is at fault by itself, and not because of an argument."""
        if not any(has_unknown(value.type) for value in node.inputs):
            return True
        return "::" in node.kind and not (
            node.kind.startswith("prim::") or self.target.operators(node.kind)
        )

    def _method(self, node: Node, record: str) -> None:
        """Note a method that a class bound from C++ has in other releases alone."""
        type_ = node.inputs[0].type
        if isinstance(type_, ClassType) and type_.is_revived:
            name = type_.qualified_name
            self._classes.setdefault(name, type_)
            heads = [text.partition("(")[0] for text in method_texts(name, self.release.name)]
            if heads and f"{name}.{node.name}" not in heads:
                self._note(self._at(node, record, self._no_method(type_, node.name)))

    def _no_method(self, type_: ClassType, method: str) -> Fault:
        name = type_.qualified_name
        text = f"there is no method {method} of {name}"
        return Fault("class", text, f"{name}.{method}", hint=_who_has(_binding(name, method)))

    def _operator(self, node: Node, record: str) -> None:
        self._packed(node, record)
        if node.upgrader is not None:
            self.reading.kept_meanings.setdefault(node.operator, node.upgrader)
        if self.given.may_be_of_torch_1 and self._refuses_real(node):
            text = f"{node.operator} refuses tensors of real numbers"
            hint = "Give it complex numbers, or say return_complex in the source"
            fault = self._at(node, record, Fault("operator", text, node.operator, hint=hint))
            self._note(fault._replace(is_run=True))

    def _refuses_real(self, node: Node) -> bool:
        if not may_give_real(node):
            return False
        self._rules.add(refuses_real_tensors)
        return self.target.function_of_real(node) is not None

    def _packed(self, node: Node, record: str) -> None:
        if not depends_on_packing(node):
            return
        self._rules.add(_packs_into_tensors)
        about = node.operator if node.schema is not None else node.kind
        if only_raises(node, self.release):
            text = f"{about} only raises an error; torch 1.11 is the last that runs it"
            fault = Fault("operator", text, about, is_run=True)
        elif mixes_packed(node, self.release):
            text = "packed weights stand for a tensor; torch 1.11 is the last that takes them"
            fault = Fault("operator", text, about)
        else:
            return
        self._note(self._at(node, record, fault))

    # Constructs

    def _types(self, types: Iterable[Type], record: str, node: Node | None = None) -> None:
        for type_ in types:
            for name in constructs_of(type_):
                self._construct(name, record, node)

    def _construct(self, name: str, record: str, node: Node | None) -> None:
        if name not in self.reading.constructs:
            place = node.place if node is not None else None
            where = (place.line, place.text, place.origin) if isinstance(place, CodePlace) else ()
            self.reading.constructs[name] = Mention(name, record, *where)

    # Classes and text

    def _natives(self) -> list[str]:
        return [name for name in self._mentioned() if _is_native(name)]

    def _mentioned(self) -> Iterator[str]:
        assert self.code.open is not None
        yield from dict.fromkeys((*self.code.found, *self._classes, *self.code.open.unknown))

    def _check_classes(self) -> None:
        """Note classes that the release does not bind, and those that nothing defines."""
        assert self.code.open is not None
        named = self.code.found.keys() | self.code.open.unknown
        for name in sorted(named):
            if not name.startswith(NATIVE_PREFIX):
                if name in self.code.open.unknown:
                    self._missing_class(name, "code", f"the archive does not define {name}")
            elif _is_native(name) and self._is_unbound(name):
                fault = self._unbound(name)
                self._missing_class(name, fault.kind, fault.text)

    def _unbound(self, name: str) -> Fault:
        """Return the fault of a class that the release does not bind."""
        if name in class_names() or is_of_torch(name):
            text = f"there is no class {name}"
            return Fault("class", text, name, hint=_who_has(_binding(name)))
        return Fault("library", f"{name} comes with a library", name, hint=what_registers(name))

    def _is_unbound(self, name: str) -> bool:
        found = self.code.found.get(name)
        is_own = isinstance(found, ClassType) and not (found.is_native or found.is_revived)
        return not is_own and not _binds(self.release, name)

    def _missing_class(self, name: str, kind: str, text: str) -> None:
        record, line, code = self._first_mention(name)
        hint = what_registers(name) if kind == "library" else _who_has(_binding(name))
        source = self._source(record, line)
        self._note(Fault(kind, text, name, record, line, code, source, hint))

    def _first_mention(self, text: str) -> tuple[str, int, str]:
        for record, content in self.given.texts.items():
            at = content.find(text)
            if at >= 0:
                line = content.count("\n", 0, at) + 1
                return record, line, content.split("\n")[line - 1].strip()
        return "", 0, ""

    def _check_text(self) -> None:
        """Note text that is no code: torch parses all of a record that it reads."""
        records = {self._record_of(name) for name, found in self.code.found.items() if found}
        for record in sorted(records & self.given.texts.keys()):
            error = self.given.fault_of_text(record)
            if error is not None:
                self._note(self._of_error(error, record))

    def _record_of(self, qualified_name: str) -> str:
        record = self.code.sources.record_of(qualified_name)
        if record in self.given.texts:
            return record
        return self.code.sources.record_of(qualified_name.rpartition(".")[0])

    # Faults

    def _note(self, fault: Fault) -> None:
        self._faults.setdefault(fault)

    def _at(self, node: Node, record: str, fault: Fault) -> Fault:
        place = node.place
        if not isinstance(place, CodePlace):
            return fault._replace(record=record)
        return fault._replace(
            record=place.record, line=place.line, code=place.text, source=place.origin
        )

    def _of_error(self, error: ArchiveError, record: str = "", node: Node | None = None) -> Fault:
        fault = self._of_native(node) or self._described(error)
        line = getattr(error, "line", None) or 0
        record = error.record or record
        if not line and node is not None:
            return self._at(node, record, fault)
        code = (getattr(error, "construct", None) or "").strip()
        source = self._source(record, line)
        return fault._replace(record=record, line=line, code=code, source=source)

    def _of_native(self, node: Node | None) -> Fault | None:
        """Return what a call lacks of a class that a library binds, which is noted by itself."""
        if node is None or node.kind not in ("prim::CallMethod", "prim::GetAttr"):
            return None
        type_ = node.inputs[0].type
        if not (isinstance(type_, ClassType) and type_.is_native):
            return None
        name = type_.qualified_name
        if _binds(self.release, name):
            return self._no_method(type_, node.name)
        return self._unbound(name)

    def _source(self, record: str, line: int) -> Location | None:
        if not line or record not in self.given.texts:
            return None
        found = self.code.sources.places(record).range_at(line, 0)
        return None if found is None else found.location

    def _described(self, error: ArchiveError) -> Fault:
        if not isinstance(error, UnknownOperatorError):
            kind = "class" if isinstance(error, UnknownClassError) else "code"
            return Fault(kind, error.message, hint=error.hint or "")
        name = (error.operator or "").partition(".")[0]
        if self.target.operators(name):
            text = f"{name} does not take these arguments"
            return Fault("overload", text, name, hint=_shortened(error.message))
        if not versions_of(name) and not is_of_torch(name):
            return Fault("library", f"{name} comes with a library", name, hint=what_registers(name))
        text = f"there is no operator {name}"
        return Fault("operator", text, name, hint=_who_has(versions_of(name)))


def _is_native(name: str) -> bool:
    """Return whether a library may bind a class of this name: in a namespace of its own."""
    return name.startswith(NATIVE_PREFIX) and name.count(".") > NATIVE_PREFIX.count(".")


def _binds(release: Release, name: str) -> bool:
    return name in class_names() and release.name in versions_of_class(name)


def _binding(name: str, method: str = "") -> list[str]:
    """Return the versions that bind a class, or have one of its methods."""
    bound = versions_of_class(name) if name in class_names() else ()
    head = f"{name}.{method}("
    return [
        version
        for version in listed_versions()
        if version in bound
        and (not method or any(text.startswith(head) for text in method_texts(name, version)))
    ]


def _who_has(versions: Sequence[str]) -> str:
    """Return the hint for what some versions have, in their order."""
    if not versions:
        return "No torch that is known has it"
    return f"torch {' to '.join(dict.fromkeys((versions[0], versions[-1])))} has it"


def _shortened(message: str) -> str:
    """Return why the only overload does not fit, or else that none does."""
    first, *candidates = message.split("\n")
    return candidates[0].strip() if len(candidates) == 1 else first.removesuffix("; considered:")


def _class_texts(release: Release, name: str) -> tuple[str, ...] | None:
    return method_texts(name, release.name) if _binds(release, name) else None


def _live(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes that torch keeps when it reads code: not those behind a constant."""
    for node in nodes:
        if node.kind == UNREACHABLE:
            continue
        yield node
        for block in nested_blocks(node):
            yield from _live(block.nodes)
