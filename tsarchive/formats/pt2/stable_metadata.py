"""Removal of process- and machine-dependent parts from the metadata of nodes.

torch writes addresses of Python objects, process-wide counters, and absolute paths.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from .metadata import nodes_of
from .schema import Graph

# Metadata on the origin of code, not needed for loading and unflattening.
_ORIGINS = ("stack_trace", "from_node", "source_fn_stack", "torch_fn")
_FILE = re.compile(r'(?<=File ")[^"\n]*(?=")')
_COUNTED = re.compile(r"(<eval_with_key>)\.[0-9]+")


def make_stable(graph: Graph, *, origins: bool, paths: bool) -> None:
    """Rewrite the metadata of all nodes of a freshly decoded graph.

    ``origins`` keeps the origin of code; ``paths`` keeps full paths of source files.
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
        """Rewrite ``from_node``, JSON in which graphs are identified by their addresses."""
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
    """Shorten the file names of a stack trace to those that Python imports."""
    return _FILE.sub(lambda match: shortened(match[0]), stack_trace)


def shortened(path: str) -> str:
    """Return a path relative to Python's import path; otherwise the name of the file."""
    if not os.path.isabs(path):
        return path
    roots = [root for root in sys.path if root and path.startswith(os.path.join(root, ""))]
    root = max(roots, key=len, default=os.path.dirname(path))
    return os.path.relpath(path, root).replace(os.sep, "/")
