"""Replacement of views as another dtype, which TorchScript lacks, by copies.

TorchScript's ``view`` takes only sizes: an int cannot be told from a dtype. Copies of the view are
equivalent as long as neither the view nor its base is written to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tsarchive.errors import UnsupportedError
from tsarchive.ir.graph import Block, Node, walk
from tsarchive.ir.schema import FunctionSchema
from tsarchive.run.operators import operator_schemas
from tsarchive.run.passes.alias_analysis import Aliases

_VIEW, _OVERLOAD = "aten::view", "dtype"
_COPY = "aten::view_copy"


@contextmanager
def retyped_views_copied(graph: Block) -> Iterator[None]:
    """Have copies in the place of such views, and the graph as it was afterwards.

    Raises UnsupportedError where a view or its base may be written to after the view is made.
    """
    before: list[tuple[Node, str, FunctionSchema | None, Sequence[str]]] = []
    try:
        # Each becomes a copy before the next is looked for: a copy shares nothing with its base.
        for node in _copyable(graph):
            before.append((node, node.kind, node.schema, node.lost))
            _copy_view(node)
        yield
    finally:
        for node, kind, schema, lost in before:
            node.kind, node.schema, node.lost = kind, schema, lost


def _copyable(graph: Block) -> Iterator[Node]:
    for index, top in enumerate(graph.nodes):
        for node in filter(_is_retyped, walk([top])):
            aliases = Aliases(graph)
            seen = aliases.places(node.output)
            # In a loop, everything beside a view also runs after it.
            if any(seen & aliases.written(later) for later in walk(graph.nodes[index:])):
                raise UnsupportedError(
                    "the program has no form in TorchScript: it writes to a tensor of which it "
                    "has a view of another dtype",
                    hint="Write to a clone of it in the model, and export that",
                )
            yield node


def _is_retyped(node: Node) -> bool:
    return node.schema is not None and (node.kind, node.schema.overload) == (_VIEW, _OVERLOAD)


def _copy_view(node: Node) -> None:
    schemas = operator_schemas(_COPY)
    node.kind = _COPY
    node.schema = next(schema for schema in schemas if schema.overload == _OVERLOAD)
    node.lost = ()
