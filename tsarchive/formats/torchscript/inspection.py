"""Inspection of an archive with a data.pkl, without torch: tensors, modules, code, facts and needs.

Needs are operators, and classes bound from C++, of the process that loads a file. Code is read as
torch.jit reads it: from the classes of the objects on, all their methods, and what those name.
Branches that a literal decides are never compiled, so they need nothing.
"""

from __future__ import annotations

import ast
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tsarchive.container import Container, Record
from tsarchive.describing.contents import (
    ModuleInfo,
    Needs,
    ProgramFacts,
    Role,
    StorageInfo,
    TensorInfo,
)
from tsarchive.errors import (
    ArchiveError,
    FormatError,
    PickleError,
    SourceError,
    UnknownOperatorError,
    UnsupportedError,
)
from tsarchive.formats.base import OpenedArchive, View, tensor_facts, zip_facts
from tsarchive.formats.records import RecordTable
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.syntax import dotted, live_nodes, parse_statements
from tsarchive.ir.classes import Attribute, ClassType
from tsarchive.ir.names import MANGLE_PREFIX, NATIVE_PREFIX
from tsarchive.ir.schema import Argument
from tsarchive.ir.types import TENSOR, Type, annotation
from tsarchive.pickler import Global, Memoised, Object, Reduce, loads
from tsarchive.pickler.values import STORAGE_TYPES

from .code_records import CodeRecords, format_version
from .debug_records import DebugRecords
from .mentions import Mentions, PlainReader
from .pickled import MAX_DEPTH, names_in, objects_of
from .stored_tensors import (
    TENSOR_MODULE,
    DenseTensor,
    PerChannel,
    QuantizedTensor,
    SparseTensor,
    StoredTensors,
    StridedView,
    Wrapped,
    is_tensor,
    plain_tensor,
)

if TYPE_CHECKING:
    from tsarchive.describing.contents import Facts
    from tsarchive.describing.written import WrittenBy
    from tsarchive.scanning.report import OperatorUse


# Modules and containers may be shared, so names can grow exponentially in malicious files.
MAX_NAMES = 1_000_000
# Maximum total length of these names.
MAX_LETTERS = 1 << 27

# Types that may contain tensors; other values need no names.
_HOLDING = (Object, Reduce, Memoised, dict, list, tuple)
# The spelling of code.
_CONSTANT = "CONSTANTS.c"

ClassOf = Callable[[Object], ClassType]


def class_finder(classes: CodeImporter) -> ClassOf:
    """Find the classes of pickled objects among those that code defines.

    The result raises UnknownClassError for an object whose class is not defined, FormatError for
    one whose class is not a class.
    """

    def class_of(value: Object) -> ClassType:
        found = classes.find_class(value.cls.qualified_name)
        if not isinstance(found, ClassType):
            raise FormatError(f"{value.cls.qualified_name} is not a class", record="data.pkl")
        return found

    return class_of


# Folders of the storages of a pickle, by its name; the first that has the storage counts.
_FOLDERS = {
    "data.pkl": ("data/",),
    "constants.pkl": ("constants/",),
    "traced_inputs.pkl": ("traced_inputs/",),
    # Mobile archives share the storages of both pickles.
    "bytecode.pkl": ("bytecode/", "constants/", ""),
}

_Named = tuple[str, Any, Role]
_END: tuple[None, None, Role] = (None, None, "attribute")


class Root(NamedTuple):
    """A value of the pickle ``record`` that may hold tensors; their names begin with ``name``."""

    record: str
    name: str
    value: Any
    role: Role = "attribute"


def storage_record(pickle: str, key: str, records: Collection[str]) -> str:
    """Return the record of the storage that ``pickle`` calls ``key``, even if it does not exist."""
    names = [f"{folder}{key}" for folder in _FOLDERS.get(pickle, ("",))]
    return next((name for name in names if name in records), names[0])


def constants_in(table: Any, record: str) -> Iterator[Root]:
    """Yield the constants of a table under their names in code."""
    if isinstance(table, tuple):
        for index, value in enumerate(table):
            yield Root(record, f"{_CONSTANT}{index}", value, "constant")


