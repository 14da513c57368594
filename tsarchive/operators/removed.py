"""Operators that torch removed, as functions of operators that it has.

``removed.txt`` is the table. A paragraph begins with ``#`` and the operators, with their overloads,
that it is about; behind it stands a function in TorchScript, as archives hold it. Its parameters
are the arguments of the old schemas, in their order and without defaults. ``schemas.txt`` has the
schemas; those of before torch 1.4 are written out, each on a line of its own behind the last torch
that has it, with overload names of this table. ``# as aten::x:`` stands before operators that
do what another does with the same arguments, where ``*`` is their own name, and
``# refused, reason:`` before those that no function gives back, which may be patterns. A paragraph
without ``#`` is a function that others call; ``# of real tensors:`` stands before one that does in
every torch what an operator did until torch 2 refused real tensors. Where an overload has a
function, the one that writes its results into given tensors needs none.
``packed_layers.txt`` goes on with layers of XNNPACK, and has classes behind their qualified names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Final, NamedTuple

from tsarchive.ir.graph import closure
from tsarchive.ir.schema import Argument, FunctionSchema, parse_schema
from tsarchive.ir.types import OptionalType, Type, VarType, annotation

from .overloads import builtins_of, last_version_of, old_overloads_of
from .registry import listed_versions, table_text, versions_of
from .upgraders import Candidate

RECORD: Final = "code/__torch__/removed_from_torch.py"
QUALIFIER: Final = "__torch__.removed_from_torch"
_FILES: Final = ("removed.txt", "packed_layers.txt")

TRIED_FIRST: Final = frozenset(
    {
        "aten::_log_softmax_backward_data",
        "aten::_softmax_backward_data",
        "aten::istft",
        "aten::stft",
    }
)
"""Operators whose overloads of today take what the old ones took, and then do not run it. A call
that writes all arguments of an old one means that."""

REAL_REFUSED_SINCE: Final = "2.0"
"""The first torch that refuses the real tensors of :func:`for_real_tensors`."""

_OF_REAL: Final = "of real tensors: "
_DEFINITION: Final = re.compile(r"^def (\w+)(\(([^)]*)\) -> .*):$", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(\w+): ")
_CALLED: Final = re.compile(rf"{re.escape(QUALIFIER)}\.(\w+)")
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


def is_removed(name: str) -> bool:
    """Return whether the newest torch has no operator of this name any more."""
    if listed_versions()[-1] in versions_of(name) or any(builtins_of(name)):
        return False
    return bool(removed(name))


@cache
def renamed() -> Mapping[str, str]:
    """Return the operators that have another name today, by the one that they had."""
    names = {old.partition(".")[0]: new for old, new in _table().same.items()}
    newest = listed_versions()[-1]
    return {old: new for old, new in names.items() if newest not in versions_of(old)}


def last_torch_with(schema: FunctionSchema) -> str:
    """Return the newest version of torch that has an overload, of before torch 1.4, too."""
    is_written = schema in _table().schemas.get(schema.name, ())
    return _table().last[schema.full_name] if is_written else last_version_of(schema)


def for_real_tensors(full_name: str) -> str | None:
    """Return the function that still takes the real tensors that an operator took, if one does."""
    name = _table().of_real.get(full_name)
    return None if name is None else f"{QUALIFIER}.{name}"


def text() -> str:
    """Return all functions as a record of code."""
    made = (made.text for name in _names() for made in _made(name) if made is not None)
    return _joined((*_table().texts.values(), *made))


def text_of(candidate: Candidate) -> str:
    """Return the function that stands for an overload, and those that it calls, as a record."""
    name = (candidate.upgrader or "").rpartition(".")[2]
    texts = {made.name: made.text for made in _made(candidate.schema.name) if made is not None}
    return _with_called([name], {**texts, **_table().texts})


def defined_classes() -> Collection[str]:
    """Return the qualified names of the classes that torch bound from C++ once."""
    return _table().classes.keys()


@cache
def class_records() -> dict[str, str]:
    """Return these classes, and the functions that they call, as records of code by their names."""
    found: dict[str, str] = {}
    for name, code in _table().classes.items():
        record = f"code/{name.rpartition('.')[0].replace('.', '/')}.py"
        found[record] = f"{found.get(record, '')}{code}\n\n"
    called = _CALLED.findall("".join(found.values()))
    return {**found, RECORD: _with_called(called, _table().texts)}


def _with_called(names: Iterable[str], texts: Mapping[str, str]) -> str:
    """Return functions and those that they call, as a record of code."""
    called = closure([*names], lambda name: _CALLED.findall(texts[name]))
    return _joined(texts[name] for name in sorted(called))


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(dict.fromkeys(texts)) + "\n"


class _Function(NamedTuple):
    """A function: its name, the names of its parameters and the rest of its head, and its text."""

    name: str
    parameters: tuple[str, ...]
    head: str
    text: str


class _Table:
    """What the paragraphs tell of each overload, by its full name."""

    def __init__(self, paragraphs: Iterable[str]) -> None:
        self.texts: dict[str, str] = {}
        self.classes: dict[str, str] = {}
        self.functions: dict[str, list[_Function]] = {}
        self.schemas: dict[str, list[FunctionSchema]] = {}
        self.last: dict[str, str] = {}
        self.same: dict[str, str] = {}
        self.of_real: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        for paragraph in paragraphs:
            self._read(paragraph)

    def _read(self, paragraph: str) -> None:
        comment, code = _split(paragraph)
        if code.startswith("class "):
            self.classes[comment[0]] = code
            return
        if code:
            function = _function(code)
            self.texts[function.name] = code
            if comment and comment[0].startswith(_OF_REAL):
                self.of_real[comment[0].removeprefix(_OF_REAL)] = function.name
                return
            for name in self._names(comment):
                self.functions.setdefault(name, []).append(function)
            return
        title, _, names = " ".join([*(n for n in comment if "(" not in n), ""]).rpartition(": ")
        kind, _, told = title.partition(" ")
        written = self._names(line for line in comment if "(" in line)
        for name in (*names.split(), *written):
            if kind == "as":
                self.same[name] = told.replace("*", name.partition("::")[2].partition(".")[0])
            else:
                self.reasons[name] = told

    def _names(self, comment: Iterable[str]) -> Iterator[str]:
        for line in comment:
            if "(" not in line:
                yield from line.split()
                continue
            last, _, text = line.partition(" ")
            schema = parse_schema(text)
            self.schemas.setdefault(schema.name, []).append(schema)
            self.last[schema.full_name] = last
            yield schema.full_name


def _split(paragraph: str) -> tuple[list[str], str]:
    """Return the lines of the comment before a paragraph's code, and the code."""
    lines = paragraph.splitlines()
    comment = [line[1:].strip() for line in lines if line.startswith("#")]
    return comment, "\n".join(lines[len(comment) :])


