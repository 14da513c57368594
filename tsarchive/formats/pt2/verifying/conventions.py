"""The calling conventions of a program, and its small fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tsarchive.errors import ArchiveError, UnsupportedError
from tsarchive.findings import Finding, broken, note, refused, unusual
from tsarchive.formats.pt2.pytrees import Tree, read_tree
from tsarchive.formats.pt2.records import NEWEST_SCHEMA
from tsarchive.formats.pt2.schema import ExportedProgram, ModuleCallEntry, ModuleCallSignature

_RULE: Final = "program-convention"
_QUALIFIED: Final = re.compile(r'"(?:\w+\.)+(\w+)"')
_SHOWN: Final = 80
_NEWEST_MINOR: Final = 20
_NEWEST_OPSET: Final = 10
_VERIFIERS: Final = frozenset({"TRAINING", "ATEN", "EDGE"})
_INPUTS: Final = ("user_input", "constant_input")
_RESULTS: Final = ("user_output", "loss_output")


def field_findings(program: ExportedProgram, record: str) -> Iterator[Finding]:
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


def convention_findings(program: ExportedProgram, record: str) -> Iterator[Finding]:
    """Whether the trees of arguments and results parse, and have as many leaves as there are."""
    entries = program.graph_module.module_call_graph
    roots = [entry for entry in entries if entry.fqn == "" and entry.signature is not None]
    if len(roots) != 1:
        message = f"the program has {len(roots)} calling conventions, not one"
        yield broken(_RULE, message, record)
    for entry in entries:
        if entry.signature is not None:
            yield from _entry_findings(program, entry, entry.signature, record)


def container_classes(program: ExportedProgram | None) -> frozenset[str]:
    """The classes, without their modules, whose instances hold arguments of a program."""
    entries = [] if program is None else program.graph_module.module_call_graph
    texts = (entry.signature.in_spec for entry in entries if entry.signature is not None)
    return frozenset(name for text in texts for name in _QUALIFIED.findall(text))


def _entry_findings(
    program: ExportedProgram, entry: ModuleCallEntry, call: ModuleCallSignature, record: str
) -> Iterator[Finding]:
    place = f"the calling convention of {entry.fqn[:_SHOWN]!r}"
    signature = program.graph_module.signature
    inputs, outputs = len(call.inputs), len(call.outputs)
    if entry.fqn == "":
        inputs = sum(spec.tag in _INPUTS for spec in signature.input_specs)
        outputs = sum(spec.tag in _RESULTS for spec in signature.output_specs)
    trees = (("in_spec", call.in_spec, inputs), ("out_spec", call.out_spec, outputs))
    for field, text, count in trees:
        if not text:
            continue  # torch 2.4 writes none for a result that is None
        try:
            tree = read_tree(text, record, program.graph_module.treespec_namedtuple_fields)
        except UnsupportedError as error:
            yield unusual(_RULE, f"{place}: {field}: {error.message}", record)
            continue
        except ArchiveError as error:
            yield refused(error, _RULE, record)
            continue
        yield from _leaves(f"{place}: {field}", tree, count, record)
        if field == "in_spec":
            yield from _argument_names(place, tree, call.forward_arg_names, record)


def _leaves(place: str, tree: Tree, count: int, record: str) -> Iterator[Finding]:
    if tree.leaves != count:
        message = f"{place} has {tree.leaves} leaves, and there are {count} values"
        yield broken(_RULE, message, record)


def _argument_names(
    place: str, tree: Tree, names: list[str] | None, record: str
) -> Iterator[Finding]:
    if len(tree.children) != 2:
        message = f"{place}: in_spec is no tuple of positional and keyword arguments"
        yield broken(_RULE, message, record)
        return
    count = sum(len(child.children) for child in tree.children)
    if names and (len(names) != count or len(set(names)) != count):
        yield broken(_RULE, f"{place}: {len(names)} names for {count} arguments", record)