def named_tensors(
    roots: Iterable[Root], class_of: ClassOf, records: Mapping[str, Record]
) -> Iterator[tuple[str, TensorInfo]]:
    """Yield every tensor in ``roots`` by its dotted name; a shared one under each of its names.

    Parts of a tensor, such as the scales of its channels, are not listed. Raises PickleError where
    names are too many, too long in total, or values nested too deeply.
    """
    walk = _Walk(class_of)
    described: dict[str, _Described] = {}
    for root in roots:
        known = described.get(root.record)
        if known is None:
            known = described[root.record] = _Described(root.record, records)
        yield from walk.tensors(root, known)


class _Walk:
    """Walks values along every reference, and names them."""

    def __init__(self, class_of: ClassOf) -> None:
        self._class_of = class_of
        self._names = self._letters = 0

    def tensors(self, root: Root, described: _Described) -> Iterator[tuple[str, TensorInfo]]:
        walks: list[Iterator[_Named]] = [iter([(root.name, root.value, root.role)])]
        while walks:
            name, value, role = next(walks[-1], _END)
            if name is None:
                walks.pop()
                continue
            self._count(name, root.record)
            info = described.info(value, role)
            if info is not None:
                yield name, info
            elif len(walks) > MAX_DEPTH:
                message = "values are nested too deeply"
                raise PickleError(message, record=root.record, limit=MAX_DEPTH)
            else:
                inside = self._inside(name, value, root)
                walks.append(named for named in inside if isinstance(named[1], _HOLDING))

    def _count(self, name: str, record: str) -> None:
        self._names, self._letters = self._names + 1, self._letters + len(name)
        if self._names > MAX_NAMES or self._letters > MAX_LETTERS:
            limit = MAX_NAMES if self._names > MAX_NAMES else MAX_LETTERS
            raise PickleError("too many named values", record=record, limit=limit)

    def _inside(self, name: str, value: Any, root: Root) -> Iterator[_Named]:
        """Yield the named values directly inside one value."""
        prefix, role = f"{name}." if name else "", root.role
        match value:
            case Object():
                for slot, item, made in _slots(value, self._class_of, root.record):
                    yield f"{prefix}{slot}", item, _role(made, role)
            case Reduce(argument=tuple((list() | dict() as content, *_))):
                yield name, content, role
            case Reduce():
                parts = (value.argument, value.items, value.state)
                yield from ((name, part, role) for part in parts)
            case Memoised():
                yield name, value.value, role
            case dict():
                for index, (key, item) in enumerate(value.items()):
                    yield f"{prefix}<key {index}>", key, role
                    yield f"{prefix}{_shown_key(key, index)}", item, role
            case list() | tuple():
                yield from ((f"{prefix}{index}", item, role) for index, item in enumerate(value))


def _slots(
    value: Object, class_of: ClassOf, record: str
) -> Iterator[tuple[str, Any, Attribute | None]]:
    """Yield the attributes of an object, or the one value from its ``__getstate__``."""
    if not isinstance(value.state, dict):
        yield from _parts_of_state(value, class_of)
        return
    attributes = class_of(value).attributes
    for name, item in value.state.items():
        if not isinstance(name, str):
            message = "the state of an object has a name that is no text"
            raise PickleError(message, record=record)
        yield name, item, attributes.get(name)


def _parts_of_state(value: Object, class_of: ClassOf) -> Iterator[tuple[str, Any, None]]:
    """Yield the result of ``__getstate__``: attribute by attribute where this library has it."""
    is_packed = value.cls.qualified_name.startswith(NATIVE_PREFIX)
    class_ = class_of(value) if is_packed else None
    if class_ is None or not class_.is_revived or not isinstance(value.state, tuple):
        yield "__getstate__", value.state, None
        return
    for name, item in zip(class_.attributes, value.state, strict=False):
        yield name, item, None


def _shown_key(key: Any, index: int) -> str:
    """Return a dict key as part of a name; compound keys are represented by their index."""
    is_scalar = isinstance(key, bool | int | float | str | None)
    return str(key) if is_scalar else f"<{type(key).__name__} {index}>"


