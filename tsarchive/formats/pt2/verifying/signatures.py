"""The signature of a program against its graph, and against what is stored of its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tsarchive.findings import Finding, broken, note
from tsarchive.formats.pt2.payloads import Kind, Payload, PickledPayload, StoredView
from tsarchive.formats.pt2.schema import Argument, ExportedProgram, Graph, InputSpec, OutputSpec

from .names import named_values

_RULE: Final = "program-signature"
_SHOWN: Final = 80
# The field of a specification that names what is changed, and the inputs that it must be among.
_CHANGED: Final = {
    "buffer_mutation": ("buffer_name", "buffer"),
    "parameter_mutation": ("parameter_name", "parameter"),
    "gradient_to_parameter": ("parameter_name", "parameter"),
    "user_input_mutation": ("user_input_name", "user_input"),
    "gradient_to_user_input": ("user_input_name", "user_input"),
}
_STATE: Final = {
    "parameter": "parameter_name",
    "buffer": "buffer_name",
    "tensor_constant": "tensor_constant_name",
    "custom_obj": "custom_obj_name",
}
_WEIGHTS, _CONSTANTS = "weights", "constants"

# Payloads by name, of those that can be read; and all names that there are, readable or not.
Stored = tuple[Mapping[str, Payload], frozenset[str]]


def signature_findings(program: ExportedProgram, record: str) -> Iterator[Finding]:
    """Whether inputs and outputs of the graph are those that the signature tells of."""
    graph, signature = program.graph_module.graph, program.graph_module.signature
    given = [_input_name(spec) for spec in signature.input_specs]
    yield from _same("inputs", _graph_names(graph.inputs), given, record)
    results = [_output_name(spec) for spec in signature.output_specs]
    yield from _same("outputs", _graph_names(graph.outputs), results, record)
    yield from _targets(signature.input_specs, signature.output_specs, record)


def _same(
    what: str, graph: Sequence[str | None], signature: Sequence[str | None], record: str
) -> Iterator[Finding]:
    if len(graph) != len(signature):
        message = f"the graph has {len(graph)} {what}, the signature {len(signature)}"
        yield broken(_RULE, message, record)
        return
    for number, (name, told) in enumerate(zip(graph, signature, strict=True)):
        if None not in (name, told) and name != told:
            message = (
                f"{what}[{number}] of the graph is {str(name)[:_SHOWN]!r}, that of the signature "
                f"{str(told)[:_SHOWN]!r}"
            )
            yield broken(_RULE, message, record)


def _graph_names(arguments: Sequence[Argument]) -> list[str | None]:
    return [_name(argument) for argument in arguments]


def _name(argument: Argument) -> str | None:
    """The name of the one value that an argument is; None for literals."""
    names = [name for name, _ in named_values(argument)]
    return names[0] if len(names) == 1 else None


def _input_name(spec: InputSpec) -> str | None:
    if spec.tag == "constant_input":
        return None  # the graph has a literal there, or what once was its name
    if spec.tag == "user_input":
        return _name(spec.value.arg)
    return str(spec.value.arg.name)


def _output_name(spec: OutputSpec) -> str | None:
    if spec.tag == "user_output":
        return _name(spec.value.arg)
    return str(spec.value.arg.name)


def _targets(
    inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec], record: str
) -> Iterator[Finding]:
    known: dict[str, set[str]] = {"user_input": set(), **{tag: set() for tag in _STATE}}
    for spec in inputs:
        name = _user_input(spec) if spec.tag == "user_input" else _target(spec)
        if name is not None:
            known[spec.tag].add(name)
    for given in outputs:
        field, among = _CHANGED.get(given.tag, (None, ""))
        if field is not None and getattr(given.value, field) not in known[among]:
            name = getattr(given.value, field)[:_SHOWN]
            yield broken(_RULE, f"{given.tag} of {name!r}, which is no {among}", record)


def _user_input(spec: InputSpec) -> str | None:
    return _name(spec.value.arg)


def _target(spec: InputSpec) -> str | None:
    return getattr(spec.value, _STATE[spec.tag]) if spec.tag in _STATE else None


def state_findings(
    program: ExportedProgram, weights: Stored, constants: Stored, record: str
) -> Iterator[Finding]:
    """Whether what the signature needs is stored, and of the sizes that the graph tells."""
    named: set[str] = set()
    for spec in program.graph_module.signature.input_specs:
        target = _target(spec)
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


def _fits(spec: InputSpec, payload: Payload, graph: Graph, record: str) -> Iterator[Finding]:
    target = str(_target(spec))[:_SHOWN]
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
