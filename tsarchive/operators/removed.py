"""Operators that torch removed, as functions of operators that it has.

``removed.txt`` is the table. A paragraph begins with ``#`` and the operators, with their overloads,
that it is about; behind it stands a function in TorchScript, as archives hold it. Its parameters are
the arguments of the old schemas, in their order and without defaults. ``schemas.txt`` has the
schemas; those of before torch 1.4 are written out. ``# as aten::x:`` stands before operators that
do what another does with the same arguments, ``# refused, reason:`` before those that no function
gives back, and a paragraph without ``#`` is a function that others call. Names may be patterns.
Where an overload has a function, the one that writes its results into given tensors needs none.
``packed_layers.txt`` goes on with layers of XNNPACK, and has classes behind their qualified names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final, NamedTuple

from tsarchive.ir.schema import Argument, FunctionSchema, parse_schema
from tsarchive.ir.types import OptionalType, Type, VarType, annotation

from .overloads import old_overloads_of
from .registry import operator_names
from .upgraders import Candidate

RECORD: Final = "code/__torch__/removed_from_torch.py"
QUALIFIER: Final = "__torch__.removed_from_torch"
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
    pairs = zip(_schemas(name), _made(name), strict=True)
    found = (_candidate(schema, made) for schema, made in pairs)
    return tuple([candidate for candidate in found if candidate is not None])


@cache
def records() -> dict[str, Callable[[], str] | str]:
    """Return the functions and classes as records of code, by the names of these."""
    return {RECORD: text, **_class_records(_table().classes)}


def defined_classes() -> Collection[str]:
    """Return the qualified names of the classes that torch bound from C++ once."""
    return _table().classes.keys()


def _class_records(classes: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, code in classes.items():
        record = f"code/{name.rpartition('.')[0].replace('.', '/')}.py"
        found[record] = f"{found.get(record, '')}{code}\n\n"
    return found


@cache
def text() -> str:
    """Return the functions as a record of code."""
    made = (made.text for name in _names() for made in _made(name) if made is not None)
    return "\n\n".join((*_table().written, *dict.fromkeys(made))) + "\n"


class _Function(NamedTuple):
    """A function: its name, the names of its parameters and, where it is made, its text."""

    name: str
    parameters: tuple[str, ...]
    text: str = ""


class _Table:
    """What the paragraphs tell of each overload, by its full name or a pattern of such."""

    def __init__(self, paragraphs: Iterable[str]) -> None:
        self.written: list[str] = []
        self.classes: dict[str, str] = {}
        self.functions: dict[str, list[_Function]] = {}
        self.schemas: dict[str, list[FunctionSchema]] = {}
        self.same: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        for paragraph in paragraphs:
            self._read(paragraph)

    def _read(self, paragraph: str) -> None:
        comment, code = _split(paragraph)
        if code.startswith("class "):
            self.classes[" ".join(comment)] = code
            return
        if code:
            self.written.append(code)
            for name in self._names(comment):
                self.functions.setdefault(name, []).extend(_functions(code))
            return
        title, _, names = " ".join(comment).rpartition(": ")
        kind, _, told = title.partition(" ")
        table = self.same if kind == "as" else self.reasons
        table |= dict.fromkeys(names.split(), told)

    def _names(self, comment: Iterable[str]) -> Iterator[str]:
        for line in comment:
            if "(" not in line:
                yield from line.split()
                continue
            schema = parse_schema(line)
            self.schemas.setdefault(schema.name, []).append(schema)
            yield schema.full_name


def _split(paragraph: str) -> tuple[list[str], str]:
    """Return the lines of the comment before a paragraph's code, and the code."""
    lines = paragraph.splitlines()
    comment = [line[1:].strip() for line in lines if line.startswith("#")]
    return comment, "\n".join(lines[len(comment) :])


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


def _names() -> Iterator[str]:
    """Yield the operators that functions are made for."""
    written = {key.partition(".")[0] for key in _table().functions}
    yield from (name for name in operator_names() if name in written or _is_same(name))


def _is_same(name: str) -> bool:
    return any(fnmatchcase(name, pattern.partition(".")[0]) for pattern in _table().same)


def _schemas(name: str) -> tuple[FunctionSchema, ...]:
    return (*old_overloads_of(name), *_table().schemas.get(name, ()))