def _function(code: str) -> _Function:
    (found,) = _DEFINITION.findall(code)
    name, head, parameters = found
    return _Function(name, tuple(_PARAMETER.findall(parameters)), head, code)


@cache
def _table() -> _Table:
    texts = (table_text(name).rstrip() for name in _FILES)
    return _Table("\n\n".join(texts).split("\n\n"))


def _names() -> Iterator[str]:
    """Yield the operators that functions are made for."""
    names = (key.partition(".")[0] for key in (*_table().functions, *_table().same))
    yield from dict.fromkeys(names)


def _schemas(name: str) -> tuple[FunctionSchema, ...]:
    return (*old_overloads_of(name), *_table().schemas.get(name, ()))


def _candidate(schema: FunctionSchema, made: _Function | None) -> Candidate | None:
    function = _written(schema) or made
    if function is not None:
        return Candidate(schema, f"{QUALIFIER}.{function.name}")
    reason = _reason(schema)
    return None if reason is None else Candidate(schema, refusal=reason)


def _reason(schema: FunctionSchema) -> str | None:
    reasons = _table().reasons
    exact = reasons.get(schema.full_name)
    if exact is not None:
        return exact
    name = f"{schema.name}.{schema.overload}"
    return next((told for pattern, told in reasons.items() if fnmatchcase(name, pattern)), None)


def _written(schema: FunctionSchema) -> _Function | None:
    """Return the function that takes the arguments of a schema."""
    functions = _table().functions.get(schema.full_name, ())
    head = _head(schema) if functions else ""
    return next((function for function in functions if function.head == head), None)


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
    head, names = _head(schema), _names_of(schema.arguments)
    # Overloads of one name may differ in their types.
    stem = _NOT_IN_NAMES.sub("_", schema.full_name.removeprefix("aten::"))
    taken = sum(known.startswith(f"made_{stem}_") for known in heads.values())
    own = heads.setdefault(f"{schema.overload}{head}", f"made_{stem}_{taken}")
    return _Function(own, names, head, f"def {own}{head}:\n{body}")


def _head(schema: FunctionSchema) -> str:
    parameters = (f"{a.name}: {annotation(a.type)}" for a in schema.arguments)
    joined = ",\n    ".join(parameters)
    return f"({joined}) -> {annotation(schema.return_type)}"


def _body(schema: FunctionSchema) -> str | None:
    if schema.is_vararg or any(_is_variable(a.type) for a in schema.arguments):
        return None
    target = _table().same.get(schema.full_name)
    return _writing(schema) if target is None else _renamed(schema, target)


def _is_variable(type_: Type) -> bool:
    return isinstance(type_, VarType) or any(map(_is_variable, type_.parts()))


def _renamed(schema: FunctionSchema, target: str) -> str:
    namespace, _, name = target.partition("::")
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
