"""Checks of a program: text, names in graphs, its signature, its state, its calling conventions.

``torch.export.load`` evaluates the expressions of a program, and a loaded program its guards. What
the grammar of expressions does not have is code, unless it is an expression that was damaged.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from tsarchive.errors import ArchiveError, FormatError, UnsupportedError
from tsarchive.findings import Finding, Nature, Severity, broken, note, refused, unusual

from . import schema
from .metadata import graphs_of
from .payloads import Kind, Payload, PickledPayload, StoredView
from .pytrees import Tree, read_tree
from .records import NEWEST_SCHEMA
from .symbols import FUNCTION_NAMES, parse, read_guard

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
_SHOWN_TEXT: Final = 120


class TextFault(NamedTuple):
    """Why a text is refused, and whether an accident explains it."""

    reason: str
    nature: Nature


@lru_cache(maxsize=4096)
def expression_fault(text: str) -> TextFault | None:
    """Return the fault of a text that must be an expression over symbols; None if it is one."""
    try:
        parse(text)
    except FormatError as error:
        is_hostile = error.limit is not None or _is_code(text)
        return TextFault(error.message, Nature.HOSTILE if is_hostile else Nature.BROKEN)
    return None


def _is_code(text: str) -> bool:
    """Return whether evaluating a text may do more than arithmetic."""
    strings = ["".join(match) for match in _STRING.findall(text)]
    if not all(map(_PLAIN_STRING.fullmatch, strings)):
        return True
    bare = _STRING.sub("0", text)
    if _FOREIGN.search(bare) or _MEMBER.search(bare):
        return True
    return not FUNCTION_NAMES.issuperset(_CALL.findall(bare))


@lru_cache(maxsize=4096)
def guard_fault(text: str) -> TextFault | None:
    """Return the fault of a guard's text, which torch pastes into the source of a function."""
    try:
        read_guard(text)
    except ArchiveError as error:
        is_hostile = error.limit is not None or _is_code_in_guard(text)
        is_form = not isinstance(error, FormatError)
        accident = Nature.UNUSUAL if is_form else Nature.BROKEN
        return TextFault(error.message, Nature.HOSTILE if is_hostile else accident)
    if _is_code_in_guard(text):
        message = f"the guard {text[:_SHOWN_TEXT]!r} would mean something else in torch's source"
        return TextFault(message, Nature.HOSTILE)
    return None


def _is_code_in_guard(text: str) -> bool:
    bare = _STRING.sub("0", text)
    if "'" in bare or '"' in bare or _FOREIGN_IN_GUARD.search(bare):
        return True
    return not _KNOWN_IN_GUARD.issuperset(_CALL.findall(bare))


def _expressions(graph: schema.Graph, place: str) -> Iterator[tuple[str, str]]:
    """Yield every text of a graph that stands for an expression, behind its place."""
    for name, meta in graph.tensor_values.items():
        yield from _of_tensor(meta, f"{place}.tensor_values.{name}")
    symbols = ("sym_int_values", "sym_float_values", "sym_bool_values")
    for table in symbols:
        for name, symbol in getattr(graph, table).items():
            if symbol.tag == "as_expr":
                yield f"{place}.{table}.{name}", symbol.value.expr_str
    for number, node in enumerate(graph.nodes):
        for inner in graphs_of(node):
            yield from _expressions(inner, f"{place}.nodes[{number}]")


def _of_tensor(meta: schema.TensorMeta, place: str) -> Iterator[tuple[str, str]]:
    for symbol in (*meta.sizes, *meta.strides, meta.storage_offset):
        if symbol.tag == "as_expr":
            yield place, symbol.value.expr_str


def expressions_of_payloads(config: schema.PayloadConfig) -> Iterator[tuple[str, str]]:
    """Yield the same of what a configuration says of tensors."""
    for name, payload in config.config.items():
        if payload.tensor_meta is not None:
            yield from _of_tensor(payload.tensor_meta, f"config.{name}")


