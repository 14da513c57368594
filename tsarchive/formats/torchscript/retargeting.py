"""Archives for one release of torch: code, records and pickles as its torch.jit loads them.

Records that need no change are kept as they are. Code that does is printed anew, from its graphs,
and all code is read once more with the operators of the release: what it says there has to be what
it said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tsarchive.analyses.retargeting import (
    Library,
    Obstacle,
    Retargeting,
    Target,
    called_by,
    disagreement,
)
from tsarchive.container import Container, NewRecord
from tsarchive.errors import ArchiveError, SaveError, TargetError, UnknownOperatorError
from tsarchive.formats.requests import RewrittenCalls
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.syntax import bounded
from tsarchive.ir.classes import ClassType, Function, FunctionType, InterfaceType
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.schema import FunctionSchema
from tsarchive.ir.source_ranges import TaggedText
from tsarchive.ir.types import EnumType, NamedType, TupleType, Type, annotation
from tsarchive.operators.releases import Release
from tsarchive.operators.removed import removed
from tsarchive.printer.definitions import Definitions
from tsarchive.printer.literals import Literals
from tsarchive.printer.reading_back import fixpoint_ranges
from tsarchive.printer.statements import TODAY, Dialect, version_record

from .code_records import VERSION_RECORDS, CodeRecords, encoded, format_version
from .debug_records import DEBUG_SUFFIX, DebugRecords, DebugWriter
from .kept_code import bytecode_alone
from .older_pickles import PICKLES, unread, untagged
from .plain_classes import PlainClasses
from .program import ConstantNumbers, definition

if TYPE_CHECKING:
    from tsarchive.policy import Guard

# Before, what an operator does in an archive of an older version is decided by its name alone.
_FIRST_WITH_UPGRADERS: Final = "1.11"
_ADVICE: Final = "Change these lines in the source"
_LATER: Final = "Give a later version, or change these lines in the source"

# Records that torch 1 does not write; torch 2.1 and later, and this library, write both.
SINCE_TORCH_2: Final = ("byteorder", ".data/serialization_id")


class Process(NamedTuple):
    """What code is read with before it is written for a release.

    ``schemas`` gives the overloads of an operator that code may name, ``library`` those that are
    registered, ``class_named`` the classes that are bound, ``any_class`` those that code may name;
    ``evaluate`` runs an operator on plain values, and ``constant`` gives the table of constants.
    """

    schemas: Callable[[str], Sequence[FunctionSchema]]
    library: Library
    class_named: Callable[[str], ClassType | None]
    any_class: Callable[[str], ClassType | None]
    evaluate: Callable[[FunctionSchema], Callable[..., Any] | None]
    constant: Callable[[int], tuple[Any, Type]]


def this_process(container: Container, guard: Guard) -> Process:
    """Return what torch has here."""
    from tsarchive.run.foreign import any_native_class, readable_schemas
    from tsarchive.run.operators import find_native, native_class, operator_schemas

    from .importer import Importer

    constant = Importer(container, None, guard).constant
    classes = native_class, any_native_class
    return Process(readable_schemas, operator_schemas, *classes, find_native, constant)


@dataclass(frozen=True, slots=True)
class Retargeted:
    """The records for a release, and how often calls of each operator were written otherwise.

    ``left_out`` are records of bytecode, which says what the code said before.
    """

    records: list[NewRecord]
    rewritten: tuple[RewrittenCalls, ...]
    left_out: tuple[str, ...]


def retargeted(
    container: Container,
    records: Iterable[NewRecord],
    release: Release,
    *,
    keeps_unread: bool,
    process: Process,
) -> Retargeted:
    """Return the records of a saved module for a release of torch.

    ``container`` has the code of the ``records``, which is read as in ``process``. With
    ``keeps_unread`` code that cannot be read there is left as it is, but for what torch removed.
    Raises TargetError for what the release cannot read.
    """
    given = list(records)
    version = min(format_version(container), release.newest_format)
    archive = _Archive(container, given, release, version, process, keeps_unread)
    try:
        return archive.written()
    except TargetError:
        newest = release.newest_format
        if archive.has_old_meanings or version == newest or release.is_since(_FIRST_WITH_UPGRADERS):
            raise
    return _Archive(container, given, release, newest, process, keeps_unread).written()


@dataclass(eq=False)
class _Code:
    """What is told of one code record: its functions, and whether its text changes."""

    functions: list[tuple[str, Function]] = field(default_factory=list)
    is_changed: bool = False
    failure: ArchiveError | None = None


class _Archive:
    def __init__(
        self,
        container: Container,
        records: list[NewRecord],
        release: Release,
        version: int,
        process: Process,
        keeps_unread: bool,
    ) -> None:
        self.container = container
        self.records = records
        self.pickles = {
            record.name: bytes(container.read(record.name) if record.packed else record.data)
            for record in records
            if record.name in PICKLES
        }
        self.release = release
        self.keeps_unread = keeps_unread
        self.process = process
        self.table = ConstantNumbers(process.constant)
        self.texts = dict(CodeRecords(container))
        self.version = version
        self.target = Target(release, self.version, process.library, process.class_named)
        self.code = CodeImporter(
            self.texts,
            operators=self._operators,
            constant=self.table.constant,
            version=format_version(container),
            native_class=process.any_class,
            evaluate=process.evaluate,
            debug=DebugRecords(container),
        )
        is_of_torch_2 = any(name in container.records for name in SINCE_TORCH_2)
        self.retargeting = Retargeting(self.target, may_be_of_torch_1=not is_of_torch_2)
        self.plain = PlainClasses(release)
        self.unregistered: dict[Obstacle, str | None] = {}
        self._reader = self.code
        self.dialect = Dialect(
            release.names_empty_types, release.lists_buffers, release.has_class_constants
        )

    def _operators(self, name: str) -> Sequence[FunctionSchema]:
        """Return the overloads of an operator, with those that are refused here and not there."""
        refused = [entry.schema for entry in removed(name) if entry.refusal]
        there = self.target.operators(name) if refused else ()
        return (*self.process.schemas(name), *(schema for schema in there if schema in refused))

    def written(self) -> Retargeted:
        codes = {record: self._rewritten(record) for record in self.texts}
        self._check_pickles()
        self._raise_obstacles()
        bodies = {name: body for name in codes if (body := self._body(name, codes[name]))}
        bodies |= self._new_definitions(bodies)
        self._check(codes, bodies)
        self._raise_obstacles()
        found = list(self._replaced(self._changed_records(bodies)))
        rewritten = self.retargeting.rewritten.items()
        calls = tuple(RewrittenCalls(*what, count) for what, count in rewritten)
        return Retargeted(found, calls, self._left_out(found))

    def _left_out(self, written: Iterable[NewRecord]) -> tuple[str, ...]:
        kept = {record.name for record in written}
        lost = bytecode_alone(self.container) & self.container.records.keys() - kept
        return tuple(sorted(lost))

    @property
    def has_old_meanings(self) -> bool:
        """Whether calls mean what their operators did before the version of some archive."""
        return self.retargeting.has_old_meanings

    # Code

    def _rewritten(self, record: str) -> _Code:
        """Rewrite the graphs of the definitions of a record."""
        code = _Code()
        try:
            with bounded(record):
                for name in self.code.definitions(record):
                    self._definition(code, record, definition(self.code, name))
        except ArchiveError as error:
            self._unread(code, record, error)
        code.is_changed |= self.dialect != TODAY or self.plain.are_named_in(self.texts[record])
        return code

    def _unread(self, code: _Code, record: str, error: ArchiveError) -> None:
        code.failure = error
        is_removed = isinstance(error, UnknownOperatorError) and error.is_removed
        if is_removed or not self.keeps_unread:
            self._obstacle(record, error)

    def _definition(self, code: _Code, record: str, named: NamedType) -> None:
        match named:
            case FunctionType(function):
                self._function(code, record, function, self.target.free_version)
            case ClassType(is_native=True):
                pass
            case ClassType():
                self._types(record, [a.type for a in named.attributes.values()])
                self._types(record, [c.type for c in named.constants.values()])
                for function in named.methods.values():
                    self._function(code, record, function, self.version)
                for hook in named.hooks():
                    self._construct(record, "a hook")
                    self._function(code, record, hook, self.target.free_version)
            case TupleType():
                self._types(record, named.elements)
            case InterfaceType():
                for schema in named.methods.values():
                    self._types(record, [a.type for a in (*schema.arguments, *schema.returns)])
            case EnumType():
                self._construct(record, "an enum")

    def _function(self, code: _Code, record: str, function: Function, version: int | None) -> None:
        try:
            is_changed = self.retargeting.rewrite(function, record, version=version)
        except ArchiveError as error:
            return self._unread(code, record, error)
        code.functions.append((function.qualified_name, function))
        code.is_changed |= is_changed

    def _types(self, record: str, types: Iterable[Type]) -> None:
        self.retargeting.check_types(types, record)

    def _construct(self, record: str, name: str) -> None:
        self.retargeting.check_construct(name, record)

    def _obstacle(self, record: str, error: ArchiveError) -> None:
        line = getattr(error, "line", None) or 0
        operator = getattr(error, "operator", None) or ""
        text = (getattr(error, "construct", None) or "").strip()
        place = error.record or record, line
        found = Obstacle(*place, operator, error.message, construct=text)
        self.retargeting.obstacles.append(found)
        if getattr(error, "is_unregistered", False):
            self.unregistered[found] = error.hint

    # Text

    def _body(self, record: str, code: _Code) -> TaggedText | None:
        """Return the text of a record that changes; None for one that is kept."""
        if not code.is_changed:
            return None
        if code.failure is not None:
            self._obstacle(record, code.failure)
            return None
        names = self.code.definitions(record)
        return self._printed(record, [definition(self.code, name) for name in names])

    def _printed(self, record: str, definitions: Iterable[NamedType]) -> TaggedText | None:
        name = self.plain.name
        literals = Literals(self.table, name)
        printer = Definitions(literals, name, lambda _: None, dialect=self.dialect)
        try:
            with bounded(record):
                for named in definitions:
                    printer.define(named)
        except SaveError as error:
            self._obstacle(record, error)
            return None
        return printer.body

    def _new_definitions(self, bodies: Mapping[str, TaggedText]) -> dict[str, TaggedText]:
        """Return the records of what code needs now, but what the archive has."""
        functions = self._with_functions(())
        texts = [str(body) for body in (*bodies.values(), *functions.values())]
        classes = self.plain.needed_by(texts)
        for class_ in classes:
            for method in class_.methods.values():
                for function in called_by(method):
                    self.retargeting.require(function)
        return self._with_functions(classes) if classes else functions

    def _with_functions(self, classes: Iterable[ClassType]) -> dict[str, TaggedText]:
        """Return the records of classes, and of the functions that calls need."""
        by_record: dict[str, list[NamedType]] = {}
        functions = (function.type for function in self.retargeting.functions)
        for named in (*classes, *functions):
            folder = self.plain.name(named).rpartition(".")[0]
            by_record.setdefault(f"code/{folder.replace('.', '/')}.py", []).append(named)
        found: dict[str, TaggedText] = {}
        for record, needed in by_record.items():
            own = [definition(self.code, name) for name in self._names_in(record)]
            self._check_own(record, needed, own)
            by_name = {self.plain.name(named): named for named in (*needed, *own)}
            body = self._printed(record, by_name.values())
            if body is not None:
                found[record] = body
        return found

    def _check_own(
        self, record: str, needed: Iterable[NamedType], own: Iterable[NamedType]
    ) -> None:
        """Note definitions of the archive that say something else under a name that is needed."""
        by_name = {self.plain.name(named): named for named in own}
        for named in needed:
            name = self.plain.name(named)
            if name in by_name and not self._is_same(named, by_name[name]):
                reason = f"the archive has another {name} than its calls need"
                self.retargeting.refuse(record, None, reason)

    def _is_same(self, needed: NamedType, own: NamedType) -> bool:
        match needed, own:
            case FunctionType(function), FunctionType(other):
                return self._say_the_same(function, other)
            case ClassType(), ClassType():
                attributes = [
                    {name: annotation(a.type, self.plain.name) for name, a in c.attributes.items()}
                    for c in (needed, own)
                ]
                return (
                    attributes[0] == attributes[1]
                    and needed.methods.keys() == own.methods.keys()
                    and all(
                        self._say_the_same(needed.methods[n], own.methods[n]) for n in own.methods
                    )
                )
        return False

    def _say_the_same(self, one: Function, other: Function) -> bool:
        """Return whether two functions take, do and give the same."""
        given = [
            [(a.name, annotation(a.type, self.plain.name)) for a in (*s.arguments, *s.returns)]
            for s in (one.schema, other.schema)
        ]
        return given[0] == given[1] and disagreement(one, other, self.plain.name) is None

    def _names_in(self, record: str) -> list[str]:
        return self.code.definitions(record) if record in self.texts else []

    def _check(self, codes: Mapping[str, _Code], bodies: Mapping[str, TaggedText]) -> None:
        """Read all code as the release does, and compare it with what it has to say."""
        if not bodies and self.keeps_unread:
            return
        texts = self.texts | {name: str(body) for name, body in bodies.items()}
        reader = self.target.code(texts, constant=self._constant, evaluate=self.process.evaluate)
        self._reader = reader
        for record, code in codes.items():
            for name, function in code.functions:
                self._compare(reader, record, name, function)

    def _constant(self, number: int) -> tuple[TableConstant, Type]:
        """Return an entry of the table of constants with its type for the release."""
        value, type_ = self.table.constant(number)
        if isinstance(type_, ClassType) and self.plain.name(type_) != type_.qualified_name:
            type_ = self._reader.find_class(self.plain.name(type_))
        return value, type_

    def _compare(self, reader: CodeImporter, record: str, name: str, function: Function) -> None:
        try:
            with bounded(record):
                again = _function_named(reader, name)
                found = None if again is None else disagreement(function, again, self.plain.name)
        except ArchiveError as error:
            self._obstacle(record, error)
            return
        if again is None or found is not None:
            node = None if found is None else found.node
            operator = "" if node is None else node.operator
            reason = f"torch {self.release} reads {operator or name} otherwise"
            self.retargeting.refuse(record, node, reason, operator=operator)

    # Records

    def _changed_records(self, bodies: Mapping[str, TaggedText]) -> dict[str, NewRecord]:
        found = {name: encoded(str(body)) for name, body in bodies.items()}
        if self.release.reads_text_tables:
            records, writer = self.container.records, DebugWriter()
            kept = {name: body for name, body in bodies.items() if name + DEBUG_SUFFIX in records}
            for name, ranges in fixpoint_ranges(kept).items():
                found[f"{name}{DEBUG_SUFFIX}"] = writer.record(ranges)
        changed = {name: NewRecord(name, data, deflate=True) for name, data in found.items()}
        if not self.release.reads_type_tags:
            tagged = self.pickles.items()
            changed |= {name: NewRecord(name, untagged(name, data)) for name, data in tagged}
        name = version_record(self.version)
        return {**changed, name: NewRecord(name, b"%d\n" % self.version)}

    def _replaced(self, changed: dict[str, NewRecord]) -> Iterator[NewRecord]:
        """Yield the records with those that changed; new ones stand behind the others of code."""
        names = [record.name for record in self.records]
        new = [each for name, each in changed.items() if _is_code(name) and name not in names]
        last = [*filter(_is_code, names)][-1:]
        for record in map(self._with_plain_classes, self._without_bytecode(changed)):
            name = version_record(self.version) if record.name in VERSION_RECORDS else record.name
            if self.release.reads_text_tables or not name.endswith(DEBUG_SUFFIX):
                yield changed.get(name, record)
            if [record.name] == last:
                yield from new

    def _without_bytecode(self, changed: Mapping[str, NewRecord]) -> list[NewRecord]:
        """Return the records without a program that says what the code said before."""
        dropped = bytecode_alone(self.container) if any(map(_is_code, changed)) else ()
        return [record for record in self.records if record.name not in dropped]

    def _with_plain_classes(self, record: NewRecord) -> NewRecord:
        data = self.pickles.get(record.name)
        if data is None:
            return record
        renamed = self.plain.renamed(data, record.name)
        return record if renamed == data else NewRecord(record.name, renamed)

    def _check_pickles(self) -> None:
        for record, data in self.pickles.items():
            for name, since in dict.fromkeys(unread(record, data)):
                if not self.release.is_since(since):
                    reason = f"torch {self.release} does not read {name}"
                    self.retargeting.obstacles.append(Obstacle(record, 0, "", reason, since))

    def _raise_obstacles(self) -> None:
        found = self.retargeting.obstacles
        if not found:
            return
        shown = "".join(f"\n  {obstacle}" for obstacle in found)
        advice = dict.fromkeys(filter(None, self.unregistered.values()))
        if self.unregistered.keys() >= {*found}:
            message = f"the archive cannot be checked for torch {self.release}"
        else:
            message = (
                f"torch {self.release} cannot load this archive, and not all of it can be said in "
                "another way"
            )
            advice[_LATER if any(one.since for one in found) else _ADVICE] = None
        raise TargetError(f"{message}:{shown}", obstacles=found, hint=". ".join(advice))


def _is_code(name: str) -> bool:
    return name.startswith("code/")


def _function_named(code: CodeImporter, qualified_name: str) -> Function | None:
    """Return a function, a method or a hook."""
    folder, _, name = qualified_name.rpartition(".")
    owner = code.find(folder)
    if isinstance(owner, ClassType):
        hooks = {hook.name: hook for hook in owner.hooks()}
        return owner.methods.get(name) or hooks.get(name)
    found = code.find(qualified_name)
    return found.function if isinstance(found, FunctionType) else None