def _role(slot: Attribute | None, otherwise: Role) -> Role:
    """Return the role of the tensor in a slot of a class."""
    if slot is None or not (slot.is_parameter or slot.is_buffer):
        return otherwise
    return "parameter" if slot.is_parameter else "buffer"


class _Described:
    """Descriptions of tensors in the pickle ``record``, located in ``records``."""

    def __init__(self, record: str, records: Mapping[str, Record]) -> None:
        self._record = record
        self._records = records
        self._stored = StoredTensors(record)

    def info(self, value: Any, role: Role) -> TensorInfo | None:
        """Describe a tensor; return None for other values.

        Raises PickleError for a tensor that breaks a rule of the format.
        """
        if not isinstance(value, Reduce) or not is_tensor(value):
            return None
        described = self._stored.tensor(plain_tensor(value, self._record))
        if isinstance(described, Wrapped):
            described = self._stored.tensor(described.tensor)
        match described:
            case DenseTensor(view):
                return self._of_view(view, role)
            case QuantizedTensor(view, PerChannel(scales, zero_points)):
                return self._of_view(view, role, self._parts((scales, zero_points)))
            case QuantizedTensor(view):
                return self._of_view(view, role)
            case SparseTensor(size=size, parts=parts):
                return _sparse_info(self._parts(parts), size, role)
        return None

    def _parts(self, values: Iterable[Any]) -> list[TensorInfo]:
        """Describe the parts of a tensor."""
        return [info for value in values if (info := self.info(value, "attribute"))]

    def _of_view(
        self, view: StridedView, role: Role, parts: Iterable[TensorInfo] = ()
    ) -> TensorInfo:
        storage = view.storage
        record = storage_record(self._record, storage.key, self._records)
        found = self._records.get(record)
        own = StorageInfo(record, 0, 0 if found is None else found.size)
        itemsize = STORAGE_TYPES[storage.kind].itemsize
        return TensorInfo(
            dtype=storage.dtype,
            shape=view.size,
            strides=view.stride,
            storage=record,
            nbytes=view.elements * itemsize,
            role=role,
            storages=(own, *_storages(parts)),
            device=storage.device,
            offset=view.offset * itemsize,
        )


def _sparse_info(parts: Sequence[TensorInfo], size: tuple[int, ...], role: Role) -> TensorInfo:
    """Describe a sparse tensor; the last of its parts are the values."""
    values, nbytes = parts[-1], sum(part.nbytes for part in parts)
    return TensorInfo(
        values.dtype, size, (), None, nbytes, role, tuple(_storages(parts)), values.device
    )


def _storages(infos: Iterable[TensorInfo]) -> Iterator[StorageInfo]:
    return (storage for info in infos for storage in info.storages)


class ModuleTree:
    """Modules with those below them; a shared module appears at each reference."""

    def __init__(self, record: str, class_of: ClassOf, records: Mapping[str, Record]) -> None:
        self._record = record
        self._class_of = class_of
        self._walk = _Walk(class_of)
        self._described = _Described(record, records)
        self._count = 0

    def module(self, name: str, value: Object, depth: int) -> ModuleInfo:
        self._count += 1
        if self._count > MAX_NAMES or depth > MAX_DEPTH:
            limit = MAX_NAMES if self._count > MAX_NAMES else MAX_DEPTH
            message = "too many modules, or nested too deeply"
            raise PickleError(message, record=self._record, limit=limit)
        class_ = self._class_of(value)
        children: list[ModuleInfo] = []
        infos: list[TensorInfo] = []
        for key, item, slot in _slots(value, self._class_of, self._record):
            if isinstance(item, Object) and self._class_of(item).is_module:
                children.append(self.module(key, item, depth + 1))
            elif isinstance(item, _HOLDING):
                root = Root(self._record, key, item, _role(slot, "attribute"))
                infos += (info for _, info in self._walk.tensors(root, self._described))
        return ModuleInfo(
            name,
            class_.qualified_name,
            tuple(class_.methods),
            sum(info.elements for info in infos if info.is_parameter),
            sum(info.nbytes for info in infos),
            tuple(children),
        )


