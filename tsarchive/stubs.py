"""Stub files: the classes of a TorchScript archive as editors and type checkers know classes.

Made of declarations alone: torch is not imported, and no code of the archive runs.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final

from tsarchive.archive import open as opened
from tsarchive.errors import UnsupportedError
from tsarchive.formats.torchscript.inspection import TorchScriptView, class_finder
from tsarchive.ir.classes import ClassType, InterfaceType, is_forward
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STRING,
    TENSOR,
    DictType,
    EnumType,
    ListType,
    NamedType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
)

_IMPORTS: Final = {
    "builtins": "import builtins",
    "enum": "import enum",
    "Iterator": "from collections.abc import Iterator",
    "Any": "from typing import Any",
    "NamedTuple": "from typing import NamedTuple",
    "Protocol": "from typing import Protocol",
    "overload": "from typing import overload",
    "torch": "import torch",
    "Tensor": "from torch import Tensor",
    "nn": "from torch import nn",
}
_SIMPLE: Final = {
    TENSOR: "Tensor", INT: "int", FLOAT: "float", COMPLEX: "complex", BOOL: "bool",
    STRING: "str", NONE: "None", DEVICE: "torch.device", GENERATOR: "torch.Generator",
    NUMBER: "int | float | complex",
}  # fmt: skip
_BUILTINS: Final = frozenset({"bool", "complex", "dict", "float", "int", "list", "str", "tuple"})
_TAKEN: Final = frozenset({*_IMPORTS, *dir(builtins)})
_CONTAINERS: Final = {
    "__torch__.torch.nn.modules.container.ModuleList": "int",
    "__torch__.torch.nn.modules.container.Sequential": "int",
    "__torch__.torch.nn.modules.container.ModuleDict": "str",
}
_OF_MODULES: Final = frozenset({"training", "_is_full_backward_hook"})
_NOT_CALLED: Final = frozenset({"__getstate__", "__setstate__", "__init__", "__call__", "__len__"})
_LITERALS: Final = (bool, int, float, str, type(None))


def stub(f: str | os.PathLike[str] | BinaryIO) -> str:
    """Return a stub file (``.pyi``) with the classes of a TorchScript archive.

    The first class is that of the model. Modules have their submodules, parameters, buffers,
    attributes and constants, and methods with the types of arguments and results; named tuples,
    enums, interfaces and other classes that these types name follow. What has no name in Python is
    left out, and a type that Python has no word for is ``Any``.

    Raises UnsupportedError for files of other kinds, whose programs have no classes, and
    ArchiveError where the file breaks a rule.

        >>> "def forward(self, x: Tensor) -> Tensor: ..." in tsarchive.stub("net.pt")
        True
    """
    with opened(f) as archive:
        view = archive.view
        if not isinstance(view, TorchScriptView):
            message = f"stub files are made of TorchScript archives; this is {archive.kind}"
            raise UnsupportedError(message, hint="See 'tsarchive tree FILE --signatures'")
        root = class_finder(view.classes)(view.root)
        return _Stub(root).text(_file_name(f))


class _Stub:
    """The classes of one archive, in the order in which they are named, and their names."""

    def __init__(self, root: ClassType) -> None:
        self._names: dict[NamedType, str] = {}
        self._pending: list[NamedType] = []
        self._root = self._name(root)

    def text(self, name: str) -> str:
        classes = []
        while self._pending:
            classes.append("\n".join(self._lines(self._pending.pop(0))))
        code = "\n\n".join(classes)
        used = set(re.findall(r"\w+", code))
        imports = [line for name, line in _IMPORTS.items() if name in used]
        head = f'"""The classes of {name}: ``net: {self._root} = tsarchive.load(...)``."""'
        return "\n".join([head, "", *imports, "", code]) + "\n"

    def _name(self, type_: NamedType) -> str:
        """Return the name of a class, which is written below when it is first asked for."""
        if type_ not in self._names:
            own = (type_.qualified_name or "").rpartition(".")[2]
            base = own if _is_name(own) else "Class"
            taken = {*self._names.values(), *_TAKEN}
            number = next(n for n in itertools.count() if base + str(n or "") not in taken)
            self._names[type_] = base + str(number or "")
            self._pending.append(type_)
        return self._names[type_]

    def _lines(self, type_: NamedType) -> Iterator[str]:
        """Yield the lines of a class."""
        body = [f"    {line}" for line in _with_builtins([*self._members(type_)])]
        yield f"class {self._name(type_)}{_bases(type_)}:{'' if body else ' ...'}"
        yield from body

    def _members(self, type_: NamedType) -> Iterator[str]:
        match type_:
            case ClassType():
                yield from self._members_of_class(type_)
            case InterfaceType(methods=methods):
                for name, schema in methods.items():
                    yield from self._method(name, schema)
            case EnumType(members=members):
                yield from (f"{name} = {value!r}" for name, value in members.items())
            case TupleType(elements=elements, fields=fields):
                for name, element in zip(fields, elements, strict=True):
                    yield f"{name}: {self._shown(element)}"

    def _members_of_class(self, class_: ClassType) -> Iterator[str]:
        slots = [(each.name, each.type) for each in class_.attributes.values()]
        slots += [(each.name, each.type) for each in class_.constants.values()]
        for name, type_ in slots:
            if _is_name(name) and name not in _OF_MODULES:
                yield f"{name}: {self._shown(type_)}"
        for name, method in class_.methods.items():
            if _is_name(name) and name not in _NOT_CALLED:
                yield from self._method(name, method.schema)
        forwards = [
            each.schema for name, each in class_.methods.items() if is_forward(class_, name)
        ]
        if "forward" not in class_.methods:
            yield from self._overloads("forward", forwards)
        yield from self._overloads("__call__", forwards)
        if (key := _CONTAINERS.get(class_.qualified_name)) is not None:
            yield f"def __getitem__(self, key: {key}) -> Any: ..."
            yield f"def __iter__(self) -> Iterator[{'Any' if key == 'int' else key}]: ..."
            yield "def __len__(self) -> int: ..."

    def _overloads(self, name: str, schemas: Iterable[FunctionSchema]) -> Iterator[str]:
        """Yield a method once for each of its schemas."""
        methods = [line for schema in schemas for line in self._method(name, schema)]
        for method in methods:
            if len(methods) > 1:
                yield "@overload"
            yield method

    def _method(self, name: str, schema: FunctionSchema) -> Iterator[str]:
        """Yield a method; none where an argument has no name in Python."""
        arguments = schema.arguments[1:]
        if all(_is_name(argument.name) for argument in arguments):
            taken = ", ".join(["self", *self._arguments(arguments)])
            yield f"def {name}({taken}) -> {self._shown(schema.return_type)}: ..."

    def _arguments(self, arguments: Iterable[Argument]) -> Iterator[str]:
        has_mark = False
        for argument in arguments:
            if argument.kwarg_only and not has_mark:
                has_mark = True
                yield "*"
            yield f"{argument.name}: {self._shown(argument.type)}{_default(argument)}"

    def _shown(self, type_: Type) -> str:
        """Return a type as Python annotates it."""
        if type_ in _SIMPLE:
            return _SIMPLE[type_]
        match type_:
            case (
                InterfaceType()
                | EnumType()
                | ClassType(is_native=False)
                | TupleType(qualified_name=str())
            ):
                return self._name(type_)
            case ListType(element):
                return f"list[{self._shown(element)}]"
            case DictType(key, value):
                return f"dict[{self._shown(key)}, {self._shown(value)}]"
            case TupleType(elements):
                return f"tuple[{', '.join(map(self._shown, elements)) or '()'}]"
            case OptionalType(element):
                return f"{self._shown(element)} | None"
            case UnionType(members):
                return " | ".join(map(self._shown, members))
        return "Any"


def _with_builtins(lines: Sequence[str]) -> Sequence[str]:
    """Return the members of a class, in which types are told from members of their names."""
    named = {re.split(r"\W", line.removeprefix("def "), maxsplit=1)[0] for line in lines}
    hidden = "|".join(sorted(named & _BUILTINS))
    if not hidden:
        return lines
    type_ = re.compile(rf"(?<![\w.])({hidden})(?! *[\w:(=])")
    return [type_.sub(r"builtins.\1", line) for line in lines]


def _file_name(f: str | os.PathLike[str] | BinaryIO) -> str:
    if not isinstance(f, str | os.PathLike):
        return "an archive"
    return re.sub(r"[^\w .-]", "_", os.path.basename(os.fspath(f)))


def _bases(type_: NamedType) -> str:
    match type_:
        case ClassType(is_module=True):
            return "(nn.Module)"
        case InterfaceType():
            return "(Protocol)"
        case EnumType():
            return "(enum.Enum)"
        case TupleType():
            return "(NamedTuple)"
    return ""


def _default(argument: Argument) -> str:
    if not argument.has_default:
        return ""
    value = argument.default
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return f" = {value!r}" if isinstance(value, _LITERALS) and is_finite else " = ..."


def _is_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)
