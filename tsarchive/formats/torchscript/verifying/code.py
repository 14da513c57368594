"""Code records: their syntax, their definitions, and the names that they mention."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from tsarchive.errors import ArchiveError, MissingRecordError, SourceError, UnknownOperatorError
from tsarchive.findings import Finding, Nature, Severity, fault
from tsarchive.formats.torchscript.inspection import signatures_of_code
from tsarchive.formats.torchscript.stored_tensors import TENSOR_MODULE
from tsarchive.frontend import CodeImporter
from tsarchive.frontend.grammar import OF_PYTHON
from tsarchive.frontend.references import BUILTINS, Special
from tsarchive.frontend.splitting import check_code, statements_of
from tsarchive.frontend.syntax import dotted, live_nodes, nodes_in
from tsarchive.ir.classes import ClassType
from tsarchive.ir.names import NATIVE_PREFIX
from tsarchive.ir.types import SIMPLE_TYPES, STRING, TENSOR, Type
from tsarchive.ir.values import TableConstant
from tsarchive.pickler import Reduce

ARCHIVE_CODE = "__torch__"
_TYPES = frozenset(
    {
        *SIMPLE_TYPES,
        "Await", "BoolTensor", "ByteTensor", "CharTensor", "Dict", "DoubleTensor", "Final",
        "FloatTensor", "Future", "HalfTensor", "IntTensor", "List", "LongTensor", "NoneType",
        "Optional", "RRef", "ShortTensor", "Tensor", "Tuple", "Union", "dict", "list", "tuple",
    }
)  # fmt: skip
_KNOWN = frozenset(
    {
        *BUILTINS, *_TYPES, *(special.value for special in Special),
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


class Mention(NamedTuple):
    """A name that code mentions and that stands for nothing known, on ``line`` of its record."""

    name: str
    line: int

    @property
    def is_pythons(self) -> bool:
        """Whether it is one that code would leave TorchScript with."""
        return self.name in _PYTHON_FUNCTIONS or self.name in OF_PYTHON


def mentions(
    body: list[ast.stmt], is_defined: Callable[[str], bool], constants: int | None
) -> Iterator[Mention]:
    """Yield the names in functions that no definition, operator or type has.

    ``is_defined`` tells for a qualified name whether code records define it, or a class that it
    is inside of; ``constants`` is the length of the table of constants, None where that is
    not known.
    """
    for function in _functions(body):
        yield from _mentions_in(function, is_defined, constants)


def _functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body)


def _mentions_in(
    function: ast.FunctionDef, is_defined: Callable[[str], bool], constants: int | None
) -> Iterator[Mention]:
    known_names = _KNOWN.union(_local_names(function))
    known: set[int] = set()
    for node in live_nodes(function):
        match node:
            case ast.Call(ast.Name("getattr"), [_, ast.Constant(str() as name)]):
                if name in OF_PYTHON:
                    yield Mention(name, node.lineno)
        if id(node) in known or not isinstance(node, ast.Attribute | ast.BinOp | ast.Name):
            continue
        name = dotted(node)
        if isinstance(node, ast.Name):
            is_known = name in known_names or _SIZED_TYPE.fullmatch(name) is not None
        elif name.startswith(f"{ARCHIVE_CODE}."):
            # The parts of the name are nodes of their own.
            known.update(map(id, nodes_in(node)))
            is_known = is_defined(name)
        else:
            is_known = not name.startswith("CONSTANTS.") or _is_constant(name, constants)
        if not is_known:
            yield Mention(name, node.lineno)


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
        statements = statements_of(text, record)
        for mention in mentions(statements, partial(_is_defined, code), count):
            yield _unknown(mention, record)


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


def _unknown(mention: Mention, record: str) -> Finding:
    is_pythons = mention.is_pythons
    reason = "that is Python's own" if is_pythons else "nothing in the archive has this name"
    return Finding(
        "code-name",
        Severity.ERROR,
        Nature.HOSTILE if is_pythons else Nature.BROKEN,
        f"the code names {mention.name[:120]!r}: {reason}",
        record,
        line=mention.line,
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
