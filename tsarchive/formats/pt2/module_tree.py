"""The modules of a model, from the dotted names of its weights and the metadata of its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from tsarchive.describing.contents import ModuleInfo, TensorInfo
from tsarchive.errors import FormatError
from tsarchive.formats.torchscript.inspection import MAX_NAMES
from tsarchive.formats.torchscript.stored_tensors import MAX_DEPTH

from .metadata import ModulePlace

# For modules of unknown class.
_UNKNOWN = "torch.nn.Module"


@dataclass(slots=True)
class _Module:
    children: dict[str, _Module] = field(default_factory=dict)
    class_name: str = _UNKNOWN
    parameters: int = 0
    nbytes: int = 0


class _Tree:
    def __init__(self, record: str) -> None:
        self.root = _Module()
        self.record = record
        self.count = 1

    def at(self, path: str) -> _Module:
        """Return the module of this dotted name, creating it and its parents where needed."""
        found = self.root
        parts = path.split(".") if path else []
        if len(parts) > MAX_DEPTH:
            raise FormatError("a name has too many parts", record=self.record, limit=MAX_DEPTH)
        for part in parts:
            if part not in found.children:
                self.count += 1
                if self.count > MAX_NAMES:
                    raise FormatError("too many modules", record=self.record, limit=MAX_NAMES)
                found.children[part] = _Module()
            found = found.children[part]
        return found


def module_tree(
    name: str, tensors: Mapping[str, TensorInfo], places: Iterable[ModulePlace], record: str
) -> ModuleInfo:
    """Return the tree below the root, which gets ``name``. ``record`` is that of the program.

    Raises FormatError where there are too many modules, or names have too many parts.
    """
    tree = _Tree(record)
    for tensor, info in tensors.items():
        module = tree.at(tensor.rpartition(".")[0])
        module.nbytes += info.nbytes
        module.parameters += prod(info.shape) if info.is_parameter else 0
    for place in places:
        tree.at(place.path).class_name = place.class_name
    return _info(name, tree.root, ("forward",))


def _info(name: str, module: _Module, methods: tuple[str, ...] = ()) -> ModuleInfo:
    children = tuple(_info(key, child) for key, child in module.children.items())
    return ModuleInfo(name, module.class_name, methods, module.parameters, module.nbytes, children)
