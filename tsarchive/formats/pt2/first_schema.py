"""Programs of torch 2.1 and 2.2, in the form of those since torch 2.4.

Their unions have all members, of which one is not null. In torch 2.1 the signature names the inputs
of parameters and buffers, metadata of values stands one level deeper, and the tree of arguments,
without keywords where there are none, beside the graph. A tensor that code of the model made of
numbers is a file of ``torch.save`` in the program itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tsarchive.errors import FormatError, UnsupportedError

FIRST: Final = 1
VERSIONS: Final = (FIRST, 2)
_TORCH: Final = {1: "2.1", 2: "2.2"}
_SPECS: Final = frozenset({"user_input", "user_output"})
_MEMBER: Final = "as_"
_WITH_METADATA: Final = "tensor_values"
_CONSTANTS: Final = "constants"
_NUMBERS: Final = frozenset({"hint", "storage_offset"})  # which are unions today


def of_today(program: dict[str, Any], record: str) -> dict[str, Any]:
    """Return a program as later versions have it.

    Raises FormatError where a part is not there, UnsupportedError for a program that holds tensors.
    """
    try:
        return _program(_plain(program))
    except UnsupportedError as error:
        error.record = record
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        message = f"the program is not as torch 2.1 and 2.2 write them: {error!r:.100}"
        raise FormatError(message, record=record) from None


def _plain(value: Any) -> Any:
    """Return a value with the one member of each union, and metadata where it is today."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value and (all(key.startswith(_MEMBER) for key in value) or _SPECS & value.keys()):
        return _member(value)
    found = {key: _plain(item) for key, item in value.items()}
    for name in _NUMBERS & found.keys():
        if isinstance(found[name], int):
            found[name] = {"as_int": found[name]}
    if _WITH_METADATA in found:
        metas = found[_WITH_METADATA]
        found[_WITH_METADATA] = {name: meta.get("meta", meta) for name, meta in metas.items()}
        if found.pop(_CONSTANTS, None):
            raise UnsupportedError(
                "the program of torch 2.1 holds tensors that its code made of numbers",
                hint="Load it with torch 2.1 and export the model again with torch 2.4 or later",
            )
    return found


def _member(union: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: _plain(item) for key, item in union.items() if item is not None}
    return given or {"as_none": []}


def _program(program: dict[str, Any]) -> dict[str, Any]:
    version = program["schema_version"]
    module = program["graph_module"]
    make = _first_module if version == FIRST else _module
    return {
        "graph_module": make(module, module["graph"]),
        "opset_version": program["opset_version"],
        "range_constraints": program["range_constraints"],
        "schema_version": {"major": version, "minor": 0},
        "verifiers": [program.get("dialect", "ATEN")],
        "torch_version": _TORCH[version],
    }


def _first_module(module: dict[str, Any], graph: dict[str, Any]) -> dict[str, Any]:
    signature, spec = module["signature"], module["call_spec"]
    specs = {
        "input_specs": [*_inputs(graph["inputs"], signature)],
        "output_specs": [*_outputs(graph["outputs"], signature)],
    }
    trees = {"in_spec": _with_keywords(spec["in_spec"]), "out_spec": spec["out_spec"]}
    entry = {"fqn": "", "signature": {**_arguments(specs), **trees}}
    return {"graph": graph, "signature": specs, "module_call_graph": [entry]}


def _module(module: dict[str, Any], graph: dict[str, Any]) -> dict[str, Any]:
    """The signature of the call tells nothing but its trees."""
    signature = module["signature"]
    calls = module["module_call_graph"]
    for entry in calls:
        if entry["fqn"] == "":
            entry["signature"].update(_arguments(signature))
    return {"graph": graph, "signature": signature, "module_call_graph": calls}


def _arguments(signature: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a call gives and gets."""
    ends = {"inputs": ("input_specs", "user_input"), "outputs": ("output_specs", "user_output")}
    return {
        end: [spec[kind]["arg"] for spec in signature[specs] if kind in spec]
        for end, (specs, kind) in ends.items()
    }


def _with_keywords(text: str) -> str:
    """Return the tree of a tuple of arguments and a dict of keywords."""
    version, tree = json.loads(text)
    children = tree["children_spec"]
    kinds = [child["type"] for child in children]
    if kinds != ["builtins.tuple", "builtins.dict"]:
        none = {"type": "builtins.dict", "context": "[]", "children_spec": []}
        tree = {"type": "builtins.tuple", "context": "null", "children_spec": [tree, none]}
    return json.dumps([version, tree])


def _name(value: Mapping[str, Any]) -> str | None:
    """Return the name of an argument; None for a constant."""
    (content,) = value.values()
    if isinstance(content, dict):
        name = content.get("name", content.get("as_name"))
        return name if isinstance(name, str) else None
    return None


def _inputs(values: list[Any], signature: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    parameters, buffers = signature["inputs_to_parameters"], signature["inputs_to_buffers"]
    for value in values:
        name = _name(value)
        if name in parameters:
            spec = {"arg": {"name": name}, "parameter_name": parameters[name]}
            yield {"parameter": spec}
        elif name in buffers:
            yield {"buffer": {"arg": {"name": name}, "buffer_name": buffers[name]}}
        else:
            yield {"user_input": {"arg": value}}


def _outputs(values: list[Any], signature: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What is written back to buffers stands before what the model gives."""
    mutated = dict(signature["buffers_to_mutate"])
    for value in values:
        buffer = mutated.pop(_name(value), None)
        if buffer is None:
            yield {"user_output": {"arg": value}}
        else:
            yield {"buffer_mutation": {"arg": {"name": _name(value)}, "buffer_name": buffer}}