_DATA = "data.pkl"
_CONSTANTS = "constants.pkl"


def signatures_of_code(
    texts: Mapping[str, str],
    constant: Callable[[int], tuple[Any, Type]],
    version: int,
    **options: Any,
) -> CodeImporter:
    """Make a CodeImporter that gives classes and signatures without operators and graphs."""
    return CodeImporter(
        texts,
        operators=lambda name: (),
        constant=constant,
        version=version,
        native_class=lambda name: ClassType(name, is_native=True),
        evaluate=lambda schema: None,
        reads_bodies=False,
        **options,
    )


class PickledView(View):
    """An archive whose modules a pickle describes, or could: each part is read on demand."""

    _record: str
    """The record that describes the modules."""

    def __init__(self, container: Container) -> None:
        self._container = container

    @abstractmethod
    def _roots(self) -> Iterator[Root]:
        """Yield the values that hold tensors."""

    def tensors(self) -> Iterator[tuple[str, TensorInfo]]:
        """Yield every tensor by its dotted name: those of the root, and those that code names."""
        class_of = class_finder(self.classes)
        return named_tensors(self._roots(), class_of, self._container.records)

    def tree(self) -> ModuleInfo:
        """Return the modules below the root. Raises PickleError where these are too many."""
        class_of = class_finder(self.classes)
        tree = ModuleTree(self._record, class_of, self._container.records)
        return tree.module("", self.root, 1)

    def signed_tree(self) -> ModuleInfo:
        return with_signatures(self.tree(), self.classes)

    def written_by(self, archive: OpenedArchive) -> WrittenBy:
        from .written_by import written_by

        version = None
        with suppress(ArchiveError):
            version = archive.format_version
        return written_by(self._container, version, archive.code, archive.needs.operators)

    def element_bytes(self, name: str, info: TensorInfo) -> memoryview:
        assert info.storage is not None
        return self._container.view(info.storage)[info.offset :]


class TorchScriptView(PickledView):
    """An archive of torch 1.3 and later."""

    _record = _DATA

    @property
    def format_version(self) -> int:
        """The number in the version record."""
        return format_version(self._container)

    @cached_property
    def code(self) -> CodeRecords:
        return _KeptRecords(self._container)

    @cached_property
    def debug(self) -> DebugRecords:
        return DebugRecords(self._container)

    @cached_property
    def classes(self) -> CodeImporter:
        return signatures_of_code(self.code, self._constant, self.format_version)

    @cached_property
    def root(self) -> Object:
        """The root object as data.pkl describes it."""
        found = loads(self._container.read(_DATA), record=_DATA)
        if not isinstance(found, Object):
            raise FormatError("the root of the archive is not an object", record=_DATA)
        return found

    def needs(self) -> Needs:
        """Return the needs of the code that is reached from the root and the constants."""
        return needs_of(self.code, (self.root, self._constants))

    def _roots(self) -> Iterator[Root]:
        """Yield the roots of tensors.

        Example inputs of a trace are stored without their elements.
        """
        yield Root(_DATA, "", self.root)
        yield from constants_in(self._constants, _CONSTANTS)
        yield from constants_in_bytecode(self._container)

    @cached_property
    def _constants(self) -> Any:
        return loads(self._container.read(_CONSTANTS), record=_CONSTANTS)

    def _constant(self, index: int) -> tuple[Any, Type]:
        """Return a constant tensor as the pickle describes it, for defaults of parameters."""
        table = self._constants
        found = table[index] if isinstance(table, tuple) and 0 <= index < len(table) else None
        if isinstance(found, Reduce) and found.function.module == TENSOR_MODULE:
            from tsarchive.ir.constants import TableConstant

            return TableConstant(found), TENSOR
        raise UnsupportedError(
            f"constant {index} is no tensor: others are not read while looking",
            record=_CONSTANTS,
            hint="Load the archive to see it",
        )


_KEPT_CHARACTERS: Final = 1 << 22


