"""Replacement of recorded operators that executorch does not accept by core ATen operators."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.fx import GraphModule, Node

if TYPE_CHECKING:
    from torch.export import ExportedProgram


_ATEN: Final = torch.ops.aten
_Call = tuple[Any, tuple[Any, ...]]
"""An operator and its arguments."""


def with_core_operators(program: ExportedProgram) -> ExportedProgram:
    """Return the program without such operators; the program itself where it has none."""
    if not any(_replacements(program.graph_module)):
        return program
    module = _copy(program.graph_module)
    for node, (target, arguments) in _replacements(module):
        node.target, node.args, node.kwargs = target, arguments, {}
    for graph in _graphs(module):
        graph.recompile()
    return program._update(module, program.graph_signature)


def _copy(module: GraphModule) -> GraphModule:
    """Copy a graph module, undoing the renaming of nodes that signatures refer to."""
    copied = copy.deepcopy(module)
    for old, new in zip(_graphs(module), _graphs(copied), strict=True):
        for node, node_copy in zip(old.graph.nodes, new.graph.nodes, strict=True):
            node_copy.name = node.name
    return copied


def _replacements(module: GraphModule) -> Iterator[tuple[Node, _Call]]:
    for graph in _graphs(module):
        for node in graph.graph.nodes:
            form = _FORMS.get(node.target)
            call = None if form is None else form(node, _named_arguments(node))
            if call is not None:
                yield node, call


def _graphs(module: GraphModule) -> Iterator[GraphModule]:
    return (found for found in module.modules() if isinstance(found, GraphModule))


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


def _nearest_1d(node: Node, given: Mapping[str, Any]) -> _Call | None:
    return _upsample(_ATEN.upsample_nearest1d.vec, node, given, "scales")


def _nearest_2d(node: Node, given: Mapping[str, Any]) -> _Call | None:
    return _upsample(_ATEN.upsample_nearest2d.vec, node, given, "scales_h", "scales_w")


def _upsample(target: Any, node: Node, given: Mapping[str, Any], *names: str) -> _Call | None:
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
        _ATEN.upsample_nearest1d.default: _nearest_1d,
        _ATEN.upsample_nearest2d.default: _nearest_2d,
    }
)
