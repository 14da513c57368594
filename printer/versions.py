"""The lowest archive version in which each operator has its meaning in the graph.

Operators not listed have kept their meaning since the first version. Source: torch's operator
version map (``torch._C._get_operator_version_map()``).
"""

from __future__ import annotations

from dataclasses import dataclass

from tsarchive.ir.graph import Node

FIRST_VERSION = 1
LOWEST_WRITTEN = 3
# From this version on the record is called `.data/version`.
FIRST_IN_DATA_FOLDER = 6

_DIVISIONS = (
    "aten::div.Tensor", "aten::div.Tensor_mode", "aten::div.Scalar", "aten::div.Scalar_mode",
    "aten::div.out", "aten::div.out_mode", "aten::div_.Tensor", "aten::div_.Tensor_mode",
    "aten::div_.Scalar", "aten::div_.Scalar_mode",
)  # fmt: skip
NEEDED = {
    **dict.fromkeys(_DIVISIONS, 4),
    "aten::full": 5,
    "aten::full.out": 5,
    "aten::linspace": 8,
    "aten::linspace.out": 8,
    "aten::logspace": 9,
    "aten::logspace.out": 9,
    "aten::gelu": 10,
    "aten::gelu.out": 10,
}


@dataclass(slots=True)
class Versions:
    """The archive versions in which printed code has the meaning of its graph.

    ``needed`` is the lowest version by torch's count, which includes every node of a current
    operator. ``before`` is set when old operators were printed: the version must be lower, and at
    least ``methods``, since the version only affects methods of classes.
    """

    needed: int = FIRST_VERSION
    methods: int = FIRST_VERSION
    before: int | None = None

    def add(self, node: Node, *, in_method: bool) -> None:
        if node.schema is None:
            return
        changed = NEEDED.get(node.schema.full_name, FIRST_VERSION)
        if node.upgrader is not None:
            self.before = changed if self.before is None else min(self.before, changed)
            return
        self.needed = max(self.needed, changed)
        if in_method:
            self.methods = max(self.methods, changed)

    @property
    def written(self) -> int:
        """The archive version to write."""
        return max(LOWEST_WRITTEN, self.needed if self.before is None else self.methods)


def version_record(version: int) -> str:
    """Return the name of the record that holds ``version``."""
    return "version" if version < FIRST_IN_DATA_FOLDER else ".data/version"
