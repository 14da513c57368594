"""Classes that a release of torch does not bind any more, as classes that the archive defines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tsarchive.frontend.importer import revived_class
from tsarchive.ir.classes import ClassType
from tsarchive.ir.types import NamedType, own_name
from tsarchive.operators.overloads import methods_of
from tsarchive.operators.releases import Release
from tsarchive.operators.removed import QUALIFIER, defined_classes
from tsarchive.pickler import Global, Object, Reduce, dumps, loads

from .pickled import reachable

_TAG: Final = Global("torch.jit._pickle", "restore_type_tag")


class PlainClasses:
    """The classes that one release does not bind, under names of the archive's own."""

    def __init__(self, release: Release) -> None:
        bound = (name for name in defined_classes() if not methods_of(name, release.name))
        self._names = {name: f"{QUALIFIER}.{name.rpartition('.')[2]}" for name in bound}

    def name(self, named: NamedType) -> str:
        """Return the name of a type for the release."""
        name = own_name(named)
        return self._names.get(name, name)

    def are_named_in(self, text: str) -> bool:
        """Return whether a code record mentions one of the classes, by the name that torch gave."""
        return any(name in text for name in self._names)

    def needed_by(self, texts: Sequence[str]) -> list[ClassType]:
        """Return the classes that code records mention by the new names."""
        needed = (name for name, new in self._names.items() if any(new in text for text in texts))
        return [revived_class(name) for name in needed]

    def renamed(self, data: bytes, record: str) -> bytes:
        """Return a pickle with objects of the new names; the same where it has none of these."""
        found = loads(data, record=record)
        is_changed = [self._rename(value) for value in reachable(found)]
        return dumps(found) if any(is_changed) else data

    def _rename(self, value: Any) -> bool:
        match value:
            case Object(cls=cls) if cls.qualified_name in self._names:
                module, _, name = self._names[cls.qualified_name].rpartition(".")
                value.cls = Global(module, name)
                return True
            case Reduce(function=function, argument=(content, str(tag))) if function == _TAG:
                value.argument = (content, self._text(tag))
                return value.argument[1] != tag
        return False

    def _text(self, text: str) -> str:
        for name, new in self._names.items():
            text = text.replace(name, new)
        return text
