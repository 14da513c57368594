"""The graph of an exported program as a module of flat inputs, and what torch makes of it."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._pytree import tree_flatten, tree_leaves

from tsarchive.container import Container, write_container
from tsarchive.formats.pt2 import schema
from tsarchive.formats.pt2.arguments import argument_value, define, type_of_argument
from tsarchive.formats.pt2.program import Translation
from tsarchive.formats.pt2.records import USUAL_NAME, Records
from tsarchive.formats.pt2.schema import decoded
from tsarchive.formats.torchscript.saving_loaded import canonical_loaded_records
from tsarchive.ir.classes import Attribute, ClassType, Function
from tsarchive.ir.graph import Block, nested_blocks
from tsarchive.ir.schema import Argument, FunctionSchema
from tsarchive.ir.types import BOOL, TupleType
from tsarchive.policy import FOR_STRANGERS, Guard
from tsarchive.run.classes import Classes
from tsarchive.run.objects import new_object
from tsarchive.run.operators import operator_schemas
from tsarchive.run.slots import link_lists, set_slot

RECORD = "models/model.json"


def saved_program(exported: ExportedProgram) -> schema.ExportedProgram:
    """What torch writes of a program, read back."""
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    return Records(Container.open(file)).program(USUAL_NAME)


def class_of(graph: schema.Graph) -> ClassType:
    """A module class whose ``forward`` takes all inputs of a graph and gives a tuple."""
    class_ = ClassType("__torch__.Program", is_module=True)
    block = Block()
    block.add_param(class_, "self")
    values: dict[str, Any] = {}
    parameters = [Argument("self", class_)]
    for position, given in enumerate(graph.inputs):
        name = given.name or f"constant_{position}"
        parameters.append(Argument(name, type_of_argument(given)))
        define(values, name, block.add_param(parameters[-1].type, name))
    translation = Translation(operator_schemas, RECORD)
    body = translation.body(block)
    translation.nodes(graph, body, values)
    results = [argument_value(body, output, values, None) for output in graph.outputs]
    type_ = TupleType(tuple(result.type for result in results))
    block.add_return(block.append("prim::TupleConstruct", results).add_output(type_))
    made = FunctionSchema("forward", "", tuple(parameters), (Argument("", type_),))
    method = Function(f"{class_.qualified_name}.forward", made, lambda: block)
    class_.attributes["training"] = Attribute("training", BOOL)
    class_.methods["forward"] = method
    return class_


def module_of(graph: schema.Graph, guard: Guard = FOR_STRANGERS) -> Any:
    """A module that runs the graph."""
    class_ = class_of(graph)
    module = new_object(Classes(None, guard).table.python_class(class_))
    set_slot(module, class_.attributes["training"], False)
    link_lists(module)
    return module


def graph_of(
    inputs: Mapping[str, Any],
    nodes: Sequence[tuple[str, Sequence[Any], Sequence[Any]]],
    outputs: Sequence[Any],
) -> schema.Graph:
    """A graph, from arguments as JSON has them.

    A node is its target, its inputs, which may be pairs of a name and an argument, and outputs.
    """

    def node(target: str, given: Sequence[Any], results: Sequence[Any]) -> dict[str, Any]:
        pairs = [one if isinstance(one, tuple) else ("", one) for one in given]
        inputs = [{"name": name, "arg": argument} for name, argument in pairs]
        return {"target": target, "inputs": inputs, "outputs": results, "metadata": {}}

    values = {"tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {}}
    found = {
        "inputs": [argument(tag, name) for name, tag in inputs.items()],
        "nodes": [node(*row) for row in nodes],
        "outputs": list(outputs),
        **values,
    }
    return decoded(schema.Graph, found, RECORD)


def argument(tag: str, name: str) -> dict[str, Any]:
    """A named value as an argument."""
    return {tag: {"as_name": name} if tag.startswith("as_sym") else {"name": name}}


def flat_inputs(exported: ExportedProgram, args: tuple[Any, ...]) -> list[Any]:
    """What the graph of a program is given: its state, then what the user gives."""
    users = iter(tree_leaves(args))
    state = {**exported.constants, **exported.state_dict}
    return [
        next(users) if spec.target is None else copy.deepcopy(state[spec.target])
        for spec in exported.graph_signature.input_specs
    ]


def run(exported: ExportedProgram, call: Callable[..., Any], args: tuple[Any, ...]) -> list[Any]:
    """What ``call``, which stands for the graph of a program, gives to the user."""
    outputs = call(*flat_inputs(exported, copy.deepcopy(args)))
    specs = exported.graph_signature.output_specs
    kind = torch.export.graph_signature.OutputKind.USER_OUTPUT
    return [output for output, spec in zip(outputs, specs, strict=True) if spec.kind == kind]


def expected(exported: ExportedProgram, args: tuple[Any, ...]) -> list[Any]:
    """What torch gives for the same."""
    copied = copy.deepcopy(exported.module())
    found: list[Any] = tree_leaves(copied(*copy.deepcopy(args)))
    return found


def printed(module: Any) -> bytes:
    """A TorchScript archive of the module: its graph, printed."""
    file = io.BytesIO()
    write_container(file, canonical_loaded_records(module, ()), root="program")
    return file.getvalue()


def operators(module: Any) -> list[str]:
    """The overloads in the code of a module, in order."""
    return list(_overloads(type(module).tsarchive_class.methods["forward"].graph))


def _overloads(block: Block) -> Iterator[str]:
    for node in block.nodes:
        if node.schema is not None:
            yield node.schema.full_name
        for inner in nested_blocks(node):
            yield from _overloads(inner)


def forms(
    module: torch.nn.Module, args: tuple[Any, ...], **options: Any
) -> Iterator[ExportedProgram]:
    """The program that torch exports, and the same with its operators decomposed."""
    plain = torch.export.export(module, args, **options)
    yield plain
    yield plain.run_decompositions()


def close(found: list[Any], wanted: list[Any]) -> bool:
    """Whether two lists of results are the same: types exactly, floats up to rounding."""
    one, other = (tree_flatten(results) for results in (found, wanted))
    return one[1] == other[1] and all(map(_is_close, one[0], other[0]))


def _is_close(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor):
        return type(one) is type(other) and bool(one == other)
    if (one.dtype, one.shape, one.stride()) != (other.dtype, other.shape, other.stride()):
        return False
    if not (one.is_floating_point() or one.is_complex()):
        return torch.equal(one, other)
    return torch.allclose(one, other, rtol=1e-6, atol=1e-7, equal_nan=True)
