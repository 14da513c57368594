"""Module trees with what methods take and give."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tsarchive.describing.signatures import signatures
from tsarchive.ir.classes import ClassType
from tsarchive.kinds import EXECUTORCH, PT2

if TYPE_CHECKING:
    from tsarchive.archive import Archive
    from tsarchive.frontend import CodeImporter
    from tsarchive.pt2.looking import Pt2Door
    from tsarchive.torchscript.inspection import ModuleInfo

__all__ = ["with_signatures"]


def with_signatures(root: ModuleInfo, archive: Archive) -> ModuleInfo:
    """The tree of an archive with the signature of each method in place of its name."""
    if archive.kind in EXECUTORCH:
        return root  # methods of programs have their types
    if archive.kind == PT2:
        return _of_programs(root, archive.exported)
    return _of_classes(root, archive.classes)


def _of_programs(root: ModuleInfo, door: Pt2Door) -> ModuleInfo:
    """The tree of a PT2 archive, where the root of each model has a method."""
    if len(door.models) == 1:
        return replace(root, methods=(door.signature(door.models[0]),))
    typed = (replace(child, methods=(door.signature(child.name),)) for child in root.children)
    return replace(root, children=tuple(typed))


def _of_classes(module: ModuleInfo, classes: CodeImporter) -> ModuleInfo:
    class_ = classes.find_class(module.qualified_class)
    assert isinstance(class_, ClassType)
    children = tuple(_of_classes(child, classes) for child in module.children)
    return replace(module, methods=tuple(signatures(class_)), children=children)
