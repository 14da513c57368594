"""Verification of a TorchScript archive: records, pickles with their tensors, and code."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tsarchive.container import Container
from tsarchive.errors import ArchiveError, MissingRecordError, SourceError, UnknownOperatorError
from tsarchive.findings import Finding, Findings, Nature, Severity, broken, fault, note, unusual
from tsarchive.formats.records import RecordTable, Role
from tsarchive.formats.torchscript.code_records import (
    NEWEST_VERSION,
    OLDEST_VERSION,
    CodeRecords,
    format_version,
    presumed_version,
)
from tsarchive.formats.torchscript.debug_records import DEBUG_SUFFIX
from tsarchive.formats.torchscript.inspection import signatures_of_code
from tsarchive.formats.torchscript.stored_tensors import TENSOR_MODULE
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.grammar import OF_PYTHON
from tsarchive.frontend.references import BUILTINS, Special
from tsarchive.frontend.splitting import check_code, statements_of
from tsarchive.frontend.syntax import dotted, live_nodes, nodes_in
from tsarchive.ir.classes import ClassType
from tsarchive.ir.constants import TableConstant
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.types import SIMPLE_TYPES, STRING, TENSOR, Type
from tsarchive.pickler import Object, Reduce
from tsarchive.steps import Step

from .pickles import (
    Pickle,
    Storages,
    debug_findings,
    is_debug,
    is_pickle,
    read_pickle,
    unreferenced,
    use_findings,
)


@dataclass
class ArchiveCheck:
    """Checks that have several layers. Records that are ``damaged`` cannot be read and are passed
    over."""

    container: Container
    table: RecordTable
    findings: Findings
    damaged: Collection[str]
    reads_pickles: bool = field(default=True, init=False)

    @cached_property
    def storages(self) -> Storages:
        return Storages(self.container, self.damaged)

    def sound_names(self) -> Iterator[str]:
        """Return the names of the records that can be read."""
        return (name for name in self.container.records if name not in self.damaged)

    def pickles(self) -> Iterator[tuple[str, Pickle]]:
        """Yield the pickles that can be read; ``reads_pickles`` tells afterwards if all can."""
        for name in filter(is_pickle, self.sound_names()):
            found = read_pickle(self.container, name)
            if isinstance(found, Pickle):
                yield name, found
            else:
                self.findings.add(found)
                self.reads_pickles = False

    def is_short(self, code: Iterable[str]) -> bool:
        """Return whether the records of code are not too long to be read."""
        if sum(self.container.records[name].size for name in code) <= MAX_CODE_BYTES:
            return True
        self.findings.add([too_much_code()])
        return False

    def has_code_syntax(self, name: str, text: str) -> bool:
        """Return whether a record has the syntax of code."""
        found = list(syntax_findings(name, text))
        self.findings.add(found)
        return not found

    def may_lack_code(self) -> bool:
        """Return whether code may be lost with the damaged records.

        A record of no name that is known may have code: its name may be damaged.
        """
        return any(name.endswith(".py") or not self.table.has(name) for name in self.damaged)


@dataclass
class TorchScriptCheck(ArchiveCheck):
    """Checks an archive of torch 1.3 and later."""

    _pickles: dict[str, Pickle] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)

    @property
    def code_records(self) -> int:
        return len(self._texts)

    def run(self, step: Step) -> None:
        """Look at everything; ``step`` is told what comes next."""
        step("records")
        self.findings.add(record_findings(self.container, self.table, has_debug=True))
        step("pickles")
        self._read_pickles()
        step("code")
        code = self._check_code()
        step("tensors")
        self._check_uses(code)

    def _read_pickles(self) -> None:
        for name, found in self.pickles():
            if is_debug(name):
                code = self.container.records.get(name.removesuffix(DEBUG_SUFFIX))
                size = None if code is None else code.size
                self.findings.add(use_findings(found, None))
                self.findings.add(debug_findings(self.container, name, size))
            else:
                self._pickles[name] = found

    def _check_code(self) -> CodeImporter | None:
        """Check the code; give what finds its classes, unless any of it is not code."""
        records = CodeRecords(self.container)
        if not self.is_short(records):
            return None
        for name in filter(records.__contains__, self.sound_names()):
            try:
                self._texts[name] = records[name]
            except ArchiveError as error:
                self.findings.add([fault(error, "zip-record", record=name)])
        is_code = [self.has_code_syntax(*item) for item in self._texts.items()]
        if len(self._texts) < len(records) or not all(is_code):
            return None
        table = self._pickles.get("constants.pkl")
        constants = None if table is None else table.value
        code = importer(self._texts, constants, presumed_version(self.container))
        self.findings.add(code_findings(code, self._texts, constants))
        return code

    def _check_uses(self, code: CodeImporter | None) -> None:
        may_lack_code = self.may_lack_code()
        for pickle in self._pickles.values():
            self.findings.add(use_findings(pickle, code, may_lack_code=may_lack_code))
            offsets = pickle.named.storages
            self.findings.add(self.storages.findings(pickle.value, pickle.record, offsets))
        root = self._pickles.get("data.pkl")
        if root is not None and not isinstance(root.value, Object):
            message = "the root of the archive is not an object"
            self.findings.add([broken("pickle-root", message, "data.pkl")])
        if self.reads_pickles and not self.damaged:
            self.findings.add(unreferenced(self.container, self.storages.referenced))


# What file managers put into the folders that they show.
_OF_DESKTOPS = re.compile(r"(\A|/)(\.DS_Store|\._[^/]*|Thumbs\.db|desktop\.ini)\Z")
_BYTE_ORDERS = (b"little", b"big")


def record_findings(
    container: Container, table: RecordTable, *, has_debug: bool
) -> Iterator[Finding]:
    """Check the set of records of a TorchScript archive.

    ``has_debug`` tells that code has debug records beside it.
    """
    yield from unknown_records(container, table)
    yield from _version(container)
    yield from byte_order_findings(container)
    if has_debug:
        yield from _undocumented(container)
    yield from _notes(container, table)


def unknown_records(container: Container, table: RecordTable) -> Iterator[Finding]:
    """Yield a finding for each record that the format does not have."""
    for name in container.records:
        if not table.has(name):
            by_desktop = _OF_DESKTOPS.search(name) is not None
            yield Finding(
                "record-unknown",
                Severity.INFO if by_desktop else Severity.WARNING,
                Nature.UNUSUAL,
                "the format has no such record: nothing reads it",
                name,
                hint="See what it is before you pass the file on",
            )


def _version(container: Container) -> Iterator[Finding]:
    try:
        version = format_version(container)
    except ArchiveError as error:
        yield fault(error, "record-version")
        return
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        yield broken(
            "record-version",
            f"the format version is {version}; {OLDEST_VERSION} to {NEWEST_VERSION} are known",
            ".data/version" if ".data/version" in container.records else "version",
            "A newer torch wrote it, or it is damaged",
        )
    if {"version", ".data/version"} <= container.records.keys():
        message = "there are two version records; .data/version counts"
        yield unusual("record-version", message, "version")


def byte_order_findings(container: Container) -> Iterator[Finding]:
    """Check the record that names the byte order."""
    if "byteorder" not in container.records:
        return
    try:
        order = container.read("byteorder")
    except ArchiveError:
        return  # which the check of its data has found
    if order not in _BYTE_ORDERS:
        message = f"the byte order is {order[:20]!r}, neither little nor big"
        yield Finding("record-byteorder", Severity.WARNING, Nature.BROKEN, message, "byteorder")
    elif order == b"big":
        yield unusual(
            "record-byteorder",
            "a big-endian machine wrote the tensors; they are read as little-endian",
            "byteorder",
            "Save it again on the machine that wrote it, in little-endian byte order",
        )


def _undocumented(container: Container) -> Iterator[Finding]:
    """Code without a debug record, and debug records of no code."""
    for name in container.records:
        if not name.startswith("code/"):
            continue
        if name.endswith(".py") and name + DEBUG_SUFFIX not in container.records:
            rule = "record-no-debug"
            message = "it has no debug record: errors cannot name the lines of the original source"
        elif (
            name.endswith(f".py{DEBUG_SUFFIX}")
            and name.removesuffix(DEBUG_SUFFIX) not in container.records
        ):
            rule, message = "record-debug", "it is the debug record of code that is not there"
        else:
            continue
        yield note(rule, message, name)


def _notes(container: Container, table: RecordTable) -> Iterator[Finding]:
    for name, record in container.records.items():
        if table.role(name) is Role.EXTRA:
            message = f"an extra file of {record.size:,} bytes, which torch does not look into"
            yield note("record-extra", message, name)
    if "traced_inputs.pkl" in container.records:
        message = "the example inputs of torch.jit.trace, without their data"
        yield note("record-inputs", message, "traced_inputs.pkl")


ARCHIVE_CODE = "__torch__"
_KNOWN = frozenset(
    {
        *BUILTINS, *SIMPLE_TYPES, *(special.value for special in Special),
        "Await", "BoolTensor", "ByteTensor", "CharTensor", "Dict", "DoubleTensor", "Final",
        "FloatTensor", "Future", "HalfTensor", "IntTensor", "List", "LongTensor", "NoneType",
        "Optional", "RRef", "ShortTensor", "Tensor", "Tuple", "Union", "dict", "list", "tuple",
        "AssertionError", "enumerate", "hasattr", "inf", "infj", "nan", "nanj", "range", "torch",
        "zip", ARCHIVE_CODE,
    }
)  # fmt: skip
_SIZED_TYPE = re.compile(r"_size_\d_t|BroadcastingList\d{1,2}")
# What Python knows by a bare name and TorchScript does not: names to get out with.
_PYTHON_FUNCTIONS = frozenset(
    {
        "__builtins__", "__import__", "breakpoint", "compile", "delattr", "eval", "exec",
        "globals", "help", "input", "locals", "memoryview", "object", "open", "setattr", "super",
        "type", "vars",
    }
)  # fmt: skip


def _functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body)


def _unknown_names(
    function: ast.FunctionDef, code: CodeImporter, constants: int | None
) -> Iterator[tuple[str, int]]:
    """Yield the names in a function that no definition, operator or type has, with their lines.

    ``constants`` is the length of the table of constants, None where that is not known.
    """
    known_names = _KNOWN.union(_local_names(function))
    known: set[int] = set()
    for node in live_nodes(function):
        match node:
            case ast.Call(ast.Name("getattr"), [_, ast.Constant(str() as name)]):
                if name in OF_PYTHON:
                    yield name, node.lineno
        if id(node) in known or not isinstance(node, ast.Attribute | ast.BinOp | ast.Name):
            continue
        name = dotted(node)
        if isinstance(node, ast.Name):
            is_known = name in known_names or _SIZED_TYPE.fullmatch(name) is not None
        elif name.startswith(f"{ARCHIVE_CODE}."):
            # The parts of the name are nodes of their own.
            known.update(map(id, nodes_in(node)))
            is_known = _is_defined(code, name)
        else:
            is_known = not name.startswith("CONSTANTS.") or _is_constant(name, constants)
        if not is_known:
            yield name, node.lineno


def _is_constant(name: str, constants: int | None) -> bool:
    number = name.split(".")[1].removeprefix("c")
    if not (number.isdecimal() and len(number) < 10):
        return False
    return constants is None or int(number) < constants


def _local_names(function: ast.FunctionDef) -> Iterator[str]:
    """Yield what is assigned or defined in a function or around a function inside it."""
    for node in nodes_in(function):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef):
            yield node.name


# Of all code records together: their syntax trees take 250 times as much memory. The largest
# archives seen have 6 MB.
MAX_CODE_BYTES = 1 << 24
# Parts of a qualified name: the folders of a path, a class and a method.
_MOST_PARTS = 100

_IMPORT_OF_ARCHIVE = "import __torch__"


def importer(texts: Mapping[str, str], constants: Any, version: int) -> CodeImporter:
    """Return the classes of an archive, without operators and graphs."""

    def constant(index: int) -> tuple[Any, Type]:
        if not isinstance(constants, tuple) or not 0 <= index < len(constants):
            raise MissingRecordError(
                f"the code names constant {index}, which the table does not have",
                record="constants.pkl",
            )
        found = constants[index]
        is_tensor = isinstance(found, Reduce) and found.function.module == TENSOR_MODULE
        return TableConstant(found), TENSOR if is_tensor else STRING

    return signatures_of_code(texts, constant, version)


def syntax_findings(record: str, text: str) -> Iterator[Finding]:
    """Check that a record is code, in the syntax of TorchScript alone."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("import ") and not line.startswith(_IMPORT_OF_ARCHIVE):
            yield Finding(
                "code-import",
                Severity.ERROR,
                Nature.HOSTILE,
                f"the code says {line.strip()[:80]!r}; TorchScript imports nothing of Python",
                record,
                line=number,
                hint="Readers of TorchScript skip the line; do not run it as Python",
            )
    try:
        check_code(text, record)
    except SourceError as error:
        is_meant = error.construct is not None or error.limit is not None
        rule = "code-construct" if is_meant else "code-syntax"
        yield fault(error, rule, Nature.HOSTILE if is_meant else Nature.BROKEN, record)


