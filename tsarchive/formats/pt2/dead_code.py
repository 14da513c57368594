"""Elimination of shape reads that the translation of a program left unused."""

from __future__ import annotations

from typing import Final

from tsarchive.ir.graph import Block, nested_blocks

# Pure operators that cannot fail where a program runs.
_READING: Final = frozenset(
    {"aten::dim", "aten::new_zeros", "aten::size", "aten::storage_offset", "aten::stride"}
)


def drop_unused_reads(block: Block) -> None:
    """Remove unused nodes that read the shape of a tensor."""
    for node in reversed(tuple(block.nodes)):
        for inner in nested_blocks(node):
            drop_unused_reads(inner)
        if node.kind in _READING and not any(output.uses for output in node.outputs):
            node.drop_inputs()
            block.nodes.remove(node)
