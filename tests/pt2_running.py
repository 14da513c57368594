"""A graph of an exported program as one function of flat inputs, and what torch makes of it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import torch

from tsarchive.container import Container
from tsarchive.printer.graph import Block, Function
from tsarchive.printer.schema import Argument, FunctionSchema
from tsarchive.printer.types import TupleType
from tsarchive.pt2 import schema
from tsarchive.pt2.arguments import define, type_of_argument
from tsarchive.pt2.program import Translation, input_name
from tsarchive.pt2.records import USUAL_NAME, Records
from tsarchive.run.classes import Classes
from tsarchive.run.operators import operator_schemas

RECORD = "models/model.json"


def saved_program(exported: torch.export.ExportedProgram) -> schema.ExportedProgram:
    """What torch writes of a program, read back."""
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    return Records(Container.open(file)).program(USUAL_NAME)


def function_of(graph: schema.Graph) -> Function:
    """A function of all inputs of a graph, that gives a tuple of all its outputs."""
    block = Block()
    values: dict[str, Any] = {}
    parameters = []
    for position, given in enumerate(graph.inputs):
        name = input_name(given) or f"constant_{position}"
        parameters.append(Argument(name, type_of_argument(given)))
        define(values, name, block.add_param(parameters[-1].type, name))
    translation = Translation(operator_schemas, RECORD)
    translation.nodes(graph, block, values)
    results = [translation.argument(block, output, values, None) for output in graph.outputs]
    type_ = TupleType(tuple(result.type for result in results))
    packed = block.append("prim::TupleConstruct", results)
    block.add_return(packed.add_output(type_))
    made = FunctionSchema("forward", "", tuple(parameters), (Argument("", type_),))
    return Function("__torch__.forward", made, lambda: block)


def flat_inputs(exported: torch.export.ExportedProgram, args: tuple[Any, ...]) -> list[Any]:
    """What the graph of a program is given: its state, then what the user gives."""
    users = iter(torch.utils._pytree.tree_leaves(args))
    state = {**exported.constants, **exported.state_dict}
    return [
        next(users) if spec.target is None else state[spec.target]
        for spec in exported.graph_signature.input_specs
    ]


def run(exported: torch.export.ExportedProgram, args: tuple[Any, ...]) -> list[Any]:
    """The outputs that the user sees, from the runner."""
    function = function_of(saved_program(exported).graph_module.graph)
    outputs = Classes().call(function, *flat_inputs(exported, args))
    specs = exported.graph_signature.output_specs
    kind = torch.export.graph_signature.OutputKind.USER_OUTPUT
    return [output for output, spec in zip(outputs, specs, strict=True) if spec.kind == kind]


def forms(module: torch.nn.Module, args: tuple[Any, ...], **options: Any) -> Iterator[Any]:
    """The program that torch exports, and the same with its operators decomposed."""
    plain = torch.export.export(module, args, **options)
    yield plain
    yield plain.run_decompositions()
