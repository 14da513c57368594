"""Text in a program that torch would evaluate as Python, where it is not what it must be.

``torch.export.load`` evaluates expressions, and a loaded program its guards. What the grammar of
expressions does not have is code, unless it is an expression that was damaged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from tsarchive.errors import ArchiveError, FormatError
from tsarchive.findings import Finding, Nature, Severity
from tsarchive.formats.pt2.guard_texts import read_guard
from tsarchive.formats.pt2.metadata import graphs_of
from tsarchive.formats.pt2.schema import ExportedProgram, Graph, PayloadConfig, TensorMeta
from tsarchive.formats.pt2.symbols import FUNCTION_NAMES, parse

_STRING: Final = re.compile(r"""'([^'\\\n]*)'|"([^"\\\n]*)\"""")
_PLAIN_STRING: Final = re.compile(r"[-+\w.]*", re.ASCII)
_CALL: Final = re.compile(r"(\w+)\s*\(")
# A name of which a member is taken, and a call of what an expression gives.
_MEMBER: Final = re.compile(r"\.\s*[^\W\d]|[)\]]\s*\(")
_FOREIGN: Final = re.compile(r"[\[\]{}:;@`\\$?]|[^\x00-\x7f]|\blambda\b")
_FOREIGN_IN_GUARD: Final = re.compile(r"[{}:;@`$?#\\]|__|\blambda\b|\)\s*\(|\]\s*\(")
_KNOWN_IN_GUARD: Final = FUNCTION_NAMES | {
    "size", "stride", "storage_offset", "dim", "numel", "max", "min", "abs", "int", "float",
    "round", "floor", "ceil", "trunc", "isnan", "sym_float", "sym_max", "sym_min", "sym_not",
    "_sym_sqrt", "and", "or", "not", "if", "else", "in", "is",
}  # fmt: skip
_SHOWN: Final = 120


class TextFault(NamedTuple):
    """Why a text is refused, and whether an accident explains it."""

    reason: str
    nature: Nature


@lru_cache(maxsize=4096)
def expression_fault(text: str) -> TextFault | None:
    """What is wrong with a text that must be an expression over symbols; None where nothing is."""
    try:
        parse(text)
    except FormatError as error:
        is_hostile = error.limit is not None or _is_code(text)
        return TextFault(error.message, Nature.HOSTILE if is_hostile else Nature.BROKEN)
    return None


def _is_code(text: str) -> bool:
    """Whether evaluating a text may do more than arithmetic."""
    strings = ["".join(match) for match in _STRING.findall(text)]
    if not all(map(_PLAIN_STRING.fullmatch, strings)):
        return True
    bare = _STRING.sub("0", text)
    if _FOREIGN.search(bare) or _MEMBER.search(bare):
        return True
    return not FUNCTION_NAMES.issuperset(_CALL.findall(bare))


@lru_cache(maxsize=4096)
def guard_fault(text: str) -> TextFault | None:
    """What is wrong with the text of a guard. torch pastes it into the source of a function."""
    try:
        read_guard(text)
    except ArchiveError as error:
        is_hostile = error.limit is not None or _is_code_in_guard(text)
        is_form = not isinstance(error, FormatError)
        accident = Nature.UNUSUAL if is_form else Nature.BROKEN
        return TextFault(error.message, Nature.HOSTILE if is_hostile else accident)
    if _is_code_in_guard(text):
        message = f"the guard {text[:_SHOWN]!r} would mean something else in torch's source"
        return TextFault(message, Nature.HOSTILE)
    return None


def _is_code_in_guard(text: str) -> bool:
    bare = _STRING.sub("0", text)
    if "'" in bare or '"' in bare or _FOREIGN_IN_GUARD.search(bare):
        return True
    return not _KNOWN_IN_GUARD.issuperset(_CALL.findall(bare))


def expressions(program: ExportedProgram) -> Iterator[tuple[str, str]]:
    """Every text of a program that stands for an expression, behind its place."""
    yield from _of_graph(program.graph_module.graph, "graph")
    for key in program.range_constraints:
        yield "a key of range_constraints", key


def _of_graph(graph: Graph, place: str) -> Iterator[tuple[str, str]]:
    for name, meta in graph.tensor_values.items():
        yield from _of_tensor(meta, f"{place}.tensor_values.{name}")
    symbols = ("sym_int_values", "sym_float_values", "sym_bool_values")
    for table in symbols:
        for name, symbol in getattr(graph, table).items():
            if symbol.tag == "as_expr":
                yield f"{place}.{table}.{name}", symbol.value.expr_str
    for number, node in enumerate(graph.nodes):
        for inner in graphs_of(node):
            yield from _of_graph(inner, f"{place}.nodes[{number}]")


def _of_tensor(meta: TensorMeta, place: str) -> Iterator[tuple[str, str]]:
    for symbol in (*meta.sizes, *meta.strides, meta.storage_offset):
        if symbol.tag == "as_expr":
            yield place, symbol.value.expr_str


def expressions_of_payloads(config: PayloadConfig) -> Iterator[tuple[str, str]]:
    """The same of what a configuration says of tensors."""
    for name, payload in config.config.items():
        if payload.tensor_meta is not None:
            yield from _of_tensor(payload.tensor_meta, f"config.{name}")


def text_findings(program: ExportedProgram, record: str) -> Iterator[Finding]:
    """Expressions and guards that do not parse."""
    for place, text in expressions(program):
        found = expression_fault(text)
        if found is not None:
            yield _finding("program-expression", f"{place}: {found.reason}", found.nature, record)
    for number, text in enumerate(program.guards_code):
        found = guard_fault(text)
        if found is not None:
            message = f"guards_code[{number}]: {found.reason}"
            yield _finding("program-guard", message, found.nature, record)


def _finding(rule: str, message: str, nature: Nature, record: str) -> Finding:
    severity = Severity.WARNING if nature is Nature.UNUSUAL else Severity.ERROR
    hint = None
    if nature is Nature.HOSTILE:
        hint = "torch evaluates it as Python: never load this file with torch.export.load"
    return Finding(rule, severity, nature, message, record, hint=hint)
