"""What lowering programs of torch.export for other runtimes has in common: example calls, results
of the source, copies of graphs that may be rewritten."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves, tree_unflatten

from tsarchive.errors import UnsupportedError
from tsarchive.run.packed import refuse_packed

if TYPE_CHECKING:
    from torch.export import ExportedProgram

ExampleCall: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]]
"""Positional and keyword arguments of a method."""

# A size that is open without an example, and random integers: small enough for most tables.
_USUAL_SIZE: Final = 2
_MOST: Final = 2


def refuse_packed_constants(program: ExportedProgram) -> None:
    """Raise UnsupportedError for tensors that oneDNN packed, which no other runtime reads."""
    for name, value in program.constants.items():
        refuse_packed(name, value, UnsupportedError, "Convert")


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings of packages about their own doings, which callers cannot act on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def graphs_of(module: GraphModule) -> Iterator[GraphModule]:
    """Yield a graph module and those inside it, such as branches."""
    return (found for found in module.modules() if isinstance(found, GraphModule))


def copy_of_graph(module: GraphModule) -> GraphModule:
    """Copy a graph module, undoing the renaming of nodes that signatures refer to."""
    with quietly():
        copied = copy.deepcopy(module)
    for old, new in zip(graphs_of(module), graphs_of(copied), strict=True):
        for node, node_copy in zip(old.graph.nodes, new.graph.nodes, strict=True):
            node_copy.name = node.name
    return copied


def outputs_of(result: Any) -> list[Any]:
    """Return the leaves of a result, tensors without their gradients."""
    return [
        leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in tree_leaves(result)
    ]


def source_outputs(program: ExportedProgram, call: ExampleCall) -> list[Any]:
    """Return the outputs of a program for copies of arguments; its buffers are left unchanged."""
    args, kwargs = copy.deepcopy(call)
    with quietly(), torch.no_grad():
        return outputs_of(copy.deepcopy(program.module())(*args, **kwargs))


def user_inputs(program: ExportedProgram) -> list[InputSpec]:
    """Return what a program tells of each leaf of its arguments, in their order."""
    specs = program.graph_signature.input_specs
    return [spec for spec in specs if spec.kind is InputKind.USER_INPUT]


def flat_arguments(program: ExportedProgram, call: ExampleCall) -> list[Any]:
    """Return the leaves of arguments in the order of a program's inputs.

    Raises KeyError for keyword arguments that are missing.
    """
    structure = program.call_spec.in_spec
    _, keywords = tree_unflatten([*range(structure.num_leaves)], structure)
    args, kwargs = call
    return tree_leaves((tuple(args), {name: kwargs[name] for name in keywords}))


def declared_inputs(program: ExportedProgram) -> list[Any]:
    """Return what a program declares of each leaf of its arguments: a fake tensor of the sizes and
    the dtype that it takes, a symbol for an open number, or a constant."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    return [
        spec.arg.value
        if isinstance(spec.arg, ConstantArgument)
        else nodes[spec.arg.name].meta["val"]
        for spec in user_inputs(program)
    ]


def random_call(program: ExportedProgram) -> ExampleCall:
    """Return arguments with the sizes and dtypes that a program declares, the same each time.

    Floating-point tensors are of the standard normal distribution, integers are 0 or 1; what is
    no tensor is as the program has it. An open size is that of its example or, without one, 2
    within its bounds.
    """
    generator = torch.Generator().manual_seed(0)
    leaves = [_drawn(declared, program, generator) for declared in declared_inputs(program)]
    args, kwargs = tree_unflatten(leaves, program.call_spec.in_spec)
    return args, kwargs


def _drawn(declared: Any, program: ExportedProgram, generator: torch.Generator) -> Any:
    if not isinstance(declared, torch.Tensor):
        return _size(declared, program)
    shape, dtype = [_size(size, program) for size in declared.shape], declared.dtype
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, generator=generator, dtype=wide).to(dtype)
    return torch.randint(0, _MOST, shape, generator=generator).to(dtype)


def _size(size: Any, program: ExportedProgram) -> Any:
    if not isinstance(size, torch.SymInt):
        return size
    if size.node.has_hint():
        return int(size.node.hint)
    ranges = program.range_constraints
    expression = size.node.expr
    chosen = {
        symbol: min(max(_USUAL_SIZE, ranges[symbol].lower), ranges[symbol].upper)
        for symbol in expression.free_symbols
    }
    return int(expression.subs(chosen))