class _KeptRecords(CodeRecords):
    """Code records whose texts are kept, up to a bound: who looks at a file reads them often."""

    def __init__(self, container: Container) -> None:
        super().__init__(container)
        self._texts: dict[str, str] = {}
        self._room = _KEPT_CHARACTERS

    def __getitem__(self, name: str) -> str:
        text = self._texts.get(name)
        if text is None:
            text = super().__getitem__(name)
            if len(text) <= self._room:
                self._room -= len(text)
                self._texts[name] = text
        return text


def signatures(class_: ClassType) -> Iterator[str]:
    """``forward(x: Tensor, scale: float=1.0) -> Tensor`` for each method, without self."""
    for name, method in class_.methods.items():
        try:
            schema = method.schema
        except (UnknownOperatorError, UnsupportedError):
            # Only operators would tell the type of its result, or a constant that of a default.
            yield f"{name}(...)"
            continue
        arguments = ", ".join(map(_argument, schema.arguments[1:]))
        yield f"{name}({arguments}) -> {annotation(schema.return_type)}"


def with_signatures(module: ModuleInfo, classes: CodeImporter) -> ModuleInfo:
    """Return a module tree with the signature of each method in place of its name."""
    class_ = classes.find_class(module.qualified_class)
    assert isinstance(class_, ClassType)
    children = tuple(with_signatures(child, classes) for child in module.children)
    return replace(module, methods=tuple(signatures(class_)), children=children)


def _argument(argument: Argument) -> str:
    text = f"{argument.name}: {annotation(argument.type)}"
    if not argument.has_default:
        return text
    is_plain = argument.default is None or isinstance(argument.default, bool | int | float | str)
    return f"{text}={argument.default!r}" if is_plain else f"{text}=..."


BYTECODE: Final = "bytecode.pkl"


