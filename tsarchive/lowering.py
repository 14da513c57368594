"""What lowering programs of torch.export for other runtimes has in common: operators that none of
them accepts, example calls, results of the source."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec
from torch.func import functional_call
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map_only, tree_unflatten

from tsarchive.errors import UnsupportedError
from tsarchive.formats.torchscript.traced_inputs import random_tensor
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


def assertions_of(program: ExportedProgram) -> Iterator[str]:
    """Yield the messages of what a program asserts of values, once each: no other runtime does."""
    aten = torch.ops.aten
    messages = (
        str(node.args[1])
        for graph in graphs_of(program.graph_module)
        for node in graph.graph.nodes
        if node.target in (aten._assert_async.msg, aten._assert_scalar.default)
    )
    return iter(dict.fromkeys(messages))


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
    args, kwargs = tree_map_only(torch.Tensor, _copy_of_tensor, call)
    with quietly(), torch.no_grad():
        module = program.module()
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        copies = {name: _copy_of_tensor(tensor) for name, tensor in state.items()}
        return outputs_of(functional_call(module, copies, tuple(args), dict(kwargs)))


def _copy_of_tensor(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


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


def call_of_other_sizes(program: ExportedProgram, call: ExampleCall) -> ExampleCall | None:
    """Return the arguments of a call with other sizes where a program leaves them open.

    Each open size is one more or, at its bound, one less; tensors repeat their first elements or
    lack their last ones. None where no size is open. Raises KeyError for missing arguments.
    """
    pairs = list(zip(declared_inputs(program), flat_arguments(program, call), strict=True))
    sizes = {
        size.node.expr: leaf.shape[place]
        for declared, leaf in pairs
        for place, size in enumerate(getattr(declared, "shape", ()))
        if isinstance(size, torch.SymInt) and size.node.expr.is_symbol
    }
    if not sizes:
        return None
    ranges = program.range_constraints
    others = {
        symbol: size + 1 if symbol not in ranges or size < ranges[symbol].upper else size - 1
        for symbol, size in sizes.items()
    }
    leaves = [_resized(declared, leaf, others) for declared, leaf in pairs]
    args, kwargs = tree_unflatten(leaves, program.call_spec.in_spec)
    return args, kwargs


def _resized(declared: Any, leaf: Any, sizes: Mapping[Any, int]) -> Any:
    for place, size in enumerate(getattr(declared, "shape", ())):
        if isinstance(size, torch.SymInt):
            indices = torch.arange(int(size.node.expr.subs(sizes))) % leaf.shape[place]
            leaf = leaf.index_select(place, indices)
    return leaf


def _drawn(declared: Any, program: ExportedProgram, generator: torch.Generator) -> Any:
    if not isinstance(declared, torch.Tensor):
        return _size(declared, program)
    shape = [_size(size, program) for size in declared.shape]
    return random_tensor(shape, declared.dtype, generator, _MOST)


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


# Operators that traces record, and no other runtime has

_ATEN: Final = torch.ops.aten
_Call = tuple[Any, tuple[Any, ...]]
"""An operator and its arguments."""


def with_core_operators(program: ExportedProgram) -> ExportedProgram:
    """Return the program with core ATen operators in the place of others that traces record.

    It is the program itself where it has none.
    """
    if not any(_replacements(program.graph_module)):
        return program
    module = copy_of_graph(program.graph_module)
    for node, (target, arguments) in _replacements(module):
        node.target, node.args, node.kwargs = target, arguments, {}
    for graph in graphs_of(module):
        graph.recompile()
    return program._update(module, program.graph_signature)


def _replacements(module: GraphModule) -> Iterator[tuple[Node, _Call]]:
    for graph in graphs_of(module):
        for node in graph.graph.nodes:
            form = _FORMS.get(node.target)
            call = None if form is None else form(node, _named_arguments(node))
            if call is not None:
                yield node, call


def _named_arguments(node: Node) -> dict[str, Any]:
    """Return the arguments of a node by name, including defaults."""
    target: Any = node.target
    schema = target._schema.arguments
    defaults = {argument.name: argument.default_value for argument in schema}
    names = [argument.name for argument in schema]
    return {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}


def _convolution(_node: Node, given: Mapping[str, Any]) -> _Call:
    """Drop the backend flags that traces record with a convolution."""
    return _ATEN.convolution.default, tuple(given.values())[:9]


def _upsample(
    target: Any, names: Sequence[str], node: Node, given: Mapping[str, Any]
) -> _Call | None:
    """Return the overload that takes sizes or scales; None where both are needed.

    Scales determine the sampling positions, so given ones are kept.
    """
    image, scales = given["self"], [given[name] for name in names]
    if all(scale is None for scale in scales):
        return target, (image, given["output_size"], None)
    if None in scales or not _are_enough(image, node, scales):
        return None
    return target, (image, None, scales)


def _are_enough(image: Node, node: Node, scales: list[float]) -> bool:
    old, new = (list(found.meta["val"].shape[2:]) for found in (image, node))
    if not all(isinstance(size, int) for size in old + new):
        return False
    return new == [int(size * scale) for size, scale in zip(old, scales, strict=True)]


_FORMS: Final[Mapping[Any, Callable[[Node, Mapping[str, Any]], _Call | None]]] = MappingProxyType(
    {
        _ATEN._convolution.default: _convolution,
        _ATEN._convolution.deprecated: _convolution,
        _ATEN.upsample_nearest1d.default: partial(
            _upsample, _ATEN.upsample_nearest1d.vec, ("scales",)
        ),
        _ATEN.upsample_nearest2d.default: partial(
            _upsample, _ATEN.upsample_nearest2d.vec, ("scales_h", "scales_w")
        ),
    }
)