def text_findings(program: schema.ExportedProgram, record: str) -> Iterator[Finding]:
    """Find expressions and guards that do not parse."""
    keys = (("a key of range_constraints", key) for key in program.range_constraints)
    for place, text in chain(_expressions(program.graph_module.graph, "graph"), keys):
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


class ValueKind(Enum):
    """The kinds of values; the value of each is the table of a graph that describes it."""

    TENSOR = "tensor_values"
    INT = "sym_int_values"
    FLOAT = "sym_float_values"
    BOOL = "sym_bool_values"
    OBJECT = "custom_obj_values"


# By the tag of an argument; lists of most have an "s" behind it.
_KINDS = {
    "as_tensor": ValueKind.TENSOR,
    "as_optional_tensor": ValueKind.TENSOR,
    "as_custom_obj": ValueKind.OBJECT,
    "as_sym_int": ValueKind.INT,
    "as_sym_float": ValueKind.FLOAT,
    "as_sym_bool": ValueKind.BOOL,
}


def named_values(argument: schema.Argument) -> Iterator[tuple[str, ValueKind]]:
    """Yield every name of a value; literals and graphs have none."""
    tag = argument.tag
    inner: Iterable[schema.Argument] = ()
    if tag in _KINDS:
        if argument.name is not None:
            yield argument.name, _KINDS[tag]
    elif tag[:-1] in _KINDS:
        inner = (schema.Argument(tag[:-1], item) for item in argument.value)
    elif tag == "as_nested_tensors":
        inner = (schema.Argument("as_tensors", tensors) for tensors in argument.value)
    elif tag == "as_string_to_argument":
        inner = argument.value.values()
    for one in inner:
        yield from named_values(one)


_VALUE = "program-value"
_SHOWN = 80


def graph_findings(graph: schema.Graph, record: str, objects: Collection[str]) -> Iterator[Finding]:
    """Check the names of a graph, and of the graphs in it.

    ``objects`` are the names of objects that the archive holds, which nodes may name as well.
    """
    pending = [("the graph", graph)]
    while pending:
        place, current = pending.pop()
        for message in _name_faults(current, objects):
            yield broken(_VALUE, f"{place}: {message}", record)
        for node in current.nodes:
            for given in node.inputs:
                if given.arg.tag == "as_graph":
                    inner = given.arg.value
                    pending.append((f"the graph {inner.name[:_SHOWN]!r}", inner.graph))