def code_findings(
    code: CodeImporter, texts: Mapping[str, str], constants: Any
) -> Iterator[Finding]:
    """Check the definitions of code whose syntax is right, and the names in it."""
    count = len(constants) if isinstance(constants, tuple) else None
    for record, text in texts.items():
        yield from _definition_findings(code, record)
        for function in _functions(statements_of(text, record)):
            for name, line in _unknown_names(function, code, count):
                yield _unknown(name, record, line)


def _definition_findings(code: CodeImporter, record: str) -> Iterator[Finding]:
    """Check that each definition is found by its name, and that the types it declares resolve."""
    try:
        names = code.definitions(record)
    except ArchiveError as error:
        yield fault(error, "code-definition", record=record)
        return
    for name in names:
        try:
            found = code.find(name)
            if isinstance(found, ClassType):
                for method in (*found.methods.values(), *found.hooks()):
                    _ = method.schema  # which is read when it is asked for
        except UnknownOperatorError:
            continue  # which operators there are is known to torch alone
        except ArchiveError as error:
            yield fault(error, "code-definition", record=record)


def _is_defined(code: CodeImporter, name: str) -> bool:
    """Return whether a name, or the class that it is in, is defined."""
    if f"{name}.".startswith(NATIVE_PREFIX):
        return True
    if name.count(".") > _MOST_PARTS:
        return False
    while "." in name:
        try:
            if code.find(name) is not None:
                return True
        except ArchiveError:
            return True  # the definition is there: what is wrong with it, others say
        name = name.rpartition(".")[0]
    return False


def _unknown(name: str, record: str, line: int) -> Finding:
    is_pythons = name in _PYTHON_FUNCTIONS or name in OF_PYTHON
    reason = "that is Python's own" if is_pythons else "nothing in the archive has this name"
    return Finding(
        "code-name",
        Severity.ERROR,
        Nature.HOSTILE if is_pythons else Nature.BROKEN,
        f"the code names {name[:120]!r}: {reason}",
        record,
        line=line,
        hint=None if is_pythons else "The archive is incomplete: download or copy it again",
    )


def too_much_code() -> Finding:
    """Return the finding of an archive whose code is too long to be read."""
    return Finding(
        "code-size",
        Severity.ERROR,
        Nature.HOSTILE,
        f"the code records have more than {MAX_CODE_BYTES:,} bytes; they were not looked at",
    )