def tables_of(functions: Any) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Yield (function, table, rows) for each table of each function.

    Entries of another form are skipped.
    """
    for entry in functions if isinstance(functions, tuple) else ():
        match entry:
            case (str(function), tuple(tables), *_):
                for table in tables:
                    match table:
                        case (str(name), tuple(rows)):
                            yield function, name, rows


def constants_in_bytecode(container: Container) -> Iterator[Root]:
    """Yield the constants of a program in bytecode, if there is one, by function and place."""
    if BYTECODE not in container.records:
        return
    functions = loads(container.read(BYTECODE), record=BYTECODE)
    for function, table, rows in tables_of(functions):
        for index, value in enumerate(rows if table == "constants" else ()):
            name = f"bytecode.{function}.constants.{index}"
            yield Root(BYTECODE, name, value, "constant")


def _no_constant(index: int) -> tuple[Any, Type]:
    raise UnsupportedError(f"nothing has constant {index}")


def tensors_of_pickles(container: Container) -> Iterator[tuple[str, TensorInfo]]:
    """Yield the tensors that pickles name, those of torch.save too, whatever classes are there."""
    without_members = ClassType("")
    for record in (_DATA, _CONSTANTS):
        if record in container.records:
            value = loads(container.read(record), record=record, any_int=True)
            constants = constants_in(value, record)
            roots = [Root(record, "", value)] if record == _DATA else constants
            known = _DescribedBySave(record, container.records)
            walk = _Walk(lambda _: without_members)
            for root in roots:
                yield from walk.tensors(root, known)


class _DescribedBySave(_Described):
    """Describes the tensors of torch.save, too; those of which nothing is known are left out."""

    def info(self, value: Any, role: Role) -> TensorInfo | None:
        match value:
            case Reduce(Global(name="_rebuild_sparse_tensor"), (Reduce(), tuple(parts))):
                infos = self._parts(parts)
                return _sparse_info(infos, (), role) if infos else None
        with suppress(PickleError):
            return super().info(value, role)
        return None


def tensors_without_code(container: Container) -> Iterator[tuple[str, TensorInfo]]:
    """Yield the tensors of an archive that has bytecode alone: nothing defines its classes."""
    classes = signatures_of_code({}, _no_constant, format_version(container), open_world=True)
    data = loads(container.read(_DATA), record=_DATA)
    roots = (Root(_DATA, "", data), *constants_in_bytecode(container))
    return named_tensors(roots, class_finder(classes), container.records)


def operators_in_bytecode(data: bytes) -> tuple[OperatorUse, ...]:
    """The operators that each function of the record lists; none when it cannot be read."""
    from tsarchive.scanning.report import Place, When, ordered, use_of

    try:
        functions = loads(data, record=BYTECODE)
    except ArchiveError:
        return ()  # the walk over the pickle has told of it
    places: dict[str, list[Place]] = {}
    for function, table, rows in tables_of(functions):
        when = When.LOAD if function.endswith(".__setstate__") else When.CALL
        place = Place(BYTECODE, None, function, (when,))
        for row in rows if table == "operators" else ():
            match row:
                case (str(name), str(overload), *_):
                    operator = f"{name}.{overload}" if overload else name
                    places.setdefault(operator, []).append(place)
    return ordered(use_of(name, tuple(found)) for name, found in places.items())


def torchscript_facts(
    archive: OpenedArchive, file: str, nbytes: int, table: RecordTable, *, has_unnamed_classes: bool
) -> Facts:
    """Return the facts of a TorchScript archive. Raises ArchiveError.

    ``has_unnamed_classes`` tells that each module is of a class of its own, which no code names.
    """
    return replace(
        zip_facts(archive, file, nbytes, table),
        program=_program(archive, has_unnamed_classes=has_unnamed_classes),
        tensors=tensor_facts(archive),
    )


def _program(archive: OpenedArchive, *, has_unnamed_classes: bool) -> ProgramFacts:
    from tsarchive.describing.definitions import CLASS, FUNCTION, METHOD, kinds_of
    from tsarchive.describing.text import advice, advice_if_removed

    class_of = class_finder(archive.classes)
    objects = list(objects_of(archive.root))
    kinds: Counter[str] = Counter()
    for text in archive.code.values():
        kinds.update(kinds_of(text))
    modules = sum(class_of(o).is_module for o in objects)
    if has_unnamed_classes:
        kinds[CLASS] += modules
    main_class = class_of(archive.root)
    names = (*archive.needs.operators, *archive.needs.classes)
    removed = {name: told for name in sorted(names) if (told := advice_if_removed(name))}
    return ProgramFacts(
        main_class=main_class.qualified_name,
        has_traced_inputs="traced_inputs.pkl" in archive.records,
        modules=modules,
        classes=kinds[CLASS],
        methods=kinds[METHOD],
        functions=kinds[FUNCTION],
        signatures=tuple(signatures(main_class)),
        native_classes=archive.needs.classes,
        operators=archive.needs.operators,
        needs={name: advice(name) for name in archive.needs.foreign},
        removed=removed,
    )


# Most nodes are of these; a name by itself is that of a local.
_NAMING_NOTHING: Final = frozenset({ast.Constant, ast.Load, ast.Name, ast.Store})
# Bytes that are not UTF-8, and carriage returns, which are not line ends here.
_UNPARSABLE: Final = re.compile("[\udc80-\udcff\r]")
_NUMBER: Final = re.compile(rf"(?<={MANGLE_PREFIX})[0-9]+")
# So much code is parsed before the patterns for plain text are compiled.
_SHORT: Final = 6_000


def needs_of(code: Mapping[str, str], data: Iterable[Any]) -> Needs:
    """Return the needs of code that is reached from the classes in ``data``, pickle values.

    Raises SourceError for code that does not parse.
    """
    reader = _Reader(code)
    for value in data:
        for name in names_in(value):
            reader.mention(name)
    return reader.needs()


def needs_of_all(code: Mapping[str, str], renamed: Mapping[str, str]) -> Needs:
    """Return the needs of all code, where no names lead from one record to another.

    ``renamed`` gives the names of today of operators that have changed theirs.
    Raises SourceError for code that does not parse.
    """
    reader = _Reader(code, renamed)
    for record in code:
        reader.read(record)
    return reader.needs()


def _mentions(root: ast.stmt) -> Mentions:
    """Return what a statement mentions, from its tree."""
    found = Mentions(Counter(), {})
    for node in live_nodes(root, _NAMING_NOTHING):
        match node:
            case ast.Call(func):
                found.call(dotted(func))
            # The parts of a longer name are nodes of their own.
            case ast.Attribute() | ast.BinOp():
                found.name(dotted(node))
    return found


class _Text(NamedTuple):
    """What the statements of a record mention; of those that define something, by its name."""

    body: Sequence[Mentions]
    definitions: Mapping[str, Mentions]


def _parsed(record: str, text: str) -> _Text:
    kinds = ast.ClassDef | ast.FunctionDef
    body = [(node, _mentions(node)) for node in _parse(record, text)]
    return _Text(
        [found for _, found in body],
        {node.name: found for node, found in body if isinstance(node, kinds)},
    )


def _parse(record: str, text: str) -> list[ast.stmt]:
    return parse_statements(_UNPARSABLE.sub(" ", text), record, 1)


class _Reader:
    """Collects what definitions mention, and goes on with the definitions among that.

    Records that differ in mangled names alone are parsed once.
    """

    def __init__(self, code: Mapping[str, str], renamed: Mapping[str, str] | None = None) -> None:
        self._code = code
        self._renamed = renamed or {}
        self._plain = PlainReader()
        self._characters = 0
        self._texts: dict[str, _Text] = {}
        self._of_records: dict[str, tuple[_Text, tuple[str, ...]]] = {}
        self._operators: Counter[str] = Counter()
        self._native: set[str] = set()
        self._pending: list[tuple[Mentions, tuple[str, ...]]] = []
        self._mentioned: set[str] = set()

    def read(self, record: str) -> None:
        """Read all of a record."""
        text, numbers = self._text(record)
        self._pending += [(mentions, numbers) for mentions in text.body]

    def mention(self, name: str) -> None:
        """Go on with a dotted name, of which the start may be that of a definition."""
        if name in self._mentioned:
            return
        self._mentioned.add(name)
        if name.startswith(NATIVE_PREFIX):
            if name.count(".") == NATIVE_PREFIX.count(".") + 1:
                self._native.add(name)
            return
        module, _, own_name = name.rpartition(".")
        record = f"code/{module.replace('.', '/')}.py"
        if record in self._code:
            text, numbers = self._text(record)
            if own_name in text.definitions:
                self._pending.append((text.definitions[own_name], numbers))

    def _text(self, record: str) -> tuple[_Text, tuple[str, ...]]:
        """Return a text, and the numbers in mangled names by their place in this list."""
        if record not in self._of_records:
            text, numbers = renumbered(self._code[record])
            if text not in self._texts:
                self._texts[text] = self._read(record, text)
            self._of_records[record] = self._texts[text], numbers
        return self._of_records[record]

    def _read(self, record: str, text: str) -> _Text:
        self._characters += len(text)
        plain = self._plain.mentions(text) if self._characters > _SHORT else None
        if plain is not None:
            return _Text([*plain.values()], plain)
        try:
            return _parsed(record, text)
        except SourceError:
            _parse(record, self._code[record])  # errors show names as they are written
            raise

    def needs(self) -> Needs:
        """Read all that is pending; return what has been collected."""
        while self._pending:
            mentions, numbers = self._pending.pop()
            for written, count in mentions.operators.items():
                name = restored(written, numbers)
                self._operators[self._renamed.get(name, name)] += count
            for name in mentions.names:
                self.mention(restored(name, numbers))
        classes = sorted(name.removeprefix(NATIVE_PREFIX) for name in self._native)
        return Needs(dict(self._operators), tuple(classes))


def renumbered(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace the numbers in mangled names by their places in the tuple that is returned.

    One with letters that Python may take for others stays as it is.
    """
    places: dict[str, str] = {}
    if text.isascii():
        text = _NUMBER.sub(lambda match: places.setdefault(match[0], str(len(places))), text)
    return text, tuple(places)


def restored(name: str, numbers: tuple[str, ...]) -> str:
    """Return a name from such a text as the text had it before."""
    return _NUMBER.sub(lambda match: numbers[int(match[0])], name) if numbers else name