def _candidate(schema: FunctionSchema, made: _Function | None) -> Candidate | None:
    function = _written(schema) or made
    if function is not None:
        return Candidate(schema, f"{QUALIFIER}.{function.name}")
    reason = _told(_table().reasons, schema)
    return None if reason is None else Candidate(schema, refusal=reason)


def _told(table: Mapping[str, str], schema: FunctionSchema) -> str | None:
    """Return what a table says of an overload."""
    exact = table.get(schema.full_name)
    if exact is not None:
        return exact
    name = f"{schema.name}.{schema.overload}"
    return next((told for pattern, told in table.items() if fnmatchcase(name, pattern)), None)


def _written(schema: FunctionSchema) -> _Function | None:
    """Return the function whose parameters are the arguments of a schema."""
    functions = _table().functions.get(schema.full_name, ())
    names = _names_of(schema.arguments)
    return next((function for function in functions if function.parameters == names), None)


def _names_of(arguments: Iterable[Argument]) -> tuple[str, ...]:
    return tuple([argument.name for argument in arguments])


@cache
def _made(name: str) -> tuple[_Function | None, ...]:
    """Return a function for each overload of an operator, None where one is written, or none is."""
    heads: dict[str, str] = {}
    return tuple([_made_for(schema, heads) for schema in _schemas(name)])


def _made_for(schema: FunctionSchema, heads: dict[str, str]) -> _Function | None:
    body = None if _written(schema) else _body(schema)
    if body is None:
        return None
    head = _head(schema)
    # Overloads of one name may differ in their types.
    stem = _NOT_IN_NAMES.sub("_", schema.full_name.removeprefix("aten::"))
    taken = sum(known.startswith(f"made_{stem}_") for known in heads.values())
    own = heads.setdefault(f"{schema.overload}{head}", f"made_{stem}_{taken}")
    return _Function(own, _names_of(schema.arguments), f"def {own}{head}:\n{body}")


def _head(schema: FunctionSchema) -> str:
    parameters = (f"{a.name}: {annotation(a.type)}" for a in schema.arguments)
    joined = ",\n    ".join(parameters)
    return f"({joined}) -> {annotation(schema.return_type)}"


def _body(schema: FunctionSchema) -> str | None:
    if schema.is_vararg or any(_is_variable(a.type) for a in schema.arguments):
        return None
    target = _told(_table().same, schema)
    return _writing(schema) if target is None else _renamed(schema, target)


def _is_variable(type_: Type) -> bool:
    return isinstance(type_, VarType) or any(map(_is_variable, type_.parts()))


def _renamed(schema: FunctionSchema, target: str) -> str:
    namespace, _, name = target.partition("::")
    name = name.replace("*", schema.name.partition("::")[2])
    callee = f"torch.{name}" if namespace == "aten" else f"ops.{namespace}.{name}"
    given = (f"{a.name}={a.name}" if a.kwarg_only else a.name for a in schema.arguments)
    return f"  return {callee}({', '.join(given)})"


def _writing(schema: FunctionSchema) -> str | None:
    """Return the body that writes results into given tensors, for an overload that does so."""
    outs = [argument for argument in schema.arguments if argument.is_out]
    plain = _names_of(argument for argument in schema.arguments if not argument.is_out)
    call = _plain_call(schema.name, plain, len(outs)) if outs else None
    if call is None:
        return None
    results = [f"_{place}" for place in range(len(outs))]
    lines = [f"{', '.join(results)} = {call}"]
    for out, result in zip(outs, results, strict=True):
        given = f"unchecked_cast(Tensor, {out.name})" if _may_miss(out) else out.name
        # Like the old overloads, this one resizes, and refuses to be differentiated.
        lines.append(f"{result} = torch.clone({result}, out={given})")
    lines.append(f"return ({', '.join(results)})" if len(outs) > 1 else "return _0")
    return "\n".join(f"  {line}" for line in lines)


def _may_miss(argument: Argument) -> bool:
    return isinstance(argument.type, OptionalType)


def _plain_call(name: str, arguments: tuple[str, ...], results: int) -> str | None:
    """Return the call of a written function, all of whose results are asked for."""
    given = ", ".join(arguments)
    mask = ", ".join(["True"] * results)
    for full_name, functions in _table().functions.items():
        if full_name.partition(".")[0] != name:
            continue
        for function in functions:
            if function.parameters == arguments:
                return f"{QUALIFIER}.{function.name}({given})"
            if function.parameters == (*arguments, "output_mask"):
                return f"{QUALIFIER}.{function.name}({given}, [{mask}])"
    return None
