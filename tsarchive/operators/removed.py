"""Operators that torch removed, as functions of operators that it has.

``removed.txt`` is the table. A paragraph begins with ``#`` and the operators, with their overloads,
that it is about; behind it stands a function in TorchScript, as archives hold it. Its parameters are
the arguments of the old schemas, which ``schemas.txt`` has, in their order and without defaults.
``# as aten::x:`` stands before operators that do what another does with the same arguments,
``# refused, reason:`` before those that no function gives back, and a paragraph without ``#`` is a
function that others call. ``packed_layers.txt`` goes on with the layers of XNNPACK, and has classes
behind ``#`` and their qualified names. Where an overload has a function, the one that writes its results into
tensors that are given needs none.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import annotation

from .overloads import old_overloads_of
from .upgraders import Candidate

RECORD: Final = "code/__torch__/removed_from_torch.py"
_QUALIFIER: Final = "__torch__.removed_from_torch"
_FILES: Final = ("removed.txt", "packed_layers.txt")

_DEFINITION: Final = re.compile(r"^def (\w+)\(([^)]*)\)", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(\w+): ")
_NOT_IN_NAMES: Final = re.compile(r"\W+")


@cache
def removed(name: str) -> tuple[Candidate, ...]:
    """Return the overloads of an operator that the newest torch does not have, if the table does.

    ``name`` is such as "aten::cholesky"; the ``upgrader`` of each is the qualified name of a
    function in :func:`text`. The newest come first, those of one torch in the order in which it
    tried them.
    """
    found = (_of(schema) for schema in old_overloads_of(name))
    return tuple([entry for entry in found if entry is not None])


@cache
def records() -> dict[str, str]:
    """Return the functions and classes as records of code, by the names of these."""
    return {RECORD: _functions_text(), **_class_records(_table().classes)}


def is_defined(qualified_name: str) -> bool:
    """Return whether the table defines a class that torch bound from C++ once."""
    return qualified_name in _table().classes


def _class_records(classes: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, code in classes.items():
        record = f"code/{name.rpartition('.')[0].replace('.', '/')}.py"
        found[record] = f"{found.get(record, '')}{code}\n\n"
    return found


def _functions_text() -> str:
    table = _table()
    made = {
        made.name: made.text
        for name in table.names()
        for schema in old_overloads_of(name)
        if (made := _made(schema)) is not None
    }
    return "\n\n".join((*table.written, *made.values())) + "\n"


class _Function(NamedTuple):
    """A function: its name, the names of its parameters and, where it is made, its text."""

    name: str
    parameters: tuple[str, ...]
    text: str = ""


class _Table:
    """What the paragraphs tell of each overload, by its full name."""

    def __init__(self, paragraphs: Iterable[str]) -> None:
        self.written: list[str] = []
        self.classes: dict[str, str] = {}
        self.functions: dict[str, list[_Function]] = {}
        self.same: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        for paragraph in paragraphs:
            self._read(paragraph)

    def names(self) -> Iterator[str]:
        """Yield the operators that have functions."""
        names = (key.partition(".")[0] for key in (*self.functions, *self.same))
        yield from dict.fromkeys(names)

    def _read(self, paragraph: str) -> None:
        comment, code = _split(paragraph)
        if code.startswith("class "):
            self.classes[comment] = code
            return
        if code:
            self.written.append(code)
            for name in comment.split():
                self.functions.setdefault(name, []).extend(_functions(code))
            return
        title, _, names = comment.rpartition(": ")
        kind, _, told = title.partition(" ")
        table = self.same if kind == "as" else self.reasons
        table |= dict.fromkeys(names.split(), told)


def _split(paragraph: str) -> tuple[str, str]:
    """Return the comment before a paragraph's code as one line, and the code."""
    lines = paragraph.splitlines()
    comment = [line[1:].strip() for line in lines if line.startswith("#")]
    return " ".join(comment), "\n".join(lines[len(comment) :])


def _functions(code: str) -> Iterator[_Function]:
    for name, parameters in _DEFINITION.findall(code):
        yield _Function(name, tuple(_PARAMETER.findall(parameters)))


@cache
def _table() -> _Table:
    # importlib.resources does the same, and imports seventy modules.
    loader: Any = sys.modules[__name__].__loader__
    folder = os.path.dirname(__file__)
    data: Iterator[bytes] = (loader.get_data(f"{folder}/{name}") for name in _FILES)
    texts = (part.decode("ascii").rstrip() for part in data)
    return _Table("\n\n".join(texts).split("\n\n"))


def _of(schema: FunctionSchema) -> Candidate | None:
    function = _written(schema) or _made(schema)
    if function is not None:
        return Candidate(schema, f"{_QUALIFIER}.{function.name}")
    told = _told(_table().reasons, schema)
    return None if told is None else Candidate(schema, refusal=told)


def _told(table: dict[str, str], schema: FunctionSchema) -> str | None:
    """Return what a table says of an overload, or else of all overloads of its operator."""
    return table.get(schema.full_name) or table.get(f"{schema.name}.*")


def _written(schema: FunctionSchema) -> _Function | None:
    """Return the function whose parameters are the arguments of a schema."""
    names = tuple(argument.name for argument in schema.arguments)
    found = _table().functions.get(schema.full_name, ())
    return next((function for function in found if function.parameters == names), None)


def _made(schema: FunctionSchema) -> _Function | None:
    """Return a function that calls another, for an overload that has none of its own."""
    if _written(schema) is not None:
        return None
    target = _told(_table().same, schema)
    body = _renamed(schema, target) if target else _writing(schema)
    if body is None:
        return None
    name = _NOT_IN_NAMES.sub("_", schema.full_name.removeprefix("aten::"))
    parameters = tuple(argument.name for argument in schema.arguments)
    types = (f"{a.name}: {annotation(a.type)}" for a in schema.arguments)
    head = f"def {name}({', '.join(types)}) -> {annotation(schema.return_type)}:"
    return _Function(name, parameters, f"{head}\n{body}")


def _renamed(schema: FunctionSchema, target: str) -> str:
    namespace, _, name = target.partition("::")
    callee = f"torch.{name}" if namespace == "aten" else f"ops.{namespace}.{name}"
    given = (f"{a.name}={a.name}" if a.kwarg_only else a.name for a in schema.arguments)
    return f"  return {callee}({', '.join(given)})"


def _writing(schema: FunctionSchema) -> str | None:
    """Return the body that writes the results of the overload without ``out`` into given tensors."""
    outs = [argument for argument in schema.arguments if argument.is_out]
    plain = tuple(argument for argument in schema.arguments if not argument.is_out)
    base = _base(schema.name, plain) if outs else None
    if base is None:
        return None
    results = [f"_{place}" for place in range(len(outs))]
    given = ", ".join(argument.name for argument in plain)
    lines = [f"{', '.join(results)} = {_QUALIFIER}.{base}({given})"]
    for out, result in zip(outs, results, strict=True):
        # Like the old overloads, this one resizes, and refuses to be differentiated.
        lines.append(f"_ = torch.clone({result}, out={out.name})")
    names = ", ".join(out.name for out in outs)
    lines.append(f"return ({names})" if len(outs) > 1 else f"return {names}")
    return "\n".join(f"  {line}" for line in lines)


def _base(name: str, arguments: tuple[Argument, ...]) -> str | None:
    """Return the name of the written function of an operator with these arguments."""
    parameters = tuple(argument.name for argument in arguments)
    for full_name, functions in _table().functions.items():
        if full_name.partition(".")[0] == name:
            for function in functions:
                if function.parameters == parameters:
                    return function.name
    return None