def _name_faults(graph: schema.Graph, objects: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the names of a graph, which sees none of those around it."""
    defined: set[str] = set()
    for argument in graph.inputs:
        yield from _define(argument, graph, defined)
    for number, node in enumerate(graph.nodes):
        where = f"node {number} ({node.target[:_SHOWN]})"
        for given in node.inputs:
            yield from _use(given.arg, where, defined, objects)
        for argument in node.outputs:
            yield from _define(argument, graph, defined)
    for argument in graph.outputs:
        yield from _use(argument, "its results", defined, objects)


def _define(argument: schema.Argument, graph: schema.Graph, defined: set[str]) -> Iterator[str]:
    for name, kind in named_values(argument):
        if name in defined:
            yield f"{name[:_SHOWN]!r} is defined twice"
        elif name not in getattr(graph, kind.value):
            yield f"{kind.value} does not describe {name[:_SHOWN]!r}"
        defined.add(name)


def _use(
    argument: schema.Argument, where: str, defined: Collection[str], objects: Collection[str]
) -> Iterator[str]:
    for name, kind in named_values(argument):
        if name not in defined and not (kind is ValueKind.OBJECT and name in objects):
            yield f"{where} has {name[:_SHOWN]!r}, which nothing before it defines"


_SIGNATURE: Final = "program-signature"

_WEIGHTS, _CONSTANTS = "weights", "constants"

# Payloads by name, of those that can be read; and all names that there are, readable or not.
Stored = tuple[Mapping[str, Payload], frozenset[str]]


def signature_findings(program: schema.ExportedProgram, record: str) -> Iterator[Finding]:
    """Check that inputs and outputs of the graph are those that the signature tells of."""
    graph, signature = program.graph_module.graph, program.graph_module.signature
    given = [_name_in(spec) for spec in signature.input_specs]
    yield from _same("inputs", [*map(_name, graph.inputs)], given, record)
    results = [_name_in(spec) for spec in signature.output_specs]
    yield from _same("outputs", [*map(_name, graph.outputs)], results, record)
    yield from _targets(signature.input_specs, signature.output_specs, record)


def _same(
    what: str, graph: Sequence[str | None], signature: Sequence[str | None], record: str
) -> Iterator[Finding]:
    if len(graph) != len(signature):
        message = f"the graph has {len(graph)} {what}, the signature {len(signature)}"
        yield broken(_SIGNATURE, message, record)
        return
    for number, (name, told) in enumerate(zip(graph, signature, strict=True)):
        if None not in (name, told) and name != told:
            message = (
                f"{what}[{number}] of the graph is {str(name)[:_SHOWN]!r}, that of the signature "
                f"{str(told)[:_SHOWN]!r}"
            )
            yield broken(_SIGNATURE, message, record)


def _name(argument: schema.Argument) -> str | None:
    """The name of the one value that an argument is; None for literals."""
    names = [name for name, _ in named_values(argument)]
    return names[0] if len(names) == 1 else None


def _name_in(spec: schema.InputSpec | schema.OutputSpec) -> str | None:
    if spec.tag == "constant_input":
        return None  # the graph has a literal there, or what once was its name
    if spec.tag in ("user_input", "user_output"):
        return _name(spec.value.arg)
    return str(spec.value.arg.name)


def _targets(
    inputs: Sequence[schema.InputSpec], outputs: Sequence[schema.OutputSpec], record: str
) -> Iterator[Finding]:
    known: defaultdict[str, set[str]] = defaultdict(set)
    for spec in inputs:
        name = _name(spec.value.arg) if spec.tag == "user_input" else spec.target
        if name is not None:
            known[spec.tag].add(name)
    for given in outputs:
        kind, changed = given.changed or (None, "")
        if kind is not None and changed not in known[kind]:
            message = f"{given.tag} of {changed[:_SHOWN]!r}, which is no {kind}"
            yield broken(_SIGNATURE, message, record)


def state_findings(
    program: schema.ExportedProgram, weights: Stored, constants: Stored, record: str
) -> Iterator[Finding]:
    """Check that what the signature needs is stored, and of the sizes that the graph tells."""
    named: set[str] = set()
    for spec in program.graph_module.signature.input_specs:
        target = spec.target
        if target is None:
            continue
        named.add(target)
        is_weight = spec.tag == "parameter" or (spec.tag == "buffer" and spec.value.persistent)
        readable, names = weights if is_weight else constants
        if target not in names:
            where = _WEIGHTS if is_weight else _CONSTANTS
            message = f"the {spec.tag} {target[:_SHOWN]!r} is not among the {where}"
            yield broken("program-state", message, record)
        elif target in readable:
            yield from _fits(spec, readable[target], program.graph_module.graph, record)
    for name in sorted((weights[1] | constants[1]) - named):
        yield note("program-state", f"{name[:_SHOWN]!r} is stored, and no input needs it", record)


def _fits(
    spec: schema.InputSpec, payload: Payload, graph: schema.Graph, record: str
) -> Iterator[Finding]:
    target = str(spec.target)[:_SHOWN]
    is_object = isinstance(payload, PickledPayload) and payload.kind is not Kind.TENSOR
    if is_object != (spec.tag == "custom_obj"):
        kind = "an object" if is_object else "a tensor"
        yield broken("program-state", f"the {spec.tag} {target!r} is stored as {kind}", record)
        return
    meta = graph.tensor_values.get(spec.value.arg.name)
    if isinstance(payload, StoredView) and meta is not None:
        told = tuple(size.value if size.tag == "as_int" else None for size in meta.sizes)
        if meta.dtype != payload.dtype or told != payload.shape:
            message = (
                f"the graph has {target!r} as {meta.dtype.name.lower()}{list(told)}, stored is "
                f"{payload.dtype.name.lower()}{list(payload.shape)}"
            )
            yield broken("program-state", message, record)


_CONVENTION: Final = "program-convention"
_QUALIFIED: Final = re.compile(r'"(?:\w+\.)+(\w+)"')
_NEWEST_MINOR: Final = 20
_NEWEST_OPSET: Final = 10
_VERIFIERS: Final = frozenset({"TRAINING", "ATEN", "EDGE"})


def field_findings(program: schema.ExportedProgram, record: str) -> Iterator[Finding]:
    """Versions and ranges."""
    version = program.schema_version
    if version.major == NEWEST_SCHEMA and version.minor > _NEWEST_MINOR:
        message = (
            f"the program has schema version {version.major}.{version.minor}; up to "
            f"{NEWEST_SCHEMA}.{_NEWEST_MINOR} are known: a newer torch wrote it"
        )
        yield unusual("program-version", message, record)
    if program.opset_version.get("aten", 0) > _NEWEST_OPSET:
        message = f"operators are of version {program.opset_version['aten']}"
        yield unusual("program-version", f"{message}; up to {_NEWEST_OPSET} are known", record)
    for name in program.verifiers:
        if name not in _VERIFIERS:
            message = f"the dialect {name[:_SHOWN]!r} is not known"
            yield note("program-version", message, record)
    for symbol, range_ in program.range_constraints.items():
        least, most = range_.min_val, range_.max_val
        if least is not None and most is not None and least > most:
            message = f"the range of {symbol[:_SHOWN]} is from {least} to {most}: it is empty"
            yield broken("program-range", message, record)


def convention_findings(program: schema.ExportedProgram, record: str) -> Iterator[Finding]:
    """Check that trees of arguments and results parse, and have as many leaves as there are."""
    entries = program.graph_module.module_call_graph
    roots = [entry for entry in entries if entry.fqn == "" and entry.signature is not None]
    if len(roots) != 1:
        message = f"the program has {len(roots)} calling conventions, not one"
        yield broken(_CONVENTION, message, record)
    for entry in entries:
        if entry.signature is not None:
            yield from _entry_findings(program, entry, entry.signature, record)


def container_classes(program: schema.ExportedProgram | None) -> frozenset[str]:
    """The classes, without their modules, whose instances hold arguments of a program."""
    entries = [] if program is None else program.graph_module.module_call_graph
    texts = (entry.signature.in_spec for entry in entries if entry.signature is not None)
    return frozenset(name for text in texts for name in _QUALIFIED.findall(text))


def _entry_findings(
    program: schema.ExportedProgram,
    entry: schema.ModuleCallEntry,
    call: schema.ModuleCallSignature,
    record: str,
) -> Iterator[Finding]:
    place = f"the calling convention of {entry.fqn[:_SHOWN]!r}"
    signature = program.graph_module.signature
    inputs, outputs = len(call.inputs), len(call.outputs)
    if entry.fqn == "":
        inputs, outputs = len(signature.user_inputs), len(list(signature.results))
    trees = (("in_spec", call.in_spec, inputs), ("out_spec", call.out_spec, outputs))
    for field, text, count in trees:
        if not text:
            continue  # torch 2.4 writes none for a result that is None
        try:
            tree = read_tree(text, program.graph_module.treespec_namedtuple_fields)
        except UnsupportedError as error:
            yield unusual(_CONVENTION, f"{place}: {field}: {error.message}", record)
            continue
        except ArchiveError as error:
            yield refused(error, _CONVENTION, record)
            continue
        if tree.leaves != count:
            message = f"{place}: {field} has {tree.leaves} leaves, and there are {count} values"
            yield broken(_CONVENTION, message, record)
        if field == "in_spec":
            yield from _argument_names(place, tree, call.forward_arg_names, record)


def _argument_names(
    place: str, tree: Tree, names: list[str] | None, record: str
) -> Iterator[Finding]:
    if len(tree.children) != 2:
        message = f"{place}: in_spec is no tuple of positional and keyword arguments"
        yield broken(_CONVENTION, message, record)
        return
    count = sum(len(child.children) for child in tree.children)
    if names and (len(names) != count or len(set(names)) != count):
        yield broken(_CONVENTION, f"{place}: {len(names)} names for {count} arguments", record)
