"""The metadata of nodes, without what changes from one process or machine to the next.

torch writes addresses of Python objects, counters of the process, and absolute paths.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from .metadata import nodes_of
from .schema import Graph

__all__ = ["make_stable", "without_paths"]

# What only says where code came from; loading and unflattening need none of it.
_ORIGINS = ("stack_trace", "from_node", "source_fn_stack", "torch_fn")
_FILE = re.compile(r'(?<=File ")[^"\n]*(?=")')
_COUNTED = re.compile(r"(<eval_with_key>)\.[0-9]+")


def make_stable(graph: Graph, *, origins: bool, paths: bool) -> None:
    """Rewrite the metadata of all nodes of a graph that was just decoded.

    ``origins`` keeps where code came from; ``paths`` leaves paths of source files whole.
    """
    stable = _Stable(paths)
    for node in nodes_of(graph):
        metadata = node.metadata
        for key in _ORIGINS:
            if not origins:
                metadata.pop(key, None)
        if "stack_trace" in metadata:
            metadata["stack_trace"] = stable.stack_trace(metadata["stack_trace"])
        if "from_node" in metadata:
            metadata["from_node"] = stable.sources(metadata["from_node"])


class _Stable:
    """Numbers graphs in the order in which metadata name them."""

    def __init__(self, paths: bool) -> None:
        self._paths = paths
        self._numbers: dict[Any, int] = {}

    def stack_trace(self, text: str) -> str:
        if not self._paths:
            text = without_paths(text)
        return _COUNTED.sub(r"\1", text)

    def sources(self, text: str) -> str:
        """``from_node``: JSON in which graphs go by their addresses."""
        return json.dumps(self._renumbered(json.loads(text)))

    def _renumbered(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._renumbered(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: self._number(item) if key == "graph_id" else self._renumbered(item)
            for key, item in value.items()
        }

    def _number(self, address: Any) -> int:
        return self._numbers.setdefault(address, len(self._numbers))


def without_paths(stack_trace: str) -> str:
    """A stack trace whose files are named as Python finds their modules."""
    return _FILE.sub(lambda match: shortened(match[0]), stack_trace)


def shortened(path: str) -> str:
    """A path as seen from where Python finds modules; otherwise the name of the file."""
    if not os.path.isabs(path):
        return path
    roots = [root for root in sys.path if root and path.startswith(os.path.join(root, ""))]
    root = max(roots, key=len, default=os.path.dirname(path))
    return os.path.relpath(path, root).replace(os.sep, "/")
